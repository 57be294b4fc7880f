"""Which pods suffer: compared with their own past (vertically), and with their replicas elsewhere (horizontally).

Above mean + 3 deviations and above 1.5 times the mean (1.25 times for signals of work: `Signal.times`), in 3 of the
last 5 windows; and above the replicas' median by 3 deviations, where there are enough of them to have one. If all
replicas are as badly off, it is the workload itself.

How slowly a pod works varies from window to window, and a neighbour that takes memory bandwidth makes it a third
slower, not ten times: hardly one window stands out. So for these signals the last 3 windows are also judged together:
all above the mean by 1.5 deviations, and their own mean above it by 2.5 (4.3 of what a mean of three varies by) and
above 1.25 times. What is usual is learnt from windows before these three, which would else hide themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from statistics import median
from typing import Final

from koord.agent.interference.baseline import DEVIATIONS, Baseline
from koord.agent.interference.hours import Usual
from koord.agent.interference.signals import OF_WORK, Signal

LOOKED_AT: Final = 5
NEEDED: Final = 3
LEAST_REPLICAS: Final = 3
"""Fewer have no median worth the name: then the pod's own past counts alone."""
EACH: Final = 1.5
TOGETHER: Final = 2.5
"""Deviations that each of the last windows, and their mean, are above what is usual."""
DEVIATION_OF_NORMAL: Final = 1.4826
"""Of a normal distribution: the standard deviation, by the median of absolute deviations."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One signal of one pod."""

    baseline: Baseline = field(default_factory=Baseline)
    unusual: tuple[bool, ...] = ()
    "Of the last windows, the newest last."
    last: tuple[float, ...] = ()
    "For a signal of work: the values of the last windows that had it, which are judged together."

    together: bool = False
    "Whether these are unusual together."
    rises: bool = False
    "Whether the last two of them are high enough to be so with a third."

    @property
    def is_slowed(self) -> bool:
        return self.together or sum(self.unusual) >= NEEDED

    @property
    def is_unusual(self) -> bool:
        return self.together or (bool(self.unusual) and self.unusual[-1])

    @property
    def may_be_slow(self) -> bool:
        """Whether one more window like the last could make it so."""
        return self.is_unusual or self.rises

    @property
    def windows_slow(self) -> int:
        """Since the first that was unusual."""
        windows = len(self.unusual) - self.unusual.index(True) if True in self.unusual else 0
        return max(windows, NEEDED if self.together else 0)

    def after(self, value: float | None, signal: Signal, at_this_hour: Usual | None = None) -> Watched:
        """A window without a value counts as usual, and does not change the baseline. `at_this_hour`: what was usual in
        the last week, if known: a value below it is not unusual, however quiet the hour before was."""
        if value is None:
            return Watched(self.baseline, (*self.unusual, False)[-LOOKED_AT:], self.last)
        if signal in OF_WORK:
            return self._after_work(value, signal, at_this_hour)
        unusual = self.baseline.is_unusual(value, signal.least, signal.times)
        unusual = unusual and (at_this_hour is None or at_this_hour.is_exceeded(value, signal.times))
        return Watched(self.baseline.after(value, is_unusual=unusual), (*self.unusual, unusual)[-LOOKED_AT:])

    def _after_work(self, value: float, signal: Signal, at_this_hour: Usual | None) -> Watched:
        usual, last = self.baseline, (*self.last, value)
        if len(last) > NEEDED:
            was_unusual = self.together or self.unusual[-NEEDED]
            usual, last = usual.after(last[0], is_unusual=was_unusual), last[1:]
        mean, spread = sum(last) / len(last), usual.spread(signal.times)
        unusual = usual.is_unusual(value, signal.least, signal.times)
        high = max(usual.mean + EACH * spread, signal.least)
        rises = usual.is_learnt and len(last) > 1 and min(last[-2:]) > high
        together = (
            rises
            and len(last) == NEEDED
            and last[0] > high
            and mean > max(usual.mean + TOGETHER * spread, signal.times * usual.mean)
        )
        if at_this_hour is not None:
            unusual = unusual and at_this_hour.is_exceeded(value, signal.times)
            together = together and at_this_hour.is_exceeded(mean, signal.times)
        return Watched(usual, (*self.unusual, unusual)[-LOOKED_AT:], last, together, rises)


class Compared(Enum):
    WORSE = "worse than its replicas on other nodes"
    ALIKE = "its replicas on other nodes are as badly off"
    UNKNOWN = "it has too few replicas on other nodes to compare with"


def compared(value: float, replicas: Sequence[float]) -> Compared:
    if len(replicas) < LEAST_REPLICAS:
        return Compared.UNKNOWN
    middle = median(replicas)
    deviation = DEVIATION_OF_NORMAL * median(abs(replica - middle) for replica in replicas)
    return Compared.WORSE if value > middle + DEVIATIONS * deviation else Compared.ALIKE
