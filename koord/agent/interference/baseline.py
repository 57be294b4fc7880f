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
LEAST_SPREAD: Final = 0.2
"""Minimum spread, as a share of the rise that a signal needs: for a constant signal, any change would be unusual."""


def is_exceeded(value: float, mean: float, deviation: float, times: float = TIMES) -> bool:
    """Whether a value is above mean + 3 deviations, and above `times` the mean."""
    return value > mean + DEVIATIONS * _spread(mean, deviation, times) and value > times * mean


def _spread(mean: float, deviation: float, times: float) -> float:
    return max(deviation, LEAST_SPREAD * (times - 1) * mean)


@dataclass(frozen=True, slots=True)
class Baseline:
    mean: float = 0.0
    variance: float = 0.0
    windows: int = 0

    @property
    def is_learnt(self) -> bool:
        return self.windows >= LEARNT_AFTER

    def spread(self, times: float = TIMES) -> float:
        return _spread(self.mean, float(self.variance**0.5), times)

    def is_unusual(self, value: float, least: float, times: float = TIMES) -> bool:
        if not self.is_learnt or value < least:
            return False
        return is_exceeded(value, self.mean, float(self.variance**0.5), times)

    def after(self, value: float, *, is_unusual: bool) -> Baseline:
        rate = UNUSUAL_RATE if is_unusual else max(RATE, 1 / (self.windows + 1))
        off = value - self.mean
        # Exponentially weighted, by Welford's step: the variance sees the mean before and after.
        mean = self.mean + rate * off
        variance = (1 - rate) * (self.variance + rate * off * off)
        return Baseline(mean, variance, self.windows + 1)
