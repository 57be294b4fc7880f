"""What an expression can cost at most, before it ever runs.

A walk over the tree with what the schema says about sizes. A value's size is known by its path from a variable
(`self`, `spec`, `@items`, ...), by the literal that it is, or by the call that made it. Loops cost their range's size
times what a round costs. All figures are cel-go's: a definition is refused by them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from koord.api.cel import sizes
from koord.api.cel.checker import Checked
from koord.api.cel.declared import Declared
from koord.api.cel.estimate_calls import Node, call_estimate
from koord.api.cel.sizes import NOTHING, ONE, Range, exactly
from koord.api.cel.syntax import (
    ACCUMULATOR,
    Call,
    Expr,
    Fold,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
)
from koord.api.cel.types import Type

LIST_COST: Final = exactly(10)
MAP_COST: Final = exactly(30)
_STRUCT_COST: Final = exactly(40)
_SCALARS: Final = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Entries:
    """The sizes of a container's keys, or indices, and of its values."""

    kind: str
    key: Range
    value: Range

    def joined(self, other: _Entries | None) -> _Entries | None:
        return None if other is None else _Entries(self.kind, self.key | other.key, self.value | other.value)


@dataclass(frozen=True, slots=True)
class _Local:
    path: Path
    size: Range | None
    entries: _Entries | None


def estimated_cost(checked: Checked, root: Declared | None) -> int:
    """The most that an expression can cost. `root` is what its variables are."""
    return _Estimator(checked, root).cost(checked.tree).high


@dataclass(slots=True)
class _Estimator:
    checked: Checked
    root: Declared | None
    paths: dict[int, Path] = field(default_factory=dict)
    sizes: dict[int, Range] = field(default_factory=dict)
    entries: dict[int, _Entries] = field(default_factory=dict)
    locals: dict[str, list[_Local]] = field(default_factory=dict)

    def cost(self, expr: Expr) -> Range:
        match expr:
            case Literal():
                return NOTHING
            case Ident():
                return self._ident(expr, expr.name)
            case Select():
                name = self.checked.idents.get(expr.number)
                return self._select(expr) if name is None else self._ident(expr, name)
            case Call():
                return self._call(expr)
            case ListExpr():
                return self._list(expr)
            case MapExpr():
                return self._map(expr)
            case Fold():
                return self._binding(expr) if expr.kind == "bind" else self._fold(expr)
        return _STRUCT_COST

    def _ident(self, expr: Expr, name: str) -> Range:
        local = self._local(name)
        self.paths[expr.number] = (name,) if local is None else local.path
        return ONE

    def _local(self, name: str) -> _Local | None:
        stack = self.locals.get(name)
        return stack[-1] if stack else None

    def _select(self, expr: Select) -> Range:
        cost = self.cost(expr.operand)
        if expr.is_test:
            return cost
        self.paths[expr.number] = (*self._path(expr.operand), expr.field)
        is_looked_up = self._type(expr.operand).kind in ("map", "struct", "param")
        return cost + ONE if is_looked_up else cost

    def _path(self, expr: Expr) -> Path:
        if isinstance(expr, Ident) and (local := self._local(expr.name)) is not None:
            return local.path
        return self.paths.get(expr.number, ())

    def _type(self, expr: Expr) -> Type:
        return self.checked.types[expr.number]

    def _call(self, expr: Call) -> Range:
        if expr.function == "dyn":
            cost = self.cost(expr.args[0]) + ONE
            self._copy_sizes(expr, expr.args[0])
            return cost
        arg_costs = [self.cost(arg) for arg in expr.args]
        nodes = [self._node(arg) for arg in expr.args]
        target_cost, target = NOTHING, None
        if expr.target is not None:
            target_cost = self.cost(expr.target)
            target = self._node(expr.target)
        cost, size = sizes.EMPTY_UNION, None
        for overload in self.checked.overloads[expr.number]:
            estimate = call_estimate(self, expr.function, overload, target, nodes, arg_costs)
            cost |= estimate.cost
            self._note_entries(expr, overload)
            if estimate.size is not None:
                size = estimate.size if size is None else size | estimate.size
            if overload in ("index_list", "index_map"):
                entries = self._entries_of(expr.args[0])
                size = None if entries is None else entries.value
                step = "@items" if overload == "index_list" else "@values"
                self.paths[expr.number] = (*self._path(expr.args[0]), step)
            if size is None:
                size = self.size(expr)
        if size is not None:
            self.sizes[expr.number] = size
        return target_cost + cost

    def _note_entries(self, expr: Call, overload: str) -> None:
        match overload:
            case "conditional":
                ones, others = self._entries_of(expr.args[1]), self._entries_of(expr.args[2])
            case "add_string" | "add_bytes" | "add_list":
                ones, others = self._entries_of(expr.args[0]), self._entries_of(expr.args[1])
            case _:
                return
        joined = None if ones is None else ones.joined(others)
        if joined is not None:
            self.entries[expr.number] = joined

    def _list(self, expr: ListExpr) -> Range:
        cost, item = NOTHING, sizes.EMPTY_UNION if expr.items else NOTHING
        for item_expr in expr.items:
            cost += self.cost(item_expr)
            item |= self._known(item_expr)
        self.entries[expr.number] = _Entries("list", ONE, item)
        return cost + LIST_COST

    def _map(self, expr: MapExpr) -> Range:
        cost = NOTHING
        key = value = sizes.EMPTY_UNION if expr.entries else NOTHING
        for entry in expr.entries:
            cost = cost + self.cost(entry.key) + self.cost(entry.value)
            key |= self._known(entry.key)
            value |= self._known(entry.value)
        self.entries[expr.number] = _Entries("map", key, value)
        return cost + MAP_COST

    def _fold(self, expr: Fold) -> Range:
        cost = self.cost(expr.range) + self.cost(expr.init)
        self._push(expr.accu, _Local(self._path(expr.init), self.size(expr.init), self._entries_of(expr.init)))
        variables = self._loop_variables(expr)
        for name, local in variables.items():
            self._push(name, local)
        round_cost = self.cost(expr.condition) + self.cost(expr.step)
        for name in variables:
            self.locals[name].pop()
        cost += self.cost(expr.result)
        self.locals[expr.accu].pop()
        rounds = self._known(expr.range)
        if isinstance(expr.init, Literal):
            size = self.size(expr.init)
            if size is not None:
                self.sizes[expr.number] = size
        elif isinstance(expr.init, ListExpr | MapExpr):
            self.sizes[expr.number] = rounds
            entries = self._entries_of(expr.step)
            if entries is not None:
                self.entries[expr.number] = entries
        return cost + rounds * round_cost

    def _loop_variables(self, expr: Fold) -> dict[str, _Local]:
        entries = self._entries_of(expr.range)
        kind = entries.kind if entries is not None else self._type(expr.range).kind
        path = self._path(expr.range)
        key, value = (None, None) if entries is None else (entries.key, entries.value)
        is_list = kind == "list"
        if expr.var2:
            return {
                expr.var: _Local((*path, "@indices" if is_list else "@keys"), key, None),
                expr.var2: _Local((*path, "@items" if is_list else "@values"), value, None),
            }
        return {expr.var: _Local((*path, "@items" if is_list else "@keys"), value if is_list else key, None)}

    def _push(self, name: str, local: _Local) -> None:
        self.locals.setdefault(name, []).append(local)

    def _binding(self, expr: Fold) -> Range:
        cost = self.cost(expr.range) + self.cost(expr.init)
        self._push(expr.accu, _Local(self._path(expr.init), self.size(expr.init), self._entries_of(expr.init)))
        cost += self.cost(expr.result)
        self.locals[expr.accu].pop()
        self._copy_sizes(expr, expr.result)
        return cost

    def _copy_sizes(self, to: Expr, of: Expr) -> None:
        size, entries = self.size(of), self._entries_of(of)
        if size is not None:
            self.sizes[to.number] = size
        if entries is not None:
            self.entries[to.number] = entries

    def _node(self, expr: Expr) -> Node:
        path = self._path(expr)
        shown = () if path[:1] == (ACCUMULATOR,) else path
        return Node(expr, self._type(expr), shown, self.size(expr))

    def _known(self, expr: Expr) -> Range:
        size = self.size(expr)
        return sizes.UNKNOWN if size is None else size

    def size(self, expr: Expr) -> Range | None:
        """How large a value can be, if anything is known of it."""
        size = self.sizes.get(expr.number)
        if size is not None:
            return size
        match expr:
            case Literal():
                return exactly(len(expr.value) if isinstance(expr.value, str | bytes) else 1)
            case ListExpr():
                return exactly(len(expr.items))
            case MapExpr():
                return exactly(len(expr.entries))
        declared = self.declared_size(self._path(expr))
        if declared is not None:
            self.sizes[expr.number] = declared
            return declared
        if _is_scalar(self._type(expr)):
            return ONE
        local = self._local(expr.name) if isinstance(expr, Ident) else None
        return None if local is None else local.size

    def _entries_of(self, expr: Expr) -> _Entries | None:
        entries = self.entries.get(expr.number)
        if entries is not None:
            return entries
        local = self._local(expr.name) if isinstance(expr, Ident) else None
        return None if local is None else local.entries

    def declared_size(self, path: Path) -> Range | None:
        """What the schema says about the value at a path; whatever its first step is, it is taken for the root."""
        at = self.root
        if not path or at is None:
            return None
        for step in path[1:]:
            if step in ("@items", "@values"):
                at = at.element
            elif step == "@keys":
                at = at.key
            else:
                at = at.fields.get(step)
            if at is None:
                return None
        return Range(0, at.max_size)


def _is_scalar(one: Type) -> bool:
    return one.kind in _SCALARS or (one.name == "optional_type" and bool(one.params) and _is_scalar(one.params[0]))
