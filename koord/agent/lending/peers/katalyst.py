"""Katalyst, ByteDance's: a share pool that follows an estimate, and the headroom of what it leaves to reclaim.

    estimate     use of services * 1.25
    share pool   estimate + reserved for allocation, in whole pairs of CPUs; by at most 10 cores up in a step of 5 s,
                 and 2 down, not within 30 s
    reclaim      all other CPUs, never below what is reserved for it: the CPUs that batch runs on
    headroom     u = use of reclaim / reclaim;  u < 0.6: last + reclaim * (0.6 - u), between reclaim and 1.2 * reclaim,
                 else reclaim.         reclaim 20, use 5, last 20 -> 24
    reported     mean of 2 minutes; changes below 0.3 cores are left out, others move by at most 4 cores in 30 s

If batch pods request more than 5 times the reclaim pool for over 300 s, the largest go until they do not. Reserved are
4 cores each, on small nodes an eighth of the node; a pair is no larger than that either. A node may report 0: Katalyst
itself never goes below 4 cores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from koord.agent.lending.peers.policy import BatchPod, Line, Lines, Load, PeerNode

ESTIMATE: Final = 1.25
RESERVED_MILLI: Final = 4000.0
RESERVED_PART: Final = 8
PAIR_MILLI: Final = 2000.0
UP_MILLI: Final = 10_000.0
DOWN_MILLI: Final = 2000.0
STEPS_UP: Final = 12
"""In a minute, like the next one."""
STEPS_DOWN: Final = 2
USED_PART: Final = 0.6
MOST_HEADROOM: Final = 1.2
LEAST_CHANGE_MILLI: Final = 300.0
MOST_CHANGE_MILLI: Final = 8000.0
"""In a minute."""
MEMORY_ESTIMATE: Final = 1.1
MEMORY_RESERVED: Final = 5 * 1024.0**3
TOLERANCE: Final = 5.0
TOLERATED_MINUTES: Final = 5


@dataclass(frozen=True, slots=True)
class KatalystMemory:
    minutes: int = 0
    share_milli: float = 0.0
    services_milli: float = 0.0
    services_bytes: float = 0.0
    reclaim_used_milli: float = 0.0
    requested_milli: float = 0.0
    headroom_milli: float = 0.0
    last_milli: float = 0.0
    "Headroom of the minute before."
    reported_milli: float = 0.0
    suppressed_minutes: int = 0
    "In a row, in which batch pods requested more than is tolerated."


@dataclass(frozen=True, slots=True)
class Katalyst:
    name: str = "katalyst"
    summary: str = "ByteDance's: what a regulated share pool leaves, by the use of what is reclaimed"
    memory_type: type[KatalystMemory] = KatalystMemory

    def after_minute(self, memory: KatalystMemory, load: Load, node: PeerNode) -> KatalystMemory:
        pool = regulated(memory.share_milli if memory.minutes else None, load.services_milli, node)
        supply = reclaim_milli(pool, node)
        headroom = headroom_milli(memory.headroom_milli if memory.minutes else supply, supply, load.batch_milli, node)
        mean = (headroom + memory.headroom_milli) / 2 if memory.minutes else headroom
        is_suppressed = load.batch_request_milli > TOLERANCE * supply
        return KatalystMemory(
            minutes=memory.minutes + 1,
            share_milli=pool,
            services_milli=load.services_milli,
            services_bytes=load.services_memory_bytes,
            reclaim_used_milli=load.batch_milli,
            requested_milli=load.batch_request_milli,
            headroom_milli=headroom,
            last_milli=memory.headroom_milli,
            reported_milli=reported(memory.reported_milli if memory.minutes else None, mean),
            suppressed_minutes=memory.suppressed_minutes + 1 if is_suppressed else 0,
        )

    def cpu(self, memory: KatalystMemory, node: PeerNode) -> Lines:
        supply = reclaim_milli(memory.share_milli, node)
        used = memory.reclaim_used_milli / supply if supply else 1.0
        reclaim = f"reclaim pool {supply:.0f}, {used:.0%} used"
        return (
            *self._pools(memory, memory.share_milli, node),
            Line("becomes", "headroom", memory.headroom_milli, reclaim),
            Line("becomes", "reported", memory.reported_milli, "mean of 2 minutes; at most 4 cores in 30 s"),
        )

    def memory_bytes(self, memory: KatalystMemory, node: PeerNode) -> Lines:
        percent = 100.0 if node.memory_percent is None else node.memory_percent
        reserved = min(MEMORY_RESERVED, node.memory_bytes / RESERVED_PART)
        estimate = memory.services_bytes * MEMORY_ESTIMATE
        return (
            Line("start", "upper", node.memory_bytes * percent / 100, f"{percent:g}% of {node.memory_bytes:.0f}"),
            Line("minus", "reserved", reserved, "for allocation"),
            Line("minus", "estimate", estimate, f"{memory.services_bytes:.0f} used by services, x {MEMORY_ESTIMATE}"),
            Line("atLeast", "nothing", 0.0),
        )

    def box(self, memory: KatalystMemory, services_milli: float, node: PeerNode) -> Lines:
        """The pool grows at once, also between two minutes; it shrinks with the minute."""
        pool = memory.share_milli if memory.minutes else required(services_milli, node)
        if required(services_milli, node) > pool:
            pool = min(required(services_milli, node), pool + UP_MILLI * STEPS_UP)
        return self._pools(memory, pool, node)

    def why_evict(self, memory: KatalystMemory, node: PeerNode) -> str:
        if memory.suppressed_minutes <= TOLERATED_MINUTES:
            return ""
        supply = reclaim_milli(memory.share_milli, node)
        return (
            f"batch pods request {memory.requested_milli:.0f}m, more than {TOLERANCE:g} times the reclaim pool"
            f" of {supply:.0f}m, for {memory.suppressed_minutes} minutes"
        )

    def to_evict(
        self, memory: KatalystMemory, pods: Sequence[BatchPod], node: PeerNode
    ) -> tuple[Sequence[str], KatalystMemory]:
        supply = reclaim_milli(memory.share_milli, node)
        requested = memory.requested_milli
        leaving: list[str] = []
        for pod in sorted(pods, key=lambda pod: (-pod.request_milli, pod.uid)):
            if requested <= TOLERANCE * supply:
                break
            leaving.append(pod.uid)
            requested -= pod.request_milli
        return leaving, replace(memory, suppressed_minutes=0) if leaving else memory

    def _pools(self, memory: KatalystMemory, pool: float, node: PeerNode) -> Lines:
        percent = 100.0 if node.cpu_percent is None else node.cpu_percent
        return (
            Line("start", "cpus", node.cpu_milli * percent / 100, f"{percent:g}% of {node.cpu_milli:.0f}"),
            Line("minus", "sharePool", pool, "regulated: services x 1.25 and what is reserved for allocation"),
            Line("atLeast", "reserved", _reserved(node), "for reclaim"),
        )


def required(services_milli: float, node: PeerNode) -> float:
    """What the share pool should have: whole pairs of CPUs."""
    wanted = services_milli * ESTIMATE + _reserved(node)
    pair = min(PAIR_MILLI, node.cpu_milli / RESERVED_PART)
    return min(math.ceil(wanted / pair) * pair, node.cpu_milli)


def regulated(before: float | None, services_milli: float, node: PeerNode) -> float:
    """The share pool after a minute."""
    wanted = required(services_milli, node)
    if before is None:
        return wanted
    return min(max(wanted, before - DOWN_MILLI * STEPS_DOWN), before + UP_MILLI * STEPS_UP)


def reclaim_milli(share_milli: float, node: PeerNode) -> float:
    percent = 100.0 if node.cpu_percent is None else node.cpu_percent
    return max(node.cpu_milli * percent / 100 - share_milli, _reserved(node))


def headroom_milli(last: float, supply: float, used: float, node: PeerNode) -> float:
    part = used / supply if supply else 1.0
    if part >= USED_PART:
        return supply
    return min(max(last + supply * (USED_PART - part), supply), MOST_HEADROOM * supply, node.cpu_milli)


def reported(before: float | None, mean: float) -> float:
    if before is None:
        return mean
    change = mean - before
    if abs(change) < LEAST_CHANGE_MILLI:
        return before
    return before + min(max(change, -MOST_CHANGE_MILLI), MOST_CHANGE_MILLI)


def _reserved(node: PeerNode) -> float:
    return min(RESERVED_MILLI, node.cpu_milli / RESERVED_PART)


POLICY: Final = Katalyst()
