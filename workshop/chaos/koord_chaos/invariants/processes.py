"""Processes of koord's components: ready again after a fault, and with bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from koord_chaos.invariants.invariant import Invariant

LEAST_SAMPLES: Final = 8
"""Fewer say nothing about growth."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """One fault, and what became of a component after it. `ready_s`: None if it did not become ready."""

    component: str
    fault: str
    ended_s: float
    ready_s: float | None
    within_s: float


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Resident memory of a component over time, from the process table."""

    component: str
    bytes_by_sample: Sequence[int]
    limit_bytes: int
    growth: float = 1.2
    "How many times the memory of the second quarter the last quarter may be."


def _slow_recovery(recovery: Recovery) -> Iterator[str]:
    if recovery.ready_s is None:
        yield f"{recovery.component} did not become ready after {recovery.fault}"
    elif (took_s := recovery.ready_s - recovery.ended_s) > recovery.within_s:
        limit = f"the limit is {recovery.within_s:g} s"
        yield f"{recovery.component} was ready {took_s:.1f} s after {recovery.fault}; {limit}"


def _excessive_memory(use: MemoryUse) -> Iterator[str]:
    most = max(use.bytes_by_sample, default=0)
    if most > use.limit_bytes:
        yield f"{use.component} used {most >> 20} MiB; the limit is {use.limit_bytes >> 20} MiB"
    count = len(use.bytes_by_sample)
    if count < LEAST_SAMPLES:
        return
    early = median(use.bytes_by_sample[count // 4 : count // 2])
    late = median(use.bytes_by_sample[count - count // 4 :])
    if late > early * use.growth:
        yield f"{use.component} grew from {int(early) >> 20} MiB to {int(late) >> 20} MiB"


RECOVERY: Final[tuple[Invariant[Recovery], ...]] = (
    Invariant("recovery", "Every component is ready again soon after a fault ends.", _slow_recovery),
)
MEMORY: Final[tuple[Invariant[MemoryUse], ...]] = (
    Invariant(
        "bounded-memory", "The memory of every component stays within a limit and does not grow.", _excessive_memory
    ),
)
