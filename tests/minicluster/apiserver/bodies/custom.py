"""Bodies for a custom kind whose schema uses everything that a schema can say."""

from __future__ import annotations

import json
from typing import Any, Final

Json = dict[str, Any]

_S: Final = {"type": "string"}


def _string(**more: object) -> Json:
    return {"type": "string", **more}


def _integer(**more: object) -> Json:
    return {"type": "integer", **more}


def obj(**properties: object) -> Json:
    return {"type": "object", "properties": properties}


def array(items: Json, **more: object) -> Json:
    return {"type": "array", "items": items, **more}


_KEYED: Final = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"]}
_FORMATS: Final = (
    "date-time", "ipv4", "ipv6", "email", "uuid", "uuid3", "uuid4", "uuid5", "uri", "hostname", "byte", "duration",
    "date", "cidr", "mac", "k8s-short-name", "k8s-long-name", "password", "hexcolor", "rgbcolor", "ssn", "creditcard",
    "isbn", "isbn10", "isbn13", "bsonobjectid", "int32", "made-up",
)  # fmt: skip

SPEC: Final[Json] = {
    "size": _integer(minimum=1, maximum=10),
    "i32": _integer(format="int32"),
    "i64": _integer(format="int64"),
    "num": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 1e6},
    "half": {"type": "number", "multipleOf": 0.5},
    "three": _integer(multipleOf=3),
    "color": _string(enum=["red", "blue"]),
    "choice": {"type": "integer", "enum": [1, 2]},
    "pat": _string(pattern="^a+$", maxLength=5, minLength=2),
    "flag": {"type": "boolean"},
    "nul": _string(nullable=True),
    "def": _string(default="dd"),
    "defnul": _string(nullable=True, default="x"),
    "list": array(_string(maxLength=3), minItems=1, maxItems=3),
    "set": array(_S, **{"x-kubernetes-list-type": "set"}),
    "mapl": array(
        {**obj(name=_S, port=_integer(default=80), v=_S), "required": ["name"]},
        **_KEYED,
    ),
    "m": {"type": "object", "additionalProperties": _integer(), "minProperties": 1, "maxProperties": 2},
    "closed": {"type": "object", "additionalProperties": False},
    "open": {"type": "object", "additionalProperties": True},
    "ios": {"x-kubernetes-int-or-string": True},
    "iosany": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
    "free": {**obj(a=_integer(), b=obj(c=_S)), "x-kubernetes-preserve-unknown-fields": True},
    "anything": {"x-kubernetes-preserve-unknown-fields": True},
    "emb": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "emb2": {**obj(spec=obj(x=_integer())), "x-kubernetes-embedded-resource": True},
    "f": obj(**{name.replace("-", "_"): _string(format=name) for name in _FORMATS}),
    "one": {**obj(a=_integer(), b=_integer()), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "anyof": _string(anyOf=[{"pattern": "^x"}, {"pattern": "^y"}]),
    "allof": _string(allOf=[{"pattern": "^x"}, {"maxLength": 3}]),
    "not": _string(**{"not": {"enum": ["no"]}}),
    "nested": {**obj(a=_integer(default=1), b=obj(c=_integer(default=2))), "default": {}},
    "grid": array(array(_integer())),
}
SCHEMA: Final[Json] = {
    **obj(
        metadata={"type": "object", "properties": {"name": _string(maxLength=20)}},
        spec={"type": "object", "required": ["size"], "properties": SPEC},
        status=obj(n=_integer()),
    ),
    "required": ["spec"],
}
DEFINITION: Final[Json] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.bodies.io"},
    "spec": {
        "group": "bodies.io",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": SCHEMA},
            }
        ],
    },
}
PATH: Final = "/apis/bodies.io/v1/namespaces/default/widgets"


def widget(
    spec: str = '{"size":1}',
    meta: str = '{"name":"a"}',
    head: str = '"apiVersion":"bodies.io/v1","kind":"Widget"',
    more: str = "",
) -> str:
    return f'{{{head},"metadata":{meta},"spec":{spec}{more}}}'


def sized(fields: str) -> str:
    return widget(f'{{"size":1,{fields}}}')


def formatted(**values: str) -> str:
    return sized(f'"f":{json.dumps(values)}')


_GOOD_FORMATS: Final = {
    "date_time": "2020-01-01T00:00:00Z", "ipv4": "1.2.3.4", "ipv6": "::1", "email": "a@b.c", "uri": "http://x/y",
    "uuid": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "uuid3": "6ba7b810-9dad-31d1-80b4-00c04fd430c8",
    "uuid4": "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "uuid5": "6ba7b810-9dad-51d1-80b4-00c04fd430c8",
    "hostname": "x.yz", "byte": "aGVsbG8=", "duration": "1h", "date": "2020-02-29", "cidr": "1.2.3.0/24",
    "mac": "00:00:5e:00:53:01", "k8s_short_name": "x-1", "k8s_long_name": "x.y", "password": "", "hexcolor": "#FFF",
    "rgbcolor": "rgb(1, 2, 255)", "ssn": "111-22-3333", "creditcard": "4111 1111 1111 1111", "isbn": "978-0321751041",
    "isbn10": "0321751043", "isbn13": "978-0321751041", "bsonobjectid": "507f1f77bcf86cd799439011", "int32": "x",
    "made_up": "x",
}  # fmt: skip
_STRANGE_FORMATS: Final = {
    "date_time": "2020-02-30T00:00:00Z", "ipv4": "01.2.3.4", "ipv6": "1::2::3", "email": "Bob <a@b.c>", "uri": "x/y",
    "hostname": "-x", "byte": "aGVsbG8", "duration": "3 days", "date": "2021-02-29", "cidr": "1.2.3.4/33",
    "mac": "00-00-5e-00-53-01", "k8s_short_name": "-x", "k8s_long_name": "x..y", "hexcolor": "#FFFF", "ssn": "1",
    "rgbcolor": "rgb(256,0,0)", "creditcard": "4111 1111 1111 1112", "isbn10": "0321751044", "isbn13": "978-0321751042",
    "bsonobjectid": "xyz", "uuid4": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
}  # fmt: skip

BODIES: Final[dict[str, str]] = {
    "good": widget(),
    "empty": "",
    "null": "null",
    "list": "[]",
    "nothing in it": "{}",
    "garbage": "{x",
    "no kind": '{"apiVersion":"bodies.io/v1"}',
    "no apiVersion": '{"kind":"Widget"}',
    "another kind": widget(head='"apiVersion":"bodies.io/v1","kind":"Foo"'),
    "a pod": widget(head='"apiVersion":"v1","kind":"Pod"'),
    "an impossible apiVersion": widget(head='"apiVersion":"a/b/c","kind":"Widget"'),
    "a number as kind": widget(head='"apiVersion":"bodies.io/v1","kind":3'),
    "metadata a string": widget(meta='"x"'),
    "name a number": widget(meta='{"name":3}'),
    "name too long": widget(meta='{"name":"aaaaaaaaaaaaaaaaaaaaaaaaa"}'),
    "label a number": widget(meta='{"name":"a","labels":{"x":3}}'),
    "label null": widget(meta='{"name":"a","labels":{"x":null}}'),
    "labels a list": widget(meta='{"name":"a","labels":[]}'),
    "unknown metadata": widget(meta='{"name":"a","foo":1}'),
    "time x": widget(meta='{"name":"a","creationTimestamp":"x"}'),
    "time null": widget(meta='{"name":"a","creationTimestamp":null}'),
    "metadata null": widget(meta="null"),
    "no metadata": '{"apiVersion":"bodies.io/v1","kind":"Widget","spec":{"size":1}}',
    "finalizers mixed": widget(meta='{"name":"a","finalizers":["x",3]}'),
    "repeated finalizers": widget(meta='{"name":"a","finalizers":["a.b/c","a.b/c"]}'),
    "spec null": widget("null"),
    "spec a string": widget('"x"'),
    "nothing required": widget("{}"),
    "below minimum": widget('{"size":0}'),
    "above maximum": widget('{"size":11}'),
    "string for integer": widget('{"size":"x"}'),
    "fraction for integer": widget('{"size":1.5}'),
    "1.0 for integer": widget('{"size":1.0}'),
    "null required": widget('{"size":null}'),
    "too large": sized('"i64":99999999999999999999'),
    "large int32": sized('"i32":3000000000'),
    "bool for int32": sized('"i32":true'),
    "zero excluded": sized('"num":0'),
    "negative": sized('"num":-1.5'),
    "a million": sized('"num":1000000.5'),
    "huge": sized('"num":1e30'),
    "no multiple": sized('"half":0.3'),
    "a multiple": sized('"half":1.5'),
    "no multiple of 3": sized('"three":4'),
    "a multiple of 3": sized('"three":-6'),
    "not in enum": sized('"color":"green"'),
    "number in enum": sized('"color":3'),
    "3 of 1 and 2": sized('"choice":3'),
    "true of 1 and 2": sized('"choice":true'),
    "too short": sized('"pat":"b"'),
    "no match": sized('"pat":"bb"'),
    "a match and newline": sized('"pat":"aa\\n"'),
    "too long": sized('"pat":"aaaaaaaaaa"'),
    "string for bool": sized('"flag":"true"'),
    "bool null": sized('"flag":null'),
    "nullable null": sized('"nul":null'),
    "default for null": sized('"def":null'),
    "null before default": sized('"defnul":null'),
    "too few items": sized('"list":[]'),
    "too many items": sized('"list":["a","b","cccc","d"]'),
    "items mixed": sized('"list":["a",3,null]'),
    "object for list": sized('"list":{}'),
    "repeated in set": sized('"set":["a","b","a","a"]'),
    "repeated keys": sized('"mapl":[{"name":"a"},{"name":"a","port":80},{"name":"b"},{"port":3}]'),
    "key null": sized('"mapl":[{"name":"a","port":null}]'),
    "map mixed": sized('"m":{"a":"x","b":1,"c":2}'),
    "map empty": sized('"m":{}'),
    "map null": sized('"m":{"a":null}'),
    "closed with a key": sized('"closed":{"a":1}'),
    "closed and empty": sized('"closed":{}'),
    "open with keys": sized('"open":{"a":1,"b":{"c":1},"d":[{"e":1}]}'),
    "bool for either": sized('"ios":true'),
    "fraction for either": sized('"ios":1.5'),
    "bool for any of": sized('"iosany":true'),
    "percent": sized('"iosany":"5%"'),
    "free": sized('"free":{"z":1,"a":"x","b":{"c":"x","d":1}}'),
    "anything": sized('"anything":[1,{"a":null}]'),
    "embedded empty": sized('"emb":{}'),
    "embedded": sized('"emb":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","foo":1},"z":1}'),
    "embedded mistyped": sized('"emb":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","labels":{"a":3}}}'),
    "embedded kind a number": sized('"emb":{"apiVersion":"v1","kind":3}'),
    "embedded kind strange": sized('"emb":{"apiVersion":"a/b/c","kind":"Pod_"}'),
    "embedded kind empty": sized('"emb":{"apiVersion":"","kind":""}'),
    "embedded pruned": sized(
        '"emb2":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","foo":1},"z":1,"spec":{"x":1,"y":2}}'
    ),
    "good formats": formatted(**_GOOD_FORMATS),
    "strange formats": formatted(**_STRANGE_FORMATS),
    "all formats x": formatted(**dict.fromkeys(_GOOD_FORMATS, "x y")),
    "number for date-time": sized('"f":{"date_time":3,"ipv4":true,"uuid":1.5,"email":{},"uri":[]}'),
    "none of one": sized('"one":{}'),
    "both of one": sized('"one":{"a":1,"b":1}'),
    "one of one": sized('"one":{"b":1}'),
    "none of any": sized('"anyof":"z"'),
    "not all": sized('"allof":"zzzz"'),
    "all but one": sized('"allof":"xxxx"'),
    "forbidden": sized('"not":"no"'),
    "nested defaults": sized('"nested":{"b":{}}'),
    "grid": sized('"grid":[[1,"x"],3]'),
    "unknown": widget('{"size":1,"foo":1,"mapl":[{"name":"a","zz":1}]}', more=',"top":1'),
    "repeated": widget('{"size":1,"size":2,"foo":1,"foo":2}'),
    "repeated name": widget(meta='{"name":"a","name":"b"}'),
    "several faults": widget('{"size":"x","color":"green","pat":3}'),
    "status ignored": widget(more=',"status":{"n":"x"}'),
}

LOOSE: Final[Json] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CHANGES: Final[dict[str, tuple[Json, Json, Json]]] = {
    "unchanged fault": (obj(a=_integer(maximum=3), b=_S), {"a": 5}, {"a": 5, "b": "x"}),
    "changed fault": (obj(a=_integer(maximum=3), b=_S), {"a": 5}, {"a": 6}),
    "new fault": (obj(a=_integer(maximum=3), b=_integer()), {"a": 5}, {"a": 5, "b": "x"}),
    "unchanged missing": ({**obj(a=_S, b=_S), "required": ["a"]}, {"b": "x"}, {"b": "y"}),
    "unchanged whole": ({**obj(a=_S, b=_S), "required": ["a"]}, {"b": "x"}, {"b": "x"}),
    "item moved": (obj(l=array(_string(maxLength=1))), {"l": ["aa", "b"]}, {"l": ["b", "aa"]}),
    "item beside": (obj(l=array(_string(maxLength=1))), {"l": ["aa"]}, {"l": ["aa", "b"]}),
    "keyed item": (
        obj(l=array({**obj(name=_S, port=_integer(), v=_integer(maximum=1)), "required": ["name", "port"]}, **_KEYED)),
        {"l": [{"name": "a", "port": 1, "v": 2}]},
        {"l": [{"name": "b", "port": 1, "v": 1}, {"name": "a", "port": 1, "v": 2}]},
    ),
    "keyed item changed": (
        obj(l=array({**obj(name=_S, port=_integer(), v=_integer(maximum=1)), "required": ["name", "port"]}, **_KEYED)),
        {"l": [{"name": "a", "port": 1, "v": 2}]},
        {"l": [{"name": "a", "port": 1, "v": 3}]},
    ),
    "set already repeated": (
        obj(l=array(_S, **{"x-kubernetes-list-type": "set"})),
        {"l": ["a", "a"]},
        {"l": ["a", "a", "b", "b"]},
    ),
    "set newly repeated": (obj(l=array(_S, **{"x-kubernetes-list-type": "set"})), {"l": ["a"]}, {"l": ["a", "a"]}),
    "map value": (
        obj(m={"type": "object", "additionalProperties": _integer(maximum=1)}),
        {"m": {"a": 2}},
        {"m": {"a": 2, "b": 1}},
    ),
    "enum kept": (obj(a=_string(enum=["x"]), b=_S), {"a": "old"}, {"a": "old", "b": "new"}),
    "one of kept": (
        {**obj(a=_S, b=_S), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"a": "x", "b": "x"},
        {"a": "x", "b": "y"},
    ),
}
"""Name -> (the spec's schema after it became strict, the spec stored before that, the spec of the update)."""
