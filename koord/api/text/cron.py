"""Schedules of CronJobs: `*/5 * * * *`, `@daily`, `@every 90m`, and the times that they name.

Five fields: minute, hour, day of the month, month, day of the week. A day matches by both day fields where one of them
is `*`, by either where both are restricted. Times are those at which a wall clock in the schedule's zone shows a
match: an hour that a change of clocks leaves out has none, and one that comes twice has them twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from koord.api.machinery.faults import BadInput
from koord.api.machinery.short_cache import LONGEST
from koord.api.text.duration import DurationError, parse_ns

_MONTHS: Final = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: i + 1 for i, name in enumerate(_MONTHS)}),
    (0, 6, {name: i for i, name in enumerate(_DAYS)}),
)
_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "
_FARTHEST_YEARS: Final = 5
"""A schedule without a time in these years (30 February) has none."""


class CronError(BadInput):
    """A text that is no schedule: why, in the words of the parser that Kubernetes uses."""


@dataclass(frozen=True, slots=True)
class _Field:
    values: frozenset[int]
    any: bool
    "Whether the field leaves the choice to the other of its pair."


@dataclass(frozen=True, slots=True)
class Schedule:
    """When to act: at times that match all fields, or at an interval in seconds from the last time on."""

    fields: tuple[_Field, ...] = ()
    every_s: int = 0
    zone: tzinfo | None = None

    def next_after(self, time_s: float) -> float | None:
        """The first time after `time_s`; None where there is none within years."""
        if self.every_s:
            return float(int(time_s) + self.every_s)
        zone = self.zone or ZoneInfo("UTC")
        at_s = (int(time_s) // 60 + 1) * 60
        last_s = at_s + _FARTHEST_YEARS * 366 * 86_400
        while at_s <= last_s:
            local = datetime.fromtimestamp(at_s, zone)
            following_s = self._skip(local, at_s)
            if following_s is None:
                return float(at_s)
            at_s = max(following_s, at_s + 60)
        return None

    def _skip(self, local: datetime, at_s: int) -> int | None:
        """The next moment worth a look, where this one does not match; None where it does."""
        minute, hour, _, month, _ = self.fields
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        if local.month not in month.values:
            return _stamp((midnight.replace(day=1) + timedelta(days=32)).replace(day=1))
        if not self._is_day(local):
            return _stamp(midnight + timedelta(days=1))
        if local.hour not in hour.values:
            return at_s + (60 - local.minute) * 60 - local.second
        if local.minute not in minute.values:
            return at_s + 60
        return None

    def _is_day(self, local: datetime) -> bool:
        _, _, day, _, weekday = self.fields
        by_day, by_weekday = local.day in day.values, local.isoweekday() % 7 in weekday.values
        return by_day and by_weekday if day.any or weekday.any else by_day or by_weekday


def _stamp(local: datetime) -> int:
    return int(local.timestamp())


def parse(schedule: str, zone: str | None = None) -> Schedule:
    """A schedule with its time zone (UTC where none is given). Raises CronError."""
    return _parse(schedule, zone) if len(schedule) <= LONGEST else _parse.__wrapped__(schedule, zone)


@lru_cache(1024)
def _parse(schedule: str, zone: str | None) -> Schedule:
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        given, _, schedule = schedule.partition(" ")
        zone, schedule = given.partition("=")[2], schedule.strip()
        if zone not in available_timezones():
            raise CronError(f"provided bad location {zone}: unknown time zone {zone}")
    elif zone is not None and zone not in available_timezones():
        raise CronError(f"unknown time zone {zone}")
    where = ZoneInfo(zone) if zone else None
    if schedule.startswith(_EVERY):
        try:
            every_ns = parse_ns(schedule.removeprefix(_EVERY))
        except DurationError as error:
            raise CronError(f"failed to parse duration {schedule}: {error}") from error
        return Schedule(every_s=max(1, every_ns // 1_000_000_000), zone=where)
    if schedule.startswith("@"):
        if schedule not in _MACROS:
            raise CronError(f"unrecognized descriptor: {schedule}")
        schedule = _MACROS[schedule]
    texts = schedule.split()
    if len(texts) != len(_FIELDS):
        raise CronError(f"expected exactly 5 fields, found {len(texts)}: [{' '.join(texts)}]")
    return Schedule(tuple(_field(text, *limits) for text, limits in zip(texts, _FIELDS, strict=True)), zone=where)


def _field(text: str, low: int, high: int, names: dict[str, int]) -> _Field:
    values: set[int] = set()
    any_ = False
    for part in text.split(","):
        first, last, step = _part(part, low, high, names)
        values.update(range(first, last + 1, step))
        any_ = any_ or (part[0] in "*?" and step == 1)
    return _Field(frozenset(values), any_)


def _part(part: str, low: int, high: int, names: dict[str, int]) -> tuple[int, int, int]:
    """First, last and step of one part of a field."""
    span, *steps = part.split("/")
    ends = span.split("-")
    step = 1
    if ends[0] in ("*", "?"):
        first, last = low, high
    else:
        numbers = [_number(end, names) for end in ends[:2]]
        if len(ends) > 2:
            raise CronError(f"too many hyphens: {part}")
        first, last = numbers[0], numbers[-1]
    if len(steps) > 1:
        raise CronError(f"too many slashes: {part}")
    if steps:
        if not re.fullmatch(r"[0-9]{1,9}", steps[0]):
            raise CronError(f'failed to parse int from {steps[0]}: strconv.Atoi: parsing "{steps[0]}": invalid syntax')
        step = int(steps[0])
        if len(ends) == 1:
            last = high
    if first < low:
        raise CronError(f"beginning of range ({first}) below minimum ({low}): {part}")
    if last > high:
        raise CronError(f"end of range ({last}) above maximum ({high}): {part}")
    if first > last:
        raise CronError(f"beginning of range ({first}) beyond end of range ({last}): {part}")
    if step == 0:
        raise CronError(f"step of range should be a positive number: {part}")
    return first, last, step


def _number(end: str, names: dict[str, int]) -> int:
    number = names.get(end.lower())
    if number is not None:
        return number
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", end):
        raise CronError(f'failed to parse int from {end}: strconv.Atoi: parsing "{end}": invalid syntax')
    if int(end) < 0:
        raise CronError(f"negative number ({int(end)}) not allowed: {end}")
    return int(end)
