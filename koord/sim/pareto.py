"""Which of many settings are worth considering: those that no other setting beats on both counts.

More work is better, fewer violations are better. A setting is on the front if no other one does at least as much work
with at most as many violations, and is better on one of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Point: TypeAlias = tuple[float, float]
"""Work done, and share of minutes above the mark."""


def front(points: Sequence[Point]) -> tuple[int, ...]:
    """Indexes of the points on the front, by violations. Equal points are all on it."""
    ordered = sorted(range(len(points)), key=lambda i: (points[i][1], -points[i][0]))
    chosen: list[int] = []
    for i in ordered:
        work, violations = points[i]
        if not chosen or work > points[chosen[-1]][0] or points[chosen[-1]] == (work, violations):
            chosen.append(i)
    return tuple(chosen)
