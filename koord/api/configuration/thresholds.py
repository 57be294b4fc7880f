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
lowered, with one warning; what lowering cannot correct is refused. What is stored all the same runs in the nearest safe
order (`threshold_rungs.in_order`). A rung of 0 or without a value is not checked, nor are
the agent's while its strategy is not enabled. Lending more than 100 is meant to oversell, and no limit on usage.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from koord.api.configuration.layer import Layer
from koord.api.configuration.scheduler_args import DEFAULT_USAGE_THRESHOLDS, LoadAwareSchedulingArgs
from koord.api.configuration.slo_defaults import THRESHOLD_STRATEGY
from koord.api.configuration.threshold_rungs import DIMENSIONS, Dimension, Rung, Setting, agent_rungs, lend_max
from koord.api.machinery.faults import Fault
from koord.api.protocol.annotations.load import USAGE_THRESHOLDS, UsageThresholds
from koord.api.protocol.crd.node_slo import NodeSLOSpec, ResourceThresholdStrategy
from koord.api.protocol.priority import BANDS, PriorityClass

COOL_DOWN_S: Final = 300.0
"""For so long a node that evicted pods of a band takes none of it: until a few reports have shown the effect."""


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """The usage at which the scheduler stops placing pods, from one source. Empty parts set no limit."""

    where: str
    usage: Mapping[str, int] = field(default_factory=dict)
    prod: Mapping[str, int] = field(default_factory=dict)
    aggregated: Mapping[str, int] = field(default_factory=dict)
    aggregated_field: str = "aggregated"

    @staticmethod
    def of(args: LoadAwareSchedulingArgs, where: str = "LoadAwareSchedulingArgs") -> LoadLimits:
        """From arguments before defaults are filled in."""
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
    """The rungs of one dimension for one band, in percent. None: the rung does not exist."""

    schedule_max: int | None = None
    restore: int | None = None
    act: int | None = None
    evict: int | None = None
    lend_max: int | None = None

    @property
    def closes_at(self) -> int | None:
        """The usage at which the scheduler stops placing pods of the band, whatever its own limit says."""
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
class ThresholdReport:
    """The corrected thresholds, what was corrected, and what is refused. With faults, do not use `thresholds`."""

    thresholds: Mapping[tuple[Dimension, PriorityClass], Thresholds]
    warnings: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()


def check(
    load: Sequence[LoadLimits] = (), strategy: Sequence[Layer] = (), colocation: Sequence[Layer] = ()
) -> ThresholdReport:
    """Judges all that is said about one node. Each source is a list of layers as written, lowest first, no defaults.

    `load`: the scheduler's arguments, then the node's annotation. `strategy` and `colocation`: `threshold_layers` and
    `colocation_layers` of `SloConfig.for_node`. A source without any layer is not at hand, and not judged.
    """
    thresholds: dict[tuple[Dimension, PriorityClass], Thresholds] = {}
    mended: dict[str, _Mending] = {}
    faults: dict[Fault, None] = {}
    for dimension in DIMENSIONS:
        for band in BANDS:
            rungs = agent_rungs(strategy, dimension, band)
            faults |= dict.fromkeys(_disorder(rungs))
            limits: dict[str, int | None] = {}
            for name, setting in (
                ("schedule_max", schedule_max(load, dimension, band)),
                ("lend_max", lend_max(colocation, dimension, band)),
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
    return ThresholdReport(thresholds, tuple(map(str, mended.values())), tuple(faults))


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


@dataclass(slots=True)
class _Mending:
    """One limit that was lowered, for one warning however many bands it concerns."""

    setting: Setting
    rung: Rung
    lowest: int
    bands: dict[str, None] = field(default_factory=dict)

    def note(self, band: PriorityClass, rung: Rung, allowed: int) -> None:
        self.bands[str(band)] = None
        if allowed <= self.lowest:
            self.lowest, self.rung = allowed, rung

    def __str__(self) -> str:
        bands = ", ".join(self.bands)
        return f"{self.setting} {self.rung.relation} {self.rung.setting}: it counts as {self.lowest} for {bands}"


def _above(setting: Setting | None, rungs: Iterable[Rung]) -> Iterator[Fault | tuple[Rung, int]]:
    """The rungs that a limit is not below: each a fault, or what the limit may be at most."""
    if setting is None:
        return
    for rung in rungs:
        if setting.percent <= rung.highest_below:
            continue
        if (setting.is_set and rung.setting.is_set) or rung.highest_below < 1:
            yield Fault(setting.source, f"{rung.relation} {rung.setting}, not {setting.percent}")
        else:
            yield rung, rung.highest_below


def _disorder(rungs: Sequence[Rung]) -> Iterator[Fault]:
    """Rungs of the agent that are not in order. Lowering schedule_max cannot correct that."""
    for i, low in enumerate(rungs):
        for high in rungs[i + 1 :]:
            if low.setting.percent >= high.setting.percent:
                yield Fault(low.setting.source, f"must be below {high.setting}, not {low.setting.percent}")


def schedule_max(load: Sequence[LoadLimits], dimension: Dimension, band: PriorityClass) -> Setting | None:
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
