"""What is usual for a pod: a moving mean and variance of one signal, and whether a value is far above it.

Unusual values teach little: a neighbour that stays must not become the pod's normal within minutes. Yet they teach
something, so that a pod that changed for good (a new version, other requests) is not called slow for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LEARNT_AFTER: Final = 6
"""Windows: before that nothing is unusual."""
RATE: Final = 0.1
UNUSUAL_RATE: Final = 0.002
DEVIATIONS: Final = 3.0
TIMES: Final = 1.5
LEAST_SPREAD: Final = 0.1
"""Of the mean: a signal that never moved would make anything unusual."""


@dataclass(frozen=True, slots=True)
class Baseline:
    mean: float = 0.0
    variance: float = 0.0
    windows: int = 0

    @property
    def is_learnt(self) -> bool:
        return self.windows >= LEARNT_AFTER

    @property
    def spread(self) -> float:
        """Standard deviation, never nothing."""
        return max(float(self.variance**0.5), LEAST_SPREAD * self.mean)

    def is_unusual(self, value: float, least: float) -> bool:
        if not self.is_learnt or value < least:
            return False
        return value > self.mean + DEVIATIONS * self.spread and value > TIMES * self.mean

    def after(self, value: float, *, is_unusual: bool) -> Baseline:
        rate = UNUSUAL_RATE if is_unusual else max(RATE, 1 / (self.windows + 1))
        off = value - self.mean
        # Exponentially weighted, by Welford's step: the variance sees the mean before and after.
        mean = self.mean + rate * off
        variance = (1 - rate) * (self.variance + rate * off * off)
        return Baseline(mean, variance, self.windows + 1)
