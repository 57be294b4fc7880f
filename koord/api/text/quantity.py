"""Quantities: `500m`, `1.5Gi`, `2e3`, exactly as Kubernetes reads and prints them.

A quantity is a decimal of at most nine fractional digits; what is finer is rounded away from zero. It has at most
`MOST_DIGITS` digits, so that arithmetic with what others sent takes no time. Accounting uses
integers only: `milli` (CPU) and `value` (all else) round away from zero too, so that no pod gets less than it
requested, and what an int64 cannot hold is refused.

Written with a binary suffix, a quantity prints with one where it is a whole number from 1024 on, else as a decimal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import isfinite
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from msgspec import Meta

from koord.api.machinery.faults import BadInput
from koord.api.machinery.short_cache import LONGEST, short_cache

Format: TypeAlias = Literal["DecimalSI", "BinarySI", "DecimalExponent"]
Number: TypeAlias = str | int | float

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = ("", *_BINARY)
_NANO: Final = -9
_INT32_MAX: Final = 2**31 - 1
MOST_DIGITS: Final = 1000
"""Before the decimal point. Far more than an int64 can count, and few enough to add in a microsecond."""
_LONGEST: Final = 1100
"""Characters: all digits, a sign, a point with a fraction, a suffix."""
_BYTES: Final = ("memory", "storage", "ephemeral-storage")

_SYNTAX: Final = re.compile(
    r"(?P<sign>[+-]?)(?=\.?[0-9])(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)"
)
_VALID: Final = (
    "a number with at most one suffix: n u m k M G T P E (powers of 1000), Ki Mi Gi Ti Pi Ei (powers of 1024), "
    "or an exponent as in 1e3"
)


class QuantityError(BadInput):
    """Not a quantity, or one too large for where it is used."""


class Parsed(NamedTuple):
    """A quantity taken apart: mantissa * 10**exponent, and the format that it prints in."""

    mantissa: int
    exponent: int
    format: Format


# A cluster writes the same few thousand quantities over and over.
_cached: Final = short_cache(16384)


@_cached
def parse(quantity: Number) -> Parsed:
    """The exact value of a quantity as JSON may carry it."""
    text = _text(quantity)
    match = _SYNTAX.fullmatch(text)
    if match is None or len(text) > _LONGEST:
        raise QuantityError(f"{text[:40]!r} is not a quantity; it must be {_VALID}")
    sign, whole, fraction, exponent_text, suffix = match.groups()
    fraction = fraction or ""
    mantissa = int(whole + fraction)
    exponent = -len(fraction)
    format_: Format = "DecimalSI"
    if exponent_text is not None:
        format_ = "DecimalExponent"
        if abs(int(exponent_text)) > _INT32_MAX:
            raise QuantityError(f"{text!r} is not a quantity: its exponent must be from -{_INT32_MAX} to {_INT32_MAX}")
        exponent += int(exponent_text)
    elif suffix in _BINARY:
        format_ = "BinarySI"
        mantissa <<= _BINARY[suffix]
    else:
        exponent += _DECIMAL[suffix or ""]
    if mantissa == 0:
        return Parsed(0, 0, format_)
    if len(whole) + exponent + len(fraction) > MOST_DIGITS:
        raise QuantityError(f"{text[:40]!r} is too large for a quantity; it must have at most {MOST_DIGITS} digits")
    if exponent < _NANO:
        mantissa, exponent = _divided(mantissa, _NANO - exponent), _NANO
    if format_ == "BinarySI":
        # An exponent is never positive here: a binary suffix has none.
        one = _power(-exponent)
        if mantissa > INT64_MAX * one:
            mantissa, exponent = INT64_MAX, 0
        elif mantissa < one:
            format_ = "DecimalSI"
    return Parsed(-mantissa if sign == "-" else mantissa, exponent, format_)


@_cached
def value(quantity: Number) -> int:
    """The quantity as an integer, rounded away from zero."""
    return _scaled(quantity, 0, "")


@_cached
def milli(quantity: Number) -> int:
    """The quantity in thousandths as an integer, rounded away from zero: CPU in milli-cores."""
    return _scaled(quantity, 3, " thousandths")


@_cached
def canonical(quantity: Number) -> str:
    """The one way to print this amount in this format: no fractional digits, the largest suffix that is exact."""
    return _print(parse(quantity))


def plus(one: Number, other: Number) -> str:
    """The exact sum, printed in the format of the first; of the second where the first is nothing."""
    return _print(_sum(parse(one), parse(other)))


def minus(one: Number, other: Number) -> str:
    """The exact difference, printed in the format of the first; of the second where the first is nothing."""
    mantissa, exponent, format_ = parse(other)
    return _print(_sum(parse(one), Parsed(-mantissa, exponent, format_)))


def _sum(first: Parsed, second: Parsed) -> Parsed:
    """Exact, up to the largest quantity: what is beyond it counts as that, so that any sum can be read again."""
    exponent = min(first.exponent, second.exponent)
    mantissa = first.mantissa * _power(first.exponent - exponent) + second.mantissa * _power(second.exponent - exponent)
    format_ = first.format if first.mantissa else second.format
    if abs(mantissa) >= _power(MOST_DIGITS - exponent):
        return Parsed(-1 if mantissa < 0 else 1, MOST_DIGITS - 1, format_)
    return Parsed(mantissa, exponent, format_)


def from_milli(thousandths: int) -> str:
    """`1500` as `1500m`, `2000` as `2`."""
    return _print(Parsed(thousandths, -3, "DecimalSI"))


def from_value(number: int, *, binary: bool = False) -> str:
    """`2000` as `2k`; if `binary`, `2048` as `2Ki`."""
    return _print(Parsed(number, 0, "BinarySI" if binary else "DecimalSI"))


def amount(resource: str, quantity: Number) -> int:
    """The integer that koord accounts a resource in: milli-cores for `cpu`, the plain value for everything else."""
    return milli(quantity) if resource == "cpu" else value(quantity)


def render(resource: str, number: int) -> str:
    """The quantity for an `amount` of a resource, in the format in which Kubernetes prints that resource."""
    if resource == "cpu":
        return from_milli(number)
    return from_value(number, binary=counts_bytes(resource))


def counts_bytes(resource: str) -> bool:
    """Whether a resource is an amount of bytes: memory of any kind or owner, storage, huge pages."""
    name = resource.rpartition("/")[2]
    return name in _BYTES or name.endswith("-memory") or name.startswith("hugepages-")


def check(quantity: object) -> None:
    """Refuses an invalid quantity. For fields of type `Quantity`."""
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise QuantityError(f"must be {_VALID}")
    parse(quantity)


Quantity = Annotated[str | int | float, Meta(extra={"check": check, "schema": "quantity"})]
"""The type of a field that holds a quantity. JSON may carry it as a string or as a number."""

ResourceList = Mapping[str, Quantity]
"""Amounts by resource name."""


def _text(quantity: Number) -> str:
    """A quantity as Kubernetes would see it written."""
    if isinstance(quantity, str):
        return quantity.strip(" ")
    if isinstance(quantity, bool) or not isfinite(quantity):
        raise QuantityError(f"{quantity} is not a quantity; it must be {_VALID}")
    # Go writes no exponent below 1e21 where Python does from 1e16 on, and the exponent would become the format.
    return str(int(quantity)) if abs(quantity) < 1e21 and quantity == int(quantity) else repr(quantity)


def _divided(number: int, digits: int) -> int:
    """number / 10**digits for a positive number, rounded up. Costs nothing for an absurd count of digits."""
    if digits > number.bit_length():
        return 1
    return -(-number // _power(digits))


def _scaled(quantity: Number, digits: int, unit: str) -> int:
    """quantity * 10**digits as an int64, rounded away from zero."""
    mantissa, exponent, _ = parse(quantity)
    exponent += digits
    if exponent < 0:
        magnitude = -(-abs(mantissa) // _power(-exponent))
    else:
        magnitude = abs(mantissa) * _power(min(exponent, 20))
    scaled = -magnitude if mantissa < 0 else magnitude
    if not INT64_MIN <= scaled <= INT64_MAX:
        bound = INT64_MIN if mantissa < 0 else INT64_MAX
        raise QuantityError(f"{_text(quantity)!r} is too large: at most {bound}{unit} can be counted")
    return scaled


def _power(exponent: int) -> int:
    """10**exponent, for an exponent that is not negative, which the type of `**` cannot say."""
    return int(10**exponent)


def _print(parsed: Parsed) -> str:
    mantissa, exponent, format_ = parsed
    if mantissa == 0:
        return "0"
    if format_ == "BinarySI":
        # Exponents of binary quantities lie between nano and zero.
        whole, rest = divmod(abs(mantissa), _power(-exponent))
        if rest == 0 and whole >= 1024:
            power = min(((whole & -whole).bit_length() - 1) // 10, len(_BINARY))
            return f"{'-' if mantissa < 0 else ''}{whole >> 10 * power}{_BINARY_SUFFIX[power]}"
    while mantissa % 10 == 0:
        mantissa //= 10
        exponent += 1
    target = exponent - exponent % 3
    if format_ == "DecimalExponent":
        return f"{mantissa * _power(exponent - target)}" + (f"e{target}" if target else "")
    target = min(target, _DECIMAL["E"])
    return f"{mantissa * _power(exponent - target)}{_DECIMAL_SUFFIX[target]}"


@_cached
def rounded(quantity: Number) -> str:
    """A quantity as the server keeps it: canonical, and rounded up to thousandths."""
    mantissa, exponent, _ = parse(quantity)
    if exponent >= -3:
        return canonical(quantity)
    scale = 10 ** (-3 - exponent)
    if mantissa % scale == 0:
        return canonical(quantity)
    return from_milli(-(-abs(mantissa) // scale) * (1 if mantissa > 0 else -1))


def compare(one: Number, other: Number) -> int:
    """-1, 0 or 1, exactly."""
    short = all(quantity.__class__ is not str or len(quantity) <= LONGEST for quantity in (one, other))
    return _compared(one, other) if short else _compared.__wrapped__(one, other)


@lru_cache(16384, typed=True)
def _compared(one: Number, other: Number) -> int:
    a, b = parse(one), parse(other)
    low = min(a.exponent, b.exponent)
    left, right = a.mantissa * _power(a.exponent - low), b.mantissa * _power(b.exponent - low)
    return (left > right) - (left < right)
