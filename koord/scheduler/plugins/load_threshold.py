"""What a limit on usage comes to: the largest load that is, rounded, not above a percentage of a capacity."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

UNCHECKED: Final = 1 << 62
"""The ceiling where there is no limit."""
CLOSED: Final = -(1 << 61)
"""The ceiling of a node that takes no pods, because it has not reported for too long."""


@lru_cache(maxsize=4096)
def ceiling(percent: int, capacity: int) -> int:
    if percent <= 0 or capacity <= 0:
        return UNCHECKED
    load = int((percent + 0.5) / 100 * capacity)
    while rounded(load / capacity * 100) > percent:
        load -= 1
    while rounded((load + 1) / capacity * 100) <= percent:
        load += 1
    return load


def needed_percent(load: int, capacity: int) -> int:
    """The lowest limit that lets a load through."""
    return max(1, rounded(load / capacity * 100))


def rounded(x: float) -> int:
    """To the nearest integer, halves away from zero."""
    whole = int(x)
    return whole + (0 if abs(x - whole) < 0.5 else 1 if x > 0 else -1)
