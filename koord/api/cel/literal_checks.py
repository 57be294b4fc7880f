"""Faults of literals, which only show once types are known.

A duration, a timestamp or a pattern that is written down must be one; the items of a list that is written down must be
of one type, unless it is what a text is formatted with; and what a format asks for must be there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from koord.api.cel import formatting, standard, types
from koord.api.cel.checker import Checked
from koord.api.cel.patterns import pattern_fault
from koord.api.cel.syntax import Call, CelError, CompileError, Expr, Issue, ListExpr, Literal, MapExpr, children


def check_literals(checked: Checked) -> None:
    """Raises CompileError."""
    issues = list(_faults(checked, checked.tree, in_format=False))
    if issues:
        raise CompileError(checked.source, issues)


def _faults(checked: Checked, expr: Expr, *, in_format: bool) -> Iterator[Issue]:
    if isinstance(expr, Call):
        yield from _argument_faults(expr)
        if expr.function == "format":
            in_format = True
            yield from formatting.faults(checked, expr)
    if not in_format:
        yield from _mixture_faults(checked, expr)
    for child in children(expr):
        yield from _faults(checked, child, in_format=in_format)


def _is_no_duration(value: object) -> bool:
    return _fails(standard.to_duration, value)


def _is_no_timestamp(value: object) -> bool:
    return _fails(standard.to_timestamp, value)


def _fails(convert: Callable[[object], object], value: object) -> bool:
    try:
        convert(value)
    except CelError:
        return True
    return False


def _is_no_pattern(value: object) -> bool:
    return bool(pattern_fault(str(value)))


_CHECKS: Final[dict[str, Callable[[object], bool]]] = {
    "duration": _is_no_duration,
    "timestamp": _is_no_timestamp,
    "matches": _is_no_pattern,
}


def _argument_faults(expr: Call) -> Iterator[Issue]:
    is_bad = _CHECKS.get(expr.function)
    if is_bad is not None and expr.args and isinstance(arg := expr.args[0], Literal) and is_bad(arg.value):
        yield Issue(arg.at, f"invalid {expr.function} argument")


def _mixture_faults(checked: Checked, expr: Expr) -> Iterator[Issue]:
    def mixed(wanted: types.Type, given: types.Type, at: int) -> Issue:
        return Issue(at, f"expected type '{types.type_text(wanted)}' but found '{types.type_text(given)}'")

    def type_of(one: Expr, is_optional: bool) -> types.Type:
        item_type = checked.types[one.number]
        return item_type.params[0] if is_optional else item_type

    if isinstance(expr, ListExpr):
        item_types = [type_of(item, i in expr.optional) for i, item in enumerate(expr.items)]
        for item, one in zip(expr.items, item_types, strict=True):
            if not types.equivalent(item_types[0], one):
                yield mixed(item_types[0], one, item.at)
                return
    if isinstance(expr, MapExpr) and expr.entries:
        first = expr.entries[0]
        key, value = type_of(first.key, False), type_of(first.value, first.is_optional)
        for entry in expr.entries:
            given = type_of(entry.key, False)
            if not types.equivalent(key, given):
                yield mixed(key, given, entry.key.at)
            given = type_of(entry.value, entry.is_optional)
            if not types.equivalent(value, given):
                yield mixed(value, given, entry.value.at)
