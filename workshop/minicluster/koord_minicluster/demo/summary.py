"""The demo's results: utilisation with and without co-location, work done, evicted pods with reasons, violations.

Averages are over time, starting shortly after all services run: before that, the cluster is still being filled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from koord_minicluster.demo.ledger import ClusterSample, Ledger

LEAST_READY: Final = 0.95
"""Below this part of ready pods, services count as disturbed."""
SHORT: Final = 0.005
"""Services that get this part less than they want count as short of CPU."""
TOLD_S: Final = 10.0
"""Nodes report averages: this is the time until the averages reflect the running services."""
LONGEST_S: Final = 10.0
"""A look counts until the next one, but no longer: the machine may have slept."""


@dataclass(frozen=True, slots=True)
class Course:
    """The result of a run, as shares of all CPU and in core-hours."""

    seconds: float
    by_band: Mapping[str, float]
    batch_core_hours: float
    done: int

    @property
    def total(self) -> float:
        return sum(self.by_band.values())


@dataclass(frozen=True, slots=True)
class Summary:
    colocated: Course
    without: Course | None
    peak: float
    lent_cores: float
    held_back_cores: float
    moved: int
    evicted: Mapping[str, int]
    short_s: float
    "For how long services got less CPU than they wanted."
    unready_s: float
    "For how long too few of their pods were ready."

    @property
    def violations(self) -> list[str]:
        violations = []
        if self.short_s:
            violations.append(f"services got less CPU than they wanted for {self.short_s:.0f} s")
        if self.unready_s:
            violations.append(
                f"fewer than {LEAST_READY:.0%} of the services' pods were ready for {self.unready_s:.0f} s"
            )
        return violations


def steady(looks: Sequence[ClusterSample]) -> list[ClusterSample]:
    """When all services were running and nodes had reported usage. None if that was not reached."""
    ready_s = next(
        (sample.time_s for sample in looks if sample.services and sample.services_ready == sample.services), math.inf
    )
    return [look for look in looks if look.time_s >= ready_s + TOLD_S]


def course(looks: Sequence[ClusterSample], done: int) -> Course:
    lasted = _seconds(looks)
    whole = sum(seconds * look.capacity for look, seconds in lasted)
    bands = {band for look, _ in lasted for band in look.used}
    used = {band: sum(seconds * look.used.get(band, 0) for look, seconds in lasted) for band in bands}
    return Course(
        seconds=sum(seconds for _, seconds in lasted),
        by_band={band: amount / whole if whole else 0.0 for band, amount in sorted(used.items())},
        batch_core_hours=used.get("batch", 0.0) / 1000 / 3600,
        done=done,
    )


def summary(ledger: Ledger, without: Course | None = None) -> Summary:
    looks = steady(ledger.looks)
    lasted = _seconds(looks)

    def mean(amount: Callable[[ClusterSample], int]) -> float:
        seconds = sum(lasted_s for _, lasted_s in lasted)
        return sum(amount(look) * lasted_s for look, lasted_s in lasted) / seconds / 1000 if seconds else 0.0

    return Summary(
        colocated=course(looks, ledger.done),
        without=without,
        peak=max((look.total / look.capacity for look in looks if look.capacity), default=0.0),
        lent_cores=mean(lambda look: look.lent),
        held_back_cores=mean(lambda look: look.held_back),
        moved=ledger.moved,
        evicted=dict(ledger.evicted.most_common()),
        short_s=sum(lasted_s for look, lasted_s in lasted if look.services_short > SHORT * look.used.get("prod", 0)),
        unready_s=sum(lasted_s for look, lasted_s in lasted if look.services_ready < LEAST_READY * look.services),
    )


def _seconds(looks: Sequence[ClusterSample]) -> list[tuple[ClusterSample, float]]:
    """Each look with the time for which it stood."""
    return [(look, min(after.time_s - look.time_s, LONGEST_S)) for look, after in pairwise(looks)]
