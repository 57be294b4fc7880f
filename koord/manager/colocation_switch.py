"""The switch: what is written where to turn co-location off or on, for the cluster, a pool of nodes, or single nodes.

    cluster   colocation-config {"enable": false} of slo-controller-config
    pool      the item of colocation-config.nodeConfigs with that very nodeSelector, made where there is none
    node      the node's annotation colocation-strategy {"enable": false}

Everything else that is written there stays. Removing what a node lends is the manager's own calculation: if the
manager does it first, the switch finds nothing to do, and the other way round.

A pod runs on lent resources if it requests batch or mid resources, or carries the priority class of one of those bands.
Plain BestEffort pods do not: the protocol counts them with batch, but nothing was lent to them. Nor do pods of the
class free, for which there are no lent resources. Pods on lent resources keep running unless they are evicted.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from koord.api.configuration.slo_config import SloConfig, read_json
from koord.api.configuration.slo_config_types import COLOCATION
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.protocol.annotations.colocation import COLOCATION_STRATEGY
from koord.api.protocol.annotations.notice import EVICTION_NOTICE
from koord.api.protocol.priority import PriorityClass, raw_priority_class
from koord.api.text.selector import (
    NOTHING,
    LabelMatcher,
    LabelSelector,
    LabelSelectorRequirement,
    Operator,
    SelectorError,
    compile_labels,
)
from koord.manager.node_resource.plugins import choose, reset, why_off
from koord.manager.node_resource.prepare import prepare
from koord.manager.node_resource.writing import decide
from koord.manager.node_state import BATCH, MID, NodeFacts

LENT: Final = frozenset((*BATCH, *MID))
"""The resources that go with the switch."""
_LENT_TO: Final = (PriorityClass.BATCH, PriorityClass.MID)
_MIRROR: Final = "kubernetes.io/config.mirror"
_OPERATORS: Final[Mapping[Operator, str]] = {
    Operator.IN: "In",
    Operator.NOT_IN: "NotIn",
    Operator.NOT_EQUALS: "NotIn",
    Operator.EXISTS: "Exists",
    Operator.DOES_NOT_EXIST: "DoesNotExist",
}


class SwitchError(BadInput):
    """The switch cannot be turned. The message names the obstacle and the way out."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether a node lends by what is configured."""

    on: bool
    why: str
    "The layer that switched it off."


@dataclass(frozen=True, slots=True)
class Evictee:
    """A pod that runs on what is lent."""

    namespace: str
    name: str
    uid: str
    node: str
    priority_class: PriorityClass
    "What the pod carries; NONE where it only requests lent resources."
    asks_for_notice: bool = False
    "Whether it wants to know before it is evicted."

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_of_cluster(self) -> bool:
        """Whether it is in a namespace of the cluster itself or of koord."""
        return self.namespace in names.CLUSTER_NAMESPACES


def standing(config: SloConfig, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Standing:
    why = why_off(config, config.for_node(labels, annotations))
    return Standing(not why, why)


def node_annotation(annotations: Mapping[str, str], *, on: bool) -> str | None:
    """The text of a node's colocation-strategy; None if it must have none.

    Off says so. On takes only that word away: whether the node lends is then up to the rest of the configuration.
    """
    text = annotations.get(COLOCATION_STRATEGY.key, "")
    said = stored_object(text, f"annotation {COLOCATION_STRATEGY.key}") if text else {}
    if on:
        said.pop("enable", None)
    else:
        said["enable"] = False
    return as_text(said) if said else None


def cluster_section(data: Mapping[str, str], *, on: bool) -> str:
    """The text of colocation-config with the cluster's switch turned."""
    return as_text({**colocation_section(data), "enable": on})


def pool_section(data: Mapping[str, str], selector: LabelSelector, *, on: bool) -> str:
    """The text of colocation-config with the switch of a pool of nodes turned."""
    section = colocation_section(data)
    wanted, items = as_stored(selector), list(section.get("nodeConfigs") or ())
    at = next((i for i, item in enumerate(items) if is_for(item, selector)), None)
    if at is None and on:
        return as_text(section)
    if at is None:
        items.append({"name": new_name(items, "switched-off"), "nodeSelector": wanted, "enable": False})
    else:
        item = {key: value for key, value in items[at].items() if key != "enable"}
        items[at] = item if on else {**item, "enable": False}
    if on and at is not None and set(items[at]) <= {"name", "nodeSelector"}:
        del items[at]
    return as_text({**section, "nodeConfigs": items})


def selector_of(matcher: LabelMatcher) -> LabelSelector:
    """A selector as people type it (`pool=batch`), in the form in which it is stored."""
    labels: dict[str, str] = {}
    expressions: list[LabelSelectorRequirement] = []
    for requirement in matcher.requirements:
        if requirement.operator in (Operator.EQUALS, Operator.DOUBLE_EQUALS) and requirement.key not in labels:
            labels[requirement.key] = requirement.values[0]
        elif requirement.operator in _OPERATORS:
            expressions.append(
                LabelSelectorRequirement(requirement.key, _OPERATORS[requirement.operator], requirement.values)
            )
        else:
            raise SwitchError(
                f"label selector: {requirement} cannot be stored; use =, !=, in, notin or the label alone"
            )
    if not labels and not expressions:
        raise SwitchError("label selector: it picks all nodes; leave it out to switch the whole cluster")
    return LabelSelector(labels, tuple(expressions))


def require_off(config: SloConfig, nodes: Iterable[tuple[str, Mapping[str, str]]]) -> None:
    """A pool is off only if no other item is there for its nodes first. `nodes` are names and labels of the pool's."""
    for name, labels in nodes:
        if standing(config, labels, {}).on:
            first = config.matching_items(labels)[COLOCATION][0]
            raise SwitchError(
                f"{COLOCATION}.nodeConfigs[{first}] picks node {name} too, and counts before it: "
                "switch the nodes that it picks (-l with its nodeSelector), or single nodes (--node)"
            )


def taken_back(node: NodeFacts, config: SloConfig, now_s: float) -> Mapping[str, Any] | None:
    """The patch of a node's status that takes back what it lends; None where it lends, or shows nothing anyway."""
    settings = config.for_node(node.labels, node.annotations)
    why = why_off(config, settings)
    if not why:
        return None
    prepared = prepare(node, reset(choose(("MidResource", "BatchResource")), why))
    return decide(node, prepared, settings.colocation, None, now_s).patch


def on_lent(pods: Iterable[Pod], nodes: Collection[str]) -> list[Evictee]:
    """Pods on these nodes that run on what is lent, the least important first."""
    evictees = []
    for pod in pods:
        meta = pod.metadata
        if pod.spec.node_name not in nodes or pod.is_finished or meta.deletion_timestamp is not None:
            continue
        # A static pod's copy can be deleted as often as one likes: the pod stays.
        if _MIRROR in meta.annotations:
            continue
        carried, requests = raw_priority_class(meta.labels, pod.spec.priority), pod_requests(pod)
        if carried in _LENT_TO or any(requests.get(name) for name in LENT):
            notice = EVICTION_NOTICE.is_on(meta)
            evictee = Evictee(meta.namespace, meta.name, meta.uid, pod.spec.node_name, carried, notice)
            evictees.append((pod.spec.priority or 0, evictee))
    return [evictee for _, evictee in sorted(evictees, key=lambda pair: (pair[0], pair[1].key))]


def colocation_section(data: Mapping[str, str]) -> dict[str, Any]:
    text = data.get(COLOCATION, "")
    return stored_object(text, f"{names.CONFIGMAP_SLO_CONTROLLER}: {COLOCATION}") if text else {}


def stored_object(text: str, what: str) -> dict[str, Any]:
    """A JSON object that a user wrote, to change something in it."""
    try:
        stored = read_json(text)
    except BadInput as error:
        raise SwitchError(f"{what} is not JSON, so that nothing can be changed in it: {error}") from None
    if not isinstance(stored, dict):
        raise SwitchError(f"{what} must be a JSON object, so that something can be changed in it")
    return stored


def is_for(item: object, selector: LabelSelector) -> bool:
    if not isinstance(item, dict) or not isinstance(item.get("nodeSelector"), dict):
        return False
    try:
        matcher = compile_labels(msgspec.convert(item["nodeSelector"], LabelSelector), absent=NOTHING)
    except (msgspec.ValidationError, SelectorError):
        return False
    return str(matcher) == str(compile_labels(selector, absent=NOTHING))


def new_name(items: Sequence[Any], base: str) -> str:
    taken = {item.get("name") for item in items if isinstance(item, dict)}
    return next(name for i in itertools.count() if (name := f"{base}-{i}") not in taken)


def as_stored(selector: LabelSelector) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(selector)
    return plain


def as_text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
