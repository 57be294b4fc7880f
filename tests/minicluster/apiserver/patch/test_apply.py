"""Field ownership and server-side apply do what a real server did in the same sequences of writes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from koord.api.machinery.object_schema import Schema
from koord.api.machinery.openapi_schema import from_openapi
from koord_minicluster.apiserver.patch import managed_fields, new_fields, scale_fields
from koord_minicluster.apiserver.patch.reach import reach_of
from koord_minicluster.apiserver.resource import Resource
from koord_minicluster.apiserver.status import StatusError
from tests.minicluster.apiserver.patch.recorded import Obj, difference, load, schema_of, with_sorted_causes

RECORD = load("apply.json")
STATUS_KINDS = ("Deployment", "Pod", "Service", "Node", "Thing")
FILLED_LATER = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "priority", "preemptionPolicy", "taints")
"Fields of the spec that the server fills in on creation after it settled who owns what."


def _custom_schema() -> Schema:
    version = RECORD["custom_kind"]["spec"]["versions"][0]
    return from_openapi(version["schema"]["openAPIV3Schema"])


CUSTOM = _custom_schema()


def resource_of(obj: Obj) -> Resource:
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = obj["kind"]
    subresources = frozenset({"status"} if kind in STATUS_KINDS else ())
    schema = CUSTOM if kind == "Thing" else schema_of(obj)
    return Resource(group, version, kind.lower() + "s", kind, True, schema, subresources=subresources)


def _steps(verbs: tuple[str, ...], scale: bool = False) -> Iterator[Any]:
    for sequence in RECORD["sequences"]:
        before: Obj | None = None
        for number, step in enumerate(sequence["steps"]):
            after = step.get("after", before)
            if step["verb"] in verbs and (step["subresource"] == "scale") == scale:
                label = f"{sequence['name']}-{number}-{step['verb']}-{step['manager']}"
                yield pytest.param(step, copy.deepcopy(before), copy.deepcopy(after), id=label)
            before = after


def now_of(before: Obj | None, after: Obj) -> str:
    """The time of the write, as far as the entries that it left tell it."""
    old = [entry.get("time") for entry in (before or {}).get("metadata", {}).get("managedFields", [])]
    new = [entry.get("time", "") for entry in after["metadata"].get("managedFields", []) if entry not in old]
    return max(new, default="2026-01-01T00:00:59Z")


@pytest.mark.parametrize(("step", "before", "after"), list(_steps(("create", "update", "merge", "json", "strategic"))))
def test_writers_own_what_they_change(step: Obj, before: Obj | None, after: Obj) -> None:
    assert step["code"] in (200, 201), step["answer"]
    wanted = after["metadata"].get("managedFields")
    resource = resource_of(after)
    new = copy.deepcopy(after)
    new["metadata"].pop("managedFields", None)
    if before is None:
        for name in FILLED_LATER:
            new.get("spec", {}).pop(name, None)
    if after["kind"] == "Thing" and step["subresource"] == "status":
        # What a status write says of labels is dropped, but only after it is owned.
        new["metadata"]["labels"] = step["body"]["metadata"]["labels"]
    sent = step["body"].get("metadata", {}).get("managedFields") if isinstance(step["body"], dict) else None
    if sent is not None:
        new["metadata"]["managedFields"] = sent
    elif before and "managedFields" in before["metadata"]:
        new["metadata"]["managedFields"] = copy.deepcopy(before["metadata"]["managedFields"])
    managed_fields.track(
        before,
        new,
        manager=step["manager"],
        operation_api_version=after["apiVersion"],
        schema=resource.schema,
        now=now_of(before, after),
        subresource=step["subresource"],
        reach=reach_of(resource, step["subresource"]),
    )
    new_fields.expand(new)
    assert new["metadata"].get("managedFields") == wanted


@pytest.mark.parametrize(("step", "before", "after"), list(_steps(("apply",))))
def test_apply_merges_owns_and_refuses(step: Obj, before: Obj | None, after: Obj) -> None:
    resource = resource_of(after)
    live, config = copy.deepcopy(before), copy.deepcopy(step["body"])
    try:
        result = managed_fields.apply(
            live,
            config,
            manager=step["manager"],
            force=step["force"],
            schema=resource.schema,
            api_version=after["apiVersion"],
            kind=after["kind"],
            now=now_of(before, after),
            subresource=step["subresource"],
            reach=reach_of(resource, step["subresource"]),
        )
    except StatusError as error:
        refusal = error.body()
        del refusal["metadata"]
        assert with_sorted_causes(refusal) == with_sorted_causes(step.get("answer"))
        result = None
    assert live == before
    assert config == step["body"]
    if result is None:
        return
    if "resourceVersion" in config["metadata"]:
        assert result["metadata"]["resourceVersion"] == config["metadata"]["resourceVersion"]
        assert "the object has been modified" in step["answer"]["message"]
        return
    if step["code"] == 422:
        assert step["answer"]["details"]["causes"], "only validation may refuse what was merged"
        return
    assert step["code"] in (200, 201), step["answer"]
    assert result["metadata"].get("managedFields") == after["metadata"].get("managedFields")
    for name in ("resourceVersion", "managedFields", "generation"):
        result["metadata"].pop(name, None)
        after["metadata"].pop(name, None)
    if step["subresource"] == "status":
        assert difference(result["status"], after["status"]) == []
    else:
        result.pop("status", None)
        after.pop("status", None)
        assert difference(result, after) == []


@pytest.mark.parametrize(("step", "before", "after"), list(_steps(("merge",), scale=True)))
def test_writers_of_a_scale_own_the_replicas(step: Obj, before: Obj, after: Obj) -> None:
    mappings = scale_fields.mappings_of({after["apiVersion"]: ".spec.replicas"})
    entries = before["metadata"]["managedFields"]
    scale: Obj = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x", "uid": "u"}}
    live = {**scale, "spec": {"replicas": before["spec"].get("replicas", 0)}}
    live["metadata"] = {**scale["metadata"], "managedFields": scale_fields.to_scale(entries, mappings)}
    new = {**scale, "spec": step["body"]["spec"]}
    new["metadata"] = dict(scale["metadata"])
    managed_fields.track(
        live,
        new,
        manager=step["manager"],
        operation_api_version="autoscaling/v1",
        schema=schema_of(scale),
        now=now_of(before, after),
        subresource="scale",
    )
    owned = scale_fields.from_scale(entries, new["metadata"].get("managedFields"), after["apiVersion"], mappings)
    assert owned == after["metadata"]["managedFields"]
