"""The tree of a CEL expression, and what can be wrong with one before it runs.

Every node knows its number and where in the source it stands, so that the checker, the estimator and the messages can
speak about it. Macros (`all`, `map`, ...) are gone by the time there is a tree: they have become a `Fold`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from typing import Literal as Literal_


class CelError(Exception):
    """An expression that cannot be compiled, or not be evaluated; in cel-go's words where it has some."""


class CostExceeded(CelError):
    """An evaluation that was stopped because it cost too much."""


@dataclass(frozen=True, slots=True)
class Issue:
    """A fault of an expression; `at` is an offset into its source, None where it has no place."""

    at: int | None
    text: str


class CompileError(CelError):
    """All that is wrong with an expression."""

    def __init__(self, source: str, issues: Sequence[Issue]) -> None:
        super().__init__(shown(source, issues))


_MOST_SHOWN: Final = 100
_LONGEST_SNIPPET: Final = 16384


def shown(source: str, issues: Sequence[Issue]) -> str:
    """Issues as cel-go prints them: by place, each with its line of the source and a mark below it."""
    placed = sorted(
        ((_location(source, issue.at), issue.text) for issue in issues[:_MOST_SHOWN]), key=lambda one: one[0]
    )
    lines = source.split("\n")
    texts = []
    for (line, column), text in placed:
        report = f"ERROR: <input>:{line}:{column + 1}: {text}"
        if 1 <= line <= len(lines) and len(lines[line - 1].encode()) <= _LONGEST_SNIPPET:
            snippet = lines[line - 1].replace("\t", " ")
            dots = "".join("\uff0e" if ord(char) > 127 else "." for char in snippet[:column])
            wide = column < len(snippet) and ord(snippet[column]) > 127
            report += f"\n | {snippet}\n | {dots}{chr(0xFF3E) if wide else '^'}"
        texts.append(report)
    if len(issues) > _MOST_SHOWN:
        texts.append(f"{len(issues) - _MOST_SHOWN} more errors were truncated")
    return "\n".join(texts)


def _location(source: str, at: int | None) -> tuple[int, int]:
    if at is None:
        return -1, -1
    before = source[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1)


@dataclass(slots=True, eq=False)
class Expr:
    """A node. `number` is its own within one expression."""

    number: int
    at: int


@dataclass(slots=True, eq=False)
class Literal(Expr):
    value: Any
    type: str
    "int, uint, double, string, bytes, bool, null_type"


@dataclass(slots=True, eq=False)
class Ident(Expr):
    name: str


@dataclass(slots=True, eq=False)
class Select(Expr):
    operand: Expr
    field: str
    is_test: bool = False
    "Of has(...): whether the field is there, not what it holds."


@dataclass(slots=True, eq=False)
class Call(Expr):
    """`function` is a name, or an operator as cel-go writes it: `_+_`, `_[_]`, `_?_:_`."""

    function: str
    target: Expr | None
    args: list[Expr]


@dataclass(slots=True, eq=False)
class ListExpr(Expr):
    items: list[Expr]
    optional: frozenset[int] = frozenset()
    "Which of the items are added only if they have a value."


@dataclass(slots=True, eq=False)
class Entry(Expr):
    key: Expr
    value: Expr
    is_optional: bool = False


@dataclass(slots=True, eq=False)
class MapExpr(Expr):
    entries: list[Entry]


@dataclass(slots=True, eq=False)
class StructExpr(Expr):
    """An object of a named type; of its fields only the values matter, since the type cannot be created here."""

    name: str
    values: list[Expr] = field(default_factory=list)


FoldKind = Literal_["all", "exists", "one", "list", "map", "bind"]


@dataclass(slots=True, eq=False)
class Fold(Expr):
    """A loop: `accu` starts as `init`, becomes `step` for each element while `condition` holds; gives `result`.

    A `bind` is no loop, but a name (`accu`) given to a value (`init`) within an expression (`result`).
    """

    kind: FoldKind
    range: Expr
    var: str
    var2: str
    "The second variable (a list's item, a map's value) of a loop with two; empty otherwise."
    accu: str
    init: Expr
    condition: Expr
    step: Expr
    result: Expr


ACCUMULATOR: Final = "@result"
UNUSED: Final = "#unused"


def children(expr: Expr) -> list[Expr]:
    """The nodes right below a node."""
    match expr:
        case Select():
            return [expr.operand]
        case Call():
            return [*([expr.target] if expr.target is not None else []), *expr.args]
        case ListExpr():
            return list(expr.items)
        case MapExpr():
            return [part for entry in expr.entries for part in (entry.key, entry.value)]
        case StructExpr():
            return list(expr.values)
        case Fold():
            return [expr.range, expr.init, expr.condition, expr.step, expr.result]
    return []
