"""What a creator owns is the same, written at once or compared as a tree."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import builtin_schemas as schemas
from koord.api.machinery.object_schema import Schema
from koord.api.machinery.openapi_schema import from_openapi
from koord_minicluster.apiserver.patch import fields, merging, new_fields
from koord_minicluster.apiserver.patch.plan import Untyped, empty, root_plan
from tests.minicluster.apiserver.patch.bases import BASES

Obj = dict[str, Any]

CUSTOM = from_openapi(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "hosts": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                },
            }
        },
    }
)


def compared(schema: Schema, obj: Obj) -> Obj:
    """By comparison with an empty object."""
    changes = merging.compare(root_plan(schema), {"metadata": {}, **empty(schema)}, obj)
    return fields.union(changes.modified, changes.added)


def written(schema: Schema, obj: Obj) -> Obj:
    added = new_fields.added(root_plan(schema), {"metadata": {}, **empty(schema)}, obj)
    tree: Obj = msgspec.json.decode(msgspec.json.encode(added))
    return tree


def thinned(value: Any, draw: st.DrawFn) -> Any:
    """A value with some of its parts left out, emptied or repeated."""
    match value:
        case dict():
            return {key: thinned(part, draw) for key, part in value.items() if draw(st.integers(0, 5))}
        case list():
            parts = [thinned(part, draw) for part in value]
            return parts + parts[:1] if draw(st.booleans()) else parts
    return value


@st.composite
def objects(draw: st.DrawFn) -> tuple[Schema, Obj]:
    obj = draw(st.sampled_from([base for _, base in BASES.values()]))
    group, _, version = obj["apiVersion"].rpartition("/")
    names = {key: obj[key] for key in ("apiVersion", "kind")}
    return schemas.schema_for(group, version, obj["kind"]), {**thinned(obj, draw), **names}


def outcome(of: Callable[[Schema, Obj], Obj], schema: Schema, obj: Obj) -> Obj | str:
    try:
        return of(schema, obj)
    except Untyped as error:
        return str(error)


@given(objects())
def test_written_is_what_a_comparison_finds(made: tuple[Schema, Obj]) -> None:
    assert outcome(written, *made) == outcome(compared, *made)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"size": 1, "hosts": ["b", "a", "b"]},
        {"open": {}},
        {"open": {"100%": {'"quoted"': [1], "empty": {}}, "list": [{"a": 1}], "null": None}},
    ],
)
def test_the_fields_of_a_custom_object_too(spec: Obj) -> None:
    obj = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec}
    assert written(CUSTOM, obj) == compared(CUSTOM, obj)


def test_who_looks_at_them_finds_a_tree() -> None:
    _, base = BASES["deployment"]
    obj, schema = copy.deepcopy(base), schemas.schema_for("apps", "v1", "Deployment")
    owned = new_fields.added(root_plan(schema), {"metadata": {}, **empty(schema)}, obj)
    obj["metadata"]["managedFields"] = [{"manager": "m", "fieldsV1": owned}, {"manager": "none"}]
    new_fields.expand(obj)
    assert obj["metadata"]["managedFields"] == [
        {"manager": "m", "fieldsV1": compared(schema, base)},
        {"manager": "none"},
    ]
