"""A small cluster, and a policy that lends a fixed share: for tests of the loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from koord.sim.cluster import Cluster
from koord.sim.columns import BatchTasks, ServiceCurves
from koord.sim.minutes import Floats, Ints, NodeColumns, NodeMinutes
from koord.sim.policies.policy import Band, Future, Lent, Settings
from koord.sim.scenario import Scenario, from_data

GIB = 1 << 30


def tasks(
    count: int,
    *,
    cores: float = 2.0,
    minutes: int = 30,
    every_s: float = 60.0,
    queue: Sequence[str] | None = None,
    gang: Sequence[str] | None = None,
    use: float = 0.5,
) -> BatchTasks:
    """Tasks of one size that come one after the other; each uses half of what it requests, and a little more later."""
    steps = max(1, minutes // 5)
    values = cores * 1000 * use * (1 + 0.2 * (np.arange(count * steps) % steps) / steps)
    return BatchTasks(
        ids=tuple(f"task-{number}" for number in range(count)),
        arrival_s=(np.arange(count) * every_s).astype(np.float64),
        request_cpu_milli=np.full(count, round(cores * 1000), np.int64),
        request_memory_bytes=np.full(count, GIB, np.int64),
        step_s=300.0,
        offset=np.arange(count + 1) * steps,
        use_milli=values.astype(np.float32),
        queue=None if queue is None else tuple(queue),
        gang=None if gang is None else tuple(gang),
    )


def services(nodes: int, *, per_node: int = 4, hours: float = 2, cores: float = 2.0) -> ServiceCurves:
    """Curves with a wave, each at another phase."""
    count, steps = nodes * per_node, round(hours * 12)
    phase = np.arange(count)[:, None]
    wave = 1 + 0.5 * np.sin(2 * np.pi * (np.arange(steps) / 24 + phase / 7))
    return ServiceCurves(
        ids=tuple(f"service-{number}" for number in range(count)),
        step_s=300.0,
        cpu_milli=(wave * cores * 500).astype(np.float32),
        memory_bytes=np.full((count, steps), 2 * GIB, np.float32),
        request_cpu_milli=np.full(count, round(cores * 1000), np.int64),
        request_memory_bytes=np.full(count, 4 * GIB, np.int64),
    )


def nodes(count: int, *, cores: int = 16, pools: Sequence[str] = ("",)) -> NodeColumns:
    return NodeColumns(
        tuple(f"node-{number}" for number in range(count)),
        np.full(count, cores * 1000, np.int64),
        np.full(count, cores * 4 * GIB, np.int64),
        tuple(pools[number % len(pools)] for number in range(count)),
    )


def cluster(
    count: int = 3,
    *,
    batch: BatchTasks | None = None,
    curves: ServiceCurves | None = None,
    placed: bool = True,
    pools: Sequence[str] = ("",),
    cores: int = 16,
) -> Cluster:
    curves = services(count) if curves is None else curves
    per_node = len(curves.ids) // count
    node = np.arange(len(curves.ids)) // max(per_node, 1) if placed else np.full(len(curves.ids), -1)
    return Cluster(nodes(count, cores=cores, pools=pools), curves, node.astype(np.int64), batch or tasks(40))


def scenario(**given: Any) -> Scenario:
    return from_data({"name": "small", "duration": "2h", **given}, "small")


@dataclass(frozen=True, slots=True)
class FixedMemory:
    capacity: Floats
    capacity_bytes: Floats
    mark: Floats


@dataclass(frozen=True, slots=True)
class Fixed:
    """Lends a share of each node, whatever happens there."""

    share: float = 0.5
    name: str = "fixed"
    summary: str = "a share of each node"
    band: Band = "batch"
    knows_now: bool = False
    guards: bool = True
    "Whether batch has a ceiling."
    starves: bool = False
    "Whether every pod that got less than it wanted is evicted."

    def begin(self, nodes: NodeColumns, settings: Settings) -> FixedMemory:
        capacity = nodes.cpu_milli.astype(np.float64)
        return FixedMemory(capacity, nodes.memory_bytes.astype(np.float64), capacity * settings.mark_percent / 100)

    def after_minute(self, memory: FixedMemory, minutes: NodeMinutes) -> FixedMemory:
        return memory

    def ceiling(self, memory: FixedMemory, services_milli: Floats) -> Floats:
        if not self.guards:
            return np.full_like(services_milli, np.inf)
        return np.maximum(0.0, memory.mark - services_milli)

    def lent(self, memory: FixedMemory, minutes: NodeMinutes, future: Future) -> Lent | None:
        return Lent(memory.capacity * self.share, memory.capacity_bytes * self.share)

    def evictions(self, memory: FixedMemory, minutes: NodeMinutes, ceiling_milli: Floats) -> tuple[Ints, FixedMemory]:
        if not self.starves:
            return np.zeros(0, np.int64), memory
        return np.flatnonzero(minutes.pods.used_milli < 0.9 * minutes.pods.wanted_milli), memory
