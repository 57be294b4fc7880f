"""Sets of fields: their algebra holds, and they are written as Kubernetes writes them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord_minicluster.apiserver.patch import fields
from koord_minicluster.apiserver.patch.fields import Path, Set

STEPS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
PATHS = st.lists(STEPS, min_size=1, max_size=3).map(tuple)
MEMBERS = st.frozensets(PATHS, max_size=6)


def _set(members: frozenset[Path]) -> Set:
    return fields.from_paths(*members)


def _members(one: Set) -> frozenset[Path]:
    return frozenset(fields.paths(one))


@given(members=MEMBERS)
def test_a_set_has_the_members_that_it_was_made_of(members: frozenset[Path]) -> None:
    assert _members(_set(members)) == members
    assert all(fields.contains(_set(members), path) for path in members)


@given(one=MEMBERS, other=MEMBERS)
@settings(max_examples=200)
def test_algebra_is_that_of_sets_of_paths(one: frozenset[Path], other: frozenset[Path]) -> None:
    a, b = _set(one), _set(other)
    assert _members(fields.union(a, b)) == one | other
    assert _members(fields.intersection(a, b)) == one & other
    assert _members(fields.difference(a, b)) == one - other
    below = {path for path in one if any(path[: len(root)] == root for root in other)}
    assert _members(fields.without(a, b)) == one - below
    assert (a, b) == (_set(one), _set(other)), "the operands stay unchanged"


@given(one=MEMBERS, other=MEMBERS)
def test_equal_sets_have_one_form(one: frozenset[Path], other: frozenset[Path]) -> None:
    assert fields.difference(fields.union(_set(one), _set(other)), _set(other - one)) == _set(one)
    assert fields.intersection(_set(one), fields.union(_set(other), _set(one))) == _set(one)
    assert fields.parse(_set(one)) == _set(one)


@given(members=MEMBERS)
def test_leaves_are_members_with_no_member_below(members: frozenset[Path]) -> None:
    leaves = {path for path in members if not any(other != path and other[: len(path)] == path for other in members)}
    assert _members(fields.leaves(_set(members))) == leaves


def test_steps_of_others_are_brought_to_one_form() -> None:
    raw: Set = {'k:{"protocol":"TCP", "containerPort":80}': {".": {}, "f:name": {}}, "x:unknown": {}}
    assert fields.parse(raw) == {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:name": {}}}


@pytest.mark.parametrize("raw", [{"a": {}}, {"fa": {}}, {"k:x": {}}, {"v:": {}}, {"i:x": {}}, {"f:a": 1}, []])
def test_what_is_not_a_field_set_is_refused(raw: object) -> None:
    with pytest.raises(fields.MalformedFields):
        fields.parse(raw)


SHOWN = [
    (("f:spec", "f:replicas"), ".spec.replicas"),
    (("f:spec", "f:containers", 'k:{"name":"web"}', "f:image"), '.spec.containers[name="web"].image'),
    (("f:ports", 'k:{"containerPort":80,"protocol":"TCP"}'), '.ports[containerPort=80,protocol="TCP"]'),
    (("f:metadata", "f:finalizers", 'v:"example.com/x"'), '.metadata.finalizers[="example.com/x"]'),
    (("f:metadata", "f:labels", "f:app.kubernetes.io/name"), ".metadata.labels.app.kubernetes.io/name"),
    (("f:list", "i:3", "f:x"), ".list[3].x"),
    (("f:set", "v:true"), ".set[=true]"),
    (("f:set", "v:1.5"), ".set[=1.5]"),
]


@pytest.mark.parametrize(("path", "text"), SHOWN)
def test_paths_read_as_in_messages_of_conflicts(path: Path, text: str) -> None:
    assert fields.show(path) == text


def test_keys_are_ordered_by_value_and_not_by_text() -> None:
    ports = fields.from_paths(*(("f:ports", fields.key({"port": port})) for port in (443, 80, 8080)))
    assert [path[1] for path in fields.paths(ports)] == ['k:{"port":80}', 'k:{"port":443}', 'k:{"port":8080}']


def test_keys_are_escaped_as_go_escapes_them() -> None:
    assert fields.value("a<b>&c") == 'v:"a\\u003cb\\u003e\\u0026c"'
