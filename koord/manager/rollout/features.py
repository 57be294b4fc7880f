"""What can be rolled out, and how slo-controller-config says it: by items that select nodes by a label.

    lending          colocation-config has enable: true, and a first item with enable: false for nodes without the label
    all others       their section has a first item, for nodes with the label, that switches the feature on

The first item of a section that selects a node applies. Lending is expressed the other way round because a node cannot
lend if lending is off for the cluster. Items of others stay. With lending they are narrowed to nodes with the label, so
that no node is picked twice; with other features they would lose their effect on nodes of the roll-out, which is
refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from koord.api.configuration.lending_policies import ADAPTIVE
from koord.api.configuration.slo_config_types import COLOCATION, CPU_BURST, RESOURCE_QOS, RESOURCE_THRESHOLD
from koord.api.machinery.codec import DecodeError, convert
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.text.selector import NOTHING, LabelSelector, SelectorError, compile_labels
from koord.manager.colocation_switch import stored_object

ITEM: Final = "koord-rollout-"
"""Items of roll-outs are named by it."""


class RolloutError(BadInput):
    """A roll-out is impossible. The message names the obstacle and the way out."""


@dataclass(frozen=True, slots=True)
class Feature:
    name: str
    section: str
    on: Mapping[str, Any]
    "What an item says that switches it on."
    about: str
    is_lending: bool = False
    "Whether it is the cluster's switch, which is rolled out the other way round."

    @property
    def label(self) -> str:
        return f"{names.OWN_LABEL_PREFIX_ROLLOUT}{self.name}"

    @property
    def item(self) -> str:
        return f"{ITEM}{self.name}"

    @property
    def changes_lending(self) -> bool:
        return self.section == COLOCATION

    @property
    def holds_back(self) -> bool:
        return self.section == RESOURCE_THRESHOLD

    @property
    def _items(self) -> str:
        return "nodeConfigs" if self.changes_lending else "nodeStrategies"


def _memory_qos(wanted: bool) -> Mapping[str, Any]:
    return {f"{qos}Class": {"memoryQOS": {"enable": wanted}} for qos in ("lsr", "ls", "be")}


FEATURES: Final[tuple[Feature, ...]] = (
    Feature(
        "lending",
        COLOCATION,
        {"enable": True},
        "nodes lend what services leave to batch and mid pods",
        is_lending=True,
    ),
    Feature(
        "suppress",
        RESOURCE_THRESHOLD,
        {"enable": True},
        "batch pods are held back by CPU, and evicted where the agent's gates say so",
    ),
    Feature("cpu-burst", CPU_BURST, {"policy": "auto"}, "services may pass their CPU limits for short peaks"),
    Feature(
        "adaptive",
        COLOCATION,
        {"cpuCalculatePolicy": ADAPTIVE, "memoryCalculatePolicy": ADAPTIVE},
        "nodes lend by what they have learned, and hold batch pods below a learned ceiling",
    ),
    Feature("memory-qos", RESOURCE_QOS, _memory_qos(True), "the kernel keeps services' memory and takes from batch"),
)
"""In the order in which they are best rolled out after each other: first what protects, if batch pods run already."""


def feature_of(name: str) -> Feature:
    for feature in FEATURES:
        if feature.name == name:
            return feature
    raise RolloutError(f"there is no feature {name!r}; there are {', '.join(feature.name for feature in FEATURES)}")


def begun(data: Mapping[str, str], feature: Feature, nodes: Iterable[tuple[str, Mapping[str, str]]]) -> str:
    """The section's text with which a roll-out begins: the feature is on for nodes with the label, and for no others.

    `nodes` are names and labels of those that the roll-out is for. Said twice it changes nothing.
    """
    section = section_of(data, feature)
    items = _items_of(section, feature)
    if any(_is_own(item, feature) for item in items):
        return _text(section)
    if feature.is_lending:
        if section.get("enable") is True:
            raise RolloutError(
                f"{feature.section}.enable is true: nodes lend already; koord colocation off first, or leave out nodes"
            )
        own = _own_item(feature, {"enable": False}, "DoesNotExist")
        kept = [_narrowed(item, feature) for item in items]
        return _text({**section, "enable": True, feature._items: [own, *kept]})
    for i, item in enumerate(items):
        picked = next((name for name, labels in nodes if _picks(item, labels)), None)
        if picked is not None:
            raise RolloutError(
                f"{feature.section}.{feature._items}[{i}] picks node {picked} too, and would lose its effect there:"
                f" set {json.dumps(feature.on)} in that item instead, or roll out to other nodes (-l)"
            )
    own = _own_item(feature, feature.on, "Exists")
    return _text({**section, feature._items: [own, *items]})


def ended(data: Mapping[str, str], feature: Feature, *, on: bool) -> str | None:
    """The section's text without the roll-out: on for the whole cluster, or off as before. None where there is none."""
    section = section_of(data, feature)
    items = _items_of(section, feature)
    if not any(_is_own(item, feature) for item in items):
        return None
    kept = [_widened(item, feature) for item in items if not _is_own(item, feature)]
    rest = {key: value for key, value in section.items() if key != feature._items}
    if kept:
        rest[feature._items] = kept
    if feature.is_lending:
        return _text({**rest, "enable": on})
    return _text(_everywhere(rest, feature) if on else rest)


def everywhere(data: Mapping[str, str], feature: Feature) -> str:
    """The section's text with the feature on for the whole cluster: what a preview compares with."""
    return _text(_everywhere(section_of(data, feature), feature))


def _everywhere(section: Mapping[str, Any], feature: Feature) -> Mapping[str, Any]:
    """The cluster's settings are the section itself, or a part of it."""
    if feature.changes_lending:
        return _laid(section, feature.on)
    return {**section, "clusterStrategy": _laid(section.get("clusterStrategy") or {}, feature.on)}


def is_begun(data: Mapping[str, str], feature: Feature) -> bool:
    """Whether the configuration uses the roll-out's label."""
    return any(_is_own(item, feature) for item in _items_of(section_of(data, feature), feature))


def obstacle(data: Mapping[str, str], feature: Feature) -> str:
    """Why a roll-out cannot go on by this configuration; empty where it can."""
    try:
        if not is_begun(data, feature):
            return f"{feature.section} has no item {feature.item} any more: another user wrote it"
        if feature.is_lending and section_of(data, feature).get("enable") is not True:
            return f"{feature.section}.enable is not true any more: co-location was turned off"
    except BadInput as error:
        return str(error)
    return ""


def section_of(data: Mapping[str, str], feature: Feature) -> dict[str, Any]:
    text = data.get(feature.section, "")
    return stored_object(text, f"{names.CONFIGMAP_SLO_CONTROLLER}: {feature.section}") if text else {}


def _items_of(section: Mapping[str, Any], feature: Feature) -> Sequence[Any]:
    items = section.get(feature._items) or ()
    if not isinstance(items, list | tuple):
        raise RolloutError(f"{feature.section}.{feature._items} must be a list")
    return items


def _own_item(feature: Feature, settings: Mapping[str, Any], operator: str) -> dict[str, Any]:
    selector = {"matchExpressions": [{"key": feature.label, "operator": operator}]}
    return {"name": feature.item, "nodeSelector": selector, **settings}


def _is_own(item: object, feature: Feature) -> bool:
    return isinstance(item, dict) and item.get("name") == feature.item


def _narrowed(item: object, feature: Feature) -> object:
    if not isinstance(item, dict) or not isinstance(item.get("nodeSelector"), dict):
        return item
    selector = item["nodeSelector"]
    expressions = [*(selector.get("matchExpressions") or ()), _labelled(feature)]
    return {**item, "nodeSelector": {**selector, "matchExpressions": expressions}}


def _widened(item: object, feature: Feature) -> object:
    if not isinstance(item, dict) or not isinstance(item.get("nodeSelector"), dict):
        return item
    selector = dict(item["nodeSelector"])
    left = [
        expression for expression in selector.pop("matchExpressions", None) or () if expression != _labelled(feature)
    ]
    return {**item, "nodeSelector": {**selector, **({"matchExpressions": left} if left else {})}}


def _labelled(feature: Feature) -> dict[str, Any]:
    return {"key": feature.label, "operator": "Exists"}


def _picks(item: object, labels: Mapping[str, str]) -> bool:
    try:
        selector = convert(LabelSelector, item["nodeSelector"]) if isinstance(item, dict) else None
        return compile_labels(selector, absent=NOTHING).matches(labels)
    except (DecodeError, SelectorError, KeyError):
        return False


def _laid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Maps within maps are laid over each other; anything else is replaced."""
    laid = dict(below)
    for key, value in above.items():
        under = laid.get(key)
        laid[key] = _laid(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return laid


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
