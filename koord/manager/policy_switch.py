"""Which policy a node lends by: what is written where to switch it, for the cluster or for a pool of nodes.

    cluster   {cpu,memory}CalculatePolicy of colocation-config
    pool      the same of the item of colocation-config.nodeConfigs with that very nodeSelector, made where none is

Nothing is left behind: a policy that holds anyway (the default, or the cluster's for a pool) is taken away, and so is
an item that says nothing else. Everything else that is written there stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from koord.api.configuration.adaptive_settings import is_off_by_hand
from koord.api.configuration.lending_policies import ADAPTIVE, PEERS, USAGE, policies_of
from koord.api.configuration.slo_config import SloConfig
from koord.api.configuration.slo_config_types import COLOCATION
from koord.api.text.selector import LabelSelector
from koord.manager.colocation_switch import (
    SwitchError,
    as_stored,
    as_text,
    colocation_section,
    is_for,
    new_name,
)
from koord.manager.lending.policy import Resource

FIELDS: Final[Mapping[Resource, str]] = {"cpu": "cpuCalculatePolicy", "memory": "memoryCalculatePolicy"}
MARK: Final = "cpuSafetyMarkPercent"


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """What to lend by."""

    name: str
    resources: tuple[Resource, ...] = ("cpu", "memory")
    mark_percent: int | None = None
    "With `adaptive` for CPU; None leaves what is configured."

    def __post_init__(self) -> None:
        for resource in self.resources:
            valid = policies_of(resource)
            if self.name not in valid:
                raise SwitchError(f"there is no policy {self.name!r} for {resource}: it must be {' or '.join(valid)}")
        if self.name in PEERS and "cpu" not in self.resources:
            raise SwitchError(f"{self.name} owns a node: switch CPU and memory to it together, or CPU alone")
        if self.mark_percent is not None and (self.name != ADAPTIVE or "cpu" not in self.resources):
            raise SwitchError("a safety mark goes with the policy adaptive of CPU")


def switched(data: Mapping[str, str], choice: PolicyChoice, pool: LabelSelector | None) -> str:
    """The text of colocation-config with the policy of the cluster, or of a pool, switched."""
    section = colocation_section(data)
    if pool is None:
        return as_text(_with(section, choice, {}))
    items = list(section.get("nodeConfigs") or ())
    at = next((i for i, item in enumerate(items) if is_for(item, pool)), None)
    if at is None:
        item = _with({"name": new_name(items, "lending"), "nodeSelector": as_stored(pool)}, choice, section)
        items += [item] if _says_something(item) else []
    else:
        items[at] = _with(items[at], choice, section)
        if not _says_something(items[at]):
            del items[at]
    rest = {key: value for key, value in section.items() if key != "nodeConfigs"}
    return as_text({**rest, "nodeConfigs": items} if items else rest)


def _with(settings: Mapping[str, Any], choice: PolicyChoice, below: Mapping[str, Any]) -> dict[str, Any]:
    """`below`: settings that hold where these say nothing."""
    said = dict(settings)
    for resource in choice.resources:
        field = FIELDS[resource]
        said.pop(field, None)
        if below.get(field, USAGE) != choice.name:
            said[field] = choice.name
    memory = said.get(FIELDS["memory"], below.get(FIELDS["memory"], USAGE))
    if memory in PEERS and memory != said.get(FIELDS["cpu"], below.get(FIELDS["cpu"], USAGE)):
        # The policy that owned the node goes as a whole.
        said[FIELDS["memory"]] = USAGE
        if below.get(FIELDS["memory"], USAGE) == USAGE:
            del said[FIELDS["memory"]]
    if choice.mark_percent is not None:
        said[MARK] = choice.mark_percent
    elif "cpu" in choice.resources and choice.name != ADAPTIVE:
        said.pop(MARK, None)
    return said


def _says_something(item: Mapping[str, Any]) -> bool:
    return not set(item) <= {"name", "nodeSelector"}


def require_effect(
    config: SloConfig, choice: PolicyChoice, nodes: Iterable[tuple[str, Mapping[str, str]]], *, of_pool: bool
) -> None:
    """Raises what would keep the policy from holding on the nodes. `nodes` are their names and labels; `config` is the
    configuration with the policy switched."""
    for name, labels in nodes:
        settings = config.for_node(labels, {})
        holds_back = choice.name in (ADAPTIVE, *PEERS) and "cpu" in choice.resources
        if holds_back and is_off_by_hand(settings.threshold_layers):
            where = next(
                layer.where
                for layer in reversed(settings.threshold_layers)
                if getattr(layer.settings, "enable", None) is not None
            )
            raise SwitchError(
                f"{where}.enable is false, so that agents do not hold batch pods back (on node {name}):"
                f" {choice.name} needs that; take the field away or set it to true, or switch memory alone"
                " (--resource memory)"
            )
        chosen = {
            "cpu": settings.colocation.cpu_calculate_policy,
            "memory": settings.colocation.memory_calculate_policy,
        }
        if of_pool and any(chosen[resource] != choice.name for resource in choice.resources):
            first = config.matching_items(labels)[COLOCATION][0]
            raise SwitchError(
                f"{COLOCATION}.nodeConfigs[{first}] picks node {name} too, and counts before it: switch the nodes that"
                " it picks (-l with its nodeSelector)"
            )


def chosen_by(data: Mapping[str, str], pool: LabelSelector | None) -> dict[str, str | int]:
    """The policies that hold by the cluster's or a pool's own settings and those below, by resource; with
    `markPercent`, if they say one."""
    section = colocation_section(data)
    layers: list[Mapping[str, Any]] = [section]
    if pool is not None:
        layers += [item for item in section.get("nodeConfigs") or () if is_for(item, pool)][:1]
    held: dict[str, str | int] = {}
    for layer in layers:
        held |= {resource: layer[field] for resource, field in FIELDS.items() if isinstance(layer.get(field), str)}
        if isinstance(layer.get(MARK), int):
            held["markPercent"] = layer[MARK]
    return {**dict.fromkeys(FIELDS, USAGE), **held}
