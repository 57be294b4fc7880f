"""Calls as functions of the frame: which overload a call means, and what it costs.

Where the types of all arguments are known, the overload is too, and it is called without a look. Otherwise it is found
by the values; where none fits, the fault is told as cel-go tells it for that function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from koord.api.cel import access_checks, addresses, kubernetes, lists, patterns, standard, strings
from koord.api.cel.runtime_cost import Price, compared, joined_price, price_of, walk
from koord.api.cel.signatures import FUNCTIONS, Overload
from koord.api.cel.syntax import CelError, CostExceeded
from koord.api.cel.types import Type
from koord.api.cel.values import Maybe, compare, equal, no_overload, type_name, weight

Frame = list[Any]
"""What an evaluation works with: its cost so far, the limit of that, the work done, and the variables."""
Run = Callable[[Frame], Any]
Function = Callable[..., Any]

MOST_WORK: Final = 3_000_000
"Values that one evaluation may compare. The real server has no limit, but it can do other things at the same time."
MISTAKEN: Final = (TypeError, AttributeError)
"What functions raise that are given what they do not take."
FAULTS: Final = (CelError, *MISTAKEN)
_OVERLOADS: Final[dict[str, Function]] = {
    **standard.OVERLOADS,
    **strings.OVERLOADS,
    **lists.OVERLOADS,
    **addresses.OVERLOADS,
    **kubernetes.OVERLOADS,
    **access_checks.OVERLOADS,
}
_RELATIONS: Final[dict[str, Callable[[int], bool]]] = {
    "_<_": lambda order: order < 0,
    "_<=_": lambda order: order <= 0,
    "_>_": lambda order: order > 0,
    "_>=_": lambda order: order >= 0,
}
_DIRECT: Final[dict[str, Function]] = {
    "less_int64": lambda one, other: one < other,
    "less_equals_int64": lambda one, other: one <= other,
    "greater_int64": lambda one, other: one > other,
    "greater_equals_int64": lambda one, other: one >= other,
}
_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_ADDABLE: Final = frozenset(
    {"int", "uint", "double", "string", "bytes", "list", "google.protobuf.Duration", "google.protobuf.Timestamp"}
)
_NUMBERS: Final = frozenset({"int", "uint", "double"})
_SCALARS: Final = frozenset({"bool", "int", "uint", "double", "duration", "timestamp", "null_type"})
_TRAITS: Final[dict[str, frozenset[str]]] = {
    "_+_": _ADDABLE,
    "_-_": _ADDABLE - {"string", "bytes", "list"},
    "_*_": _NUMBERS,
    "_/_": _NUMBERS,
    "_%_": frozenset({"int", "uint"}),
    "-_": frozenset({"int", "double"}),
    "size": frozenset({"string", "bytes", "list", "map"}),
    "matches": frozenset({"string"}),
    **dict.fromkeys(_RELATIONS, (_ADDABLE - {"list"}) | {"bool"}),
}
"""Functions that look at what their first argument can do, before they look at the others."""
_RECEIVERS: Final = frozenset({"string", "google.protobuf.Duration", "google.protobuf.Timestamp"})
"Types that are asked for functions by name, and say only that they have none."
_BARE: Final = frozenset({"contains", "startsWith", "endsWith", "flatten", "!_", "@in", "_?_:_"})


def is_conversion(function: str) -> bool:
    return function in _CONVERSIONS


def check_pattern(pattern: Any, fault: type[CelError]) -> None:
    if isinstance(pattern, str) and (text := patterns.pattern_fault(pattern)):
        raise fault(text)


def bound(
    function: str, chosen: Sequence[str], *, is_typed: bool, has_pattern: bool = False
) -> tuple[Function, Function | None]:
    """What a call calls, and what it calls if that does not take what it is given, since null can stand anywhere.

    `has_pattern`: its pattern is written down, so that it was looked at before.
    """
    if function == "_==_":
        return equal, None
    if function == "_!=_":
        return lambda one, other: not equal(one, other), None
    if function in _RELATIONS:
        direct = _DIRECT.get(chosen[0]) if len(chosen) == 1 and is_typed else None
        careful = _ordered(function)
        return (careful, None) if direct is None else (direct, careful)
    overloads = [overload for overload in FUNCTIONS[function] if overload.id in chosen]
    careful = _dispatched(function, overloads, is_bare=has_pattern or function in _BARE)
    return (_OVERLOADS[chosen[0]], careful) if is_typed and len(chosen) == 1 else (careful, None)


def _ordered(function: str) -> Function:
    test = _RELATIONS[function]

    def run(one: Any, other: Any) -> bool:
        if type_name(one) not in _TRAITS[function] | _RECEIVERS:
            raise no_overload(function)
        return test(compare(one, other))

    return run


def _dispatched(function: str, overloads: Sequence[Overload], *, is_bare: bool) -> Function:
    def run(*args: Any) -> Any:
        names = [type_name(arg) for arg in args]
        for overload in overloads:
            if len(overload.args) == len(args) and all(map(_fits, overload.args, names)):
                return _OVERLOADS[overload.id](*args)
        trait = _TRAITS.get(function)
        if is_bare or (trait is not None and names[0] in trait | _RECEIVERS):
            raise no_overload()
        raise no_overload(function) if trait is not None else no_overload(function, *args)

    return run


def _fits(wanted: Type, name: str) -> bool:
    return wanted.kind in ("dyn", "param") or wanted.name == name


def price(function: str, overload: str, kinds: Sequence[str]) -> int | Price:
    """A fixed price, or how to tell it."""
    if function in ("_==_", "_!=_"):
        return 1 if all(kind in _SCALARS for kind in kinds) else compared
    return price_of(function, overload)


def composed(call: Function, careful: Function | None, runs: Sequence[Run]) -> Run:
    """A call whose price is fixed."""
    if len(runs) == 1:
        return _unary(call, careful or call, runs[0])
    if len(runs) == 2:
        return _binary(call, careful or call, *runs)
    return priced(call, careful, runs, lambda *_args: 0, "")


def _unary(call: Function, careful: Function, inner: Run) -> Run:
    def run(frame: Frame) -> Any:
        value = inner(frame)
        try:
            return call(value)
        except MISTAKEN:
            return careful(value)

    return run


def _binary(call: Function, careful: Function, left: Run, right: Run) -> Run:
    def run(frame: Frame) -> Any:
        one, other = left(frame), right(frame)
        try:
            return call(one, other)
        except MISTAKEN:
            return careful(one, other)

    return run


def priced(call: Function, careful: Function | None, runs: Sequence[Run], price: Price, function: str) -> Run:
    """A call that is paid for before it is made, unless its price depends on the result."""
    by_result = function == "join"
    otherwise = careful or call

    def run(frame: Frame) -> Any:
        args = [run(frame) for run in runs]
        try:
            if not by_result:
                cost = price(*args)
                frame[0] += cost
                if frame[0] > frame[1]:
                    raise CostExceeded
                for arg in args:
                    if isinstance(arg, list | dict) and arg:
                        _work(frame, cost * weight(arg) // len(arg))
            result = call(*args)
        except MISTAKEN:
            return otherwise(*args)
        if by_result:
            frame[0] += joined_price(result)
        return result

    return run


def _work(frame: Frame, amount: int) -> None:
    """Count what a call really looks at: prices take an item for an item, however much is in it."""
    frame[2] += amount
    if frame[2] > MOST_WORK:
        raise CostExceeded


def equal_texts(left: Run, right: Run, *, wanted: bool) -> Run:
    """== and != of strings, which are compared most of all."""

    def run(frame: Frame) -> bool:
        one, other = left(frame), right(frame)
        if one is None or other is None:
            frame[0] += compared(one, other)
            return (one is other) is wanted
        frame[0] += walk(min(len(one), len(other)))
        return (one == other) is wanted

    return run


def logical(left: Run, right: Run, right_cost: int, *, stops_at: bool) -> Run:
    """&& and ||: one side can decide, whatever the other does."""

    def run(frame: Frame) -> Any:
        fault: Exception | None = None
        try:
            value = left(frame)
            if value is stops_at:
                return stops_at
            if value is not (not stops_at):
                fault = CelError("no such overload")
        except CostExceeded:
            raise
        except FAULTS as error:
            fault = error
        frame[0] += right_cost
        try:
            value = right(frame)
        except CostExceeded:
            raise
        except FAULTS as error:
            raise fault or error from None
        if value is stops_at:
            return stops_at
        if fault is not None:
            raise fault
        if value is not (not stops_at):
            raise CelError("no such overload")
        return not stops_at

    return run


def membership(items: Sequence[Any]) -> tuple[Function, bool] | None:
    """A test for being in a list that is written down, and whether that is empty; None where it must be searched."""
    if not all(isinstance(item, str | int | float) for item in items):
        return None
    constants = {(isinstance(item, bool), item) for item in items}
    return (
        lambda value: isinstance(value, str | int | float) and (isinstance(value, bool), value) in constants
    ), not items


def made_list(runs: Sequence[Run], optional: frozenset[int]) -> Run:
    if not optional:
        return lambda frame: [run(frame) for run in runs]

    def run(frame: Frame) -> list[Any]:
        items = []
        for i, run in enumerate(runs):
            value = run(frame)
            if i not in optional:
                items.append(value)
            elif not isinstance(value, Maybe):
                raise CelError(f"cannot initialize optional list element from non-optional value {value}")
            elif value.has_value:
                items.append(value.value)
        return items

    return run


def made_map(runs: Sequence[tuple[Run, Run]], optional: frozenset[int]) -> Run:
    def run(frame: Frame) -> dict[Any, Any]:
        entries: dict[Any, Any] = {}
        for i, (make_key, make_value) in enumerate(runs):
            key, value = make_key(frame), make_value(frame)
            if i in optional:
                if not isinstance(value, Maybe):
                    text = f"cannot initialize optional entry '{key}' from non-optional value {value}"
                    raise CelError(text)
                if not value.has_value:
                    entries.pop(key, None)
                    continue
                value = value.value
            entries[key] = value
        return entries

    return run
