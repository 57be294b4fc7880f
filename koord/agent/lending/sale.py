"""What the node is good for: the use of batch that it sells, what it oversells, the stable part, and memory.

    amount   max(0, mark - margin - services' mean of the last 60 minutes + more)
    more     after each minute with batch:  batch got less than 90% of what it wanted: less by 0.45% of capacity;
             else, if its pods count for more than 90% of the amount: more by 0.05%.  Between 0 and 25% of capacity
    stable   max(0, mark - margin - p95 of services' use), at most the amount
    memory   95% of capacity - highest use of services in 24 h - 5% of capacity

In balance batch is a little short in 10% of minutes. CPU is soft: batch that is held back is slow, not dead. Memory is
hard, so it is not sold by use.
"""

from __future__ import annotations

from typing import Final

from koord.agent.lending.minute import Capacity

SHORT: Final = 0.9
"""Batch that got less of what it wanted was short."""
NEARLY_ALL: Final = 0.9
SHORT_MINUTES: Final = 0.1
"""The share of minutes that is aimed at."""
STEP: Final = 0.005
MOST_MORE: Final = 0.25
"""Both of capacity."""
STABLE_PART: Final = 0.95
MEMORY_MARK: Final = 0.95
MEMORY_MARGIN: Final = 0.05


def amount_milli(margin_milli: float, services_hour_milli: float, more_milli: float, capacity: Capacity) -> float:
    return max(0.0, capacity.mark_milli - margin_milli - services_hour_milli + more_milli)


def more_after(more_milli: float, got: float, counted_milli: float, amount_milli: float, capacity: Capacity) -> float:
    step = STEP * capacity.milli
    if got < SHORT:
        more_milli -= (1 - SHORT_MINUTES) * step
    elif counted_milli > NEARLY_ALL * amount_milli:
        more_milli += SHORT_MINUTES * step
    return min(max(more_milli, 0.0), MOST_MORE * capacity.milli)


def stable_milli(margin_milli: float, services_p95_milli: float, amount_milli: float, capacity: Capacity) -> float:
    return min(max(0.0, capacity.mark_milli - margin_milli - services_p95_milli), amount_milli)


def batch_memory_bytes(capacity_bytes: float, services_most_bytes: float) -> float:
    """`services_most_bytes`: the highest use of services in the last 24 h."""
    return max(0.0, MEMORY_MARK * capacity_bytes - services_most_bytes - MEMORY_MARGIN * capacity_bytes)
