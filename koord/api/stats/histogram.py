"""A histogram in which old samples fade: how much of something is used, at the median, at p95, at most.

Buckets grow: bucket n begins at first * (growth^n - 1) / (growth - 1). A sample at time t weighs 2^((t - reference) /
half-life), and a percentile is the *end* of the bucket in which the summed weight reaches its part of the total. So an
answer is never too small, and at most 5% of itself plus one first bucket too large. Nothing used has its own bucket.

Used by the agent (peaks of pods, bands and the node) and by the manager (what workloads should request).
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

EPSILON: Final = 0.0001
"""A bucket with less than this part of a fresh sample is forgotten: after 13.3 half-lives."""
MOST_EXPONENT: Final = 100.0
"""Weights are scaled down before they leave what floats can hold."""
CHECKPOINT_MOST: Final = 10_000
"""The largest weight in a checkpoint; the others in proportion, as whole numbers."""
MOST_TOTAL: Final = 1e12
LAST_S: Final = 1e11
"""No histogram has more samples, and no clock shows a later second."""
LATE_S: Final = 3600.0
"""A sample that is older than the newest one by more than this shows that a clock was set back."""
ALMOST: Final = 1 - 1e-12
"""Sums of weights differ in their last bits by the order of adding."""


class HistogramError(ValueError):
    """A checkpoint that no histogram can have written."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """Where buckets begin and end. Two histograms can be merged if theirs are the same."""

    first: float
    most: float
    growth: float = 1.05
    ends: tuple[float, ...] = field(init=False, repr=False, compare=False)
    "By slot. Slot 0 is for nothing at all, slot n + 1 is bucket n. The last one, which is open, says where it begins."

    def __post_init__(self) -> None:
        step = self.growth - 1
        count = math.ceil(math.log(self.most * step / self.first + 1, self.growth)) + 1
        starts = [self.first * (self.growth**n - 1) / step for n in range(count)]
        object.__setattr__(self, "ends", (0.0, *starts[1:], starts[-1]))

    def slot(self, value: float) -> int:
        if value <= 0:
            return 0
        if value < self.first:
            return 1
        bucket = int(math.log(value * (self.growth - 1) / self.first + 1, self.growth))
        return min(bucket + 1, len(self.ends) - 1)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A histogram in the form for a file or an object."""

    newest_s: float
    total: float
    "In fresh samples: what all weights come to if a sample at `newest_s` weighs 1."
    weights: Mapping[int, int]
    "By slot, the largest as 10000."


class DecayingHistogram:
    __slots__ = ("_reference_s", "_weights", "buckets", "half_life_s", "newest_s")

    def __init__(self, buckets: Buckets, half_life_s: float) -> None:
        self.buckets, self.half_life_s = buckets, half_life_s
        self.newest_s: float | None = None
        "When the newest sample was taken; None without any."
        self._reference_s = 0.0
        self._weights = array("d", bytes(8 * len(buckets.ends)))

    def add(self, value: float, at_s: float, weight: float = 1.0) -> None:
        """What is no amount (negative, infinite, not a number) is no sample."""
        if not (math.isfinite(value) and math.isfinite(at_s) and value >= 0 and weight > 0):
            return
        self._come_to(at_s)
        self._weights[self.buckets.slot(value)] += weight * self._fresh(at_s)

    def percentile(self, part: float) -> float:
        """The end of the bucket in which that part of all samples is reached; 0 without samples."""
        if self.newest_s is None:
            return 0.0
        least = EPSILON * self._fresh(self.newest_s)
        total = sum(weight for weight in self._weights if weight >= least)
        wanted, reached, last = part * total * ALMOST, 0.0, 0
        for slot, weight in enumerate(self._weights):
            if weight >= least:
                reached, last = reached + weight, slot
                if reached >= wanted:
                    break
        return self.buckets.ends[last]

    @property
    def most(self) -> float:
        """The end of the highest bucket that is not forgotten yet."""
        return self.percentile(1.0)

    @property
    def total(self) -> float:
        """How many fresh samples its weights come to."""
        return 0.0 if self.newest_s is None else sum(self._weights) / self._fresh(self.newest_s)

    def stand_still(self, seconds: float) -> None:
        """Time in which nothing was measured makes no sample older: else the first one after it would count alone."""
        if self.newest_s is not None:
            self.newest_s += seconds
            self._reference_s += seconds

    def copy(self) -> DecayingHistogram:
        made = DecayingHistogram(self.buckets, self.half_life_s)
        made.newest_s, made._reference_s, made._weights = self.newest_s, self._reference_s, self._weights[:]
        return made

    def merge(self, other: DecayingHistogram) -> None:
        """Adds the samples of another one, each with its own age."""
        if other.buckets != self.buckets or other.half_life_s != self.half_life_s:
            raise ValueError("histograms with other buckets or another half-life cannot be merged")
        if other.newest_s is None:
            return
        if self.newest_s is None or other.newest_s > self.newest_s:
            self._come_to(other.newest_s)
        scale = 2.0 ** ((other._reference_s - self._reference_s) / self.half_life_s)
        for slot, weight in enumerate(other._weights):
            self._weights[slot] += weight * scale

    def checkpoint(self) -> Checkpoint | None:
        """None while it is empty. Weights under a twenty-thousandth of the largest are left out."""
        largest = max(self._weights)
        if self.newest_s is None or largest <= 0:
            return None
        scaled = {slot: round(weight / largest * CHECKPOINT_MOST) for slot, weight in enumerate(self._weights)}
        return Checkpoint(self.newest_s, self.total, {slot: weight for slot, weight in scaled.items() if weight})

    @classmethod
    def restored(cls, kept: Checkpoint | None, buckets: Buckets, half_life_s: float) -> DecayingHistogram:
        """Raises HistogramError."""
        made = cls(buckets, half_life_s)
        if kept is None:
            return made
        total = sum(kept.weights.values())
        slots = range(len(buckets.ends))
        if not all(slot in slots and 0 < weight <= CHECKPOINT_MOST for slot, weight in kept.weights.items()):
            raise HistogramError(f"weights must be 1 to {CHECKPOINT_MOST}, in the slots 0 to {slots[-1]}")
        if not (total and 0 <= kept.newest_s < LAST_S and 0 < kept.total < MOST_TOTAL):
            raise HistogramError("newest_s must be a time, total a positive number, and there must be weights")
        made.newest_s = made._reference_s = kept.newest_s
        for slot, weight in kept.weights.items():
            made._weights[slot] = weight * kept.total / total
        return made

    def _fresh(self, at_s: float) -> float:
        """The weight of a sample."""
        return float(2.0 ** ((at_s - self._reference_s) / self.half_life_s))

    def _come_to(self, at_s: float) -> None:
        """Lets time pass until `at_s`. A clock that is set back takes along what was sampled: it is no older."""
        if self.newest_s is None:
            self.newest_s = self._reference_s = at_s
        elif at_s < self.newest_s - LATE_S:
            self._reference_s -= self.newest_s - at_s
            self.newest_s = at_s
        self.newest_s = max(self.newest_s, at_s)
        exponent = (at_s - self._reference_s) / self.half_life_s
        if exponent > MOST_EXPONENT:
            scale = 2.0**-exponent
            for slot, weight in enumerate(self._weights):
                self._weights[slot] = weight * scale
            self._reference_s = at_s
