"""Enemy values: for every place in an object of a kind, what a user could have stored there.

`places(kind)` are all fields of the kind's type, labels and annotations of the protocol included; each has a list of
values. Types are kept, since API servers check those, except within free-form parts and annotations. Ranges and formats
are not kept: other definitions of the same kinds have fewer of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

from msgspec import inspect

from koord.api.kinds import Kind
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import PodTemplateSpec
from koord.api.protocol.annotations.value import Label
from tests.api.protocol.annotations.cases import VALID

Path: TypeAlias = tuple[str | int, ...]
DEEPEST: Final = 14

LONG: Final = "x" * 100_000
TIMES: Final = (
    *("2026-02-31T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00Z"),
    *("0001-01-01T00:00:00+23:00", "0000-00-00T00:00:00Z", "1970-01-01T00:00:00Z", "tomorrow", "", "2026-01-01"),
    *("2026-01-01T00:00:00.123456789123456789Z", "2400-01-01T00:00:00Z", "1999-01-01T00:00:00Z"),
)
DURATIONS: Final = (
    *("99999999999h", "-1h", "0s", "1ns", "", "abc", "-99999999999h", "2562047h47m16.854775807s", "+.5s", "1e3s"),
    *("-2562047h47m16.854775808s", "9" * 900 + "h", "876000h"),
)
QUANTITIES: Final = (
    *("-1", "0", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e30", "-1e30", "1e999999999"),
    *("1e-999999999", "1n", "0.0000000001", "100Ei", "9" * 400, "1.5", "", "NaN", "Inf", "1e3", 2**62, -(2**62), 7),
)
WHOLE: Final = (0, 1, -1, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 1000, 101)
NUMBERS: Final = (0.0, -0.0, -1.0, 1e308, -1e308, 5e-324, 1.0, 0.1)
TEXTS: Final = (
    *(
        "",
        " ",
        "NaN",
        "-1",
        "0",
        "9" * 400,
        "1e400",
        "null",
        "{}",
        "[]",
        "a/b/c",
        "/",
        "a\x00b",
        "\n",
        "🦄",
        "*",
        "true",
    ),
    *("../..", "%", "100%", "-50%", "2026-02-31T00:00:00Z", "99999999999h", "ClusterTopologyLayer", LONG),
)
INT_OR_STRING: Final = (
    *WHOLE,
    "150%",
    "-1%",
    "0%",
    "abc",
    "",
    "99999999999999999999%",
    "%",
    "1.5%",
    "NaN%",
    "9" * 5000 + "%",
)
ANYTHING: Final[tuple[Any, ...]] = (None, [], {}, "x", 1, 1e308, [[[[[[]]]]]], {"": {"": None}}, True)
JSON: Final = (
    *("", "null", "{}", "[]", "1", '"x"', "true", "{", "NaN", "[null]", '{"":null}', "1e400", "-1", "[" * 5000),
    *(
        '{"gpu":[{"minor":-1,"resources":{"koordinator.sh/gpu-core":"-100"}}]}',
        '{"cpu":"-1e30","memory":"1e999999999"}',
    ),
    *('{"cpu":"99999999999999999999"}', '{"cpuset":"0-99999999"}', '{"cpuset":"9-1"}', "0-4294967295"),
)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in an object, and what an enemy writes there."""

    path: Path
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return ".".join(map(str, self.path))


@cache
def places(kind: Kind[Any]) -> tuple[Place, ...]:
    body = list(_of(inspect.type_info(kind.type), "", (), 0))
    return (*body, *_protocol(kind.kind))


def _protocol(kind: str) -> Iterator[Place]:
    """Labels and annotations of the protocol, in every object of kinds that carry them."""
    by_key: dict[Path, list[str]] = {}
    for value, text, _ in VALID:
        if kind in value.on:
            where = "labels" if isinstance(value, Label) else "annotations"
            for key in (value.key, *value.old_keys):
                by_key.setdefault(("metadata", where, key), []).append(text)
    for path, texts in by_key.items():
        near = (changed for text in texts for changed in _near(text))
        yield Place(path, tuple(dict.fromkeys((*texts, *near, *JSON, *TEXTS, *TIMES, *DURATIONS, *QUANTITIES[:12]))))


def _near(text: str) -> Iterator[str]:
    """A well written text with one of its values changed."""
    try:
        data = json.loads(text)
    except ValueError:
        return
    for path in _inside(data):
        for value in _like(_at(data, path)):
            yield json.dumps(put(data, path, value))


def _inside(data: Any, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    if isinstance(data, Mapping):
        for key in data:
            yield from _inside(data[key], (*path, key))
    elif isinstance(data, list):
        for i, item in enumerate(data):
            yield from _inside(item, (*path, i))


def _like(value: Any) -> tuple[Any, ...]:
    match value:
        case bool():
            return (not value, None, "x")
        case int() | float():
            return (*WHOLE, *NUMBERS, "x", None)
        case str():
            return (*TEXTS[:12], *TIMES[:6], *DURATIONS[:6], *QUANTITIES[:10], "0-99999999", None, 1)
        case list():
            return ([], value * 100, None, {}, [None])
        case _:
            return ({}, None, [], {"": value})


def _at(data: Any, path: Path) -> Any:
    for key in path:
        data = data[key]
    return data


def _of(type_: inspect.Type, name: str, path: Path, depth: int) -> Iterator[Place]:
    if depth > DEEPEST:
        return
    match type_:
        case inspect.Metadata(extra=extra) if extra and extra.get("schema") in _BY_SCHEMA:
            yield Place(path, _BY_SCHEMA[extra["schema"]])
            if name == "template":
                yield from _of(inspect.type_info(PodTemplateSpec), "", path, depth + 1)
        case inspect.Metadata(type=inner):
            yield from _of(inner, name, path, depth)
        case inspect.UnionType(types=types):
            for member in types:
                if not isinstance(member, inspect.NoneType):
                    yield from _of(member, name, path, depth)
        case inspect.StructType(cls=cls, fields=fields):
            for field in fields:
                if cls is ObjectMeta and field.encode_name in _IDENTITY and depth <= 1:
                    continue
                yield from _of(field.type, field.encode_name, (*path, field.encode_name), depth + 1)
        case inspect.DictType(value_type=value):
            yield Place(path, ({}, {"": ""}, {"a/b/c": "x"}))
            yield from _of(value, name, (*path, "example.com/enemy"), depth + 1)
            if name in _AMOUNTS:
                for key in ("cpu", "memory", "kubernetes.io/batch-cpu", "koordinator.sh/gpu-core", "nvidia.com/gpu"):
                    yield from _of(value, name, (*path, key), depth + 1)
            elif name in ("labels", "matchLabels", "nodeSelector"):
                yield from _of(value, name, (*path, "kubernetes.io/hostname"), depth + 1)
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            yield Place(path, ([], Repeated(300)))
            yield from _of(item, name, (*path, 0), depth + 1)
        case inspect.BoolType():
            yield Place(path, (True, False))
        case inspect.IntType():
            yield Place(path, WHOLE)
        case inspect.FloatType():
            yield Place(path, NUMBERS)
        case inspect.LiteralType(values=values):
            yield Place(path, tuple(values))
        case inspect.EnumType(cls=cls):
            yield Place(path, (*(each.value for each in cls), "", "Nonsense"))
        case inspect.StrType():
            times = TIMES if "ime" in name else ()
            yield Place(path, (*TEXTS, *times))
        case inspect.AnyType() | inspect.RawType():
            yield Place(path, ANYTHING)
        case _:
            return


@dataclass(frozen=True, slots=True)
class Repeated:
    """What is in a list already, N times."""

    times: int


_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion", "generateName")
"""An API server sees to these. The identity of an object decides what it may stand for."""
_AMOUNTS: Final = ("requests", "limits", "allocatable", "capacity", "resources", "min", "max", "used", "allocated")
_BY_SCHEMA: Final[Mapping[str, tuple[Any, ...]]] = {
    "quantity": QUANTITIES,
    "duration": DURATIONS,
    "date-time": TIMES,
    "int-or-string": INT_OR_STRING,
    "free-form": ANYTHING,
}


def put(data: Any, path: Path, value: Any) -> Any:
    """Plain data with another value at a place; what is missing on the way is made."""
    if not path:
        if isinstance(value, Repeated):
            return list(data or [{}])[:1] * value.times
        return value
    head, *rest = path
    if isinstance(head, int):
        items = list(data) if isinstance(data, list) else []
        found = items[head] if head < len(items) else None
        return [*items[:head], put(found, tuple(rest), value), *items[head + 1 :]]
    known = dict(data) if isinstance(data, Mapping) else {}
    return {**known, head: put(known.get(head), tuple(rest), value)}
