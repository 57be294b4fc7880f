"""How sure is a mean over a few seeds, and is one policy really better than another?

Runs with the same seed meet the same load, so policies are compared by their differences within a seed: what a seed
does to both of them cancels. The interval is Student's, for n values with mean m and standard deviation s:

    m +- t(confidence, n - 1) * s / sqrt(n)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

CONFIDENCE: Final = 0.95
_TINY: Final = 1e-300
_STEPS: Final = 200


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and where the true mean lies with the given confidence."""

    mean: float
    low: float
    high: float
    count: int

    @property
    def half_width(self) -> float:
        """Infinite for a single value, which says nothing about its spread."""
        return self.high - self.mean

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The mean of the values with its interval. At least one value is needed."""
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return Interval(mean, -math.inf, math.inf, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half = student(confidence, count - 1) * math.sqrt(variance / count)
    return Interval(mean, mean - half, mean + half, count)


def paired(values: Sequence[float], baseline: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The mean difference to the baseline, seed by seed."""
    return interval([value - base for value, base in zip(values, baseline, strict=True)], confidence)


@cache
def student(confidence: float, freedom: int) -> float:
    """The t that Student's distribution exceeds, on both sides together, with probability 1 - confidence."""
    low, high = 0.0, 1.0
    while _within(high, freedom) < confidence:
        high *= 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _within(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return high


def _within(t: float, freedom: int) -> float:
    """The probability that Student's distribution lies between -t and t."""
    return 1 - _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction."""
    if x in (0.0, 1.0):
        return x
    if x > (a + 1) / (a + b + 2):
        # The fraction converges fast only on this side; the other one follows by symmetry.
        return 1 - _incomplete_beta(b, a, 1 - x)
    factor = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    return factor * _fraction(a, b, x) / a


def _fraction(a: float, b: float, x: float) -> float:
    """Lentz's method: numerator and denominator advance together, and neither reaches zero."""
    numerator, denominator = 1.0, _inverse(1 - (a + b) * x / (a + 1))
    value = denominator
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = value
        for term in (even, odd):
            denominator = _inverse(1 + term * denominator)
            numerator = 1 + term / numerator
            value *= numerator * denominator
        if abs(value - before) <= 1e-15 * abs(value):
            break
    return value


def _inverse(value: float) -> float:
    return 1 / (value if abs(value) > _TINY else _TINY)
