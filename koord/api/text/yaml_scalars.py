"""What unquoted scalars of YAML mean to kubectl, and how their numbers look in JSON."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

_WORDS: Final[Mapping[str, object]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_NUMERIC_START: Final = frozenset("+-.0123456789")
_INTEGER: Final = re.compile(
    r"(?P<sign>[+-]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))"
)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_STRAY_UNDERSCORE: Final = re.compile(r"(?<![0-9])_|_(?![0-9])")


def resolve(scalar: str) -> object:
    """What an unquoted scalar means: None, a bool, an int, a float or a string."""
    if scalar in _WORDS:
        return _WORDS[scalar]
    if scalar[0] not in _NUMERIC_START:
        return scalar
    plain = scalar.replace("_", "")
    integer = _INTEGER.fullmatch(plain)
    if integer is not None and len(plain) < 80:
        sign, hexadecimal, binary, octal, decimal = integer.groups()
        base = 16 if hexadecimal else 2 if binary else 8 if octal else 10
        number = int(hexadecimal or binary or octal or decimal, base)
        if number < 2**63 or (number < 2**64 and not sign) or (number == 2**63 and sign == "-"):
            return -number if sign == "-" else number
    if _FLOAT.fullmatch(plain) and not (scalar[0] == "." and _STRAY_UNDERSCORE.search(scalar)):
        value = float(plain)
        if math.isfinite(value):
            return value
    return scalar


def as_json(number: float) -> int | float:
    """JSON does not tell 1000 from 1000.0, and neither does kubectl."""
    return (
        int(number) if number.is_integer() and abs(number) < 2**63 and int(number) == Decimal(repr(number)) else number
    )


def float_key(number: float) -> str:
    """A number as a key, which kubectl prints as a 32-bit float: 1.10 is `1.1`, 1e6 is `1e+06`."""
    if math.isnan(number):
        return ".nan"
    try:
        single: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        single = math.copysign(math.inf, number)
    if math.isinf(single):
        return ".inf" if single > 0 else "-.inf"
    for digits in range(9):
        shortest = f"{single:.{digits}e}"
        if struct.unpack("f", struct.pack("f", float(shortest)))[0] == single:
            break
    exponent = int(shortest.partition("e")[2])
    return shortest if exponent < -4 or exponent >= 6 else f"{Decimal(shortest):f}"
