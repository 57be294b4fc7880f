"""The rungs of the threshold model on one node, and the nearest order of rungs that are out of it.

`thresholds` judges whether what people set is in order. What is stored out of order all the same (another system
accepted it, or several layers meet on a node) runs in the nearest order that is safe for services: of two rungs the
lower one is lowered, so that nodes lend less and agents act sooner.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeVar

from msgspec.structs import replace

from koord.api.configuration.layer import Layer
from koord.api.configuration.slo_config_types import COLOCATION_DEFAULTS, ColocationStrategy
from koord.api.configuration.slo_defaults import EVICT_LOWER_MARGIN_PERCENT, THRESHOLD_STRATEGY
from koord.api.machinery.struct import Struct
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy
from koord.api.protocol.priority import BANDS, PriorityClass

S = TypeVar("S", bound=Struct)

Dimension: TypeAlias = Literal["cpu", "memory"]
DIMENSIONS: Final[tuple[Dimension, ...]] = ("cpu", "memory")

_ACT: Final = "cpu_suppress_threshold_percent"
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
class Rung:
    """One rung above schedule_max, lowest first in a list. Only restore may be reached, the others not."""

    name: Literal["restore", "act", "evict"]
    setting: Setting

    @property
    def relation(self) -> str:
        return "must not be above" if self.name == "restore" else "must be below"

    @property
    def highest_below(self) -> int:
        return self.setting.percent if self.name == "restore" else self.setting.percent - 1


@dataclass(frozen=True, slots=True)
class Lowered:
    """A percentage that counts as less than what was written."""

    setting: Setting
    rung: Rung
    "What it is not below."
    counts_as: int

    def __str__(self) -> str:
        return f"{self.setting} {self.rung.relation} {self.rung.setting}: it counts as {self.counts_as}"


def in_order(
    strategy: ResourceThresholdStrategy,
    colocation: ColocationStrategy,
    strategy_layers: Sequence[Layer],
    colocation_layers: Sequence[Layer],
) -> tuple[ResourceThresholdStrategy, ColocationStrategy, tuple[Lowered, ...]]:
    """A node's settings in the nearest safe order, and what was lowered for that. `strategy` and `colocation` are what
    the layers come to."""
    lowered: list[Lowered] = []
    if not strategy_layers or not strategy.enable:
        return strategy, colocation, ()
    for dimension in DIMENSIONS:
        # Free has the rungs of every band that is held back, mid those of every band that is not.
        of_bands = (agent_rungs(strategy_layers, dimension, band) for band in (PriorityClass.FREE, PriorityClass.MID))
        for low, high in dict.fromkeys(pair for rungs in of_bands for pair in itertools.pairwise(rungs)):
            if low.setting.percent >= high.setting.percent > 1:
                lowered.append(Lowered(low.setting, high, high.setting.percent - 1))
                name = _ACT if low.name == "act" else f"{dimension}_evict_lower_percent"
                strategy = replace(strategy, **{name: high.setting.percent - 1})
        counted = {low_rung.setting: low_rung.counts_as for low_rung in lowered}
        lending = lend_max(colocation_layers, dimension, PriorityClass.BATCH)
        batch = agent_rungs(strategy_layers, dimension, PriorityClass.BATCH)
        for rung in batch if lending is not None else ():
            assert lending is not None
            percent = counted.get(rung.setting, rung.setting.percent)
            bound = max(0, percent if rung.name == "restore" else percent - 1)
            if bound < counted.get(lending, lending.percent):
                counted[lending] = bound
                lowered = [low_rung for low_rung in lowered if low_rung.setting is not lending] + [
                    Lowered(lending, rung, bound)
                ]
                colocation = replace(colocation, **{f"{dimension}_reclaim_threshold_percent": bound})
    return strategy, colocation, tuple(lowered)


def lend_max(colocation: Sequence[Layer], dimension: Dimension, band: PriorityClass) -> Setting | None:
    if band is not PriorityClass.BATCH or not colocation or not _effective(colocation, "enable", COLOCATION_DEFAULTS):
        return None
    setting = _setting(colocation, f"{dimension}_reclaim_threshold_percent", COLOCATION_DEFAULTS)
    return setting if setting is not None and setting.percent <= 100 else None


def agent_rungs(strategy: Sequence[Layer], dimension: Dimension, band: PriorityClass) -> list[Rung]:
    if not strategy or not _effective(strategy, "enable", THRESHOLD_STRATEGY):
        return []
    held_back = band in _HELD_BACK
    highest = _effective(strategy, "evict_enabled_priority_threshold", THRESHOLD_STRATEGY)
    evictable = isinstance(highest, int) and highest >= BANDS[band].start
    act = _setting(strategy, _ACT, THRESHOLD_STRATEGY)
    rungs: list[Rung] = []
    if dimension == "cpu" and held_back and act is not None:
        rungs.append(Rung("act", act))
    if evictable or (held_back and dimension == "memory"):
        evict = _setting(strategy, f"{dimension}_evict_threshold_percent", THRESHOLD_STRATEGY)
        lower = _evict_lower(strategy, dimension, evict)
        if lower is not None and not rungs:
            rungs.append(Rung("restore", lower))
        if evict is not None:
            rungs.append(Rung("evict", evict))
    return rungs


def _evict_lower(strategy: Sequence[Layer], dimension: Dimension, evict: Setting | None) -> Setting | None:
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
