"""JSON patches and merge patches do what a real server did with the same patches on the same objects."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord_minicluster.apiserver.patch import json_patch, merge_patch
from koord_minicluster.apiserver.status import StatusError
from tests.minicluster.apiserver.patch.recorded import Obj, difference, load

RECORD = load("json_patch.json")
BASES: dict[str, Obj] = RECORD["bases"]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{case['type']}-{case['name'].replace(' ', '-')}") for case in RECORD["cases"]]
)
def test_patch_does_what_the_real_server_did(case: Obj) -> None:
    base = BASES[case["base"]]
    before = copy.deepcopy(base)
    module: Any = json_patch if case["type"] == "json" else merge_patch
    try:
        result = module.apply(base, case["patch"])
        refusal = None
    except StatusError as error:
        refusal = error.body()
        del refusal["metadata"]
    assert base == before
    if case["code"] == 200:
        assert refusal is None
        assert difference(result, case["answer"]) == []
    elif (case["answer"].get("details") or {}).get("causes"):
        assert refusal is None, "the real server merged the patch, and then found the object not valid"
    else:
        assert refusal == case["answer"]


JSON = st.recursive(
    st.one_of(st.booleans(), st.integers(-2, 2), st.text("ab/~", max_size=2)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("ab/~", max_size=2), JSON, max_size=3)


def _pointers(value: Any, path: str = "") -> list[str]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        step = str(key).replace("~", "~0").replace("/", "~1")
        found += _pointers(child, f"{path}/{step}")
    return found


@given(doc=OBJECTS, data=st.data())
@settings(max_examples=100, deadline=None)
def test_what_is_removed_can_be_put_back(doc: Obj, data: st.DataObject) -> None:
    pointers = _pointers(doc)
    if not pointers:
        return
    path = data.draw(st.sampled_from(pointers))
    moved = json_patch.apply(doc, [{"op": "copy", "from": path, "path": "/kept"}, {"op": "remove", "path": path}])
    back = json_patch.apply(moved, [{"op": "copy", "from": "/kept", "path": path}, {"op": "remove", "path": "/kept"}])
    assert json_patch.same(back, doc)


@given(
    doc=OBJECTS,
    path=st.text("ab/~01-", max_size=6),
    value=JSON,
    kind=st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
)
@settings(max_examples=200, deadline=None)
def test_any_operation_applies_or_is_refused_and_leaves_its_input(doc: Obj, path: str, value: Any, kind: str) -> None:
    before = copy.deepcopy(doc)
    with contextlib.suppress(StatusError):
        result = json_patch.apply(doc, [{"op": kind, "path": path, "from": "/a", "value": value}])
        assert isinstance(result, dict)
    assert json_patch.same(doc, before)


@given(doc=OBJECTS, patch=OBJECTS)
@settings(max_examples=100, deadline=None)
def test_a_merge_patch_applied_twice_is_applied_once(doc: Obj, patch: Obj) -> None:
    once = merge_patch.apply(doc, patch)
    assert merge_patch.apply(once, patch) == once


RFC_7386 = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("doc", "patch", "result"), RFC_7386)
def test_merge_patch_examples_of_the_standard(doc: Obj, patch: Obj, result: Obj) -> None:
    assert merge_patch.apply(doc, patch) == result


def test_more_operations_than_the_limit_are_refused() -> None:
    operation = {"op": "test", "path": "/a", "value": 1}
    assert json_patch.apply({"a": 1}, [operation] * json_patch.MOST_OPERATIONS) == {"a": 1}
    with pytest.raises(StatusError) as refused:
        json_patch.apply({"a": 1}, [operation] * (json_patch.MOST_OPERATIONS + 1))
    assert refused.value.code == 413
