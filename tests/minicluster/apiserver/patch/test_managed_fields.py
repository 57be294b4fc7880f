"""Ownership beyond the recorded sequences: versions, changed schemas, odd input."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api import builtin_schemas as schemas
from koord.api.machinery.object_schema import Schema
from koord_minicluster.apiserver.patch import (
    json_patch,
    managed_fields,
    managers,
    merge_patch,
    new_fields,
    reach,
    strategic,
)
from koord_minicluster.apiserver.patch.managers import Owned, Owner
from koord_minicluster.apiserver.resource import Resource
from koord_minicluster.apiserver.status import StatusError

Obj = dict[str, Any]
CONFIGMAP = schemas.schema_for("", "v1", "ConfigMap")
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"


def _configmap(**data: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "uid": "u"}, "data": data}


def _track(live: Obj | None, new: Obj, manager: str = "m", schema: Schema = CONFIGMAP, **more: Any) -> list[Obj]:
    new = copy.deepcopy(new)
    version = more.pop("version", "v1")
    managed_fields.track(
        live, new, manager=manager, operation_api_version=version, schema=schema, now=more.pop("now", NOW), **more
    )
    new_fields.expand(new)
    found: list[Obj] = new["metadata"].get("managedFields", [])
    return found


def _apply(live: Obj | None, config: Obj, manager: str = "m", force: bool = False, **more: Any) -> Obj:
    return managed_fields.apply(
        live,
        config,
        manager=manager,
        force=force,
        schema=more.pop("schema", CONFIGMAP),
        api_version=more.pop("version", "v1"),
        now=more.pop("now", NOW),
        **more,
    )


def test_owners_in_versions_that_are_not_served_are_dropped() -> None:
    live = _configmap(a="1")
    live["metadata"]["managedFields"] = [
        _entry("old", "v0", {"f:data": {"f:a": {}}}),
        _entry("kept", "v1", {"f:data": {"f:b": {}}}),
    ]
    entries = _track(live, _configmap(a="1", c="2"), versions={"v1": schemas.schema_for("", "v1", "ConfigMap")})
    assert [entry["manager"] for entry in entries] == ["kept", "m"]


def _entry(manager: str, version: str, owned: Obj, operation: str = "Update") -> Obj:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": version,
        "time": NOW,
        "fieldsType": "FieldsV1",
        "fieldsV1": owned,
    }


def test_what_became_atomic_is_owned_as_a_whole() -> None:
    text = Schema("string")
    before = Schema("object", properties={"spec": Schema("object", properties={"map": Schema("object", values=text)})})
    atomic = Schema("object", values=text, atomic_map=True)
    after = Schema("object", properties={"spec": Schema("object", properties={"map": atomic})})
    obj = {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x", "uid": "u"}, "spec": {"map": {"a": "1"}}}
    obj["metadata"]["managedFields"] = _track(None, obj, schema=before, version="x/v1")  # type: ignore[index]
    changed = copy.deepcopy(obj)
    changed["spec"]["map"]["b"] = "2"  # type: ignore[index]
    entries = _track(obj, changed, "other", schema=after, version="x/v1")
    owned = {entry["manager"]: entry["fieldsV1"]["f:spec"] for entry in entries}
    assert owned == {"m": {}, "other": {"f:map": {}}}


def test_unreadable_live_owners_refuse_an_apply() -> None:
    live = _configmap(a="1")
    live["metadata"]["managedFields"] = [{"manager": "x", "operation": "Wrong"}]
    with pytest.raises(StatusError, match="failed to decode managed fields"):
        _apply(live, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})


def test_an_item_without_keys_costs_the_owners_but_not_the_write() -> None:
    new = _configmap(a="1")
    new["metadata"]["finalizers"] = [None]
    assert _track(None, new) == []


def test_a_repeated_item_is_owned_by_its_key_alone() -> None:
    schema = schemas.schema_for("", "v1", "PodTemplate")
    ports = [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "TCP", "name": "x"}]
    obj = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "t"},
        "template": {"spec": {"containers": [{"name": "a", "ports": ports}]}},
    }
    (entry,) = _track(None, obj, schema=schema)
    containers = entry["fieldsV1"]["f:template"]["f:spec"]["f:containers"]
    assert containers['k:{"name":"a"}']["f:ports"] == {".": {}, 'k:{"containerPort":80,"protocol":"TCP"}': {}}


def test_no_manager_is_unknown() -> None:
    (entry,) = _track(None, _configmap(a="1"), manager="")
    assert entry["manager"] == "unknown"


DATA = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("12"), max_size=4)
WRITES = st.lists(st.tuples(st.sampled_from(["p", "q", "r"]), st.booleans(), DATA), min_size=1, max_size=6)


@given(writes=WRITES)
@settings(max_examples=150, deadline=None)
def test_every_field_has_an_owner_and_appliers_have_what_they_said(writes: list[tuple[str, bool, Obj]]) -> None:
    live: Obj | None = None
    for manager, applying, data in writes:
        if applying:
            config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}
            live = _apply(live, config, manager, force=True)
            live["metadata"].setdefault("uid", "u")
            assert {key: live.get("data", {}).get(key) for key in data} == data
        else:
            new = copy.deepcopy(live) if live else _configmap()
            new["data"] = {**new.get("data", {}), **data}
            new["metadata"]["managedFields"] = _track(live, new, manager)
            live = new
        owned = [entry["fieldsV1"].get("f:data", {}) for entry in live["metadata"].get("managedFields", [])]
        present = {f"f:{key}" for key in live.get("data") or {}}
        assert present <= {step for fields in owned for step in fields}
        if applying and data:
            entries = live["metadata"]["managedFields"]
            mine = next(entry for entry in entries if entry["manager"] == manager and entry["operation"] == "Apply")
            assert mine["fieldsV1"]["f:data"] == {f"f:{key}": {} for key in data}


@given(data=DATA, manager=st.sampled_from(["p", "q"]))
def test_applying_twice_changes_nothing_the_second_time(data: Obj, manager: str) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}
    once = _apply(None, config, manager)
    once["metadata"]["uid"] = "u"
    assert _apply(once, config, manager, now=LATER) == once


def test_paths_changed_names_the_leaves_that_differ() -> None:
    old, new = _configmap(a="1", b="2"), _configmap(a="1", b="3", c="4")
    new["metadata"]["labels"] = {"x": "y"}
    assert managed_fields.paths_changed(CONFIGMAP, old, new) == [".data.b", ".data.c", ".metadata.labels.x"]


def test_more_than_ten_updaters_become_ancient() -> None:
    owners = {
        Owner(f"m{number:02}", "Update", "v1", ""): Owned({"f:data": {f"f:k{number}": {}}}, "v1", NOW)
        for number in range(12)
    }
    capped = managers.capped(owners)
    assert len(capped) == managers.MOST_UPDATERS
    ancient = capped[Owner("ancient-changes", "Update", "v1", "")]
    assert ancient.fields == {"f:data": {"f:k0": {}, "f:k1": {}, "f:k2": {}}}


def test_an_applier_with_the_name_of_an_updater_is_another_owner() -> None:
    live = _configmap(a="1")
    live["metadata"]["managedFields"] = _track(None, live, "same")
    with pytest.raises(StatusError) as refused:
        _apply(live, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "2"}}, "same")
    assert refused.value.message == 'Apply failed with 1 conflict: conflict with "same" using v1: .data.a'


REACH = [
    ("", "Pod", "", {"f:status": {"f:phase": {}}, "f:spec": {"f:nodeName": {}}}, {"f:spec": {"f:nodeName": {}}}),
    ("", "Pod", "status", {"f:spec": {"f:x": {}}, "f:metadata": {"f:ownerReferences": {".": {}, "k:{}": {}},
        "f:labels": {"f:a": {}}}}, {"f:metadata": {"f:labels": {"f:a": {}}}}),
    ("apps", "Deployment", "status", {"f:metadata": {"f:labels": {"f:a": {}}, "f:annotations": {"f:b": {}}}},
        {"f:metadata": {"f:annotations": {"f:b": {}}}}),
    ("storage.k8s.io", "VolumeAttachment", "status", {"f:metadata": {"f:x": {}}, "f:status": {"f:y": {}}},
        {"f:status": {"f:y": {}}}),
    ("", "Pod", "ephemeralcontainers", {"f:metadata": {"f:labels": {}}}, {"f:metadata": {"f:labels": {}}}),
    ("", "Pod", "resize", {"f:spec": {"f:x": {}}}, {"f:spec": {"f:x": {}}}),
]  # fmt: skip


@pytest.mark.parametrize(("group", "kind", "subresource", "written", "reached"), REACH)
def test_a_write_reaches_what_its_subresource_lets_it(
    group: str, kind: str, subresource: str, written: Obj, reached: Obj
) -> None:
    resource = Resource(group, "v1", "x", kind, True, Schema(), subresources=frozenset({"status"}))
    assert reach.reach_of(resource, subresource)(written) == reached


def test_a_kind_without_status_subresource_owns_its_status_as_any_field() -> None:
    resource = Resource("example.com", "v1", "things", "Thing", True, Schema())
    assert reach.reach_of(resource)({"f:status": {}}) == {"f:status": {}}


def test_nesting_that_is_too_deep_is_refused_or_not_owned() -> None:
    deep: Obj = {}
    inner = deep
    for _ in range(3000):
        inner["a"] = inner = {}
    schema = Schema("object", preserve_unknown=True)
    thing = {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "spec": deep}
    new = dict(thing, metadata={"name": "x"})
    managed_fields.track(None, new, manager="m", operation_api_version="x/v1", schema=schema, now=NOW)
    assert "managedFields" not in new["metadata"]
    writes: list[Callable[[], Obj]] = [
        lambda: _apply(None, thing, schema=schema, version="x/v1"),
        lambda: merge_patch.apply({"spec": {}}, {"spec": deep}),
        lambda: strategic.apply({}, {"spec": deep}, CONFIGMAP),
        lambda: json_patch.apply({"spec": deep}, [{"op": "test", "path": "/spec", "value": copy_of(deep)}]),
    ]
    for write in writes:
        with pytest.raises(StatusError) as refused:
            write()
        assert refused.value.code == 400


def copy_of(deep: Obj) -> Obj:
    result: Obj = {}
    inner = result
    while deep:
        inner["a"] = inner = {}
        deep = deep["a"]
    return result


def test_a_patched_object_that_shares_its_metadata_with_the_live_one_leaves_that_one_alone() -> None:
    live = _configmap(a="1")
    live["metadata"]["managedFields"] = _track(None, live)
    before = copy.deepcopy(live)
    new = merge_patch.apply(live, {"data": {"a": "2"}})
    managed_fields.track(live, new, manager="p", operation_api_version="v1", schema=CONFIGMAP, now=LATER)
    assert live == before
    assert [entry["manager"] for entry in new["metadata"]["managedFields"]] == ["m", "p"]
