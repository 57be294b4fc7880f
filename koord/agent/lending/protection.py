"""The ceiling on what batch uses right now, and the margin that it keeps below the safety mark.

    rise      p99 of how far services rose above their mean of the last 30 s, by the minute
    margin    scale * max(rise, 2% of capacity);  in the first 2 h the rise counts as 10% of capacity at least
    scale     after each minute with batch:  clamp(scale + 0.05 * (violated - 0.007), 0.5, 3)
    ceiling   max(0, mark - margin - services' mean of the last 30 s)

A minute is violated if the node used more than the mark although services alone did not. In balance 0.7% of minutes
are, whatever the distribution of rises. A ceiling by a mean of 30 s costs less margin than one by the last sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from koord.agent.lending.minute import MINUTE_S, Capacity, Minute
from koord.api.stats.histogram import DecayingHistogram

REACTION_S: Final = 30.0
RISE_PART: Final = 0.99
LEAST_RISE: Final = 0.02
COLD_RISE: Final = 0.10
"""Both of capacity."""
COLD_MINUTES: Final = 120
VIOLATIONS: Final = 0.007
"""The share of minutes that is aimed at."""
SCALE_STEP: Final = 0.05
LEAST_SCALE: Final = 0.5
MOST_SCALE: Final = 3.0


def rise(times_s: Sequence[float], services_milli: Sequence[float], end_s: float) -> float | None:
    """Of the minute that ends there, from samples of that minute and of the 30 s before it; None without any that has
    one before it."""
    total, count, before, first = 0.0, 0, 0.0, 0
    for place, (at_s, milli) in enumerate(zip(times_s, services_milli, strict=True)):
        while times_s[first] < at_s - REACTION_S:
            before -= services_milli[first]
            first += 1
        if at_s > end_s - MINUTE_S and place > first:
            total += milli - before / (place - first)
            count += 1
        before += milli
    return total / count if count else None


def counted_rise(rises: DecayingHistogram, minutes: int, capacity: Capacity) -> float:
    """`minutes` of history."""
    least = COLD_RISE if minutes < COLD_MINUTES else LEAST_RISE
    return max(rises.percentile(RISE_PART), least * capacity.milli)


def is_violated(minute: Minute, capacity: Capacity) -> bool:
    """Services alone above the mark are no violation: no margin would have helped."""
    return minute.node_milli > capacity.mark_milli >= minute.services_milli


def scale_after(scale: float, violated: bool) -> float:
    return min(max(scale + SCALE_STEP * (violated - VIOLATIONS), LEAST_SCALE), MOST_SCALE)


def ceiling_milli(margin_milli: float, services_milli: float, capacity: Capacity) -> float:
    """`services_milli`: mean of the last 30 s."""
    return max(0.0, capacity.mark_milli - margin_milli - services_milli)
