"""Mid resources: what prod pods asked for and are predicted not to use for long.

    dynamic  max(0, min(reclaimable of prod pods, capacity - used)) + midUnallocatedPercent of unallocated
    static   midStatic{CPU,Memory}ReservedPercent of capacity

each at most mid{CPU,Memory}ThresholdPercent of capacity. Unallocated is capacity less the larger of system usage
and reservation, less the requests of prod pods. The agent predicts what is reclaimable; without a prediction it is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Final, NamedTuple

from koord.api.configuration.slo_config import NodeSettings
from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.protocol import names
from koord.api.protocol.priority import PriorityClass
from koord.manager.colocation_settings import given, setting
from koord.manager.figures import Figure, Term, figure, of_percent
from koord.manager.lending.freshness import distrust
from koord.manager.lending.system import system_used
from koord.manager.node_state import MID, Amounts, MetricRow, NodeState, PodRow
from koord.manager.plugin import PluginOutcome

NAME: Final = "MidResource"


class LentResource(NamedTuple):
    """One of the two resources: its name, its part of amounts, and the settings that decide about it."""

    resource: str
    of: Callable[[Amounts], int]
    static: str
    limit: str


LENT: Final = (
    LentResource(
        names.RESOURCE_MID_CPU,
        attrgetter("cpu_milli"),
        "mid_static_cpu_reserved_percent",
        "mid_cpu_threshold_percent",
    ),
    LentResource(
        names.RESOURCE_MID_MEMORY,
        attrgetter("memory_bytes"),
        "mid_static_memory_reserved_percent",
        "mid_memory_threshold_percent",
    ),
)


def calculate(state: NodeState, settings: NodeSettings, now_s: float) -> PluginOutcome:
    strategy = settings.colocation
    why_not = distrust(state, strategy, now_s)
    if why_not:
        return PluginOutcome(NAME, deleted=MID, note=why_not)
    mode = MODES.get(strategy.mid_reclaim_mode or "", _dynamic)
    return PluginOutcome(NAME, mode(state, strategy))


def _static(state: NodeState, strategy: ColocationStrategy) -> tuple[Figure, ...]:
    return tuple(_static_figure(lent, state.node.capacity, strategy) for lent in LENT)


def _static_figure(lent: LentResource, capacity: Amounts, strategy: ColocationStrategy) -> Figure:
    amount = lent.of(capacity)
    percent: int = given(getattr(strategy, lent.static))
    why = f"{percent}% of capacity {amount} ({setting(strategy, lent.static)})"
    terms = (Term("start", "static", of_percent(amount, percent), why), _limit(lent, amount, strategy))
    return figure(lent.resource, terms, "static")


def _dynamic(state: NodeState, strategy: ColocationStrategy) -> tuple[Figure, ...]:
    metric = state.metric
    assert metric is not None
    held = system_used(metric, PriorityClass.MID).largest(state.node.reserved)
    requested = _requested(state.pods)
    return tuple(_dynamic_figure(lent, state.node.capacity, held, requested, metric, strategy) for lent in LENT)


def _dynamic_figure(
    lent: LentResource,
    capacities: Amounts,
    held: Amounts,
    requested: Amounts,
    metric: MetricRow,
    strategy: ColocationStrategy,
) -> Figure:
    """`held` is for the system, `requested` by prod pods."""
    capacity = lent.of(capacities)
    if metric.prod_reclaimable is None:
        start = Term("start", "prodReclaimable", 0, "not predicted")
    else:
        predicted = lent.of(metric.prod_reclaimable)
        start = Term("start", "prodReclaimable", predicted, "requested by prod pods and predicted not to be used")
    if metric.used is None:
        unused = Term("atMost", "unused", 0, "the report does not say what the node uses")
    else:
        used = lent.of(metric.used)
        unused = Term("atMost", "unused", capacity - used, f"capacity {capacity} less {used} used")
    unallocated = max(0, capacity - lent.of(held) - lent.of(requested))
    percent = given(strategy.mid_unallocated_percent)
    made_of = f"capacity {capacity}, system {lent.of(held)}, prod pods {lent.of(requested)}"
    why = f"{percent}% of {unallocated}: {made_of} ({setting(strategy, 'mid_unallocated_percent')})"
    return figure(
        lent.resource,
        (
            start,
            unused,
            Term("atLeast", "nothing", 0),
            Term("plus", "unallocated", of_percent(unallocated, percent), why),
            _limit(lent, capacity, strategy),
        ),
        "dynamic",
    )


def _requested(pods: Iterable[PodRow]) -> Amounts:
    """By prod pods, and by pods of no class."""
    cpu = memory = 0
    for pod in pods:
        if pod.above_mid and pod.active:
            cpu += pod.cpu_milli
            memory += pod.memory_bytes
    return Amounts(cpu, memory)


def _limit(lent: LentResource, capacity: int, strategy: ColocationStrategy) -> Term:
    percent: int = given(getattr(strategy, lent.limit))
    why = f"{percent}% of capacity ({setting(strategy, lent.limit)})"
    return Term("atMost", "limit", of_percent(capacity, percent), why)


MODES: Final[Mapping[str, Callable[[NodeState, ColocationStrategy], tuple[Figure, ...]]]] = {
    "": _dynamic,
    "static": _static,
}
"""By `midReclaimMode`."""
