"""What a definition's schema does to its objects: every keyword, defaults, pruning, list types, CEL."""

# ruff: noqa: E501 - a request is a row of a table

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.differential.steps import (
    CRDS,
    CUSTOM,
    MERGE,
    Sequence,
    apply,
    crd,
    defined,
    get,
    patch,
    post,
    put,
    sequence,
    widget,
)

W = f"{CUSTOM}/w"


def _spec(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


def _values(name: str, schema: dict[str, Any], *values: Any) -> Sequence:
    """One field with a schema, and objects that have each of the values in it."""
    return sequence(
        f"schema-{name}",
        *defined(schema=_spec(f=schema)),
        *[post(CUSTOM, widget(f"w{number}", spec={"f": value})) for number, value in enumerate(values)],
    )


def _rules(name: str, schema: dict[str, Any], *specs: Any, updates: tuple[tuple[Any, Any], ...] = ()) -> Sequence:
    """CEL rules, objects that are made, and objects that are changed."""
    return sequence(
        f"cel-{name}",
        *defined(schema={"type": "object", "properties": {"spec": schema}}),
        *[post(CUSTOM, widget(f"w{number}", spec=spec)) for number, spec in enumerate(specs)],
        *[
            step
            for number, (before, after) in enumerate(updates)
            for step in (
                post(CUSTOM, widget(f"u{number}", spec=before)),
                put(f"{CUSTOM}/u{number}", widget(f"u{number}", spec=after)),
            )
        ],
    )


INT = {"type": "integer"}
STR = {"type": "string"}

FORMATS = {
    "date-time": ("2020-01-01T00:00:00Z", "2020-01-01", "nonsense"), "date": ("2020-01-01", "01.01.2020"), "email": ("a@example.com", "a at b"), "ipv4": ("1.2.3.4", "1.2.3", "::1"),
    "ipv6": ("::1", "1.2.3.4"), "cidr": ("10.0.0.0/8", "10.0.0.0"), "uri": ("https://x/y", "no uri"), "uuid": ("0b0a5a4e-0000-4000-8000-000000000000", "x"),
    "byte": ("AAEC", "!"), "duration": ("1h", "P1D", "soon"), "hostname": ("a.b", "-"), "mac": ("01:02:03:04:05:06", "x"), "nonsense": ("anything",),
}  # fmt: skip

SEQUENCES = [
    _values("types", {"type": "object", "properties": {"s": STR, "i": INT, "n": {"type": "number"}, "b": {"type": "boolean"}, "a": {"type": "array", "items": STR}, "o": {"type": "object"}}},
            {"s": "x", "i": 1, "n": 1.5, "b": True, "a": ["x"], "o": {}}, {"s": 1}, {"i": "1"}, {"i": 1.5}, {"i": 1.0}, {"n": "1"}, {"n": 1}, {"b": "true"}, {"a": "x"}, {"a": [1]}, {"o": []}, {"s": None}, {"o": None}, "text", [], 5, None,
            {"a": [1, "x", 2]}, {"s": ["deep"]}),
    _values("required", {"type": "object", "required": ["a", "b"], "properties": {"a": STR, "b": STR}}, {}, {"a": "x"}, {"a": "x", "b": "y"}, {"a": None, "b": "y"}),
    _values("numbers", {"type": "integer", "minimum": 3, "maximum": 10, "multipleOf": 2}, 1, 3, 4, 10, 11, 12, -5),
    _values("exclusive", {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 1, "exclusiveMaximum": True}, 0, 0.5, 1, 1.5),
    _values("formats-of-integers", {"type": "integer", "format": "int32"}, 1, 2147483648, 99999999999),
    _values("strings", {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"}, "a", "ab", "abcd", "abcde", "AB", "", "ä", "ääää"),
    _values("enums", {"type": "string", "enum": ["One", "Two"]}, "One", "one", "", "Three"),
    _values("enums-mixed", {"x-kubernetes-int-or-string": True, "enum": [1, "two"]}, 1, "two", "1", 2),
    _values("arrays", {"type": "array", "items": INT, "minItems": 1, "maxItems": 3}, [], [1], [1, 2, 3, 4], ["x", 1]),
    _values("objects", {"type": "object", "additionalProperties": {"type": "string", "maxLength": 2}, "minProperties": 1, "maxProperties": 2}, {}, {"a": "x"}, {"a": "xxx"}, {"a": "1", "b": "2", "c": "3"}, {"a": 5}),
    _values("int-or-string", {"x-kubernetes-int-or-string": True}, 1, "1", "50%", 1.5, True, {}, None),
    _values("nullable", {"type": "string", "nullable": True}, None, "x", 5),
    _values("not-nullable", {"type": "object", "properties": {"x": STR}}, None, {"x": None}, {"y": None}),
    _values("any-of", {"type": "object", "properties": {"a": STR, "b": STR}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {}, {"a": "x"}, {"a": "x", "b": "y"}),
    _values("one-of", {"type": "object", "properties": {"a": STR, "b": STR}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {}, {"a": "x"}, {"a": "x", "b": "y"}),
    _values("all-of", {"type": "integer", "allOf": [{"minimum": 5}, {"maximum": 9}]}, 3, 7, 11),
    _values("not", {"type": "object", "properties": {"a": STR}, "not": {"required": ["a"]}}, {}, {"a": "x"}),
    *[_values(f"format-{name}", {"type": "string", "format": name}, *values) for name, values in FORMATS.items()],
    _values("list-set", {"type": "array", "items": STR, "x-kubernetes-list-type": "set"}, ["a", "b"], ["a", "b", "a"], ["a", "a", "a", "b", "b"]),
    _values("list-set-numbers", {"type": "array", "items": {"type": "number"}, "x-kubernetes-list-type": "set"}, [1, 2], [1, 1.0]),
    _values("list-map", {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"], "items": {"type": "object", "required": ["k"], "properties": {"k": STR, "p": {"type": "integer", "default": 1}, "v": STR}}},
            [{"k": "a"}, {"k": "b"}], [{"k": "a"}, {"k": "a", "p": 1}], [{"k": "a", "p": 2}, {"k": "a", "p": 1}], [{"p": 1}]),
    _values("embedded", {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": 1}}, {"kind": "Pod"}, {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": 5}}, {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a b": "c"}, "unknown": 1}}, {}),
    sequence(
        "schema-defaults",
        *defined(schema=_spec(
            s={"type": "string", "default": "d"}, i={"type": "integer", "default": 0}, o={"type": "object", "default": {"x": 1}, "properties": {"x": INT, "y": {"type": "integer", "default": 2}}},
            p={"type": "object", "properties": {"z": {"type": "string", "default": "deep"}}}, l={"type": "array", "items": {"type": "object", "properties": {"q": {"type": "boolean", "default": True}}}},
            m={"type": "object", "additionalProperties": {"type": "object", "properties": {"r": {"type": "string", "default": "m"}}}}, n={"type": "string", "nullable": True, "default": "nn"},
        )),
        post(CUSTOM, widget("a")),
        post(CUSTOM, widget("b", spec={})),
        post(CUSTOM, widget("c", spec={"s": "set", "o": {}, "p": {}, "l": [{}, {"q": False}], "m": {"k": {}}})),
        post(CUSTOM, widget("d", spec={"s": None, "n": None, "o": None})),
        patch(f"{CUSTOM}/c", {"spec": {"s": None}}),
        apply(f"{CUSTOM}/e", widget("e", spec={"p": {}})),
    ),
    sequence(
        "schema-pruning",
        *defined(schema=_spec(known=STR, free={"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"strict": {"type": "object", "properties": {"x": STR}}}}, bag={"type": "object"})),
        post(CUSTOM, widget("w", spec={"known": "x", "unknown": 1, "free": {"anything": {"goes": 1}, "strict": {"x": "y", "z": 1}}, "bag": {"lost": 1}}, status={"gone": True}, extra=5)),
        post(f"{CUSTOM}?fieldValidation=Strict", widget("x", spec={"known": "x", "unknown": 1, "free": {"strict": {"z": 1}}}, extra=5)),
        post(f"{CUSTOM}?fieldValidation=Warn", widget("x", spec={"known": "x", "unknown": 1, "free": {"strict": {"z": 1}}}, extra=5)),
        post(f"{CUSTOM}?fieldValidation=Ignore", widget("y", spec={"unknown": 1})),
        post(f"{CUSTOM}?fieldValidation=Strict", '{"apiVersion":"{{seq}}.example.com/v1","kind":"Widget","metadata":{"name":"z"},"spec":{"known":"a","known":"b"}}'),
        post(f"{CUSTOM}?fieldValidation=Strict", widget("m", metadata={"lables": {"a": "b"}})),
        patch(f"{W}?fieldValidation=Strict", {"spec": {"unknown": 1}}),
        patch(f"{W}?fieldValidation=Warn", {"spec": {"unknown": 1}}),
        apply(f"{W}?fieldValidation=Warn", widget("w", spec={"unknown": 1})),
        put(f"{W}?fieldValidation=Strict", widget("w", spec={"unknown": 1})),
        get(W),
    ),
    sequence(
        "schema-metadata",
        *defined(schema={"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}}}),
        post(CUSTOM, widget("abc")),
        post(CUSTOM, widget("abcd")),
        post(CUSTOM, widget("a", metadata={"labels": {"bad key": "x"}})),
        post(CUSTOM, widget("a", metadata={"labels": {"k": 5}})),
        post(CUSTOM, widget("a", metadata={"annotations": {"k": 5, "ok": "yes"}})),
        post(CUSTOM, {**widget("b"), "metadata": "text"}),
        post(CUSTOM, widget("b", metadata={"finalizers": ["nope"]})),
        post(CUSTOM, widget("c", metadata={"creationTimestamp": "x"})),
    ),
    sequence(
        "schema-ratcheting",
        *defined(schema=_spec(a=STR, b=STR)),
        post(CUSTOM, widget("w", spec={"a": "long enough", "b": "x"})),
        patch(f"{CRDS}/widgets.{{{{seq}}}}.example.com", {"spec": {"versions": crd(schema=_spec(a={"type": "string", "maxLength": 3}, b=STR))["spec"]["versions"]}}),
        post(f"{CUSTOM}?dryRun=All", widget("probe", spec={"a": "long enough"}), until={"code": 422}),
        patch(W, {"spec": {"b": "y"}}),
        patch(W, {"spec": {"a": "other long"}}),
        patch(W, {"spec": {"a": "ok"}}),
        patch(W, {"spec": {"a": "long enough"}}),
    ),
    _rules("simple", {"type": "object", "properties": {"min": INT, "max": INT}, "x-kubernetes-validations": [{"rule": "self.min <= self.max", "message": "min must not exceed max"}]},
           {"min": 1, "max": 2}, {"min": 3, "max": 2}, {"min": 3}, {}, None),
    _rules("expression-messages", {"type": "object", "properties": {"n": INT}, "x-kubernetes-validations": [{"rule": "!has(self.n) || self.n < 5", "messageExpression": "self.n > 6 ? 'n is far too big' : 'n is too big'", "reason": "FieldValueForbidden", "fieldPath": ".n"}, {"rule": "!has(self.n) || self.n % 2 == 0"}]},
           {"n": 4}, {"n": 7}, {"n": 3}, {}),
    _rules("transitions", {"type": "object", "properties": {"fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed is immutable"}]}, "grow": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}}},
           {"fixed": "a", "grow": 1}, updates=(({"fixed": "a", "grow": 1}, {"fixed": "b", "grow": 1}), ({"fixed": "a", "grow": 5}, {"fixed": "a", "grow": 3}), ({"grow": 1}, {"fixed": "new", "grow": 2}), ({"fixed": "x"}, {}))),
    _rules("lists", {"type": "object", "properties": {"names": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 20, "x-kubernetes-validations": [{"rule": "self.startsWith('n-')", "message": "must begin with n-"}]}, "x-kubernetes-validations": [{"rule": "self.all(x, size(x) < 10)"}, {"rule": "self.exists_one(x, x == 'n-1')", "message": "exactly one n-1"}]}}},
           {"names": ["n-1", "n-2"]}, {"names": ["x"]}, {"names": ["n-1", "n-1"]}, {"names": ["n-1", "n-very-long-name"]}, {"names": []}),
    _rules("maps", {"type": "object", "properties": {"m": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "integer"}, "x-kubernetes-validations": [{"rule": "self.all(k, self[k] > 0)", "message": "all positive"}, {"rule": "'must' in self"}]}}},
           {"m": {"must": 1}}, {"m": {"must": 0}}, {"m": {"other": 1}}),
    _rules("strings", {"type": "object", "properties": {"s": {"type": "string", "maxLength": 50, "x-kubernetes-validations": [{"rule": "self.matches('^[a-z]+$')"}, {"rule": "self.lowerAscii() == self"}, {"rule": "self.size() > 1", "message": "too small"}]}}},
           {"s": "abc"}, {"s": "ABC"}, {"s": "a"}, {"s": "a1"}),
    _rules("quantity", {"type": "object", "properties": {"q": {"type": "string", "maxLength": 20, "x-kubernetes-validations": [{"rule": "isQuantity(self) && quantity(self).isLessThan(quantity('10Gi'))", "message": "below 10Gi"}]}, "d": {"type": "string", "format": "duration", "x-kubernetes-validations": [{"rule": "self > duration('1m')", "message": "over a minute"}]}}},
           {"q": "1Gi"}, {"q": "20Gi"}, {"q": "x"}, {"d": "1h"}, {"d": "1s"}),
    _rules("optional-old", {"type": "object", "properties": {"n": {"type": "integer", "x-kubernetes-validations": [{"rule": "!oldSelf.hasValue() || self > oldSelf.value()", "optionalOldSelf": True, "message": "must grow"}]}}},
           {"n": 1}, updates=(({"n": 5}, {"n": 6}), ({"n": 5}, {"n": 4}), ({}, {"n": 1}))),
    _rules("root-and-types", {"type": "object", "x-kubernetes-validations": [{"rule": "has(self.a) != has(self.b)", "message": "a or b"}, {"rule": "!has(self.t) || self.t.startsWith('x')"}], "properties": {"a": STR, "b": INT, "t": STR, "io": {"x-kubernetes-int-or-string": True, "x-kubernetes-validations": [{"rule": "type(self) == int ? self > 0 : self == 'auto'"}]}}},
           {"a": "x"}, {"b": 1}, {"a": "x", "b": 1}, {}, {"a": "x", "t": "y"}, {"a": "x", "io": 5}, {"a": "x", "io": 0}, {"a": "x", "io": "auto"}, {"a": "x", "io": "no"}),
    sequence(
        "cel-bad-rules",
        *[
            post(f"{CRDS}?dryRun=All", crd(schema={"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": INT, "l": {"type": "array", "items": STR}}, "x-kubernetes-validations": rules}}}))
            for rules in (
                [{"rule": "self.n >"}], [{"rule": "self.absent == 1"}], [{"rule": "self.n == 'text'"}], [{"rule": "self.n"}], [{"rule": ""}], [{"rule": "   "}],
                [{"rule": "self.n == 1", "message": ""}], [{"rule": "self.n == 1", "message": "a\nb"}], [{"rule": "self.n == 1", "messageExpression": "self.n"}],
                [{"rule": "self.n == 1", "reason": "Odd"}], [{"rule": "self.n == 1", "fieldPath": ".absent"}], [{"rule": "nofunction(self.n)"}],
                [{"rule": "oldSelf.n == self.n", "optionalOldSelf": True}],
            )
        ],
    ),
    sequence(
        "cel-cost",
        *[
            post(f"{CRDS}?dryRun=All", crd(schema=_spec(l={"type": "array", "items": STR, "x-kubernetes-validations": [rule]}, n={"type": "integer", "x-kubernetes-validations": message})))
            for rule, message in (
                ({"rule": "self.all(x, self.all(y, self.all(z, x != y + z)))"}, []),
                ({"rule": "size(self) < 5"}, [{"rule": "self < 5", "messageExpression": "'n is ' + string(self)"}]),
            )
        ],
    ),
    sequence(
        "cel-status",
        *defined(schema={"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": INT}}, "status": {"type": "object", "properties": {"n": INT}, "x-kubernetes-validations": [{"rule": "self.n >= 0", "message": "not below zero"}]}}, "x-kubernetes-validations": [{"rule": "self.metadata.name.startsWith('w')", "message": "names begin with w"}]}, version={"subresources": {"status": {}}}),
        post(CUSTOM, widget("w", spec={"n": 1}, status={"n": -1})),
        patch(f"{W}/status", {"status": {"n": -1}}, MERGE),
        patch(f"{W}/status", {"status": {"n": 1}}, MERGE),
        post(CUSTOM, widget("x")),
    ),
]  # fmt: skip
