"""What is usual for a workload at this hour of the day, by the last week: a service that is busy every morning is not
slowed down by a neighbour.

    each hour of each day     mean and variance of a signal over its windows
    each hour of the day      both over the days, the last seven counting most (rate 1/7), known after three

By workload, since pods come and go within a week. Windows in which a neighbour is suspected teach nothing: suffering
every night at two would otherwise count as usual.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from koord.agent.interference.baseline import TIMES, is_exceeded
from koord.api.machinery.codec import UNREADABLE

DAYS: Final = 7
LEAST_DAYS: Final = 3
LEAST_WINDOWS: Final = 30
"""Minimum number of windows in an hour; with fewer, the hour is ignored."""
FORGOTTEN_AFTER_H: Final = 8 * 24
MOST_WORKLOADS: Final = 512
HOUR_S: Final = 3600.0
VERSION: Final = 1


class HoursError(ValueError):
    """A file that says nothing of hours."""


class Usual(NamedTuple):
    mean: float
    deviation: float

    def is_exceeded(self, value: float, times: float = TIMES) -> bool:
        """By the rule for a pod's own baseline."""
        return is_exceeded(value, self.mean, self.deviation, times)


class OfDays(msgspec.Struct, array_like=True, gc=False):
    """One hour of the day, over days."""

    mean: float
    variance: float
    days: int

    def after(self, mean: float, variance: float) -> OfDays:
        rate = 1 / min(self.days + 1, DAYS)
        off = mean - self.mean
        spread = (1 - rate) * (self.variance + rate * off * off) + rate * variance
        return OfDays(self.mean + rate * off, spread, min(self.days + 1, DAYS))


@dataclass(slots=True)
class _Ongoing:
    """The hour that it is, by its number since 1970."""

    hour: int
    windows: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        self.windows += 1
        off = value - self.mean
        self.mean += off / self.windows
        self.squares += off * (value - self.mean)


class _Kept(msgspec.Struct):
    version: int
    seen: dict[str, int]
    hours: dict[str, dict[str, dict[int, OfDays]]]


@dataclass(slots=True)
class Hours:
    of_days: dict[str, dict[str, dict[int, OfDays]]] = field(default_factory=dict)
    "By workload, signal and hour of the day."
    seen: dict[str, int] = field(default_factory=dict)
    "By workload, the last hour in which it was here."
    _ongoing: dict[tuple[str, str], _Ongoing] = field(default_factory=dict)

    def learn(self, workload: str, signal: str, value: float, at_s: float) -> None:
        """`at_s`: everybody's time."""
        hour = int(at_s // HOUR_S)
        self.seen[workload] = hour
        ongoing = self._ongoing.get((workload, signal))
        if ongoing is None or ongoing.hour != hour:
            if ongoing is not None:
                self._fold(workload, signal, ongoing)
            ongoing = self._ongoing[workload, signal] = _Ongoing(hour)
        ongoing.add(value)

    def _fold(self, workload: str, signal: str, ongoing: _Ongoing) -> None:
        if ongoing.windows < LEAST_WINDOWS:
            return
        by_hour = self.of_days.setdefault(workload, {}).setdefault(signal, {})
        before = by_hour.get(ongoing.hour % 24, OfDays(0.0, 0.0, 0))
        by_hour[ongoing.hour % 24] = before.after(ongoing.mean, ongoing.squares / ongoing.windows)

    def usual(self, workload: str, at_s: float) -> dict[str, Usual]:
        """By signal, at that hour of the day, where it is known."""
        hour = int(at_s // HOUR_S) % 24
        usual_hours = {signal: by_hour.get(hour) for signal, by_hour in self.of_days.get(workload, {}).items()}
        return {
            signal: Usual(of_days.mean, float(max(of_days.variance, 0.0) ** 0.5))
            for signal, of_days in usual_hours.items()
            if of_days is not None and of_days.days >= LEAST_DAYS
        }

    def forget(self, at_s: float) -> None:
        """Workloads that were not here for a week, and the longest gone of too many."""
        since = int(at_s // HOUR_S) - FORGOTTEN_AFTER_H
        latest = sorted(self.seen, key=lambda workload: (-self.seen[workload], workload))[:MOST_WORKLOADS]
        self.seen = {workload: self.seen[workload] for workload in latest if self.seen[workload] >= since}
        self.of_days = {workload: hours for workload, hours in self.of_days.items() if workload in self.seen}
        self._ongoing = {key: ongoing for key, ongoing in self._ongoing.items() if key[0] in self.seen}

    def dumped(self) -> bytes:
        return msgspec.json.encode(_Kept(VERSION, self.seen, self.of_days))


def read_hours(text: bytes) -> Hours:
    try:
        kept = msgspec.json.decode(text, type=_Kept)
    except UNREADABLE as error:
        raise HoursError(str(error)) from error
    if kept.version != VERSION:
        raise HoursError(f"it is of version {kept.version}, not {VERSION}")
    return Hours(kept.hours, kept.seen)
