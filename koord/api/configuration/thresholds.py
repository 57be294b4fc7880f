"""The one threshold model: scheduler, manager and node agent never fight over a node.

For every node, dimension (cpu, memory) and priority band, in percent of the node's usage:

    schedule_max <= restore < act < evict          lend_max <= restore

- schedule_max: what LoadAwareScheduling allows. For prod pods prodUsageThresholds, else (and for all other pods)
  aggregated.usageThresholds, else usageThresholds; the node's annotation usage-thresholds replaces each part.
- lend_max, for batch: {cpu,memory}ReclaimThresholdPercent of colocation-config, node annotation and label.
- restore: {cpu,memory}EvictLowerPercent, down to where eviction goes; for cpu only where nothing acts before it.
- act: cpuSuppressThresholdPercent, for batch and free. Memory has no milder step than eviction.
- evict: {cpu,memory}EvictThresholdPercent, for bands that reach down to evictEnabledPriorityThreshold; the one for
  memory also for batch and free.

What two *set* fields put out of order is refused, naming both. Where one of the two is a default, schedule_max is
lowered, with one warning; what lowering cannot mend is refused. A rung of 0 or without a value is not checked, nor are
the agent's while its strategy is not enabled. Lending more than 100 is meant to oversell, and no limit on usage.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from koord.api.configuration.scheduler_args import DEFAULT_USAGE_THRESHOLDS, LoadAwareSchedulingArgs
from koord.api.configuration.slo_config import Layer
from koord.api.configuration.slo_config_types import COLOCATION_DEFAULTS
from koord.api.configuration.slo_defaults import EVICT_LOWER_MARGIN_PERCENT, THRESHOLD_STRATEGY
from koord.api.machinery.faults import Fault
from koord.api.machinery.struct import Struct
from koord.api.protocol.annotations.load import USAGE_THRESHOLDS, UsageThresholds
from koord.api.protocol.crd.node_slo import NodeSLOSpec, ResourceThresholdStrategy
from koord.api.protocol.priority import BANDS, PriorityClass

Dimension: TypeAlias = Literal["cpu", "memory"]
DIMENSIONS: Final[tuple[Dimension, ...]] = ("cpu", "memory")

COOL_DOWN_S: Final = 300.0
"""For so long a node that evicted pods of a band takes none of it: until a few reports have shown the effect."""

_HELD_BACK: Final = (PriorityClass.BATCH, PriorityClass.FREE)
"""The bands that the agent holds back for the others' sake, whatever their priority numbers."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A percentage and where it comes from: `resource-threshold-config.clusterStrategy.memoryEvictThresholdPercent`."""

    percent: int
    source: str
    is_set: bool
    "Whether a person wrote it; otherwise it is a default."

    def __str__(self) -> str:
        return f"{self.source} ({self.percent}{'' if self.is_set else ', the default'})"


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """Up to which usage the scheduler places pods, from one place. Empty parts say nothing."""

    where: str
    usage: Mapping[str, int] = field(default_factory=dict)
    prod: Mapping[str, int] = field(default_factory=dict)
    aggregated: Mapping[str, int] = field(default_factory=dict)
    aggregated_field: str = "aggregated"

    @staticmethod
    def of(args: LoadAwareSchedulingArgs, where: str = "LoadAwareSchedulingArgs") -> LoadLimits:
        """From arguments as they were written, before defaults."""
        aggregated = args.aggregated
        used = aggregated is not None and aggregated.usage_aggregation_type
        return LoadLimits(
            where,
            usage=args.usage_thresholds,
            prod=args.prod_usage_thresholds,
            aggregated=aggregated.usage_thresholds if aggregated is not None and used else {},
        )

    @staticmethod
    def of_annotation(limits: UsageThresholds, where: str = f"node annotation {USAGE_THRESHOLDS.key}") -> LoadLimits:
        """From a node's own annotation."""
        aggregated = limits.aggregated_usage
        used = aggregated is not None and aggregated.usage_aggregation_type
        return LoadLimits(
            where,
            usage=limits.usage_thresholds,
            prod=limits.prod_usage_thresholds,
            aggregated=aggregated.usage_thresholds if aggregated is not None and used else {},
            aggregated_field="aggregatedUsage",
        )


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The rungs of one dimension for one band, in percent. None: there is no such rung."""

    schedule_max: int | None = None
    restore: int | None = None
    act: int | None = None
    evict: int | None = None
    lend_max: int | None = None

    @property
    def closes_at(self) -> int | None:
        """Usage from which the scheduler places no pod of the band, whatever its own limit says."""
        rungs = (self.act, self.restore, self.evict)
        return next((rung for rung in rungs if rung is not None), None)

    @property
    def in_order(self) -> bool:
        below = max((value for value in (self.schedule_max, self.lend_max) if value is not None), default=None)
        rungs = [rung for rung in (self.restore, self.act, self.evict) if rung is not None]
        if any(low >= high for low, high in itertools.pairwise(rungs)):
            return False
        if below is None or not rungs:
            return True
        return below <= rungs[0] if self.restore is not None else below < rungs[0]


@dataclass(frozen=True, slots=True)
class Report:
    """What holds after mending, what was mended, and what is refused. With faults, `thresholds` is not to be used."""

    thresholds: Mapping[tuple[Dimension, PriorityClass], Thresholds]
    warnings: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()


def check(load: Sequence[LoadLimits] = (), strategy: Sequence[Layer] = (), colocation: Sequence[Layer] = ()) -> Report:
    """Judges all that is said about one node. Each source is a list of layers as written, lowest first, no defaults.

    `load`: the scheduler's arguments, then the node's annotation. `strategy` and `colocation`: `threshold_layers` and
    `colocation_layers` of `SloConfig.for_node`. A source without any layer is not at hand, and not judged.
    """
    thresholds: dict[tuple[Dimension, PriorityClass], Thresholds] = {}
    mended: dict[str, _Mending] = {}
    faults: dict[Fault, None] = {}
    for dimension in DIMENSIONS:
        for band in BANDS:
            rungs = _agent_rungs(strategy, dimension, band)
            faults |= dict.fromkeys(_disorder(rungs))
            limits: dict[str, int | None] = {}
            for name, setting in (
                ("schedule_max", _schedule_max(load, dimension, band)),
                ("lend_max", _lend_max(colocation, dimension, band)),
            ):
                limits[name] = setting.percent if setting else None
                for fault_or_rung in _above(setting, rungs):
                    if isinstance(fault_or_rung, Fault):
                        faults[fault_or_rung] = None
                        continue
                    assert setting is not None
                    rung, allowed = fault_or_rung
                    limits[name] = min(allowed, limits[name] or allowed)
                    mended.setdefault(setting.source, _Mending(setting, rung, allowed)).note(band, rung, allowed)
            values = {rung.name: rung.setting.percent for rung in rungs}
            thresholds[dimension, band] = Thresholds(**limits, **values)
    return Report(thresholds, tuple(map(str, mended.values())), tuple(faults))


def strategy_layers(spec: NodeSLOSpec, node: str = "") -> tuple[Layer, ...]:
    """The agent's strategy as a NodeSLO has it. It does not say what a person set: what differs from a default is."""
    strategy = spec.resource_used_threshold_with_be
    if strategy is None:
        return ()
    set_ = {
        name: getattr(strategy, name)
        for name in strategy.__struct_fields__
        if getattr(strategy, name) != getattr(THRESHOLD_STRATEGY, name)
    }
    where = f"NodeSLO {node}".strip()
    return (Layer(f"{where} spec.resourceUsedThresholdWithBE", ResourceThresholdStrategy(**set_)),)


@dataclass(frozen=True, slots=True)
class _Rung:
    """One rung above schedule_max, lowest first in a list. Only restore may be reached, the others not."""

    name: Literal["restore", "act", "evict"]
    setting: Setting

    @property
    def highest_below(self) -> int:
        return self.setting.percent if self.name == "restore" else self.setting.percent - 1


@dataclass(slots=True)
class _Mending:
    """One limit that was lowered, for one warning however many bands it concerns."""

    setting: Setting
    rung: _Rung
    lowest: int
    bands: dict[str, None] = field(default_factory=dict)

    def note(self, band: PriorityClass, rung: _Rung, allowed: int) -> None:
        self.bands[str(band)] = None
        if allowed <= self.lowest:
            self.lowest, self.rung = allowed, rung

    def __str__(self) -> str:
        relation = "must not be above" if self.rung.name == "restore" else "must be below"
        bands = ", ".join(self.bands)
        return f"{self.setting} {relation} {self.rung.setting}: it counts as {self.lowest} for {bands}"


def _above(setting: Setting | None, rungs: Iterable[_Rung]) -> Iterator[Fault | tuple[_Rung, int]]:
    """The rungs that a limit is not below: each a fault, or what the limit may be at most."""
    if setting is None:
        return
    for rung in rungs:
        if setting.percent <= rung.highest_below:
            continue
        if (setting.is_set and rung.setting.is_set) or rung.highest_below < 1:
            relation = "must not be above" if rung.name == "restore" else "must be below"
            yield Fault(setting.source, f"{relation} {rung.setting}, not {setting.percent}")
        else:
            yield rung, rung.highest_below


def _disorder(rungs: Sequence[_Rung]) -> Iterator[Fault]:
    """Rungs of the agent that are not in order. Lowering schedule_max cannot mend that, whoever set them."""
    for i, low in enumerate(rungs):
        for high in rungs[i + 1 :]:
            if low.setting.percent >= high.setting.percent:
                yield Fault(low.setting.source, f"must be below {high.setting}, not {low.setting.percent}")


def _schedule_max(load: Sequence[LoadLimits], dimension: Dimension, band: PriorityClass) -> Setting | None:
    """The limit that the scheduler's filter applies to the band: prod's own, else percentiles, else plain usage."""
    if not load:
        return None
    parts = ("prod", "aggregated", "usage") if band is PriorityClass.PROD else ("aggregated", "usage")
    for part in parts:
        for layer in reversed(load):
            limits: Mapping[str, int] = getattr(layer, part)
            if any(limits.values()) or (limits and part == "usage"):
                percent = limits.get(dimension, 0)
                written = {"prod": "prodUsageThresholds", "usage": "usageThresholds"}
                written["aggregated"] = f"{layer.aggregated_field}.usageThresholds"
                source = f"{layer.where}.{written[part]}.{dimension}"
                return Setting(percent, source, is_set=True) if percent else None
    source = f"{load[0].where}.usageThresholds.{dimension}"
    return Setting(DEFAULT_USAGE_THRESHOLDS[dimension], source, is_set=False)


def _lend_max(colocation: Sequence[Layer], dimension: Dimension, band: PriorityClass) -> Setting | None:
    if band is not PriorityClass.BATCH or not colocation or not _effective(colocation, "enable", COLOCATION_DEFAULTS):
        return None
    setting = _setting(colocation, f"{dimension}_reclaim_threshold_percent", COLOCATION_DEFAULTS)
    return setting if setting is not None and setting.percent <= 100 else None


def _agent_rungs(strategy: Sequence[Layer], dimension: Dimension, band: PriorityClass) -> list[_Rung]:
    if not strategy or not _effective(strategy, "enable", THRESHOLD_STRATEGY):
        return []
    held_back = band in _HELD_BACK
    highest = _effective(strategy, "evict_enabled_priority_threshold", THRESHOLD_STRATEGY)
    evictable = isinstance(highest, int) and highest >= BANDS[band].start
    act = _setting(strategy, "cpu_suppress_threshold_percent", THRESHOLD_STRATEGY)
    rungs: list[_Rung] = []
    if dimension == "cpu" and held_back and act is not None:
        rungs.append(_Rung("act", act))
    if evictable or (held_back and dimension == "memory"):
        evict = _setting(strategy, f"{dimension}_evict_threshold_percent", THRESHOLD_STRATEGY)
        lower = _lower(strategy, dimension, evict)
        if lower is not None and not rungs:
            rungs.append(_Rung("restore", lower))
        if evict is not None:
            rungs.append(_Rung("evict", evict))
    return rungs


def _lower(strategy: Sequence[Layer], dimension: Dimension, evict: Setting | None) -> Setting | None:
    """Down to where eviction goes: as set, else a little below its threshold."""
    name = f"{dimension}_evict_lower_percent"
    set_ = _setting(strategy, name, THRESHOLD_STRATEGY)
    if evict is None or set_ is not None:
        return None if evict is None else set_
    percent = evict.percent - EVICT_LOWER_MARGIN_PERCENT
    if percent < 1:
        return None
    source = evict.source.replace("EvictThreshold", "EvictLower")
    return Setting(percent, source, is_set=False)


def _setting(layers: Sequence[Layer], name: str, defaults: Struct) -> Setting | None:
    """A percentage and the field that it comes from; None for 0 and for nothing."""
    for layer in reversed(layers):
        percent = getattr(layer.settings, name)
        if percent is not None:
            return Setting(percent, _source(layer, name), is_set=True) if percent else None
    percent = getattr(defaults, name)
    return Setting(percent, _source(layers[0], name), is_set=False) if percent else None


def _effective(layers: Sequence[Layer], name: str, defaults: Struct) -> object:
    written = (getattr(layer.settings, name) for layer in reversed(layers))
    return next((value for value in written if value is not None), getattr(defaults, name))


def _source(layer: Layer, name: str) -> str:
    """`where.field`; a node label is one field, and is named by itself."""
    if layer.where.startswith("node label"):
        return layer.where
    type_ = type(layer.settings)
    json = dict(zip(type_.__struct_fields__, type_.__struct_encode_fields__, strict=True))[name]
    return f"{layer.where}.{json}"
