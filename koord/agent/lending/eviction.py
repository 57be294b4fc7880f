"""Whom to evict when batch starves: pods that lose little and free much.

Batch starves if it got less than 40% of what it wanted in a moving mean of 15 minutes. Then pods go until 90% of what
the others want fits under the ceiling. The first to go has the smallest

    (core-seconds since its checkpoint + 2 min * request) / cores that it frees, not counting more than is needed

and 5 minutes of peace follow: what remains must show first what it gets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

STARVES: Final = 0.4
PATIENCE_MINUTES: Final = 15
FITS: Final = 0.9
PEACE_S: Final = 300.0
RESTART_S: Final = 120.0
"""What a start costs, in seconds of the pod's request."""


class Starving(NamedTuple):
    """A batch pod that may be evicted, or not."""

    uid: str
    request_milli: float
    wanted_milli: float
    "What it counts for."
    unsaved_milli_s: float
    "Milli-core-seconds of work since its checkpoint, or since its start."
    may_go: bool = True


def got_after(got_mean: float, got: float) -> float:
    """The moving mean after one minute more."""
    return got_mean + (got - got_mean) / PATIENCE_MINUTES


def starves(got_mean: float) -> bool:
    return got_mean < STARVES


def to_free(pods: Iterable[Starving], ceiling_milli: float) -> float:
    """What pods must free in all, so that 90% of what the others want fits."""
    return max(0.0, sum(pod.wanted_milli for pod in pods) - ceiling_milli / FITS)


def to_evict(pods: Iterable[Starving], ceiling_milli: float) -> list[Starving]:
    """In the order in which they go. Pods that want nothing free nothing."""
    listed = list(pods)
    needed = to_free(listed, ceiling_milli)
    left = [pod for pod in listed if pod.may_go and pod.wanted_milli > 0]
    chosen = []
    while needed > 0 and left:
        cheapest = min(left, key=lambda pod: (_cost(pod) / min(pod.wanted_milli, needed), pod.uid))
        left.remove(cheapest)
        chosen.append(cheapest)
        needed -= cheapest.wanted_milli
    return chosen


def _cost(pod: Starving) -> float:
    return pod.unsaved_milli_s + RESTART_S * pod.request_milli
