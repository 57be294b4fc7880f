"""`"%s has %d".format([...])`: texts made of values, and formats that cannot work, found before they are used.

A clause is `%`, perhaps a precision, and a letter. Numbers with a point are shown as in English: 1,234.500000.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from koord.api.cel import standard
from koord.api.cel.checker import Checked
from koord.api.cel.syntax import Call, CelError, Expr, Issue, ListExpr, Literal, MapExpr
from koord.api.cel.values import Duration, Timestamp, TypeValue, Uint, type_name
from koord.api.text.go_format import go_quoted
from koord.api.text.whole_number import natural_number

_DEFAULT_PRECISION: Final = 6
_SHOWABLE: Final = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
_FAULTS: Final = {
    "s": f"string clause can only be used on {_SHOWABLE}, was given",
    "d": "decimal clause can only be used on integers, was given",
    "f": "fixed-point clause can only be used on doubles, was given",
    "e": "scientific clause can only be used on doubles, was given",
    "b": "only integers and bools can be formatted as binary, was given",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given",
    "o": "octal clause can only be used on integers, was given",
}
_TAKES: Final = {
    "s": frozenset(
        {"list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type"}
        | {"null_type"}
    ),
    "d": frozenset({"int", "uint"}),
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": frozenset({"int", "uint", "bool"}),
    "x": frozenset({"int", "uint", "string", "bytes"}),
    "o": frozenset({"int", "uint"}),
}
_WORDS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_MOST_PRECISION: Final = 1_000_000
"""Go formats no more digits than these behind a point."""
Render = Callable[[str, int | None, int], str]
"""Of a clause's letter, its precision, and the number of its argument."""


class _Unformattable(Exception):
    """What cannot be shown by a clause: where that is known, the node that is in the way."""

    def __init__(self, text: str, expr: Expr | None = None) -> None:
        super().__init__(text)
        self.expr = expr


def _assembled(template: str, count: int, render: Render) -> tuple[str, int]:
    """The text, and how many arguments it took. Raises _Unformattable."""
    made: list[str] = []
    at = taken = 0
    while at < len(template):
        if template[at] != "%":
            made.append(template[at])
            at += 1
            continue
        if template.startswith("%%", at):
            made.append("%")
            at += 2
            continue
        if at + 1 >= len(template) and taken < count:
            raise _Unformattable("unexpected end of string")
        if taken >= count:
            raise _Unformattable(f"index {taken} out of range")
        clause = re.compile(r"%(?:\.([0-9]*))?(.?)", re.DOTALL).match(template, at)
        assert clause is not None
        precision = _precision(clause)
        letter = clause[2]
        if letter.lower() not in _FAULTS or letter in ("S", "D", "F", "E", "B", "O"):
            raise _Unformattable(f'could not parse formatting clause: unrecognized formatting clause "{letter}"')
        made.append(render(letter, precision, taken))
        at, taken = clause.end(), taken + 1
    return "".join(made), taken


def _precision(clause: re.Match[str]) -> int | None:
    if clause[1] is None:
        return None
    prefix = "could not parse formatting clause: error while parsing precision"
    if not clause[2]:
        raise _Unformattable(f"{prefix}: could not find end of precision specifier")
    precision = natural_number(clause[1], _MOST_PRECISION)
    if precision is None:
        reason = "value out of range" if clause[1] else "invalid syntax"
        text = f'error while converting precision to integer: strconv.Atoi: parsing "{clause[1]}": {reason}'
        raise _Unformattable(f"{prefix}: {text}")
    return precision


def formatted(template: str, args: list[Any]) -> str:
    """Raises CelError."""

    def render(letter: str, precision: int | None, index: int) -> str:
        try:
            return _shown(letter, precision, args[index])
        except _Unformattable as fault:
            raise _Unformattable(f"error during formatting: {fault}") from None

    try:
        return _assembled(template, len(args), render)[0]
    except _Unformattable as fault:
        raise CelError(str(fault)) from None


def _shown(letter: str, precision: int | None, value: Any) -> str:
    kind = letter.lower()
    name = type_name(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    match kind:
        case "s":
            return _text(value)
        case "d" if whole:
            return str(int(value))
        case "f" | "e" if isinstance(value, float) or value in _WORDS:
            return _real(kind, _DEFAULT_PRECISION if precision is None else precision, float(value))
        case "b" if isinstance(value, bool):
            return "1" if value else "0"
        case "b" if whole:
            return f"{int(value):b}"
        case "o" if whole:
            return f"{int(value):o}"
        case "x" if whole:
            return f"{int(value):X}" if letter == "X" else f"{int(value):x}"
        case "x" if isinstance(value, str | bytes):
            text = (value.encode() if isinstance(value, str) else value).hex()
            return text.upper() if letter == "X" else text
    raise _Unformattable(f"{_FAULTS[kind]} {name}")


def _real(kind: str, precision: int, value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if value != value else "∞" if value > 0 else "-∞"
    if kind == "f":
        return f"{value:,.{precision}f}"
    mantissa, _, exponent = f"{value:.{_DEFAULT_PRECISION}e}".partition("e")
    power = int(exponent)
    digits = "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in f"{abs(power):02}")
    return f"{mantissa}×10{'⁻' if power < 0 else ''}{digits}"


def _text(value: Any) -> str:
    match value:
        case None:
            return "null"
        case list():
            return f"[{', '.join(_within(item) for item in value)}]"
        case dict():
            pairs = sorted((_within(key), _within(item)) for key, item in value.items())
            return f"{{{', '.join(f'{key}:{pair}' for key, pair in pairs)}}}"
        case bool() | int() | float() | str() | bytes() | Duration() | Timestamp() | TypeValue():
            return standard.text_of(value)
    raise _Unformattable(f"{_FAULTS['s']} {type_name(value)}")


def _within(value: Any) -> str:
    """A value inside of a list or a map."""
    match value:
        case str():
            return go_quoted(value)
        case bytes():
            return f"b{go_quoted(standard.text_of(value))}"
        case Duration():
            return f"duration({go_quoted(standard.duration_text(value))})"
        case Timestamp():
            return f"timestamp({go_quoted(standard.timestamp_text(value))})"
        case bool() | Uint():
            return standard.text_of(value)
        case float():
            return f"{value:.{_DEFAULT_PRECISION}f}" if math.isfinite(value) else go_quoted(standard.double_text(value))
    if isinstance(value, list | dict | int | TypeValue) or value is None:
        return _text(value)
    raise _Unformattable(f"no formatting function for {type_name(value)}")


def faults(checked: Checked, call: Call) -> Iterator[Issue]:
    """What is wrong with formatting that is all written down."""
    template = call.target
    if not isinstance(template, Literal) or not isinstance(template.value, str) or len(call.args) != 1:
        return
    given = call.args[0]
    if not isinstance(given, ListExpr):
        return

    def render(letter: str, _precision: int | None, index: int) -> str:
        bad = _unfit(checked, given.items[index], letter.lower())
        if bad is not None:
            text = f"{_FAULTS[letter.lower()]} {checked.types[bad.number].name}"
            raise _Unformattable(f"error during formatting: {text}", bad)
        return ""

    try:
        taken = _assembled(template.value, len(given.items), render)[1]
    except _Unformattable as fault:
        yield Issue((fault.expr or call).at, str(fault))
        return
    if len(given.items) > taken:
        text = f"too many arguments supplied to string.format (expected {taken}, got {len(given.items)})"
        yield Issue(call.at, text)


def _unfit(checked: Checked, expr: Expr, letter: str) -> Expr | None:
    kind = checked.types[expr.number].kind
    if kind != "dyn" and kind not in _TAKES[letter]:
        return expr
    inner: list[Expr] = []
    if letter == "s" and isinstance(expr, ListExpr):
        inner = expr.items
    elif letter == "s" and isinstance(expr, MapExpr):
        inner = [inner_expr for entry in expr.entries for inner_expr in (entry.key, entry.value)]
    return next((bad for inner_expr in inner if (bad := _unfit(checked, inner_expr, letter)) is not None), None)
