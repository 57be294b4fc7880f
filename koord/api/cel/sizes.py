"""Ranges of sizes and costs, from the least to the most that is possible, none above the largest number there is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

LARGEST: Final = 2**64 - 1


def _product(one: int, other: int) -> int:
    return min(one * other, LARGEST)


def _scaled(number: int, factor: float) -> int:
    if number > 0 and factor > 0 and float(number) > float(LARGEST) / factor:
        return LARGEST
    ceiling = math.ceil(float(number) * factor)
    return LARGEST if ceiling >= 2**64 else ceiling


@dataclass(frozen=True, slots=True)
class Range:
    """Of sizes, or of costs."""

    low: int
    high: int

    def __add__(self, other: Range) -> Range:
        return Range(min(self.low + other.low, LARGEST), min(self.high + other.high, LARGEST))

    def __mul__(self, other: Range) -> Range:
        return Range(_product(self.low, other.low), _product(self.high, other.high))

    def __or__(self, other: Range) -> Range:
        """Both."""
        return Range(min(self.low, other.low), max(self.high, other.high))

    def times(self, factor: float) -> Range:
        """Rounded up."""
        return Range(_scaled(self.low, factor), _scaled(self.high, factor))


def exactly(number: int) -> Range:
    return Range(number, number)


NOTHING: Final = exactly(0)
ONE: Final = exactly(1)
UNKNOWN: Final = Range(0, LARGEST)
EMPTY_UNION: Final = Range(LARGEST, 0)
"""What any range can be joined to without a change."""
