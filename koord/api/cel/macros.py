"""The macros of CEL: calls that are no calls, but loops and tests over names that they bring along.

`has`, the quantifiers, `map` and `filter` are the language's own; those with two variables, `optMap` and `sortBy` come
with libraries that Kubernetes adds. Each becomes what cel-go makes of it, since what an expression costs is counted
on that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields as dataclass_fields
from typing import Final

from koord.api.cel.syntax import (
    ACCUMULATOR,
    UNUSED,
    Call,
    Expr,
    Fold,
    FoldKind,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
)

_OLD_ACCUMULATOR: Final = "__result__"
_SORTED: Final = "@__sortBy_input__"
_QUANTIFIERS: Final = frozenset({"all", "exists", "exists_one", "existsOne"})
_TRANSFORMS: Final = frozenset({"transformList", "transformMap", "transformMapEntry"})


class _Misused(Exception):
    def __init__(self, at: int, text: str) -> None:
        super().__init__(text)
        self.at = at


class Expander:
    """`number` gives the number of a new node; `fault` notes what is wrong, and gives a node to go on with."""

    def __init__(self, number: Callable[[], int], fault: Callable[[int, str], Expr], *, binds: bool) -> None:
        """`binds`: whether there is `cel.bind`."""
        self._number, self._fault, self._binds = number, fault, binds

    def expand(self, at: int, name: str, target: Expr | None, args: list[Expr]) -> Expr | None:
        """What a call stands for, if it is one of a macro."""
        try:
            if target is None:
                return self._has(at, args[0]) if name == "has" and len(args) == 1 else None
            return self._on(at, name, target, args)
        except _Misused as misused:
            return self._fault(misused.at, str(misused))

    def _on(self, at: int, name: str, target: Expr, args: list[Expr]) -> Expr | None:
        count = len(args)
        if name in _QUANTIFIERS and count in (2, 3):
            return self._quantified(at, name, target, args)
        if name in _TRANSFORMS and count in (3, 4):
            return self._transformed(at, name, target, args)
        if (name == "map" and count in (2, 3)) or (name == "filter" and count == 2):
            return self._mapped(at, name, target, args)
        if name in ("optMap", "optFlatMap") and count == 2:
            return self._optionally(at, name, target, args)
        if name == "sortBy" and count == 2:
            return self._sorted(at, target, args)
        if self._binds and name == "bind" and count == 3 and isinstance(target, Ident) and target.name == "cel":
            if not isinstance(args[0], Ident):
                raise _Misused(args[0].at, "cel.bind() variable names must be simple identifiers")
            return self._bound(at, args[0].name, args[1], args[2])
        return None

    def _has(self, at: int, arg: Expr) -> Expr:
        if not isinstance(arg, Select):
            raise _Misused(arg.at, "invalid argument to has() macro")
        return Select(self._number(), at, arg.operand, arg.field, is_test=True)

    def _call(self, at: int, function: str, *args: Expr, on: Expr | None = None) -> Expr:
        return Call(self._number(), at, function, on, list(args))

    def _accu(self, at: int) -> Expr:
        return Ident(self._number(), at, ACCUMULATOR)

    def _literal(self, at: int, value: bool | int) -> Expr:
        return Literal(self._number(), at, value, "bool" if isinstance(value, bool) else "int")

    def _loop(
        self,
        at: int,
        kind: FoldKind,
        target: Expr,
        names: tuple[str, str],
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> Expr:
        return Fold(self._number(), at, kind, target, *names, ACCUMULATOR, init, condition, step, result)

    def _quantified(self, at: int, name: str, target: Expr, args: list[Expr]) -> Expr:
        names = _names(args[:-1], "argument must be a simple name")
        holds = args[-1]
        if name == "all":
            condition = self._call(at, "@not_strictly_false", self._accu(at))
            step = self._call(at, "_&&_", self._accu(at), holds)
            return self._loop(at, "all", target, names, self._literal(at, True), condition, step, self._accu(at))
        if name == "exists":
            condition = self._call(at, "@not_strictly_false", self._call(at, "!_", self._accu(at)))
            step = self._call(at, "_||_", self._accu(at), holds)
            return self._loop(at, "exists", target, names, self._literal(at, False), condition, step, self._accu(at))
        more = self._call(at, "_+_", self._accu(at), self._literal(at, 1))
        step = self._call(at, "_?_:_", holds, more, self._accu(at))
        result = self._call(at, "_==_", self._accu(at), self._literal(at, 1))
        return self._loop(at, "one", target, names, self._literal(at, 0), self._literal(at, True), step, result)

    def _mapped(self, at: int, name: str, target: Expr, args: list[Expr]) -> Expr:
        names = _names(args[:1], "argument is not an identifier")
        made = args[0] if name == "filter" else args[-1]
        only_if = args[1] if name == "filter" or len(args) == 3 else None
        return self._collected(at, target, names, made, only_if)

    def _collected(self, at: int, target: Expr, names: tuple[str, str], made: Expr, only_if: Expr | None) -> Expr:
        step = self._call(at, "_+_", self._accu(at), ListExpr(self._number(), at, [made]))
        return self._stepped(at, target, names, ListExpr(self._number(), at, []), step, only_if)

    def _stepped(
        self, at: int, target: Expr, names: tuple[str, str], init: Expr, step: Expr, only_if: Expr | None
    ) -> Expr:
        if only_if is not None:
            step = self._call(at, "_?_:_", only_if, step, self._accu(at))
        kind: FoldKind = "list" if isinstance(init, ListExpr) else "map"
        return self._loop(at, kind, target, names, init, self._literal(at, True), step, self._accu(at))

    def _transformed(self, at: int, name: str, target: Expr, args: list[Expr]) -> Expr:
        names = _names(args[:2], "argument must be a simple name")
        only_if, made = (args[2] if len(args) == 4 else None), args[-1]
        if name == "transformList":
            return self._collected(at, target, names, made, only_if)
        key = [Ident(self._number(), at, names[0])] if name == "transformMap" else []
        step = self._call(at, "cel.@mapInsert", self._accu(at), *key, made)
        return self._stepped(at, target, names, MapExpr(self._number(), at, []), step, only_if)

    def _bound(self, at: int, name: str, value: Expr, within: Expr) -> Expr:
        nothing, never = ListExpr(self._number(), at, []), self._literal(at, False)
        again = Ident(self._number(), at, name)
        return Fold(self._number(), at, "bind", nothing, UNUSED, "", name, value, never, again, within)

    def _optionally(self, at: int, name: str, target: Expr, args: list[Expr]) -> Expr:
        if not isinstance(args[0], Ident):
            raise _Misused(args[0].at, f"{name}() variable name must be a simple identifier")
        has_value = self._call(at, "hasValue", on=target)
        value = self._call(at, "value", on=self._copy(target))
        made = self._bound(at, args[0].name, value, args[1])
        if name == "optMap":
            made = self._call(at, "optional.of", made)
        return self._call(at, "_?_:_", has_value, made, self._call(at, "optional.none"))

    def _sorted(self, at: int, target: Expr, args: list[Expr]) -> Expr:
        if not isinstance(target, ListExpr | Select | Ident | Fold | Call):
            text = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
            raise _Misused(target.at, text)
        keys = self._mapped(at, "map", Ident(self._number(), at, _SORTED), args)
        within = self._call(at, "@sortByAssociatedKeys", keys, on=Ident(self._number(), at, _SORTED))
        return self._bound(at, _SORTED, target, within)

    def _copy(self, expr: Expr) -> Expr:
        """The same again, with numbers of its own."""
        made: dict[str, object] = {"number": self._number()}
        for field in dataclass_fields(expr):
            if field.name == "number":
                continue
            value = getattr(expr, field.name)
            if isinstance(value, Expr):
                value = self._copy(value)
            elif isinstance(value, list):
                value = [self._copy(item) for item in value]
            made[field.name] = value
        kind: Callable[..., Expr] = type(expr)
        return kind(**made)


def _names(args: list[Expr], otherwise: str) -> tuple[str, str]:
    """The one or two variables of a loop."""
    names: list[str] = []
    for arg in args:
        if not isinstance(arg, Ident):
            raise _Misused(arg.at, otherwise)
        names.append(arg.name)
    if len(names) == 2 and names[0] == names[1]:
        raise _Misused(args[1].at, f"duplicate variable name: {names[0]}")
    for arg, name in zip(args, names, strict=True):
        if name in (ACCUMULATOR, _OLD_ACCUMULATOR):
            raise _Misused(arg.at, "iteration variable overwrites accumulator variable")
    return names[0], names[1] if len(names) == 2 else ""
