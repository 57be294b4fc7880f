"""Who suffers: against its own usual (vertically), and against its replicas elsewhere (horizontally).

Above mean + 3 deviations and above 1.5 times the mean (1.25 times for signals of work: `Signal.times`), in 3 of the
last 5 windows; and above the replicas' median by 3 deviations, where there are enough of them to have one. If all
replicas are as badly off, it is the workload itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from statistics import median
from typing import Final

from koord.agent.interference.baseline import DEVIATIONS, Baseline
from koord.agent.interference.hours import Usual
from koord.agent.interference.signals import Signal

LOOKED_AT: Final = 5
NEEDED: Final = 3
LEAST_REPLICAS: Final = 3
"""Fewer have no median worth the name: then the pod's own past counts alone."""
DEVIATION_OF_NORMAL: Final = 1.4826
"""Of a normal distribution: the standard deviation, by the median of absolute deviations."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One signal of one pod."""

    baseline: Baseline = field(default_factory=Baseline)
    unusual: tuple[bool, ...] = ()
    "Of the last windows, the newest last."

    @property
    def is_slowed(self) -> bool:
        return sum(self.unusual) >= NEEDED

    @property
    def is_unusual(self) -> bool:
        return bool(self.unusual) and self.unusual[-1]

    def after(self, value: float | None, signal: Signal, at_this_hour: Usual | None = None) -> Watched:
        """A window that told nothing counts as usual, and teaches nothing. `at_this_hour`: what was usual in the last
        week, where that is known: what does not exceed it is not unusual, however quiet the hour before was."""
        if value is None:
            return Watched(self.baseline, (*self.unusual, False)[-LOOKED_AT:])
        unusual = self.baseline.is_unusual(value, signal.least, signal.times)
        unusual = unusual and (at_this_hour is None or at_this_hour.is_exceeded(value, signal.times))
        return Watched(self.baseline.after(value, is_unusual=unusual), (*self.unusual, unusual)[-LOOKED_AT:])


class Compared(Enum):
    WORSE = "worse than its replicas on other nodes"
    ALIKE = "its replicas on other nodes are as badly off"
    UNKNOWN = "it has too few replicas on other nodes to compare with"


def compared(value: float, replicas: Sequence[float]) -> Compared:
    if len(replicas) < LEAST_REPLICAS:
        return Compared.UNKNOWN
    middle = median(replicas)
    deviation = DEVIATION_OF_NORMAL * median(abs(each - middle) for each in replicas)
    return Compared.WORSE if value > middle + DEVIATIONS * deviation else Compared.ALIKE
