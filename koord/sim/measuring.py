"""What a minute adds to the record of a run: a row of the series, and the sums of pools and nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from koord.sim import physics
from koord.sim.minutes import Floats, Ints, NodeMinutes
from koord.sim.recording import PoolSums
from koord.sim.response_times import ResponseTimes, response_times
from koord.sim.stage import Stage
from koord.sim.tasks import Status


def record(stage: Stage, minutes: NodeMinutes, minute: physics.Minute) -> None:
    """A row of the series, and the sums of pools and nodes."""
    world, recorded, meanwhile = stage.world, stage.world.recorded, stage.meanwhile
    services = np.where(world.up, minute.services_milli, 0.0)
    system = np.where(world.up, stage.system, 0.0)
    is_violated = (services + minute.batch_milli > stage.mark) & (services <= stage.mark)
    pending, placed = (world.table.with_status(status) for status in (Status.PENDING, Status.PLACED))
    gpus = _gpus(stage, placed)
    waiting = float(stage.source.gpu_milli[world.table.source[pending]].sum())
    counts = world.tick >= stage.scenario.warm_up_ticks
    lost_of = np.zeros(len(world.up))
    evicted_of = np.zeros(len(world.up), np.int64)
    for node, lost in meanwhile.lost:
        lost_of[node] += lost
        evicted_of[node] += 1
    capacity = np.where(world.up, stage.capacity, 0.0)
    shown = np.where(world.up, np.maximum(world.shown_milli, 0), 0)
    free = np.maximum(shown - world.requested_milli, 0.0)
    times, services_of = _response_times(stage, minute)
    slow, p99 = (np.nan, np.nan) if times is None else times.over(services_of)
    row = {
        "at_s": minutes.at_s,
        "capacity_milli": float(capacity.sum()),
        "services_milli": float((services - system).sum()),
        "system_milli": float(system.sum()),
        "batch_used_milli": float(minute.batch_milli.sum()),
        "batch_wanted_milli": float(minutes.batch_wanted_milli.sum()),
        "lent_milli": float(shown.sum()),
        "requested_milli": float(world.requested_milli.sum()),
        "room_milli": float(np.maximum(stage.mark - services, 0.0)[world.up].sum()),
        "arrived_milli_s": meanwhile.arrived_milli_s,
        "pending": len(pending),
        "running": len(placed),
        "gpu_milli": float(gpus.milli.sum()),
        "gpu_allocated_milli": float(gpus.allocated.sum()),
        "gpu_waiting_milli": waiting,
        "violated": int(is_violated.sum()),
        "evicted": len(meanwhile.lost),
        "wasted_milli_s": float(lost_of.sum()),
        "fragmentation": _fragmentation(free, stage.mean_request_milli),
        "slow": slow,
        "p99": p99,
    }
    for name, figure in row.items():
        recorded.series[name].append(figure)
    if not counts:
        return
    recorded.minutes[world.up] += 1
    recorded.violated += is_violated
    recorded.services += services
    recorded.batch += minute.batch_milli
    recorded.evicted += evicted_of
    for name, rows in stage.pool_rows.items():
        sums: PoolSums = recorded.sums[name]
        sums.minutes += 1
        sums.capacity += float(capacity[rows].sum())
        sums.services += float(services[rows].sum())
        sums.batch += float(minute.batch_milli[rows].sum())
        sums.wanted += float(minutes.batch_wanted_milli[rows].sum())
        sums.requested += float(world.requested_milli[rows].sum())
        sums.wasted_milli_s += float(lost_of[rows].sum())
        sums.evicted += int(evicted_of[rows].sum())
        sums.fragmentation += _fragmentation(free[rows], stage.mean_request_milli)
        if times is not None:
            sums.service_minutes += float(services_of[rows].sum())
            sums.slow += float(times.slow[rows] @ services_of[rows])
            sums.p99 += float(times.p99[rows] @ services_of[rows])
        sums.gpu += float(gpus.milli[rows].sum())
        sums.gpu_allocated += float(gpus.allocated[rows].sum())
        sums.gpu_waiting += waiting
        sums.moved += meanwhile.moved
        sums.decisions += meanwhile.decisions


class _Gpus(NamedTuple):
    """In thousandths of GPUs, by node."""

    milli: Floats
    allocated: Floats


def _gpus(stage: Stage, placed: Ints) -> _Gpus:
    world, count = stage.world, len(stage.world.up)
    if not stage.cluster.gpus:
        return _Gpus(np.zeros(count), np.zeros(count))
    table = world.table
    allocated = np.bincount(
        table.node[placed], weights=stage.source.gpu_milli[table.source[placed]], minlength=count
    ).astype(np.float64)
    return _Gpus(np.where(world.up, stage.gpu_milli, 0.0), allocated)


def _response_times(stage: Stage, minute: physics.Minute) -> tuple[ResponseTimes | None, Floats]:
    """Of services, by node, and how many each node has; none without a model."""
    world, settings = stage.world, stage.scenario.latency
    nodes = world.service_node[world.service_node >= 0]
    services_of: Floats = np.where(world.up, np.bincount(nodes, minlength=len(world.up)), 0).astype(np.float64)
    if stage.latency is None:
        return None, services_of
    return response_times(stage.latency, settings, minute.samples, minute.batch_samples, stage.capacity), services_of


def _fragmentation(free: Floats, request_milli: float) -> float:
    total = float(free.sum())
    return float(free[free < request_milli].sum()) / total if total else 0.0
