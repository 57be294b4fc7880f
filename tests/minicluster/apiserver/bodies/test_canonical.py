"""The short way of reading built-in objects takes only what the long way would leave unchanged."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from koord.api import builtin_schemas as schemas
from koord.api.machinery.object_schema import Schema
from koord_minicluster.apiserver.bodies import canonical, typed
from koord_minicluster.apiserver.builtin.resources import builtin_resources
from tests.minicluster.apiserver.builtin import ours
from tests.minicluster.apiserver.builtin.case import Obj
from tests.minicluster.apiserver.builtin.test_properties import OBJECTS, mangled

POD = schemas.schema_for("", "v1", "Pod")


def both(schema: Schema, obj: Any) -> tuple[bool, Any, Any]:
    """Whether the short way takes it, and what the two make of it."""
    short, long = copy.deepcopy(obj), copy.deepcopy(obj)
    taken = canonical.is_kept(schema, short, msgspec.json.encode(obj))
    try:
        read, has_unknown = typed.read(schema, long)
    except typed.Mistyped:
        return taken, short, None
    return taken, short, None if has_unknown else read


@settings(max_examples=2000)
@given(mangled())
def test_what_it_takes_is_what_the_long_way_makes(obj: Obj) -> None:
    taken, short, long = both(ours.resource_of(obj).schema, obj)
    if taken:
        assert short == long


def test_it_takes_objects_as_programs_write_them() -> None:
    taken = [both(ours.resource_of(obj).schema, obj)[0] for obj in OBJECTS]
    assert sum(taken) > len(taken) / 4


def _places(schema: Schema, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Schema]]:
    for key, field in schema.properties.items():
        if len(path) < 4:
            yield (*path, key), field
            yield from _places(field, (*path, key))


ODD: tuple[Any, ...] = (
    None, "", [], {}, 0, 1, -1, 2**31, 2**63, 1.0, 1.5, True, False, "1", "1000m", "x", [None], [""], [{}], {"a": None},
)  # fmt: skip
KINDS = {f"{resource.group}/{resource.kind}": resource.schema for resource in builtin_resources()}


@pytest.mark.parametrize("schema", KINDS.values(), ids=KINDS.keys())
def test_every_field_of_every_kind_is_read_alike(schema: Schema) -> None:
    for path, _field in _places(schema):
        for odd in ODD:
            obj: Any = odd
            for key in reversed(path):
                obj = {key: obj}
            taken, short, long = both(schema, obj)
            if taken:
                assert short == long, path


@pytest.mark.parametrize(
    ("spec", "taken"),
    [
        ({"containers": [{"name": "a", "image": "b"}]}, True),
        ({"containers": [{"name": "a", "resources": {"limits": {"cpu": "1000m"}}}]}, True),
        ({"containers": []}, True),
        ({"containers": [{"image": "b"}]}, False),
        ({"containers": [{"name": "a", "tty": False}]}, False),
        ({"containers": [{"name": "a", "resources": {"limits": {"cpu": 1}}}]}, False),
        ({"containers": [{"name": "a", "resources": {"limits": {"cpu": "x"}}}]}, False),
        ({"containers": [{"name": "a", "args": []}]}, False),
        ({"containers": [{"name": "a", "unknown": 1}]}, False),
        ({"containers": [], "nodeName": ""}, False),
        ({"containers": [], "priority": 0}, True),
    ],
)
def test_it_leaves_to_the_long_way_what_must_be_changed_or_refused(spec: Any, taken: bool) -> None:
    was_taken, short, long = both(POD, {"metadata": {"name": "a"}, "spec": spec})
    assert was_taken is taken
    if taken:
        assert short == long
