"""The hours of a series without gaps: of each its mean minute and its highest one, and what earlier days say of now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HOUR_S: Final = 3600.0
DAY_HOURS: Final = 24


@dataclass(frozen=True, slots=True)
class Hours:
    """Oldest first; the last hour runs."""

    hour: int = 0
    "Since 1970, the one that runs."
    minutes: int = 0
    "Of it."
    means: tuple[float, ...] = ()
    most: tuple[float, ...] = ()

    @property
    def has_a_day(self) -> bool:
        return len(self.means) > DAY_HOURS


NO_HOURS: Final = Hours()


def with_minute(hours: Hours, at_s: float, value: float, keep_hours: int) -> Hours:
    """After a minute more. History does not outlive a gap of more than an hour."""
    hour = int(at_s // HOUR_S)
    later = hour - hours.hour
    if not hours.means or later not in (0, 1):
        return Hours(hour, 1, (value,), (value,))
    if later == 1:
        return Hours(hour, 1, (*hours.means, value)[-keep_hours - 1 :], (*hours.most, value)[-keep_hours - 1 :])
    minutes = hours.minutes + 1
    mean = hours.means[-1] + (value - hours.means[-1]) / minutes
    return Hours(hour, minutes, (*hours.means[:-1], mean), (*hours.most[:-1], max(hours.most[-1], value)))


def same_hours(of: tuple[float, ...]) -> tuple[tuple[float, float], ...]:
    """This hour and the next one of each earlier day, the last day first."""
    last = len(of) - 1
    return tuple((of[place], of[place + 1]) for place in range(last - DAY_HOURS, -1, -DAY_HOURS))
