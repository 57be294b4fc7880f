"""Outcomes that no run made: two days of ten nodes, with services that follow the day and batch that fills the rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from koord.sim.outcome import EvictedPod, NodeTotals, Outcome, QuotaTotals, Series, Totals

NODES = 10
NODE_MILLI = 32_000.0
NAMES = tuple(f"node-{i}" for i in range(NODES))


def outcome(
    policy: str = "adaptive",
    work_core_hours: float = 1000.0,
    violated_percent: float = 0.5,
    minutes: int = 2880,
    seed: int = 0,
    batch_share: float = 0.5,
) -> Outcome:
    at_s = np.arange(1, minutes + 1, dtype=np.float64) * 60
    day = np.sin(at_s / 86_400 * 2 * np.pi)
    capacity = np.full(minutes, NODES * NODE_MILLI)
    services = capacity * (0.2 + 0.08 * day)
    batch = capacity * batch_share * (1 - np.exp(-at_s / 7200)) - 0.05 * capacity * day
    batch = np.maximum(batch, 0) if batch_share else np.zeros(minutes)
    nothing = np.full(minutes, np.nan)
    violated = ((np.arange(minutes) % 97) < 2).astype(np.int64) if violated_percent else np.zeros(minutes, np.int64)
    series = Series(
        at_s=at_s,
        capacity_milli=capacity,
        services_milli=services,
        system_milli=capacity * 0.02,
        batch_used_milli=batch,
        batch_wanted_milli=batch * 1.03,
        lent_milli=batch * 1.6,
        requested_milli=batch * 1.5,
        pending=np.full(minutes, 40, np.int64),
        running=(batch / 2000).astype(np.int64),
        violated=violated,
        evicted=np.zeros(minutes, np.int64),
        wasted_milli_s=np.zeros(minutes),
        fragmentation=np.full(minutes, 0.1),
        room_milli=capacity * 0.85 - services,
        arrived_milli_s=batch * 60,
        gpu_milli=np.zeros(minutes),
        gpu_allocated_milli=np.zeros(minutes),
        gpu_waiting_milli=np.zeros(minutes),
        slow=nothing,
        p99=nothing,
    )
    return Outcome(
        scenario="small",
        policy={"": policy},
        seed=seed,
        ended=True,
        series=series,
        by_pool={},
        totals=totals(work_core_hours, violated_percent, minutes, batch_share),
        nodes=NodeTotals(
            names=NAMES,
            pool=("",) * NODES,
            minutes=np.full(NODES, minutes),
            violated=np.zeros(NODES, np.int64),
            services_milli=np.full(NODES, 6400.0),
            batch_milli=np.full(NODES, 16_000.0),
            evicted=np.zeros(NODES, np.int64),
        ),
        quotas=(QuotaTotals("", 500, 490, 3.6e9, 3.5e9, 12.0),),
        evicted=(EvictedPod(3600.0, "task-7", "node-3", "policy", 7.2e6),),
    )


def totals(work_core_hours: float, violated_percent: float, minutes: int, batch_share: float) -> Totals:
    return Totals(
        minutes=minutes,
        services_percent=20.0,
        batch_percent=100 * batch_share,
        requested_percent=150 * batch_share,
        work_milli_s=work_core_hours * 3.6e6,
        wasted_milli_s=7.2e6,
        wasted_percent=0.1,
        got_percent=97.0 if batch_share else float("nan"),
        violated_percent=violated_percent,
        worst_node_percent=2 * violated_percent,
        evicted=1,
        evicted_per_node_day=0.05,
        arrived=500,
        finished=490,
        wait_p50_s=60.0,
        wait_p99_s=5400.0,
        fragmentation_percent=10.0,
        fairness=0.98,
        slow_percent=float("nan"),
        p99=float("nan"),
        gpu_allocated_percent=float("nan"),
        gpu_waiting_percent=float("nan"),
        moved=0,
        decisions=600,
    )


def stopped(whole: Outcome, minutes: int) -> Outcome:
    """The same run, stopped after some minutes."""
    series = Series(**{name: getattr(whole.series, name)[:minutes] for name in Series.__slots__})
    return replace(whole, ended=False, series=series, totals=replace(whole.totals, minutes=minutes))
