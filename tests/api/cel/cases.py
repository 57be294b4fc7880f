"""Rules in CEL, the objects they judge, and faulty rules: a real server's answers are recorded for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

INTEGER: Json = {"type": "integer"}
NUMBER: Json = {"type": "number"}
TEXT: Json = {"type": "string", "maxLength": 30}


def fields(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


def ruled(schema: Json, *rules: str | Json) -> Json:
    return {**schema, "x-kubernetes-validations": [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]}


def lists(items: Json, **more: Any) -> Json:
    return {"type": "array", "maxItems": 10, "items": items, **more}


@dataclass(frozen=True)
class Case:
    """A schema for `spec`, and specs to create. A list is a chain: created, then changed to each of the others."""

    name: str
    schema: Json
    specs: tuple[Json | list[Json], ...]
    root: Mapping[str, Any] = field(default_factory=dict)
    "What stands at the root of the schema beside `spec`."


_STRINGS = (
    'self.s.lowerAscii() == "abc" || self.s.split(",").size() == 2 || self.s.find("[0-9]+") == "42" || '
    'self.s.substring(1) == "yz" || self.s.trim() == "q" || self.s.replace("a", "b") == "bbb" || '
    'self.s.charAt(0) == "!" || self.s.upperAscii() == "U" || self.s.indexOf("z") == 3'
)
_MAP_LIST = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
_KEYED = {**ruled(fields(k=TEXT, v=ruled(INTEGER, "self >= oldSelf")), "self.v < 10"), "required": ["k"]}
_ESCAPED = {"a-b": INTEGER, "namespace": INTEGER, "x__y": INTEGER, "c.d": INTEGER, "e/f": INTEGER}
_ESCAPED_RULE = (
    "self.a__dash__b > 0 && self.__namespace__ > 0 && self.x__underscores__y > 0 && self.c__dot__d > 0 && "
    "self.e__slash__f > 0"
)
_EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}

CASES: tuple[Case, ...] = (
    Case(
        "between fields",
        ruled(fields(min=INTEGER, max=INTEGER), "self.min <= self.max"),
        ({"min": 1, "max": 2}, {"min": 3, "max": 2}, {"min": 3}),
    ),
    Case(
        "message, reason and path",
        ruled(
            fields(a=INTEGER),
            {"rule": "self.a > 1", "message": "a is small", "reason": "FieldValueForbidden", "fieldPath": ".a"},
        ),
        ({"a": 1},),
    ),
    Case(
        "a message that is computed",
        ruled(fields(s=TEXT), {"rule": 'self.s == "x"', "messageExpression": '"s is " + self.s'}),
        ({"s": "y"}, {"s": "x"}, {"s": "two\nlines"}),
    ),
    Case(
        "a message that cannot be computed",
        ruled(
            fields(a=INTEGER),
            {"rule": "self.a > 1", "messageExpression": '1 / 0 > self.a ? "a" : "b"', "message": "fallback"},
        ),
        ({"a": 1},),
    ),
    Case("required", ruled(fields(a=INTEGER), {"rule": "self.a > 1", "reason": "FieldValueRequired"}), ({"a": 1},)),
    Case("duplicate", ruled(fields(a=INTEGER), {"rule": "self.a > 1", "reason": "FieldValueDuplicate"}), ({"a": 1},)),
    Case(
        "on a scalar",
        fields(a=ruled(INTEGER, "self > 1", {"rule": "self < 10", "reason": "FieldValueDuplicate"})),
        ({"a": 1}, {"a": 11}, {"a": 5}),
    ),
    Case(
        "immutable",
        fields(name=ruled(TEXT, {"rule": "self == oldSelf", "message": "immutable"})),
        ([{"name": "a"}, {"name": "b"}, {"name": "a"}],),
    ),
    Case(
        "not to be unset",
        ruled(fields(name=TEXT), {"rule": "!has(oldSelf.name) || has(self.name)", "message": "cannot be unset"}),
        ([{"name": "a"}, {"name": None}],),
    ),
    Case(
        "optional old value",
        ruled(fields(a=INTEGER), {"rule": "oldSelf.hasValue() || self.a == 0", "optionalOldSelf": True}),
        ([{"a": 0}, {"a": 5}], {"a": 5}),
    ),
    Case(
        "items by their keys",
        fields(l=lists(_KEYED, **_MAP_LIST)),
        (
            {"l": [{"k": "a", "v": 1}, {"k": "b", "v": 20}]},
            [{"l": [{"k": "a", "v": 5}, {"k": "b", "v": 5}]}, {"l": [{"k": "b", "v": 6}, {"k": "a", "v": 4}]}],
        ),
    ),
    Case(
        "values of a map, counted in characters",
        fields(m={"type": "object", "maxProperties": 5, "additionalProperties": ruled(TEXT, "size(self) < 3")}),
        ({"m": {"x": "long", "y": "ok"}}, {"m": {"x": "éé"}}),
    ),
    Case(
        "escaped names",
        ruled(fields(**_ESCAPED), _ESCAPED_RULE),
        ({"a-b": 1, "namespace": 1, "x__y": 1, "c.d": 1, "e/f": 1}, {**dict.fromkeys(_ESCAPED, 1), "a-b": 0}),
    ),
    Case("numbers", ruled(fields(n=NUMBER), "self.n / 2.0 > 1.0"), ({"n": 5}, {"n": 1}, {"n": 2.5})),
    Case(
        "integer or string",
        ruled(
            fields(q={"x-kubernetes-int-or-string": True}),
            'type(self.q) == string ? self.q.matches("^[0-9]+%$") : self.q > 0',
        ),
        ({"q": "5%"}, {"q": 3}, {"q": "x"}, {"q": 0}),
    ),
    Case(
        "quantities",
        ruled(fields(s=TEXT), 'quantity(self.s).isGreaterThan(quantity("1Gi"))'),
        ({"s": "2Gi"}, {"s": "1000Mi"}, {"s": "bad"}),
    ),
    Case(
        "sums of quantities",
        ruled(fields(s=TEXT), 'isQuantity(self.s) && quantity("1").add(quantity(self.s)).asInteger() == 2'),
        ({"s": "1"}, {"s": "2"}, {"s": "500m"}, {"s": "x"}),
    ),
    Case(
        "URLs",
        ruled(fields(s=TEXT), 'isURL(self.s) && url(self.s).getScheme() == "https" && url(self.s).getHost() == "a:8"'),
        ({"s": "https://a:8/b"}, {"s": "http://a"}, {"s": "nope"}),
    ),
    Case(
        "addresses",
        ruled(fields(s=TEXT), "isIP(self.s) && ip(self.s).family() == 4"),
        ({"s": "1.2.3.4"}, {"s": "::1"}, {"s": "x"}),
    ),
    Case(
        "ranges of addresses",
        ruled(fields(s=TEXT), 'isCIDR(self.s) && cidr("10.0.0.0/8").containsCIDR(self.s)'),
        ({"s": "10.1.0.0/16"}, {"s": "11.0.0.0/8"}, {"s": "x"}),
    ),
    Case(
        "lists of numbers",
        ruled(
            fields(l=lists(INTEGER)),
            "self.l.isSorted() && self.l.sum() < 10 && self.l.max() < 5 && self.l.indexOf(1) == 0",
        ),
        ({"l": [1, 2, 3]}, {"l": [3, 1]}, {"l": []}, {"l": [1, 4, 5]}),
    ),
    Case(
        "macros",
        ruled(
            fields(l=lists(TEXT)),
            'self.l.all(x, x.startsWith("a")) && self.l.exists(x, x == "ab") && self.l.exists_one(x, x == "ab") && '
            'self.l.map(x, x + "1").filter(y, y.endsWith("1")).size() > 0',
        ),
        ({"l": ["ab", "ac"]}, {"l": ["b"]}, {"l": ["ab", "ab"]}),
    ),
    Case(
        "durations and times",
        ruled(
            fields(d={"type": "string", "format": "duration"}, t={"type": "string", "format": "date-time"}),
            'self.d > duration("1m")',
            'self.t < timestamp("2030-01-01T00:00:00Z")',
        ),
        ({"d": "2m", "t": "2025-01-01T00:00:00Z"}, {"d": "1s", "t": "2035-01-01T00:00:00Z"}),
    ),
    Case(
        "the object's name",
        fields(a=INTEGER),
        ({"a": 1},),
        {"x-kubernetes-validations": [{"rule": 'self.metadata.name.startsWith("x")', "message": "bad name"}]},
    ),
    Case("division by zero", ruled(fields(a=INTEGER), "1 / self.a > 0"), ({"a": 0},)),
    Case("overflow", ruled(fields(a=INTEGER), "self.a + 9223372036854775807 > 0"), ({"a": 1},)),
    Case(
        "strings",
        ruled(fields(s=TEXT), _STRINGS),
        tuple({"s": each} for each in ("ABC", "a,b", "x42", "xyz", " q ", "aaa", "!x", "u", "abcz", "none")),
    ),
    Case(
        "what was wrong and is left alone",
        fields(a=ruled(INTEGER, "self < 5"), b=INTEGER),
        ([{"a": 1, "b": 1}, {"b": 2}, {"a": 7}],),
    ),
    Case(
        "an object within",
        ruled(fields(o=_EMBEDDED), 'self.o.metadata.name == "n"'),
        (
            {"o": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "n"}}},
            {"o": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "m"}}},
        ),
    ),
)

FAULTY: dict[str, Json] = {
    "syntax": ruled(fields(a=INTEGER), "self.a >"),
    "no such field": ruled(fields(a=INTEGER), "self.nope > 1"),
    "no such function": ruled(fields(a=INTEGER), "foo(self.a)"),
    "no such method": ruled(fields(a=INTEGER), "self.a.foo()"),
    "no such variable": ruled(fields(a=INTEGER), "x > 1"),
    "not a condition": ruled(fields(a=INTEGER), "self.a"),
    "no such name at the end": ruled(fields(a=INTEGER), "oldSelf.a > 1 && bar"),
    "a message that is no string": ruled(fields(a=INTEGER), {"rule": "self.a > 1", "messageExpression": "self.a"}),
    "a message with a fault": ruled(fields(a=INTEGER), {"rule": "self.a > 1", "messageExpression": '"a" +'}),
    "a path that leads nowhere": ruled(fields(a=INTEGER), {"rule": "self.a > 1", "fieldPath": ".zzz"}),
    "a path without a dot": ruled(fields(a=INTEGER), {"rule": "self.a > 1", "fieldPath": "zzz"}),
    "an old value of a list's item": fields(l=lists(ruled(INTEGER, "self > oldSelf"))),
    "optional without use": ruled(fields(a=INTEGER), {"rule": "self.a > 1", "optionalOldSelf": True}),
    "good": ruled(fields(a=INTEGER), "self.a > 1"),
}
