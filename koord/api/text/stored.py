"""What values of stored objects count as. API servers accept many absurd ones; these are the bounds, in one place.

value                                           counts as
a duration that is none, or too long            without an end: as long as a Go duration can be, about 292 years
a time that is none                             missing
a time outside the years 1 to 9999              missing: it could not be written again
an amount below 0                               0
an amount beyond 64 Pi                          64 Pi: a hundred of them still add up within 64 bits
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from koord.api.text.duration import DurationError, parse_duration
from koord.api.text.timestamp import TimestampError, parse_timestamp

LONGEST_S: Final = 2**63 / 1e9
EARLIEST_S: Final = datetime(1, 1, 1, tzinfo=UTC).timestamp()
LATEST_S: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
MOST: Final = 1 << 56


def stored_duration(text: str) -> float:
    """A duration in seconds."""
    try:
        return parse_duration(text)
    except DurationError:
        return LONGEST_S


def stored_timestamp(text: str | None) -> float | None:
    """A time in seconds since the epoch; None where there is none."""
    if not text:
        return None
    try:
        time_s = parse_timestamp(text)
    except TimestampError:
        return None
    return time_s if EARLIEST_S <= time_s <= LATEST_S else None


def stored_amount(amount: int) -> int:
    """An amount of one pod, node or device."""
    return 0 if amount < 0 else amount if amount <= MOST else MOST
