"""The JSON paths of printer columns, scale and selectable fields: `.spec.a`, `.spec.list[0].name`,
`.status.conditions[?(@.type=="Ready")].status`, `.metadata.annotations['a.b/c']`, `.spec.items[*].name`.

Compiled once to a function that gives the values found, in order. A key or index that is not there finds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from koord.api.text.whole_number import whole_number

Step = Callable[[Any], Iterator[Any]]
Find = Callable[[Any], list[Any]]

_NAME: Final = re.compile(r"\.((?:\\.|[^.\[\]\\])+)")
_KEY: Final = re.compile(r"""\[\s*(?:'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)")\s*\]""")
_INDEX: Final = re.compile(r"\[\s*(-?[0-9]+|\*|-?[0-9]*:-?[0-9]*(?::[0-9]+)?)\s*\]")
_FILTER: Final = re.compile(
    r"""\[\?\(\s*@((?:\.(?:\\.|[\w\-/])+|\['[^']*'\])*)\s*(?:(==|!=|<=|>=|<|>)\s*("[^"]*"|'[^']*'|[-\w.]+))?\s*\)\]"""
)


class JsonPathError(ValueError):
    """Not a path that this server can follow."""


def compile_path(path: str) -> Find:
    """The values that a path finds in an object."""
    steps = list(_steps(path))

    def find(value: Any) -> list[Any]:
        values = [value]
        for step in steps:
            values = [inner for value in values for inner in step(value)]
        return values

    return find


def simple_path(path: str) -> tuple[str, ...]:
    """The names in a dotted path, for example `.spec.replicas`."""
    return tuple(part for part in path.removeprefix(".").split(".") if part)


def lookup(obj: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The value below some names, or None."""
    value: Any = obj
    for name in names:
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


def _steps(path: str) -> Iterator[Step]:
    rest = path.strip()
    if rest in (".", "$", ""):
        return
    rest = rest.removeprefix("$")
    while rest:
        if match := _NAME.match(rest):
            name = re.sub(r"\\(.)", r"\1", match[1])
            yield _wildcard if name == "*" else _child(name)
        elif match := _KEY.match(rest):
            text = match[1] if match[1] is not None else match[2]
            yield _child(re.sub(r"\\(.)", r"\1", text))
        elif match := _INDEX.match(rest):
            yield _at(match[1])
        elif match := _FILTER.match(rest):
            yield _filter(match[1], match[2], match[3])
        else:
            raise JsonPathError(f"{path!r} is not a path at {rest!r}; it must be as in .status.conditions[0].type")
        rest = rest[match.end() :]


def _child(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, Mapping) and name in value:
            yield value[name]

    return step


def _wildcard(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _at(text: str) -> Step:
    if text == "*":
        return _wildcard
    if ":" not in text:
        index = whole_number(text)

        def one(value: Any) -> Iterator[Any]:
            if isinstance(value, list) and -len(value) <= index < len(value):
                yield value[index]

        return one
    bounds = [whole_number(part) if part else None for part in text.split(":")]

    def some(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[slice(*bounds)]

    return some


def _filter(left: str, operator: str | None, right: str | None) -> Step:
    find = compile_path(left or ".")
    wanted = _literal(right) if right is not None else None

    def fits(item: Any) -> bool:
        values = find(item)
        if operator is None:
            return bool(values)
        return bool(values) and _compare(values[0], operator, wanted)

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from (item for item in value if fits(item))

    return step


def _literal(text: str) -> object:
    if text[0] in "\"'":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text


def _compare(left: Any, operator: str, right: Any) -> bool:
    if isinstance(left, bool) != isinstance(right, bool) or isinstance(left, str) != isinstance(right, str):
        return operator == "!="
    match operator:
        case "==":
            return bool(left == right)
        case "!=":
            return bool(left != right)
    try:
        outcomes: dict[str, bool] = {
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            ">=": left >= right,
        }
    except TypeError:
        return False
    return outcomes[operator]
