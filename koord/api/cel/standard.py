"""CEL's own functions: arithmetic, conversions, times.

By the identifiers of their overloads; each is given what that overload takes. What goes wrong is a CelError in
cel-go's words.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import zoneinfo
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from koord.api.cel.patterns import matches
from koord.api.cel.syntax import CelError
from koord.api.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    KeyedList,
    SetList,
    StoredList,
    Timestamp,
    TypeValue,
    Uint,
    equal,
    size,
    type_name,
)
from koord.api.text.duration import DurationError, parse_ns
from koord.api.text.go_format import go_float
from koord.api.text.whole_number import natural_number, whole_number

_SECOND_NS: Final = 1_000_000_000
_EARLIEST_NS: Final = -62135596800 * _SECOND_NS
_LATEST_NS: Final = 253402300799 * _SECOND_NS + 999_999_999
_RFC3339: Final = re.compile(r"(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}:\d{2})(?:[.,](\d+))?(Z|[+-]\d{2}:\d{2})", re.ASCII)
_WHOLE: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_REAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?i:inf|infinity)|(?i:nan)")


def _int(number: int) -> int:
    if INT_MIN <= number <= INT_MAX:
        return number
    raise CelError("integer overflow")


def _uint(number: int) -> Uint:
    if 0 <= number <= UINT_MAX:
        return Uint(number)
    raise CelError("unsigned integer overflow")


def _duration(ns: int) -> Duration:
    if INT_MIN <= ns <= INT_MAX:
        return Duration(ns)
    raise CelError("duration overflow")


def _timestamp(ns: int, offset_s: int = 0) -> Timestamp:
    if _EARLIEST_NS <= ns <= _LATEST_NS:
        return Timestamp(ns, offset_s)
    raise CelError("timestamp overflow")


def _divided(one: int, other: int) -> int:
    """Cut off towards zero, as Go does."""
    if not other:
        raise CelError("division by zero")
    quotient = abs(one) // abs(other)
    return _int(quotient if (one < 0) == (other < 0) else -quotient)


def _divided_double(one: float, other: float) -> float:
    if other:
        return one / other
    return math.nan if not one or one != one else math.copysign(math.inf, one) * math.copysign(1, other)


def _remainder(one: int, other: int) -> int:
    if not other:
        raise CelError("modulus by zero")
    left = abs(one) % abs(other)
    return -left if one < 0 else left


def _not(value: bool) -> bool:
    if isinstance(value, bool):
        return not value
    raise TypeError("not a boolean")


def _joined(one: list[Any], other: list[Any]) -> list[Any]:
    if isinstance(one, KeyedList):
        index_of = {one.key_of(item): i for i, item in enumerate(one)}
        items = list(one)
        for item in other:
            at = index_of.get(one.key_of(item))
            if at is None:
                items.append(item)
            else:
                items[at] = item
        return KeyedList(items, one.keys)
    if isinstance(one, SetList):
        items = list(one)
        items += [item for item in other if not any(equal(item, mine) for mine in one)]
        return SetList(items)
    joined = [*one, *other]
    return StoredList(joined) if isinstance(one, StoredList) else joined


def contains(wanted: Any, within: Any) -> bool:
    """The operator `in`."""
    if isinstance(within, dict):
        return not isinstance(wanted, list | dict) and wanted in within
    return any(equal(wanted, item) for item in within)


def _conversion_fault(value: Any, to: str) -> CelError:
    return CelError(f"type conversion error from '{type_name(value)}' to '{to}'")


def to_duration(value: Any) -> Duration:
    if isinstance(value, Duration):
        return value
    if isinstance(value, str):
        try:
            return _duration(parse_ns(value))
        except DurationError:
            pass
    raise _conversion_fault(value, "google.protobuf.Duration")


@lru_cache(256)
def _read_timestamp(text: str) -> Timestamp | None:
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    try:
        at = dt.datetime.fromisoformat(f"{match[1]}T{match[2]}+00:00")
    except ValueError:
        return None
    zone, fraction = match[4], (match[3] or "")[:9].ljust(9, "0")
    offset_s = 0 if zone == "Z" else (int(zone[1:3]) * 3600 + int(zone[4:]) * 60) * (-1 if zone[0] == "-" else 1)
    seconds = (at.date().toordinal() - 719163) * 86400 + at.hour * 3600 + at.minute * 60 + at.second
    return Timestamp((seconds - offset_s) * _SECOND_NS + int(fraction), offset_s)


def to_timestamp(value: Any) -> Timestamp:
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, str):
        if (timestamp := _read_timestamp(value)) is not None:
            return _timestamp(timestamp.ns, timestamp.offset_s)
    elif isinstance(value, int):
        return _timestamp(value * _SECOND_NS)
    raise _conversion_fault(value, "google.protobuf.Timestamp")


def _to_int(value: Any) -> int:
    match value:
        case Duration():
            return value.ns
        case Timestamp():
            return value.ns // _SECOND_NS
        case float():
            if not math.isfinite(value) or not -(2.0**63) < value < 2.0**63:
                raise CelError("integer overflow")
            return _int(int(value))
        case str():
            if _WHOLE.fullmatch(value) and INT_MIN <= (number := whole_number(value)) <= INT_MAX:
                return number
            raise _conversion_fault(value, "int")
    return _int(int(value))


def _to_uint(value: Any) -> Uint:
    if isinstance(value, str):
        if (number := natural_number(value, UINT_MAX)) is not None:
            return Uint(number)
        raise _conversion_fault(value, "uint")
    if isinstance(value, float) and not math.isfinite(value):
        raise CelError("unsigned integer overflow")
    return _uint(int(value))


def _to_double(value: Any) -> float:
    if isinstance(value, str) and not _REAL.fullmatch(value):
        raise _conversion_fault(value, "double")
    return float(value)


def _to_bool(value: str) -> bool:
    if value in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if value in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise _conversion_fault(value, "bool")


def double_text(number: float) -> str:
    """As Go's %g prints it."""
    return "-0" if number == 0 and math.copysign(1, number) < 0 else go_float(number)


def duration_text(value: Duration) -> str:
    """In seconds, with as many digits as are needed."""
    whole, rest = divmod(abs(value.ns), _SECOND_NS)
    text = f"{whole}.{rest:09}".rstrip("0").rstrip(".")
    return f"{'-' if value.ns < 0 else ''}{text}s"


def timestamp_text(value: Timestamp) -> str:
    seconds, ns = divmod(value.ns + value.offset_s * _SECOND_NS, _SECOND_NS)
    at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)
    fraction = f".{ns:09}".rstrip("0") if ns else ""
    sign, minutes = ("-" if value.offset_s < 0 else "+"), abs(value.offset_s) // 60
    zone = f"{sign}{minutes // 60:02}:{minutes % 60:02}" if value.offset_s else "Z"
    return f"{at:%Y-%m-%dT%H:%M:%S}{fraction}{zone}".rjust(20, "0")


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def text_of(value: Any) -> str:
    """The function string(...)."""
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return _decoded(value)
        case float():
            return double_text(value)
        case Duration():
            return duration_text(value)
        case Timestamp():
            return timestamp_text(value)
        case TypeValue():
            return value.name
        case None:
            raise TypeError("null has no text")
    return str(value)


def _in_zone(at: Timestamp, zone: str) -> dt.datetime:
    utc = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=at.ns // 1000)
    if zone in ("", "UTC"):
        return utc
    if ":" not in zone:
        try:
            return utc.astimezone(zoneinfo.ZoneInfo(zone))
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise CelError(f"unknown time zone {zone}") from None
    hours, _, minutes = zone.partition(":")
    if not (_WHOLE.fullmatch(hours) and _WHOLE.fullmatch(minutes)):
        bad = minutes if _WHOLE.fullmatch(hours) else hours
        raise CelError(f'strconv.Atoi: parsing "{bad}": invalid syntax')
    total = int(hours) * 60 + (-int(minutes) if zone[0] == "-" else int(minutes))
    return utc.astimezone(dt.timezone(dt.timedelta(minutes=total)))


_PARTS: Final[dict[str, Callable[[dt.datetime], int]]] = {
    "year": lambda at: at.year,
    "month": lambda at: at.month - 1,
    "day_of_year": lambda at: at.timetuple().tm_yday - 1,
    "day_of_month": lambda at: at.day - 1,
    "day_of_month_1_based": lambda at: at.day,
    "day_of_week": lambda at: at.isoweekday() % 7,
    "hours": lambda at: at.hour,
    "minutes": lambda at: at.minute,
    "seconds": lambda at: at.second,
    "milliseconds": lambda at: at.microsecond // 1000,
}
_SPANS_NS: Final = {
    "hours": 3600 * _SECOND_NS,
    "minutes": 60 * _SECOND_NS,
    "seconds": _SECOND_NS,
    "milliseconds": 1_000_000,
}


def _part(get: Callable[[dt.datetime], int]) -> Callable[..., int]:
    return lambda at, zone="": get(_in_zone(at, zone))


def _span(ns: int) -> Callable[[Duration], int]:
    return lambda value: _divided(value.ns, ns)


OVERLOADS: Final[dict[str, Callable[..., Any]]] = {
    "logical_not": _not,
    "add_bytes": lambda a, b: a + b,
    "add_double": lambda a, b: a + b,
    "add_duration_duration": lambda a, b: _duration(a.ns + b.ns),
    "add_duration_timestamp": lambda a, b: _timestamp(a.ns + b.ns, b.offset_s),
    "add_timestamp_duration": lambda a, b: _timestamp(a.ns + b.ns, a.offset_s),
    "add_int64": lambda a, b: _int(a + b),
    "add_list": _joined,
    "add_string": lambda a, b: a + b,
    "add_uint64": lambda a, b: _uint(a + b),
    "subtract_double": lambda a, b: a - b,
    "subtract_duration_duration": lambda a, b: _duration(a.ns - b.ns),
    "subtract_int64": lambda a, b: _int(a - b),
    "subtract_timestamp_duration": lambda a, b: _timestamp(a.ns - b.ns, a.offset_s),
    "subtract_timestamp_timestamp": lambda a, b: _duration(a.ns - b.ns),
    "subtract_uint64": lambda a, b: _uint(a - b),
    "multiply_double": lambda a, b: a * b,
    "multiply_int64": lambda a, b: _int(a * b),
    "multiply_uint64": lambda a, b: _uint(a * b),
    "divide_double": _divided_double,
    "divide_int64": _divided,
    "divide_uint64": lambda a, b: Uint(_divided(a, b)) if b else _divided(a, b),
    "modulo_int64": _remainder,
    "modulo_uint64": lambda a, b: Uint(_remainder(a, b)),
    "negate_double": lambda value: -value,
    "negate_int64": lambda value: _int(-value),
    "in_list": contains,
    "in_map": contains,
    **dict.fromkeys(
        ("size_bytes", "bytes_size", "size_list", "list_size", "size_map", "map_size", "size_string", "string_size"),
        size,
    ),
    "type": lambda value: TypeValue(type_name(value)),
    "to_dyn": lambda value: value,
    "bool_to_bool": lambda value: value,
    "string_to_bool": _to_bool,
    "bytes_to_bytes": lambda value: value,
    "string_to_bytes": lambda value: value.encode(),
    **dict.fromkeys(("double_to_double", "int64_to_double", "string_to_double", "uint64_to_double"), _to_double),
    **dict.fromkeys(("duration_to_duration", "int64_to_duration", "string_to_duration"), to_duration),
    **dict.fromkeys(
        (
            "int64_to_int64", "double_to_int64", "duration_to_int64", "string_to_int64", "timestamp_to_int64",
            "uint64_to_int64",
        ),
        _to_int,
    ),
    **dict.fromkeys(
        (
            "string_to_string", "bool_to_string", "bytes_to_string", "double_to_string", "duration_to_string",
            "int64_to_string", "timestamp_to_string", "uint64_to_string",
        ),
        text_of,
    ),
    **dict.fromkeys(("timestamp_to_timestamp", "int64_to_timestamp", "string_to_timestamp"), to_timestamp),
    **dict.fromkeys(("uint64_to_uint64", "double_to_uint64", "int64_to_uint64", "string_to_uint64"), _to_uint),
    "contains_string": lambda text, part: part in text,
    "ends_with_string": lambda text, part: text.endswith(part),
    "starts_with_string": lambda text, part: text.startswith(part),
    "matches": matches,
    "matches_string": matches,
    **{f"timestamp_to_{name}": _part(get) for name, get in _PARTS.items()},
    **{f"timestamp_to_{name}_with_tz": _part(get) for name, get in _PARTS.items()},
    **{f"duration_to_{name}": _span(ns) for name, ns in _SPANS_NS.items()},
}  # fmt: skip
