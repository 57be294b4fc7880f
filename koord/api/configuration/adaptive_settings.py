"""What the lending policy `adaptive` makes of a node's other settings. Asked by `SloConfig.for_node`.

CPU      The policy is sale and protection together: agents hold batch below a learned ceiling, so suppression is on,
         and the mark stands where readers look for the suppress threshold. Where suppression was switched off by hand,
         CPU is lent by `usage` instead.
memory   Batch is sold up to 95% of the node, or down to where eviction goes if that is configured lower. Without
         a configured threshold, eviction begins at 95%.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from koord.api.configuration.layer import Layer
from koord.api.configuration.lending_policies import ADAPTIVE, USAGE
from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.configuration.slo_defaults import EVICT_LOWER_MARGIN_PERCENT
from koord.api.protocol.crd.node_slo import LendingStrategy, ResourceThresholdStrategy

MEMORY_MARK_PERCENT: Final = 95


class AdaptiveSettings(NamedTuple):
    lending: ColocationStrategy
    thresholds: ResourceThresholdStrategy
    ceiling: LendingStrategy | None
    "None where agents hold batch back by the suppress threshold."


def with_adaptive(
    lending: ColocationStrategy, thresholds: ResourceThresholdStrategy, layers: Sequence[Layer], *, lends: bool
) -> AdaptiveSettings:
    """`layers`: what was set of the thresholds, lowest first. `lends`: whether co-location is on here."""
    ceiling = None
    if lending.cpu_calculate_policy == ADAPTIVE and is_off_by_hand(layers):
        lending = replace(lending, cpu_calculate_policy=USAGE)
    elif lending.cpu_calculate_policy == ADAPTIVE and lends:
        mark = _below_eviction(lending.cpu_safety_mark_percent, thresholds)
        lending = replace(lending, cpu_safety_mark_percent=mark)
        thresholds = replace(thresholds, enable=True, cpu_suppress_threshold_percent=mark)
        ceiling = LendingStrategy(mark)
    if lending.memory_calculate_policy == ADAPTIVE:
        if _set(layers, "memory_evict_threshold_percent") is None:
            thresholds = replace(thresholds, memory_evict_threshold_percent=MEMORY_MARK_PERCENT)
        lending = replace(lending, memory_reclaim_threshold_percent=_memory_mark(thresholds, layers))
    return AdaptiveSettings(lending, thresholds, ceiling)


def is_off_by_hand(layers: Sequence[Layer]) -> bool:
    """Whether the configuration says that best effort is not held back."""
    return _set(layers, "enable") is False


def _memory_mark(thresholds: ResourceThresholdStrategy, layers: Sequence[Layer]) -> int:
    if _set(layers, "memory_evict_threshold_percent") is None:
        return MEMORY_MARK_PERCENT
    lower, evict = thresholds.memory_evict_lower_percent, thresholds.memory_evict_threshold_percent or 0
    return min(MEMORY_MARK_PERCENT, max(0, evict - EVICT_LOWER_MARGIN_PERCENT) if lower is None else lower)


def _below_eviction(mark: int | None, thresholds: ResourceThresholdStrategy) -> int | None:
    """Holding back comes before evicting."""
    evict = thresholds.cpu_evict_threshold_percent
    return mark if mark is None or evict is None else max(1, min(mark, evict - 1))


def _set(layers: Sequence[Layer], field: str) -> object:
    written = (getattr(layer.settings, field, None) for layer in reversed(layers))
    return next((value for value in written if value is not None), None)
