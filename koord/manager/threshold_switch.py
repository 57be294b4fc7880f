"""The thresholds of nodes: what is written where to set them, for the cluster or for a pool of nodes.

    colocation-config           the cluster's settings are the section itself, a pool's an item of nodeConfigs
    resource-threshold-config   the cluster's are clusterStrategy, a pool's an item of nodeStrategies

A pool's item is the one with that very nodeSelector, made where none is. A threshold without a value is taken away, and
an item that says nothing else with it. Everything else that is written there stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from koord.api.configuration import slo_defaults
from koord.api.configuration.slo_config import NodeSettings, SloConfig
from koord.api.configuration.slo_config_types import (
    COLOCATION,
    COLOCATION_DEFAULTS,
    RESOURCE_THRESHOLD,
    ColocationStrategy,
)
from koord.api.machinery.struct import json_name
from koord.api.protocol import names
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy
from koord.api.text.selector import LabelSelector
from koord.manager.colocation_settings import set_in
from koord.manager.colocation_switch import SwitchError, as_stored, as_text, is_for, new_name, stored_object

Unit = Literal["%", "min"]
_ITEMS: Final[Mapping[str, str]] = {COLOCATION: "nodeConfigs", RESOURCE_THRESHOLD: "nodeStrategies"}
_TYPES: Final = {COLOCATION: ColocationStrategy, RESOURCE_THRESHOLD: ResourceThresholdStrategy}
CLUSTER: Final = "clusterStrategy"
HIGHEST: Final = 1000
"""Of a field whose type has no bound."""


@dataclass(frozen=True, slots=True)
class Threshold:
    section: str
    field: str
    title: str
    unit: Unit = "%"

    @property
    def name(self) -> str:
        """As in slo-controller-config."""
        return json_name(self.field)

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest valid value, by the field's type."""
        info = msgspec.inspect.type_info(_TYPES[self.section])
        assert isinstance(info, msgspec.inspect.StructType)
        field = next(field for field in info.fields if field.name == self.field)
        types = field.type.types if isinstance(field.type, msgspec.inspect.UnionType) else (field.type,)
        number = next(kind for kind in types if isinstance(kind, msgspec.inspect.IntType))
        least = number.ge if number.ge is not None else 0 if number.gt is None else number.gt + 1
        return least, HIGHEST if number.le is None else number.le


THRESHOLDS: Final = (
    Threshold(COLOCATION, "cpu_reclaim_threshold_percent", "CPU in use above which nothing is lent"),
    Threshold(COLOCATION, "memory_reclaim_threshold_percent", "Memory in use above which nothing is lent"),
    Threshold(COLOCATION, "cpu_safety_mark_percent", "CPU usage that batch must not exceed, by the policy adaptive"),
    Threshold(COLOCATION, "batch_cpu_threshold_percent", "Most CPU that is lent to batch pods"),
    Threshold(COLOCATION, "batch_memory_threshold_percent", "Most memory that is lent to batch pods"),
    Threshold(COLOCATION, "mid_cpu_threshold_percent", "Most CPU that is lent to mid pods"),
    Threshold(COLOCATION, "mid_memory_threshold_percent", "Most memory that is lent to mid pods"),
    Threshold(COLOCATION, "degrade_time_minutes", "Age of a report after which nothing is lent", "min"),
    Threshold(RESOURCE_THRESHOLD, "cpu_suppress_threshold_percent", "CPU usage above which batch is held back"),
    Threshold(RESOURCE_THRESHOLD, "cpu_suppress_min_percent", "CPU that batch keeps in any case"),
    Threshold(
        RESOURCE_THRESHOLD, "cpu_evict_be_satisfaction_lower_percent", "Share of its CPU below which batch is evicted"
    ),
    Threshold(
        RESOURCE_THRESHOLD, "cpu_evict_be_satisfaction_upper_percent", "Share of its CPU at which the eviction ends"
    ),
    Threshold(RESOURCE_THRESHOLD, "memory_evict_threshold_percent", "Memory usage above which batch is evicted"),
    Threshold(RESOURCE_THRESHOLD, "memory_evict_lower_percent", "Memory usage at which the eviction ends"),
)
BY_NAME: Final[Mapping[str, Threshold]] = {threshold.name: threshold for threshold in THRESHOLDS}


def checked(values: Mapping[str, object]) -> dict[str, int | None]:
    """Values by name; raises with all faults, each with the name and what is valid."""
    faults, result = [], dict[str, int | None]()
    if not values:
        faults.append(f"no threshold is given; there are {', '.join(BY_NAME)}")
    for name, value in values.items():
        threshold = BY_NAME.get(name)
        if threshold is None:
            faults.append(f"{name[:60]}: is not a threshold; there are {', '.join(BY_NAME)}")
            continue
        least, most = threshold.bounds
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most):
            unit = " percent" if threshold.unit == "%" else " minutes"
            faults.append(f"{name}: must be a whole number from {least} to {most}{unit}, not {str(value)[:40]}")
            continue
        result[name] = value if isinstance(value, int) else None
    if faults:
        raise SwitchError("; ".join(faults))
    return result


def with_thresholds(
    data: Mapping[str, str], values: Mapping[str, int | None], pool: LabelSelector | None
) -> dict[str, str]:
    """The sections' texts after the change: those that the values are in."""
    texts = {}
    for section in dict.fromkeys(BY_NAME[name].section for name in values):
        own = {name: value for name, value in values.items() if BY_NAME[name].section == section}
        texts[section] = as_text(_changed(section, _stored(data, section), own, pool))
    return texts


def own_thresholds(data: Mapping[str, str], pool: LabelSelector | None) -> dict[str, int]:
    """What the cluster's or the pool's own settings say, by name."""
    said = {}
    for section in _ITEMS:
        settings = _own(section, _stored(data, section), pool)
        for threshold in THRESHOLDS:
            value = settings.get(threshold.name)
            if threshold.section == section and isinstance(value, int) and not isinstance(value, bool):
                said[threshold.name] = value
    return said


def in_force(settings: NodeSettings, threshold: Threshold) -> tuple[int | None, str]:
    """The value that holds on a node, and where it is set."""
    if threshold.section == COLOCATION:
        value = getattr(settings.colocation, threshold.field)
        return value, set_in(threshold.field, settings.colocation_layers)
    value = getattr(settings.node_slo.resource_used_threshold_with_be, threshold.field)
    for layer in reversed(settings.threshold_layers):
        if getattr(layer.settings, threshold.field, None) is not None:
            return value, layer.where
    return value, "default"


def default_of(threshold: Threshold) -> int | None:
    below = COLOCATION_DEFAULTS if threshold.section == COLOCATION else slo_defaults.THRESHOLD_STRATEGY
    value: int | None = getattr(below, threshold.field)
    return value


def require_effect(
    config: SloConfig,
    names_changed: Iterable[str],
    selector: LabelSelector,
    nodes: Iterable[tuple[str, Mapping[str, str]]],
) -> None:
    """A pool's thresholds hold only if no other item counts for its nodes first. `config`: after the change."""
    sections = dict.fromkeys(BY_NAME[name].section for name in names_changed)
    for name, labels in nodes:
        matching = config.matching_items(labels)
        for section in sections:
            items = config.colocation.items if section == COLOCATION else config.resource_threshold.items
            first = next(iter(matching[section]), None)
            if first is None:
                continue
            picks = items[first].node_selector
            if picks is None or not is_for({"nodeSelector": as_stored(picks)}, selector):
                raise SwitchError(
                    f"{section}.{_ITEMS[section]}[{first}] picks node {name} too, and counts before it: change the"
                    " thresholds of the nodes that it picks (its nodeSelector)"
                )


def _stored(data: Mapping[str, str], section: str) -> dict[str, Any]:
    text = data.get(section, "")
    return stored_object(text, f"{names.CONFIGMAP_SLO_CONTROLLER}: {section}") if text else {}


def _own(section: str, stored: Mapping[str, Any], pool: LabelSelector | None) -> Mapping[str, Any]:
    if pool is None:
        settings = stored if section == COLOCATION else stored.get(CLUSTER) or {}
    else:
        settings = next((item for item in stored.get(_ITEMS[section]) or () if is_for(item, pool)), {})
    return settings if isinstance(settings, dict) else {}


def _changed(
    section: str, stored: dict[str, Any], values: Mapping[str, int | None], pool: LabelSelector | None
) -> dict[str, Any]:
    if pool is None:
        if section == COLOCATION:
            return _with(stored, values)
        strategy = _with(_own(section, stored, None), values)
        rest = {key: value for key, value in stored.items() if key != CLUSTER}
        return {**rest, CLUSTER: strategy} if strategy else rest
    key = _ITEMS[section]
    items = list(stored.get(key) or ())
    at = next((i for i, item in enumerate(items) if is_for(item, pool)), None)
    before = items[at] if at is not None else {"name": new_name(items, "thresholds"), "nodeSelector": as_stored(pool)}
    after = _with(before, values)
    says_something = not set(after) <= {"name", "nodeSelector"}
    if at is not None:
        items[at : at + 1] = [after] if says_something else []
    elif says_something:
        items.append(after)
    rest = {other: value for other, value in stored.items() if other != key}
    return {**rest, key: items} if items else rest


def _with(settings: Mapping[str, Any], values: Mapping[str, int | None]) -> dict[str, Any]:
    kept = {key: value for key, value in settings.items() if key not in values}
    return kept | {name: value for name, value in values.items() if value is not None}
