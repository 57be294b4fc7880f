"""Counts a run as it goes: a row of the series each minute, and sums after the warm-up."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

import numpy as np

from koord.sim.minutes import Floats, Ints, NodeColumns
from koord.sim.outcome import EvictedBy, EvictedPod, NodeTotals, QuotaTotals, Series, Totals, jain
from koord.sim.scenario import DAY_S, TICK_S
from koord.sim.tasks import Status, TaskSource, TaskTable

COUNTS: Final = frozenset({"pending", "running", "violated", "evicted"})
MOST_EVICTED: Final = 100_000
"""So many evictions are listed; more are counted."""


@dataclass(slots=True)
class PoolSums:
    """Sums over the minutes that count."""

    minutes: int = 0
    capacity: float = 0.0
    services: float = 0.0
    batch: float = 0.0
    wanted: float = 0.0
    requested: float = 0.0
    wasted_milli_s: float = 0.0
    evicted: int = 0
    fragmentation: float = 0.0
    service_minutes: float = 0.0
    "Of services with a response time; the two below are sums over these."
    slow: float = 0.0
    p99: float = 0.0
    gpu: float = 0.0
    gpu_allocated: float = 0.0
    gpu_waiting: float = 0.0
    moved: int = 0
    decisions: int = 0


@dataclass(slots=True)
class Recording:
    series: dict[str, list[float]]
    sums: dict[str, PoolSums]
    "By pool; the whole cluster is under the empty name."
    minutes: Ints
    violated: Ints
    services: Floats
    batch: Floats
    evicted: Ints
    "By node, since the warm-up, like the columns above."
    evictions: list[tuple[float, str, str, EvictedBy, float]] = field(default_factory=list)


WHOLE: Final = "*"


def recording(nodes: NodeColumns) -> Recording:
    count = len(nodes)
    return Recording(
        {column.name: [] for column in fields(Series)},
        {name: PoolSums() for name in (WHOLE, *dict.fromkeys(nodes.pool))},
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count),
        np.zeros(count),
        np.zeros(count, np.int64),
    )


def series_of(recorded: Recording) -> Series:
    columns: dict[str, Any] = {
        name: np.array(values, np.int64 if name in COUNTS else np.float64) for name, values in recorded.series.items()
    }
    return Series(**columns)


def nodes_of(recorded: Recording, nodes: NodeColumns) -> NodeTotals:
    minutes = np.maximum(recorded.minutes, 1)
    return NodeTotals(
        nodes.names,
        nodes.pool,
        recorded.minutes.copy(),
        recorded.violated.copy(),
        recorded.services / minutes,
        recorded.batch / minutes,
        recorded.evicted.copy(),
    )


def evicted_of(recorded: Recording) -> tuple[EvictedPod, ...]:
    return tuple(EvictedPod(*eviction) for eviction in recorded.evictions)


def quotas_of(table: TaskTable, source: TaskSource, begin_s: float) -> tuple[QuotaTotals, ...]:
    """Of pods that arrived after the warm-up, by quota."""
    counted = np.flatnonzero(table.column("arrival_s") >= begin_s)
    queues = source.tasks.queue
    name_of = np.array(queues if queues is not None else [""] * len(source.tasks.ids), dtype=object)
    names = name_of[table.source[counted]] if len(counted) else np.zeros(0, object)
    totals = []
    for name in sorted(set(names.tolist())):
        rows = counted[names == name]
        sources, waited = table.source[rows], table.bound_s[rows] - table.arrival_s[rows]
        totals.append(
            QuotaTotals(
                name,
                len(rows),
                int((table.status[rows] == Status.DONE).sum()),
                float(source.work[sources].sum()),
                float(source.work_at(sources, table.progress_s[rows]).sum()),
                float(np.nanmean(waited)) if np.isfinite(waited).any() else 0.0,
            )
        )
    return tuple(totals)


def totals_of(
    recorded: Recording,
    pool: str,
    nodes: NodeColumns,
    table: TaskTable,
    source: TaskSource,
    *,
    begin_s: float,
    now_s: float,
    quotas: tuple[QuotaTotals, ...],
) -> Totals:
    sums = recorded.sums[pool]
    rows = np.flatnonzero(np.array(nodes.pool, object) == pool) if pool != WHOLE else np.arange(len(nodes))
    minutes, violated = recorded.minutes[rows], recorded.violated[rows]
    arrived = np.flatnonzero(table.column("arrival_s") >= begin_s)
    waits = np.nan_to_num(table.bound_s[arrived], nan=now_s) - table.arrival_s[arrived]
    work = sums.batch * TICK_S
    counted = max(sums.minutes, 1)
    node_minutes = max(int(minutes.sum()), 1)
    shares = np.array([quota.done_milli_s / quota.asked_milli_s for quota in quotas if quota.asked_milli_s])
    return Totals(
        minutes=sums.minutes,
        services_percent=_percent(sums.services, sums.capacity),
        batch_percent=_percent(sums.batch, sums.capacity),
        requested_percent=_percent(sums.requested, sums.capacity),
        work_milli_s=work - sums.wasted_milli_s,
        wasted_milli_s=sums.wasted_milli_s,
        wasted_percent=_percent(sums.wasted_milli_s, work),
        got_percent=_percent(sums.batch, sums.wanted) if sums.wanted else 100.0,
        violated_percent=_percent(float(violated.sum()), node_minutes),
        worst_node_percent=float((100 * violated / np.maximum(minutes, 1)).max(initial=0.0)),
        evicted=sums.evicted,
        evicted_per_node_day=sums.evicted / (node_minutes * TICK_S / DAY_S),
        arrived=len(arrived),
        finished=int((table.status[arrived] == Status.DONE).sum()),
        wait_p50_s=_quantile(waits, 0.5),
        wait_p99_s=_quantile(waits, 0.99),
        fragmentation_percent=100 * sums.fragmentation / counted,
        fairness=jain(shares) if len(shares) else 1.0,
        slow_percent=100 * sums.slow / sums.service_minutes if sums.service_minutes else np.nan,
        p99=sums.p99 / sums.service_minutes if sums.service_minutes else np.nan,
        gpu_allocated_percent=_percent(sums.gpu_allocated, sums.gpu) if sums.gpu else np.nan,
        gpu_waiting_percent=_percent(sums.gpu_waiting, sums.gpu) if sums.gpu else np.nan,
        moved=sums.moved,
        decisions=sums.decisions,
    )


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


def _quantile(values: Floats, share: float) -> float:
    """The nearest value, so that it is one that occurred."""
    return float(np.quantile(values, share, method="nearest")) if len(values) else 0.0


def evict(recorded: Recording, at_s: float, pod: str, node: str, by: EvictedBy, lost: float) -> None:
    if len(recorded.evictions) < MOST_EVICTED:
        recorded.evictions.append((at_s, pod, node, by, lost))
