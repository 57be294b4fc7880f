"""Times as Kubernetes writes them: RFC 3339, `2026-11-15T04:25:02Z`.

Most fields have whole seconds (Time); leases and events have exactly six fractional digits (MicroTime), and a server
refuses any other number of them there. Reading takes both, and any offset; writing is always UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Annotated, Final

from msgspec import Meta

from koord.api.machinery.faults import BadInput
from koord.api.machinery.short_cache import short_cache

_SYNTAX: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]+))?"
    r"(?:Z|([+-])([01][0-9]|2[0-4]):([0-5][0-9]|60))"
)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_VALID: Final = "it must be as in 2026-11-15T04:25:02Z or 2026-11-15T05:25:02.123456+01:00"


class TimestampError(BadInput):
    """Not an RFC 3339 time."""


def parse_ns(text: str) -> int:
    """A time in nanoseconds since the epoch. Finer digits are cut off."""
    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise TimestampError(f"{text[:60]!r} is not a time; {_VALID}")
    year, month, day, hour, minute, second, fraction, sign, offset_hours, offset_minutes = match.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        raise TimestampError(f"{text!r} is not a time: there is no such day; {_VALID}") from None
    seconds = ((days * 24 + int(hour)) * 60 + int(minute)) * 60 + int(second)
    if sign:
        offset_s = int(offset_hours) * 3600 + int(offset_minutes) * 60
        seconds += offset_s if sign == "-" else -offset_s
    return seconds * 1_000_000_000 + int((fraction or "0")[:9].ljust(9, "0"))


@short_cache(1024)
def parse_timestamp(text: str) -> float:
    """A time in seconds since the epoch. A float holds today's times to about 0.2 microseconds.

    Remembered: pods of a roll-out say the same second, and each says it several times.
    """
    return parse_ns(text) / 1e9


def from_seconds(time_s: float) -> str:
    """`2026-11-15T04:25:02Z`, for fields of type Time. Fractions of a second are dropped, as Kubernetes does."""
    return _utc(time_s // 1).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def micro_from_seconds(time_s: float) -> str:
    """`2026-11-15T04:25:02.123456Z`, for fields of type MicroTime, to the nearest microsecond."""
    return micro_from_ns(round(time_s * 1e6) * 1000)


def micro_from_ns(time_ns: int) -> str:
    """`2026-11-15T04:25:02.123456Z`, for fields of type MicroTime. Finer digits are dropped."""
    seconds, rest_ns = divmod(time_ns, 1_000_000_000)
    return f"{from_seconds(seconds)[:-1]}.{rest_ns // 1000:06}Z"


def check(text: object) -> None:
    """Refuses an invalid time. For fields of type `Timestamp`."""
    if not isinstance(text, str):
        raise TimestampError(f"must be a time in quotes; {_VALID}")
    parse_ns(text)


Timestamp = Annotated[str, Meta(extra={"check": check, "schema": "date-time"})]
"""The type of a field that holds a time."""


def _utc(time_s: float) -> datetime:
    try:
        return datetime.fromtimestamp(time_s, UTC)
    except (ValueError, OverflowError, OSError):
        raise TimestampError(f"{time_s} seconds since the epoch is not a time in the years 1 to 9999") from None
