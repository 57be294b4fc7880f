"""Durations as Go writes them: `1h30m`, `300ms`, `-1.5h`, `0`.

A duration is a whole number of nanoseconds in an int64; text is read and printed exactly as Go's time.ParseDuration
and Duration.String do. In JSON it is always a string; a bare number is refused.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from msgspec import Meta

from koord.api.machinery.faults import BadInput

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, the micro sign
    "μs": 1_000,  # U+03BC, the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM: Final = re.compile(r"(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
_LIMIT: Final = 2**63
_LONGEST: Final = 1000
_VALID: Final = 'write numbers with units (ns, us, ms, s, m, h), as in "300ms" or "1h30m"'


class DurationError(BadInput):
    """Not a duration, or one beyond what Go can hold (about 292 years)."""


def parse_ns(text: str) -> int:
    """A duration in nanoseconds."""
    sign, rest = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if rest == "0":
        return 0
    if not rest or len(rest) > _LONGEST:
        raise DurationError(f"{text[:40]!r} is not a duration; {_VALID}")
    total = position = 0
    while position < len(rest):
        term = _TERM.match(rest, position)
        if term is None:
            raise DurationError(f"{text!r} is not a duration; {_VALID}")
        whole, fraction, unit = term.groups()
        if unit not in _UNITS:
            what = f"unknown unit {unit!r}" if unit else "a unit is missing"
            raise DurationError(f"{text!r} is not a duration: {what}; {_VALID}")
        total += int(whole or 0) * _UNITS[unit] + _fraction_ns(fraction or "", _UNITS[unit])
        position = term.end()
    if total > _LIMIT or (total == _LIMIT and sign != "-"):
        raise DurationError(f"{text!r} is too long; at most {from_ns(_LIMIT - 1)} can be said")
    return -total if sign == "-" else total


def parse_duration(text: str) -> float:
    """A duration in seconds."""
    return parse_ns(text) / 1e9


def from_ns(duration_ns: int) -> str:
    """A duration as Go prints it: `1h30m0s`, `1.5s`, `300ms`, `0s`."""
    if duration_ns == 0:
        return "0s"
    sign, rest = ("-", -duration_ns) if duration_ns < 0 else ("", duration_ns)
    if rest < _UNITS["s"]:
        name = "ns" if rest < _UNITS["us"] else "µs" if rest < _UNITS["ms"] else "ms"
        return f"{sign}{_decimal(rest, _UNITS[name])}{name}"
    minutes, rest = divmod(rest, _UNITS["m"])
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{head}{_decimal(rest, _UNITS['s'])}s"


def from_seconds(duration_s: float) -> str:
    """A duration in seconds, to the nearest nanosecond, as Go prints it."""
    return from_ns(round(duration_s * 1e9))


def check(text: object) -> None:
    """Refuses an invalid duration. For fields of type `Duration`."""
    if not isinstance(text, str):
        raise DurationError(f"must be a duration in quotes; {_VALID}")
    parse_ns(text)


Duration = Annotated[str, Meta(extra={"check": check, "schema": "duration"})]
"""The type of a field that holds a duration."""


def _fraction_ns(digits: str, unit: int) -> int:
    # Go multiplies in floating point and takes digits only as far as an int64 reaches; so must we, to agree with it.
    number, scale = 0, 1.0
    for digit in digits:
        if number > (_LIMIT - 1) // 10 or number * 10 + int(digit) > _LIMIT:
            break
        number, scale = number * 10 + int(digit), scale * 10
    return int(float(number) * (unit / scale))


def _decimal(number: int, unit: int) -> str:
    """number / unit, without trailing zeros."""
    whole, rest = divmod(number, unit)
    if rest == 0:
        return str(whole)
    return f"{whole}." + str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0")
