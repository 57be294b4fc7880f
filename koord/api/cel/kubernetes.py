"""Quantities, versions and named formats, by the identifiers of their overloads."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from koord.api.cel.addresses import url_fault
from koord.api.cel.syntax import CelError
from koord.api.cel.values import INT_MAX, INT_MIN, NONE, UINT_MAX, Format, Maybe, Quantity, Semver
from koord.api.text import formats, string_formats
from koord.api.text import quantity as quantities
from koord.api.text.go_format import go_quoted
from koord.api.text.whole_number import natural_number, whole_number

_NOT_A_QUANTITY: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_QUANTITY_PARTS: Final = re.compile(r"[+-]?([0-9]*)(?:\.([0-9]*))?([eE][+-]?[0-9]*|[numkMGTPE]|[KMGTPE]i|)")
_DECIMAL_POWERS: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_INT_DIGITS: Final = 18
_WORD: Final = re.compile(r"[0-9A-Za-z\-]+")


def _quantity(text: str) -> Quantity:
    try:
        parsed = quantities.parse(text)
    except quantities.QuantityError:
        raise CelError(_NOT_A_QUANTITY) from None
    return Quantity(Fraction(parsed.mantissa) * Fraction(10) ** parsed.exponent, _scale(text))


def _scale(text: str) -> int | None:
    """In which power of ten Go holds a quantity; None where that is too much for it, and it takes a decimal."""
    match = _QUANTITY_PARTS.fullmatch(text)
    if match is None:
        return None
    digits, fraction, suffix = match[1].lstrip("0"), match[2] or "", match[3]
    if suffix.endswith("i"):
        power = 10 * (" KMGTPE".index(suffix[0]))
        room = 15 - len(digits) - int(power * 3 / 10) - 1
        return 0 if not fraction and room >= 0 else None
    exponent = whole_number(suffix[1:]) if suffix[:1] in ("e", "E") and suffix[1:] else _DECIMAL_POWERS.get(suffix)
    if exponent is None or len(digits) + len(fraction) > _INT_DIGITS or exponent - len(fraction) < -9:
        return None
    return exponent - len(fraction)


def _added(one: Quantity, other: Quantity, sign: int = 1) -> Quantity:
    amount = one.amount + sign * other.amount
    if one.scale is None or other.scale is None:
        return Quantity(amount, None)
    if not one.amount or not other.amount:
        return Quantity(amount, one.scale if one.amount else other.scale)
    scale = min(one.scale, other.scale)
    held = amount / Fraction(10) ** scale
    return Quantity(amount, scale if INT_MIN <= held <= INT_MAX else None)


def _is_quantity(text: str) -> bool:
    try:
        quantities.parse(text)
    except quantities.QuantityError:
        return False
    return True


def _is_integer(value: Quantity) -> bool:
    return value.scale is not None and value.scale >= 0 and INT_MIN <= value.amount <= INT_MAX


def _as_integer(value: Quantity) -> int:
    if not _is_integer(value):
        raise CelError("cannot convert value to integer")
    return int(value.amount)


def _order(one: Fraction, other: Fraction) -> int:
    return (one > other) - (one < other)


def _semver(text: str, is_loose: bool = False) -> Semver:
    """A semantic version; a loose one may begin with v, have zeros in front, and lack its last numbers."""
    if is_loose:
        text = _completed(text)
    if not text:
        raise CelError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise CelError("No Major.Minor.Patch elements found")
    rest, plus, build = parts[2].partition("+")
    patch, dash, pre = rest.partition("-")
    numbers = (_number("major", parts[0]), _number("minor", parts[1]), _number("patch", patch))
    before = tuple(_pre(part) for part in pre.split(".")) if dash else ()
    for word in build.split(".") if plus else ():
        if not word:
            raise CelError("Build meta data is empty")
        if not _WORD.fullmatch(word):
            raise CelError(f"Invalid character(s) found in build meta data {go_quoted(word)}")
    return Semver(numbers, before, tuple(build.split(".")) if plus else ())


def _number(word: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]*", text, re.ASCII):
        raise CelError(f"Invalid character(s) found in {word} number {go_quoted(text)}")
    if len(text) > 1 and text[0] == "0":
        raise CelError(f"{word.capitalize()} number must not contain leading zeroes {go_quoted(text)}")
    return _uint64(text)


def _uint64(text: str) -> int:
    number = natural_number(text, UINT_MAX)
    if number is None:
        reason = "invalid syntax" if not text else "value out of range"
        raise CelError(f"strconv.ParseUint: parsing {go_quoted(text)}: {reason}")
    return number


def _pre(text: str) -> tuple[bool, int, str]:
    if not text:
        raise CelError("Prerelease is empty")
    if text.isascii() and text.isdigit():
        if len(text) > 1 and text[0] == "0":
            raise CelError(f"Numeric PreRelease version must not contain leading zeroes {go_quoted(text)}")
        return False, _uint64(text), ""
    if not _WORD.fullmatch(text):
        raise CelError(f"Invalid character(s) found in prerelease {go_quoted(text)}")
    return True, 0, text


def _completed(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for i, part in enumerate(parts):
        if len(part) > 1:
            bare = part.lstrip("0")
            parts[i] = bare if bare[:1].isdigit() else f"0{bare}"
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise CelError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _is_semver(text: str, is_loose: bool = False) -> bool:
    try:
        _semver(text, is_loose)
    except CelError:
        return False
    return True


def _compare_versions(one: Semver, other: Semver) -> int:
    """A version with something before its release comes before that without."""
    mine, theirs = (one.numbers, not one.pre, one.pre), (other.numbers, not other.pre, other.pre)
    return (mine > theirs) - (mine < theirs)


def _prefixed(check: Callable[[str], tuple[str, ...]]) -> Callable[[str], tuple[str, ...]]:
    """A name that more will be added to: its last dash does not count."""
    return lambda text: check(text[:-1] + "a" if len(text) > 1 and text.endswith("-") else text)


def _known(format_: str, fault: str) -> Callable[[str], tuple[str, ...]]:
    return lambda text: () if string_formats.is_valid(format_, text) else (fault,)


def _uri(text: str) -> tuple[str, ...]:
    fault = url_fault(text)
    return (fault,) if fault else ()


FORMATS: Final[dict[str, tuple[Callable[[str], tuple[str, ...]], int]]] = {
    "dns1123Label": (formats.dns_label, 30),
    "dns1123Subdomain": (formats.dns_subdomain, 60),
    "dns1035Label": (formats.dns_1035_label, 30),
    "qualifiedName": (formats.label_key, 60),
    "dns1123LabelPrefix": (_prefixed(formats.dns_label), 30),
    "dns1123SubdomainPrefix": (_prefixed(formats.dns_subdomain), 60),
    "dns1035LabelPrefix": (_prefixed(formats.dns_1035_label), 30),
    "labelValue": (formats.label_value, 40),
    "uri": (_uri, 1103),
    "uuid": (_known("uuid", "does not match the UUID format"), 70),
    "byte": (_known("byte", "invalid base64"), 84),
    "date": (_known("date", "invalid date"), 71),
    "datetime": (_known("date-time", "invalid datetime"), 71),
}
"""What is wrong with a text, and how long the pattern counts that it is held against."""


def _validate(format_: Format, text: str) -> Maybe:
    faults = FORMATS[format_.name][0](text)
    return Maybe(list(faults)) if faults else NONE


def _named(name: str) -> Maybe:
    return Maybe(Format(name)) if name in FORMATS else NONE


def _constant(name: str) -> Callable[[], Format]:
    made = Format(name)
    return lambda: made


OVERLOADS: Final[dict[str, Callable[..., Any]]] = {
    "string_to_quantity": _quantity,
    "is_quantity_string": _is_quantity,
    "quantity_sign": lambda value: _order(value.amount, Fraction(0)),
    "quantity_is_greater_than": lambda value, other: value.amount > other.amount,
    "quantity_is_less_than": lambda value, other: value.amount < other.amount,
    "quantity_compare_to": lambda value, other: _order(value.amount, other.amount),
    "quantity_get_float": lambda value: float(value.amount),
    "quantity_get_int": _as_integer,
    "quantity_is_integer": _is_integer,
    "quantity_add": _added,
    "quantity_add_int": lambda value, other: _added(value, Quantity(Fraction(other))),
    "quantity_sub": lambda value, other: _added(value, other, -1),
    "quantity_sub_int": lambda value, other: _added(value, Quantity(Fraction(other)), -1),
    "string_to_semver": _semver,
    "string_bool_to_semver": _semver,
    "is_semver_string": _is_semver,
    "is_semver_string_bool": _is_semver,
    "semver_is_greater_than": lambda value, other: _compare_versions(value, other) > 0,
    "semver_is_less_than": lambda value, other: _compare_versions(value, other) < 0,
    "semver_compare_to": _compare_versions,
    "semver_major": lambda value: value.numbers[0],
    "semver_minor": lambda value: value.numbers[1],
    "semver_patch": lambda value: value.numbers[2],
    "format-validate": _validate,
    "format-named": _named,
    **{f"format.{name}": _constant(name) for name in FORMATS},
}
