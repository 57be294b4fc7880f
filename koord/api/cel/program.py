"""A checked expression as something that runs, and counts what it costs.

Each node becomes a function of the frame: a list that holds the cost so far, its limit, the work done, and the
variables. What a node costs in any case is added by its caller, in one sum for all that is certain to run with it;
only what depends on values is counted inside. So `all` over a list adds to the cost once for each item.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from koord.api.cel import calls, loops
from koord.api.cel.access import field_of, indexed, is_there, optional_field, optional_index
from koord.api.cel.calls import Frame, Run
from koord.api.cel.checker import TYPE_NAMES, Checked
from koord.api.cel.syntax import (
    Call,
    CelError,
    CostExceeded,
    Expr,
    Fold,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
)
from koord.api.cel.values import Maybe, TypeValue, Uint

_FAULTS: Final = (CelError, TypeError, AttributeError)
_COST: Final = 0
_FIRST_VARIABLE: Final = 3
MISSING: Final = object()
"""As a variable: there is none of this name."""


class Instantiation(CelError):
    """A part of an expression that never can be evaluated, since it is all written down and wrong."""


@dataclass(frozen=True, slots=True)
class Code:
    """`cost`: what running it costs in any case. `own`: the part of that for looking a name up, which is not counted
    where the value is only passed on."""

    run: Run
    cost: int = 0
    own: int = 0
    is_lookup: bool = False
    is_constant: bool = False

    @property
    def value(self) -> Any:
        return self.run([])


def _constant(value: Any) -> Code:
    return Code(lambda _frame: value, is_constant=True)


@dataclass(frozen=True, slots=True)
class Program:
    """`evaluate` gives a value and what it cost; errors carry their cost as well."""

    _run: Run
    _cost: int
    _slots: Mapping[str, int]
    _size: int

    def evaluate(self, variables: Mapping[str, Any], limit: int) -> tuple[Any, int]:
        """A value, or a CelError in its place, and the cost."""
        frame: Frame = [self._cost, limit, 0, *[MISSING] * (self._size - _FIRST_VARIABLE)]
        for name, slot in self._slots.items():
            frame[slot] = variables.get(name, MISSING)
        try:
            value = self._run(frame)
        except CostExceeded:
            return CostExceeded("operation cancelled: actual cost limit exceeded"), max(frame[_COST], limit + 1)
        except CelError as error:
            value = error
        except (TypeError, AttributeError):
            value = CelError("no such overload")
        if frame[_COST] > limit:
            return CostExceeded("operation cancelled: actual cost limit exceeded"), frame[_COST]
        return value, frame[_COST]


def build(checked: Checked, variables: tuple[str, ...]) -> Program:
    """Raises Instantiation."""
    builder = _Builder(checked, {name: _FIRST_VARIABLE + i for i, name in enumerate(variables)})
    code = builder.code(checked.tree)
    used = {name: slot for name, slot in builder.globals.items() if name in checked.names}
    return Program(code.run, code.cost, used, builder.size)


class _Builder:
    def __init__(self, checked: Checked, slots: dict[str, int]) -> None:
        self._checked = checked
        self.globals = dict(slots)
        self._slots = dict(slots)
        self.size = _FIRST_VARIABLE + len(slots)

    def code(self, expr: Expr) -> Code:
        match expr:
            case Literal():
                return _constant(Uint(expr.value) if expr.type == "uint" else expr.value)
            case Ident():
                return self._name(expr.name.removeprefix("."))
            case Select():
                name = self._checked.idents.get(expr.number)
                return self._select(expr) if name is None else self._name(name)
            case Call():
                return self._call(expr)
            case ListExpr():
                return self._list(expr)
            case MapExpr():
                return self._map(expr)
            case Fold():
                return self._fold(expr)
        raise Instantiation(f"unknown type: {getattr(expr, 'name', '')}")

    def _name(self, name: str) -> Code:
        slot = self._slots.get(name)
        if slot is None:
            return _constant(TypeValue(TYPE_NAMES[name].name))

        def run(frame: Frame) -> Any:
            value = frame[slot]
            if value is MISSING:
                raise CelError(f"no such attribute(s): {name}")
            return value

        return Code(run, 1, 1, is_lookup=True)

    def _step(self, operand: Code, run: Run, cost: int = 1) -> Code:
        """A lookup in a value: one more step of a lookup, or the first in what was made otherwise."""
        if operand.is_lookup:
            return Code(run, operand.cost + cost, operand.own, is_lookup=True)
        return Code(run, operand.cost + cost + 1, 1, is_lookup=True)

    def _select(self, expr: Select) -> Code:
        operand, name = self.code(expr.operand), expr.field
        inner = operand.run
        if expr.is_test:
            made = self._step(operand, lambda frame: is_there(inner(frame), name))
            return Code(made.run, made.cost - made.own, 0, is_lookup=True)

        def run(frame: Frame) -> Any:
            value = inner(frame)
            try:
                return value[name]
            except (KeyError, TypeError):
                return field_of(value, name)

        return self._step(operand, run)

    def _call(self, expr: Call) -> Code:
        match expr.function:
            case "_&&_":
                return self._logical(expr, stops_at=False)
            case "_||_":
                return self._logical(expr, stops_at=True)
            case "_?_:_":
                return self._conditional(expr)
            case "_[_]" | "_[?_]":
                return self._index(expr)
            case "_?._":
                return self._optional_select(expr)
            case "or" | "orValue":
                return self._alternative(expr)
        operands = [*([expr.target] if expr.target is not None else []), *expr.args]
        codes = [self.code(operand) for operand in operands]
        cost = sum(code.cost for code in codes)
        chosen = self._checked.overloads[expr.number]
        overload = chosen[0] if len(chosen) == 1 else ""
        if (
            overload == "in_list"
            and codes[1].is_constant
            and (membership := calls.membership(codes[1].value)) is not None
        ):
            member, is_empty = membership
            return _constant(False) if is_empty else Code(calls.composed(member, None, [codes[0].run]), cost)
        if calls.is_conversion(expr.function) and len(codes) == 1 and codes[0].is_constant:
            return _constant(self._converted(expr, chosen, codes[0].value))
        kinds = [self._checked.types[operand.number].kind for operand in operands]
        if expr.function in ("_==_", "_!=_") and kinds == ["string", "string"]:
            run = calls.equal_texts(codes[0].run, codes[1].run, wanted=expr.function == "_==_")
            return Code(run, cost)
        is_typed = not {"dyn", "param"} & set(kinds)
        has_pattern = expr.function in ("matches", "find", "findAll") and codes[1].is_constant
        call, careful = calls.bound(expr.function, chosen, is_typed=is_typed, has_pattern=has_pattern)
        price = calls.price(expr.function, overload, kinds)
        if has_pattern:
            calls.check_pattern(codes[1].value, Instantiation)
        runs = [code.run for code in codes]
        if isinstance(price, int):
            return Code(calls.composed(call, careful, runs), cost + price)
        return Code(calls.priced(call, careful, runs, price, expr.function), cost)

    def _converted(self, expr: Call, chosen: tuple[str, ...], value: Any) -> Any:
        try:
            return calls.bound(expr.function, chosen, is_typed=False)[0](value)
        except _FAULTS as error:
            raise Instantiation(str(error)) from None

    def _logical(self, expr: Call, *, stops_at: bool) -> Code:
        left, right = (self.code(arg) for arg in expr.args)
        return Code(calls.logical(left.run, right.run, right.cost, stops_at=stops_at), left.cost)

    def _conditional(self, expr: Call) -> Code:
        condition, then, otherwise = (self.code(arg) for arg in expr.args)
        test, left, right = condition.run, then.run, otherwise.run
        left_cost, right_cost = then.cost - then.own, otherwise.cost - otherwise.own

        def run(frame: Frame) -> Any:
            chosen = test(frame)
            if chosen is True:
                frame[_COST] += left_cost
                return left(frame)
            if chosen is False:
                frame[_COST] += right_cost
                return right(frame)
            raise CelError("no such overload")

        return Code(run, condition.cost, 0, is_lookup=True)

    def _index(self, expr: Call) -> Code:
        operand, index = (self.code(arg) for arg in expr.args)
        inner, at = operand.run, index.run
        cost = index.cost - (index.own if index.is_lookup else 0)
        if expr.function == "_[?_]":
            return self._step(operand, lambda frame: _counted(frame, optional_index(inner(frame), at(frame))), cost)
        return self._step(operand, lambda frame: indexed(inner(frame), at(frame)), cost + 1)

    def _optional_select(self, expr: Call) -> Code:
        operand, name = self.code(expr.args[0]), self.code(expr.args[1]).value
        inner = operand.run
        return self._step(operand, lambda frame: _counted(frame, optional_field(inner(frame), name)), 0)

    def _alternative(self, expr: Call) -> Code:
        assert expr.target is not None
        first, other = self.code(expr.target), self.code(expr.args[0])
        run_first, run_other, other_cost = first.run, other.run, other.cost
        unwraps = expr.function == "orValue"

        def run(frame: Frame) -> Any:
            optional = run_first(frame)
            if not isinstance(optional, Maybe):
                return optional
            if optional.has_value:
                return optional.value if unwraps else optional
            frame[_COST] += other_cost
            return run_other(frame)

        return Code(run, first.cost)

    def _list(self, expr: ListExpr) -> Code:
        codes = [self.code(item) for item in expr.items]
        run = calls.made_list([code.run for code in codes], expr.optional)
        if all(code.is_constant for code in codes):
            return _constant(self._evaluated(run))
        return Code(run, sum(code.cost for code in codes) + 10)

    def _map(self, expr: MapExpr) -> Code:
        pairs = [(self.code(entry.key), self.code(entry.value)) for entry in expr.entries]
        optional = frozenset(i for i, entry in enumerate(expr.entries) if entry.is_optional)
        run = calls.made_map([(key.run, value.run) for key, value in pairs], optional)
        if all(key.is_constant and value.is_constant for key, value in pairs):
            return _constant(self._evaluated(run))
        return Code(run, sum(key.cost + value.cost for key, value in pairs) + 30)

    def _evaluated(self, run: Run) -> Any:
        try:
            return run([])
        except _FAULTS as error:
            raise Instantiation(str(error)) from None

    def _fold(self, expr: Fold) -> Code:
        if expr.kind == "bind":
            return self._binding(expr)
        source = self.code(expr.range)
        names = [expr.var, expr.var2] if expr.var2 else [expr.var]
        before = {name: self._slots.get(name) for name in names}
        slots = [self._bind(name) for name in names]
        step = expr.step
        assert isinstance(step, Call)
        only_if = None
        if expr.kind in ("list", "map") and step.function == "_?_:_":
            only_if, step = self.code(step.args[0]), step.args[1]
            assert isinstance(step, Call)
        made = [self.code(piece_expr) for piece_expr in _pieces(expr, step)]
        for name, slot in before.items():
            self._unbind(name, slot)
        pieces = [(piece.run, piece.cost, piece.is_constant) for piece in made]
        test = None if only_if is None else (only_if.run, only_if.cost)
        loop = loops.loop(expr.kind, loops.rounds(source.run, slots), pieces, test)
        return Code(loop, source.cost + (2 if expr.kind == "one" else 1))

    def _binding(self, expr: Fold) -> Code:
        init = self.code(expr.init)
        before = self._slots.get(expr.accu)
        slot = self._bind(expr.accu)
        result = self.code(expr.result)
        self._unbind(expr.accu, before)
        value, within = init.run, result.run

        def run(frame: Frame) -> Any:
            frame[slot] = value(frame)
            return within(frame)

        return Code(run, init.cost + result.cost)

    def _bind(self, name: str) -> int:
        slot = self.size
        self.size += 1
        self._slots[name] = slot
        return slot

    def _unbind(self, name: str, slot: int | None) -> None:
        if slot is None:
            del self._slots[name]
        else:
            self._slots[name] = slot


def _pieces(expr: Fold, step: Call) -> list[Expr]:
    """What a round of a loop evaluates beside the loop's own doings."""
    match expr.kind:
        case "one":
            return [step.args[0]]
        case "list":
            items = step.args[1]
            assert isinstance(items, ListExpr)
            return items.items
        case "map":
            return step.args[1:]
    return [step.args[1]]


def _counted(frame: Frame, optional: Maybe) -> Maybe:
    if optional.has_value:
        frame[_COST] += 1
    return optional
