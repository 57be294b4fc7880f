"""The ways in which labels and annotations write their values: JSON, numbers, switches, lists.

Numbers, booleans and the names of JSON fields are read as Go reads them, because that is what their other readers are
written in. Unknown fields of JSON objects are left alone: a newer writer may have added them. What people write is
checked for unknown fields all the same (`idle`), since most are misspelt; what programs write (`by_program`) is not.
Written JSON is compact, with maps in the order of their keys and fields in the order of the protocol, so that equal
values are equal texts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from types import GenericAlias
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from koord.api.machinery.faults import Fault, Invalid, check, unknown_fields
from koord.api.protocol.annotations.value import Form
from koord.api.text import duration, quantity
from koord.api.text.cpuset import CPUSet
from koord.api.text.go_json import fold_names
from koord.api.text.quantity import Quantity, ResourceList

T = TypeVar("T")

Faults: TypeAlias = Callable[[T], Iterable[Fault]]
"""All that is wrong with a value as a whole."""


def no_faults(_value: object) -> Iterable[Fault]:
    return ()


_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_FLOAT: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def json_object(
    type_: type[T], faults: Faults[T] = no_faults, *, by_program: bool = False, idle: Faults[T] = no_faults
) -> Form[T]:
    """A JSON object. All faults are reported, with their paths; `faults` adds those that no field has by itself, `idle`
    fields without effect, beside unknown ones."""
    return _form(type_, {}, faults, by_program, idle)


def json_map(
    values: type[T], rule: Meta | None = None, faults: Faults[Mapping[str, T]] = no_faults, *, by_program: bool = False
) -> Form[Mapping[str, T]]:
    """A JSON object with any keys, and values of one type that keep a rule."""
    return _form(GenericAlias(dict, (str, Annotated[values, rule or Meta()])), {}, faults, by_program)


def json_list(items: type[T], *, by_program: bool = False) -> Form[tuple[T, ...]]:
    """A JSON list."""
    return _form(GenericAlias(tuple, (items, ...)), (), no_faults, by_program)


def _form(type_: Any, null: object, faults: Faults[Any], by_program: bool, idle: Faults[Any] = no_faults) -> Form[Any]:
    def without_effect(text: str) -> tuple[Fault, ...]:
        data = fold_names(type_, _decoded(text, null))
        return (*unknown_fields(type_, data), *idle(check(type_, data, "", allow_unknown=True)))

    return Form(lambda text: _checked(type_, text, null, faults), _render_json, None if by_program else without_effect)


def _checked(type_: Any, text: str, null: object, faults: Faults[Any] = no_faults) -> Any:
    """The value in `text`."""
    try:
        value = check(type_, fold_names(type_, _decoded(text, null)), "", allow_unknown=True)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ValueError(f"is not JSON: {error}") from None
    faults_of_value = tuple(faults(value))
    if faults_of_value:
        raise Invalid("", faults_of_value)
    return value


def _decoded(text: str, null: object) -> object:
    # As in Go, a bare `null` is the empty value.
    data: object = msgspec.json.decode(text)
    return null if data is None else data


def _render_json(value: object) -> str:
    return _ENCODER.encode(value).decode()


def integer(low: int, high: int) -> Form[int]:
    """A decimal integer within bounds."""

    def parse(text: str) -> int:
        number = int(text) if _INTEGER.fullmatch(text) else None
        if number is None or not low <= number <= high:
            raise ValueError(f"must be an integer from {low} to {high}, not {_shown(text)}")
        return number

    return Form(parse, str)


INT32: Final = integer(-(2**31), 2**31 - 1)
INT64: Final = integer(-(2**63), 2**63 - 1)


def number(at_least: float, at_most: float) -> Form[float]:
    """A decimal number within bounds."""

    def parse(text: str) -> float:
        value = float(text) if _FLOAT.fullmatch(text) else math.nan
        if not at_least <= value <= at_most:
            raise ValueError(f"must be a number from {at_least:g} to {at_most:g}, not {_shown(text)}")
        return value

    return Form(parse, repr)


def _parse_ratio(text: str) -> float:
    value = float(text) if _FLOAT.fullmatch(text) else math.nan
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"must be a number above 0, not {_shown(text)}")
    return value


def one_of(*values: str) -> Form[str]:
    """One of a few words, letter by letter."""

    def parse(text: str) -> str:
        if text not in values:
            raise ValueError(f"must be one of {', '.join(v or repr(v) for v in values)}, not {_shown(text)}")
        return text

    return Form(parse, str)


def _parse_switch(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"must be true or false, not {_shown(text)}")
    return text == "true"


def _parse_bool(text: str) -> bool:
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise ValueError(f"must be true or false, not {_shown(text)}")


def _parse_minors(text: str) -> tuple[int, ...]:
    return tuple(INT32.parse(part) for part in text.split(","))


TEXT: Final[Form[str]] = Form(str, str)
"""Any text, unchanged."""

SWITCH: Final = Form(_parse_switch, lambda on: "true" if on else "false")
"""Exactly true or false, the protocol's usual on and off."""

BOOL: Final = Form(_parse_bool, lambda on: "true" if on else "false")
"""A boolean in any of Go's spellings: 1, t, T, true, TRUE, True and their opposites."""

RESOURCES: Final[Form[ResourceList]] = Form(lambda text: _checked(dict[str, Quantity], text, {}), _render_json)
"""A JSON object of resource names and quantities."""

RATIO: Final = Form(_parse_ratio, "{:.2f}".format)
"""A number above 0, written with two decimals."""

COUNT: Final = Form(quantity.value, quantity.from_value)
"""A quantity, as a whole number."""

DURATION_NS: Final = Form(duration.parse_ns, duration.from_ns)
"""A Go duration, in nanoseconds."""

CPUS: Final = Form(CPUSet.parse, str)
"""A Linux CPU list."""

MINORS: Final = Form(_parse_minors, lambda minors: ",".join(map(str, minors)))
"""Device numbers, separated by commas."""


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
