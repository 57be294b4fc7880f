"""What the containers of one workload used, and what they should request.

    CPU     p95 of all samples of all pods, x 1.15
    memory  the highest peak of the last days, x 1.15: one sample an hour, the highest of all pods

A container that was killed for memory counts as if it had used max(m + 100 MiB, 1.2 m) of its limit m. A target
needs 24 hours with samples; only hours with samples make older samples fade. Each finished hour is held against the
target that it began with, so that a recommendation carries its own error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from koord.api.stats.histogram import Buckets, Checkpoint, DecayingHistogram

CPU_BUCKETS: Final = Buckets(first=25, most=1_024_000)
MEMORY_BUCKETS: Final = Buckets(first=5 << 20, most=2 << 40)
HALF_LIFE_S: Final = 24 * 3600.0
MARGIN: Final = 1.15
CPU_TARGET: Final = 0.95
LEAST_HOURS: Final = 24
SURE_HOURS: Final = 7 * 24
"""Hours after which more history does not improve a recommendation."""
HOUR_S: Final = 3600
LAST_HOUR: Final = 1 << 32
"""No clock shows a later one."""
MOST_HOURS: Final = 1_000_000
MOST_BYTES: Final = (1 << 63) - 1
MIB: Final = 1 << 20
OOM_MORE_BYTES: Final = 100 * MIB
OOM_MORE_PERCENT: Final = 120


class Amounts(NamedTuple):
    cpu_milli: int
    memory_bytes: int


class ContainerTarget(NamedTuple):
    """What one container should request."""

    target: Amounts
    lower: Amounts
    "Half of the time it uses no more than this: with less it is slowed down or killed."
    upper: Amounts
    "More than this is wasted. Wide while the history is short."
    confidence: int
    "Percent: 100 after a week."
    hours: int
    "With samples."
    judged_hours: int
    under_hours: int
    "Of these, hours in which it used more CPU, on average, or more memory than the target."

    def at_most(self, largest: Amounts) -> ContainerTarget:
        """A pod that requests more than the largest node has runs nowhere."""
        target, lower, upper = (
            Amounts(*map(min, amounts, largest)) for amounts in (self.target, self.lower, self.upper)
        )
        return self._replace(target=target, lower=lower, upper=upper)


class KeptContainer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A container's history as the object keeps it."""

    cpu: Checkpoint | None = None
    memory: Checkpoint | None = None
    hours: int = 0
    hour: int = 0
    peak: int = 0
    judged: int = 0
    under: int = 0
    oom_s: float = 0.0
    killed: int = 0


@dataclass(slots=True)
class ContainerHistory:
    cpu: DecayingHistogram
    memory: DecayingHistogram
    hours: int = 0
    "That are over and had samples."
    hour: int = 0
    "Since the epoch, the one that samples belong to; 0 before the first."
    peak_bytes: int = 0
    "Highest memory that was measured in that hour."
    killed_bytes: int = 0
    "What kills in that hour, or before the first sample, count as."
    judged_hours: int = 0
    under_hours: int = 0
    oom_s: float = 0.0
    "When the last kill happened that was counted."
    _cpu_sum: float = 0.0
    _samples: int = 0
    _goal: Amounts | None = None
    "The target that the hour began with."

    @classmethod
    def new(cls) -> ContainerHistory:
        return cls(DecayingHistogram(CPU_BUCKETS, HALF_LIFE_S), DecayingHistogram(MEMORY_BUCKETS, HALF_LIFE_S))

    def add(self, cpu_milli: int, memory_bytes: int, at_s: float) -> None:
        """One sample of one pod."""
        if cpu_milli < 0 or memory_bytes < 0:
            return
        self._begin(int(at_s // HOUR_S))
        self.cpu.add(cpu_milli, at_s)
        self.peak_bytes = max(self.peak_bytes, memory_bytes)
        self._cpu_sum += cpu_milli
        self._samples += 1

    def was_killed(self, limit_bytes: int, at_s: float) -> None:
        """For memory. Its need is unknown, but more than its limit.

        A kill counts once. More of them at the same limit say nothing new: a container that cannot start is killed
        each minute.
        """
        if at_s <= self.oom_s:
            return
        self.oom_s = at_s
        before = max(limit_bytes, self.peak_bytes)
        self.killed_bytes = max(self.killed_bytes, before + OOM_MORE_BYTES, before * OOM_MORE_PERCENT // 100)

    @property
    def _peak(self) -> int:
        return max(self.peak_bytes, self.killed_bytes)

    def recommended(self) -> ContainerTarget | None:
        """None while the history is too short."""
        if self.hours < LEAST_HOURS:
            return None
        peak_bytes = max(self.memory.most, self._peak)
        widened = 1 + LEAST_HOURS / self.hours
        return ContainerTarget(
            _requests(self.cpu.percentile(CPU_TARGET), peak_bytes),
            _requests(self.cpu.percentile(0.5), min(self.memory.percentile(0.5), peak_bytes)),
            _requests(self.cpu.most * widened, peak_bytes * widened),
            min(100, self.hours * 100 // SURE_HOURS),
            self.hours,
            self.judged_hours,
            self.under_hours,
        )

    def kept(self) -> KeptContainer:
        return KeptContainer(
            self.cpu.checkpoint(),
            self.memory.checkpoint(),
            self.hours,
            self.hour,
            self.peak_bytes,
            self.judged_hours,
            self.under_hours,
            self.oom_s,
            self.killed_bytes,
        )

    @classmethod
    def restored(cls, kept: KeptContainer) -> ContainerHistory:
        """Raises HistogramError. The hour under way is not judged: what was seen of it is not all kept."""
        made = cls(
            DecayingHistogram.restored(kept.cpu, CPU_BUCKETS, HALF_LIFE_S),
            DecayingHistogram.restored(kept.memory, MEMORY_BUCKETS, HALF_LIFE_S),
            _hours(kept.hours) if kept.cpu is not None and kept.memory is not None else 0,
            kept.hour if 0 < kept.hour < LAST_HOUR else 0,
            min(max(kept.peak, 0), MOST_BYTES),
            min(max(kept.killed, 0), MOST_BYTES),
            _hours(kept.judged),
            min(_hours(kept.under), _hours(kept.judged)),
        )
        made.oom_s = kept.oom_s if math.isfinite(kept.oom_s) else 0.0
        return made

    def _begin(self, hour: int) -> None:
        """Closes the hour before, where this sample is of another one. Time that goes back is no further hour."""
        if hour in (self.hour, self.hour - 1):
            return
        if not self.hour:
            self.hour = hour
            return
        if self._samples or self._peak:
            self.memory.add(self._peak, (self.hour + 1) * HOUR_S)
        away_s = (hour - self.hour - 1) * HOUR_S
        if away_s > 0:
            self.cpu.stand_still(away_s)
            self.memory.stand_still(away_s)
        if self._goal is not None and self._samples:
            self.judged_hours += 1
            mean = self._cpu_sum / self._samples
            self.under_hours += mean > self._goal.cpu_milli or self._peak > self._goal.memory_bytes
        self.hours += self.hour < hour
        self.hour, self.peak_bytes, self.killed_bytes, self._cpu_sum, self._samples = hour, 0, 0, 0.0, 0
        recommended = self.recommended()
        self._goal = None if recommended is None else recommended.target


def _hours(kept: int) -> int:
    return min(max(kept, 0), MOST_HOURS)


def _requests(cpu_milli: float, memory_bytes: float) -> Amounts:
    """With the margin, in whole milli-cores and MiB, rounded up. Whoever used nothing so far still gets the smallest
    amounts that are told apart: a request of 0 would promise nothing at all."""
    cpu_milli, memory_bytes = max(cpu_milli, CPU_BUCKETS.first), max(memory_bytes, MEMORY_BUCKETS.first)
    return Amounts(math.ceil(cpu_milli * MARGIN), math.ceil(memory_bytes * MARGIN / MIB) * MIB)
