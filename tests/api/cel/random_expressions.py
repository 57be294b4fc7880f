"""Random expressions over every kind of field; about one in six is one that can be defined."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.api.cel.cases import INTEGER, NUMBER, TEXT, fields, lists

Json = dict[str, Any]

SCHEMA: Json = fields(
    n=INTEGER,
    d=NUMBER,
    b={"type": "boolean"},
    s={"type": "string"},
    t=TEXT,
    l=lists(TEXT),
    li=lists(INTEGER),
    lo=lists(fields(k=TEXT, v=INTEGER)),
    free={"type": "array", "items": INTEGER},
    m={"type": "object", "maxProperties": 5, "additionalProperties": INTEGER},
    o=fields(x=INTEGER, y=TEXT),
    q={"x-kubernetes-int-or-string": True},
    du={"type": "string", "format": "duration"},
    dt={"type": "string", "format": "date-time"},
    by={"type": "string", "format": "byte"},
    nu={"type": "string", "nullable": True, "maxLength": 3},
    absent=INTEGER,
)
OBJECT: Json = {
    "n": 7, "d": 2.5, "b": True, "s": "Hello, wörld", "t": "a", "l": ["b", "a", "c", "a"], "li": [3, 1, 2],
    "lo": [{"k": "x", "v": 2}, {"k": "y", "v": 1}, {"v": 5}], "free": [4, 4], "m": {"a": 1}, "o": {"x": 1}, "q": 5,
    "du": "1h30m0.5s", "dt": "2024-02-29T13:14:15.678Z", "by": "aGk=", "nu": None,
}  # fmt: skip

_DEEPER = ("self.o.x", "self.o.y", "self.lo[0].k", "self.lo[2].k", "self.m.a", "self.zz")
_PATHS = (*(f"self.{name}" for name in SCHEMA["properties"]), *_DEEPER)
_LITERALS = (
    "1", "0", "-3", "2.5", "'a'", "''", "'abc'", "true", "false", "null", "b'x'", "[]", "['a', 'b']", "[1, 2]",
    "{'a': 1}", "duration('1m')", "timestamp('2024-01-01T00:00:00Z')", "1u", "optional.none()", "optional.of(1)",
    "quantity('1')", "ip('1.1.1.1')", "url('http://a')", "semver('1.0.0')",
)  # fmt: skip
_OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&&", "||", "in")
_METHODS = (
    "size()", "startsWith({})", "contains({})", "matches('a+')", "lowerAscii()", "split(',')", "replace('a', {})",
    "substring({})", "indexOf({})", "join({})", "sum()", "max()", "isSorted()", "sort()", "distinct()", "reverse()",
    "first()", "last()", "hasValue()", "value()", "orValue({})", "flatten()", "find('a')", "findAll('b')", "charAt({})",
    "trim()", "getHours()", "getHost()", "add({})", "isGreaterThan({})", "family()", "major()", "or({})",
)  # fmt: skip
_MACROS = (
    "all({v}, {e})", "exists({v}, {e})", "exists_one({v}, {e})", "map({v}, {e})", "filter({v}, {e})",
    "map({v}, {e}, {f})", "all({v}, {w}, {e})", "transformList({v}, {w}, {e})", "transformMap({v}, {w}, {e})",
    "sortBy({v}, {e})", "optMap({v}, {e})", "optFlatMap({v}, {e})",
)  # fmt: skip
_FUNCTIONS = (
    "size({})", "string({})", "int({})", "double({})", "type({})", "dyn({})", "has({}.x)", "isURL({})", "isIP({})",
    "quantity({})", "ip({})", "cidr({})", "url({})", "bytes({})", "sets.contains({}, {})", "optional.of({})",
    "strings.quote({})", "format.dns1123Label().validate({})", "semver({})", "duration({})",
)  # fmt: skip


def expression(random: Random, depth: int, variables: tuple[str, ...] = ()) -> str:
    def inner(more: tuple[str, ...] = ()) -> str:
        return expression(random, depth - 1, (*variables, *more))

    kind = random.random()
    if depth <= 0 or kind < 0.25:
        if variables and random.random() < 0.45:
            return random.choice(variables)
        return random.choice(_PATHS if random.random() < 0.65 else _LITERALS)
    if kind < 0.45:
        return f"({inner()} {random.choice(_OPERATORS)} {inner()})"
    if kind < 0.6:
        method = random.choice(_METHODS)
        return f"{inner()}.{method.format(*(inner() for _ in range(method.count('{}'))))}"
    if kind < 0.75:
        macro, number = random.choice(_MACROS), len(variables)
        names = (f"v{number}", f"w{number}") if "{w}" in macro else (f"v{number}",)
        return f"{inner()}.{macro.format(v=names[0], w=names[-1], e=inner(names), f=inner(names))}"
    if kind < 0.88:
        function = random.choice(_FUNCTIONS)
        return function.format(*(inner() for _ in range(function.count("{}"))))
    shapes = ("({} ? {} : {})", "[{}, {}]", "{{'a': {}}}", "{}[{}]", "!{}", "{}.?x", "{}[?{}]")
    shape = random.choice(shapes)
    return shape.format(*(inner() for _ in range(shape.replace("{{", "").count("{}"))))
