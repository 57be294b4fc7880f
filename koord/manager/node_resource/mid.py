"""Mid resources: what prod pods asked for and are predicted not to use for long.

    dynamic  max(0, min(reclaimable of prod pods, capacity - used)) + midUnallocatedPercent of what nobody asked for
    static   midStatic{CPU,Memory}ReservedPercent of capacity

each at most mid{CPU,Memory}ThresholdPercent of capacity. What nobody asked for is capacity less the larger of system
usage and reservation, less the requests of prod pods. The agent predicts what is reclaimable; else that is nothing.
"""

from __future__ import annotations

from typing import Final

from koord.api import names
from koord.api.priority import PriorityClass
from koord.api.slo_config import NodeSettings
from koord.api.slo_config_types import ColocationStrategy
from koord.manager.node_resource.batch import system_used
from koord.manager.node_resource.freshness import distrust
from koord.manager.node_resource.outcome import Outcome
from koord.manager.node_resource.settings import given, setting
from koord.manager.node_resource.state import MID, NodeState
from koord.manager.node_resource.terms import Figure, Term, figure, of_percent

NAME: Final = "MidResource"


def calculate(state: NodeState, settings: NodeSettings, now_s: float) -> Outcome:
    strategy = settings.colocation
    why_not = distrust(state, strategy, now_s)
    if why_not:
        return Outcome(NAME, deleted=MID, note=why_not)
    if strategy.mid_reclaim_mode == "static":
        return Outcome(NAME, _static(state, strategy))
    return Outcome(NAME, _dynamic(state, strategy))


def _static(state: NodeState, strategy: ColocationStrategy) -> tuple[Figure, ...]:
    capacity = state.node.capacity
    return tuple(
        figure(
            resource,
            (
                Term("start", "static", of_percent(amount, percent), f"{percent}% of capacity {amount} ({said})"),
                _limit(amount, limit_percent, limit_said),
            ),
            "static",
        )
        for resource, amount, percent, said, limit_percent, limit_said in (
            (
                names.RESOURCE_MID_CPU,
                capacity.cpu_milli,
                given(strategy.mid_static_cpu_reserved_percent),
                setting(strategy, "mid_static_cpu_reserved_percent"),
                given(strategy.mid_cpu_threshold_percent),
                setting(strategy, "mid_cpu_threshold_percent"),
            ),
            (
                names.RESOURCE_MID_MEMORY,
                capacity.memory_bytes,
                given(strategy.mid_static_memory_reserved_percent),
                setting(strategy, "mid_static_memory_reserved_percent"),
                given(strategy.mid_memory_threshold_percent),
                setting(strategy, "mid_memory_threshold_percent"),
            ),
        )
    )


def _dynamic(state: NodeState, strategy: ColocationStrategy) -> tuple[Figure, ...]:
    metric = state.metric
    assert metric is not None
    capacity, reserved = state.node.capacity, state.node.reserved
    system = system_used(metric, PriorityClass.MID)
    requested_cpu = requested_memory = 0
    for pod in state.pods:
        if pod.above_mid and pod.active:
            requested_cpu += pod.cpu_milli
            requested_memory += pod.memory_bytes
    used, reclaimable = metric.used, metric.prod_reclaimable
    share_said = setting(strategy, "mid_unallocated_percent")
    return (
        _figure(
            names.RESOURCE_MID_CPU,
            capacity.cpu_milli,
            None if reclaimable is None else reclaimable.cpu_milli,
            None if used is None else used.cpu_milli,
            max(system.cpu_milli, reserved.cpu_milli),
            requested_cpu,
            given(strategy.mid_unallocated_percent),
            share_said,
            given(strategy.mid_cpu_threshold_percent),
            setting(strategy, "mid_cpu_threshold_percent"),
        ),
        _figure(
            names.RESOURCE_MID_MEMORY,
            capacity.memory_bytes,
            None if reclaimable is None else reclaimable.memory_bytes,
            None if used is None else used.memory_bytes,
            max(system.memory_bytes, reserved.memory_bytes),
            requested_memory,
            given(strategy.mid_unallocated_percent),
            share_said,
            given(strategy.mid_memory_threshold_percent),
            setting(strategy, "mid_memory_threshold_percent"),
        ),
    )


def _figure(
    resource: str,
    capacity: int,
    reclaimable: int | None,
    used: int | None,
    held: int,
    requested: int,
    share_percent: int,
    share_said: str,
    limit_percent: int,
    limit_said: str,
) -> Figure:
    predicted = "requested by prod pods and predicted not to be used"
    if used is None:
        unused, unused_why = 0, "the report does not say what the node uses"
    else:
        unused, unused_why = capacity - used, f"capacity {capacity} less {used} used"
    unallocated = max(0, capacity - held - requested)
    why = f"{share_percent}% of {unallocated}: capacity {capacity}, system {held}, prod pods {requested} ({share_said})"
    return figure(
        resource,
        (
            Term(
                "start", "prodReclaimable", reclaimable or 0, predicted if reclaimable is not None else "not predicted"
            ),
            Term("atMost", "unused", unused, unused_why),
            Term("atLeast", "nothing", 0),
            Term("plus", "unallocated", of_percent(unallocated, share_percent), why),
            _limit(capacity, limit_percent, limit_said),
        ),
        "dynamic",
    )


def _limit(capacity: int, percent: int, said: str) -> Term:
    return Term("atMost", "limit", of_percent(capacity, percent), f"{percent}% of capacity ({said})")
