"""Types for every node of an expression, or the reasons why it has none.

Called once for each expression that is defined. Names are looked up among the variables that are declared, calls among
the signatures; which overloads a call may mean is kept, since costs and evaluation depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from koord.api.cel import signatures, types
from koord.api.cel.parser import RESERVED
from koord.api.cel.signatures import FUNCTIONS, Overload
from koord.api.cel.syntax import (
    Call,
    CompileError,
    Expr,
    Fold,
    Ident,
    Issue,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
)
from koord.api.cel.types import BOOL, DYN, ERROR, INT, Bound, Type, substituted

TYPE_NAMES: Final[Mapping[str, Type]] = {
    type_.name: type_
    for type_ in (
        *(one for kind, one in types.SIMPLE.items() if kind != "dyn"),
        types.list_of(DYN),
        types.map_of(DYN, DYN),
        types.optional_of(DYN),
        signatures.IP,
        signatures.CIDR,
    )
}
"""Types that an expression can name: `type(x) == int`."""


@dataclass(slots=True)
class Checked:
    """An expression with its types. `overloads` and `idents` are of those nodes that are calls and names."""

    source: str
    tree: Expr
    types: dict[int, Type] = field(default_factory=dict)
    overloads: dict[int, tuple[str, ...]] = field(default_factory=dict)
    idents: dict[int, str] = field(default_factory=dict)
    "The variable, or type, that a node names; a select (`net.IP`) can be a name, too."

    @property
    def type(self) -> Type:
        return self.types[self.tree.number]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.idents.values())


def check(source: str, tree: Expr, variables: Mapping[str, Type]) -> Checked:
    """Raises CompileError."""
    checker = _Checker(Checked(source, tree), variables)
    checker.visit(tree)
    if checker.issues:
        raise CompileError(source, checker.issues)
    checker.settle()
    return checker.checked


class _Checker:
    def __init__(self, checked: Checked, variables: Mapping[str, Type]) -> None:
        self.checked = checked
        self.issues: list[Issue] = []
        self._scopes: list[Mapping[str, Type]] = [variables]
        self._bound: Bound = {}
        self._free = 0

    def settle(self) -> None:
        """Put in each type what its parameters turned out to be."""
        types_known = self.checked.types
        for number, one in types_known.items():
            types_known[number] = substituted(self._bound, one, unbound_to_dyn=True)

    def visit(self, expr: Expr) -> Type:
        match expr:
            case Literal():
                type_ = types.SIMPLE[expr.type]
            case Ident():
                type_ = self._ident(expr)
            case Select():
                type_ = self._select(expr)
            case Call():
                type_ = self._optional_select(expr) if expr.function == "_?._" else self._call(expr)
            case ListExpr():
                type_ = self._list(expr)
            case MapExpr():
                type_ = self._map(expr)
            case Fold():
                type_ = self._fold(expr)
            case _:
                type_ = self._struct(expr)
        self.checked.types[expr.number] = type_
        return type_

    def _fault(self, expr: Expr, text: str) -> Type:
        self.issues.append(Issue(expr.at, text))
        return ERROR

    def _undeclared(self, expr: Expr, name: str) -> Type:
        return self._fault(expr, f"undeclared reference to '{name}' (in container '')")

    def _lookup(self, name: str) -> Type | None:
        name = name.removeprefix(".")
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        named = TYPE_NAMES.get(name)
        return types.type_of(named) if named is not None else None

    def _ident(self, expr: Ident) -> Type:
        ident_type = self._lookup(expr.name)
        if ident_type is None:
            return self._undeclared(expr, expr.name)
        self.checked.idents[expr.number] = expr.name.removeprefix(".")
        return ident_type

    def _select(self, expr: Select) -> Type:
        name = _qualified(expr)
        if name is not None and (named := self._lookup(name)) is not None:
            self.checked.idents[expr.number] = name.removeprefix(".")
            return named
        field_type = self._field(expr, expr.operand, expr.field, is_optional=False)
        return BOOL if expr.is_test else substituted(self._bound, field_type)

    def _optional_select(self, expr: Call) -> Type:
        operand, name = expr.args
        self.checked.types[name.number] = types.STRING
        self.checked.overloads[expr.number] = ("select_optional_field",)
        assert isinstance(name, Literal)
        return substituted(self._bound, self._field(expr, operand, str(name.value), is_optional=True))

    def _field(self, expr: Expr, operand: Expr, name: str, *, is_optional: bool) -> Type:
        inner, was_optional = types.unwrapped(substituted(self._bound, self.visit(operand)))
        match inner.kind:
            case "map":
                made = inner.params[1]
            case "struct":
                field_type = inner.fields.get(name) or (inner.fields.get(f"__{name}__") if name in RESERVED else None)
                fault = (
                    f"unexpected failed resolution of '{inner.name}'"
                    if _is_closed(inner)
                    else f"undefined field '{name}'"
                )
                made = field_type or self._fault(expr, fault)
            case "param":
                self._assign([DYN], [inner])
                made = DYN
            case "dyn" | "error":
                made = DYN
            case _:
                self._fault(expr, f"type '{types.type_text(inner)}' does not support field selection")
                made = DYN
        return types.optional_of(made) if is_optional or was_optional else made

    def _call(self, expr: Call) -> Type:
        for arg in expr.args:
            self.visit(arg)
        name = expr.function
        if expr.target is None:
            expr.function = name.removeprefix(".")
        else:
            prefix = _qualified(expr.target)
            if prefix is not None and f"{prefix.removeprefix('.')}.{expr.function}" in FUNCTIONS:
                expr.function, expr.target = f"{prefix.removeprefix('.')}.{expr.function}", None
            else:
                self.visit(expr.target)
        overloads = FUNCTIONS.get(expr.function)
        if overloads is None:
            return self._undeclared(expr, name)
        return self._resolved(expr, overloads)

    def _resolved(self, expr: Call, overloads: Sequence[Overload]) -> Type:
        types_of = self.checked.types
        operands = [*([expr.target] if expr.target is not None else []), *expr.args]
        given = [types_of[operand.number] for operand in operands]
        if expr.function in ("_&&_", "_||_"):
            return self._logical(expr, overloads[0], given)
        result: Type | None = None
        chosen: list[str] = []
        for overload in overloads:
            if overload.is_member != (expr.target is not None):
                continue
            fresh: Bound = {name: self._variable() for name in sorted(overload.params)}
            wanted = [substituted(fresh, wanted_type) for wanted_type in overload.args]
            if not self._assign(given, wanted):
                continue
            chosen.append(overload.id)
            made = substituted(self._bound, substituted(fresh, overload.result))
            if result is None:
                result = made
            elif not types.is_dyn(result) and made != result:
                result = DYN
        if result is None:
            shown = [substituted(self._bound, given_type, unbound_to_dyn=True) for given_type in given]
            applied = types.signature(shown, expr.target is not None)
            return self._fault(expr, f"found no matching overload for '{expr.function}' applied to '{applied}'")
        self.checked.overloads[expr.number] = tuple(chosen)
        return result

    def _logical(self, expr: Call, overload: Overload, given: Sequence[Type]) -> Type:
        fits = True
        for arg, one in zip(expr.args, given, strict=True):
            if not self._assign([one], [BOOL]):
                self._mismatch(arg, BOOL, one)
                fits = False
        self.checked.overloads[expr.number] = (overload.id,)
        return BOOL if fits else ERROR

    def _mismatch(self, expr: Expr, wanted: Type, given: Type) -> Type:
        return self._fault(expr, f"expected type '{types.type_text(wanted)}' but found '{types.type_text(given)}'")

    def _joined(self, before: Type | None, one: Type) -> Type:
        if before is None:
            return one
        return types.most_general(before, one) if self._assign([before], [one]) else DYN

    def _element(self, expr: Expr, is_optional: bool) -> Type:
        one = self.visit(expr)
        if not is_optional:
            return one
        inner, was_optional = types.unwrapped(one)
        if not was_optional and not types.is_dyn(inner):
            self._mismatch(expr, types.optional_of(inner), inner)
        return inner

    def _list(self, expr: ListExpr) -> Type:
        joined: Type | None = None
        for i, item in enumerate(expr.items):
            joined = self._joined(joined, self._element(item, i in expr.optional))
        return types.list_of(joined or self._variable())

    def _map(self, expr: MapExpr) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in expr.entries:
            key = self._joined(key, self.visit(entry.key))
            value = self._joined(value, self._element(entry.value, entry.is_optional))
        return types.map_of(key or self._variable(), value or self._variable())

    def _struct(self, expr: Expr) -> Type:
        assert isinstance(expr, StructExpr)
        if expr.name in TYPE_NAMES:
            return self._fault(expr, f"'{expr.name}' is not a message type")
        return self._undeclared(expr, expr.name)

    def _fold(self, expr: Fold) -> Type:
        ranged = substituted(self._bound, self.visit(expr.range))
        accu = self.visit(expr.init)
        with self._scope({expr.accu: accu}):
            with self._scope(self._loop_variables(expr, ranged)):
                self._assert(expr.condition, BOOL)
                self._assert(expr.step, accu)
            result_type = self.visit(expr.result)
        return substituted(self._bound, result_type)

    def _loop_variables(self, expr: Fold, ranged: Type) -> Mapping[str, Type]:
        match ranged.kind:
            case "list":
                first, second = (INT, ranged.params[0]) if expr.var2 else (ranged.params[0], DYN)
            case "map":
                first, second = ranged.params
            case "dyn" | "error" | "param":
                self._assign([DYN], [ranged])
                first, second = DYN, DYN
            case _:
                text = f"expression of type '{types.type_text(ranged)}' cannot be range of a comprehension"
                first = second = self._fault(expr.range, f"{text} (must be list, map, or dynamic)")
        return {expr.var: first, expr.var2: second} if expr.var2 else {expr.var: first}

    def _assert(self, expr: Expr, wanted: Type) -> None:
        given = self.visit(expr)
        if not self._assign([wanted], [given]):
            self._mismatch(expr, wanted, given)

    def _assign(self, ones: Sequence[Type], others: Sequence[Type]) -> bool:
        bound = types.assigned(self._bound, ones, others)
        if bound is None:
            return False
        self._bound = bound
        return True

    def _variable(self) -> Type:
        self._free += 1
        return types.param(f"_var{self._free - 1}")

    @contextmanager
    def _scope(self, names: Mapping[str, Type]) -> Iterator[None]:
        self._scopes.append(names)
        yield
        self._scopes.pop()


def _is_closed(one: Type) -> bool:
    """Whether a type comes with a library, and shows no fields at all."""
    return one.name.startswith("kubernetes.") and not one.fields


def _qualified(expr: Expr) -> str | None:
    """The dotted name that a chain of selects spells."""
    if isinstance(expr, Ident):
        return expr.name
    if isinstance(expr, Select) and not expr.is_test:
        prefix = _qualified(expr.operand)
        return None if prefix is None else f"{prefix}.{expr.field}"
    return None
