"""Bodies of any kind become an object or a refusal, never anything else."""

from __future__ import annotations

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.machinery.object_schema import Schema
from koord_minicluster.apiserver import structural
from koord_minicluster.apiserver.bodies import decoding, typed
from koord_minicluster.apiserver.custom.kinds import custom_schema
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import StatusError
from tests.minicluster.apiserver.bodies import custom, ours

PODS = ours.resource_at("/api/v1/namespaces/default/pods")
WIDGETS = ours.widgets(custom_schema(custom.SCHEMA))

scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8)
names = st.sampled_from(
    [
        "spec",
        "metadata",
        "containers",
        "name",
        "labels",
        "resources",
        "limits",
        "cpu",
        "env",
        "status",
        "x",
        "size",
        "mapl",
    ]
)
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=5), max_leaves=25
)


def outcome(resource: Resource, body: bytes, validation: str = "Strict") -> Obj | StatusError:
    try:
        return decoding.decode(resource, body, "application/json", validation)[0]
    except StatusError as error:
        return error


@given(st.binary(max_size=60))
def test_any_bytes_are_an_object_or_a_refusal(body: bytes) -> None:
    for resource in (PODS, WIDGETS):
        result = outcome(resource, body)
        assert isinstance(result, dict) or 400 <= result.code < 500


@given(json_values, st.sampled_from(["Ignore", "Warn", "Strict"]))
def test_any_json_is_an_object_or_a_refusal_and_can_be_written_out(value: object, validation: str) -> None:
    head = {"apiVersion": "v1", "kind": "Pod"}
    body = msgspec.json.encode({**head, **value} if isinstance(value, dict) else value)
    result = outcome(PODS, body, validation)
    if isinstance(result, dict):
        msgspec.json.encode(result)
        assert result["status"] is not None


@given(json_values)
def test_any_custom_object_is_judged(value: object) -> None:
    body = msgspec.json.encode(
        {"apiVersion": "bodies.io/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": value}
    )
    result = outcome(WIDGETS, body, "Ignore")
    if isinstance(result, dict):
        structural.default(WIDGETS.schema, result)
        structural.validate(WIDGETS.schema, result)
        msgspec.json.encode(result)


@given(json_values)
def test_what_was_kept_once_is_kept_unchanged_a_second_time(value: object) -> None:
    body = msgspec.json.encode({"spec": value} if not isinstance(value, dict) else value)
    result = outcome(PODS, body, "Ignore")
    if isinstance(result, dict):
        assert outcome(PODS, msgspec.json.encode(result), "Strict") == result


def test_a_patched_object_is_typed_as_if_it_had_been_sent() -> None:
    obj, warnings = decoding.retype(
        PODS, {"metadata": {"name": "a", "labels": {}}, "spec": {"priority": 3, "x": 1}}, "Warn"
    )
    assert obj["metadata"] == {"name": "a"}
    assert obj["spec"] == {"priority": 3, "containers": None}
    assert warnings == ['unknown field "spec.x"']
    with pytest.raises(StatusError, match="strict decoding error"):
        decoding.retype(PODS, {"spec": {"x": 1}}, "Strict")


def test_a_patch_may_be_any_value() -> None:
    assert decoding.decode_any(b'[{"op":"add"}]') == [{"op": "add"}]
    with pytest.raises(StatusError) as refused:
        decoding.decode_any(b"{", "application/json")
    assert refused.value.code == 400


def test_an_absent_struct_has_the_fields_that_always_appear() -> None:
    assert typed.empty(ours.resource_at("/api/v1/nodes").schema.properties["status"])["nodeInfo"]["kernelVersion"] == ""


def test_twelve_thousand_levels_are_refused_quickly() -> None:
    body = b'{"x":' + b"[" * 12_000 + b"]" * 12_000 + b"}"
    start_s = time.process_time()
    result = outcome(PODS, body)
    assert isinstance(result, StatusError)
    assert "exceeded max depth" in result.message
    assert time.process_time() - start_s < 1


def test_a_schema_that_contains_itself_is_read_to_any_depth() -> None:
    inner: Obj = {"type": "string", "bogus": 1}
    for _ in range(20):
        inner = {"type": "object", "properties": {"a": inner}}
    crds = ours.resource_at("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    schema = crds.schema.properties["spec"].properties["versions"].items
    assert isinstance(schema, Schema)
    value, has_unknown = typed.read(schema, {"name": "v1", "schema": {"openAPIV3Schema": inner}})
    assert has_unknown
    for _ in range(20):
        inner = inner["properties"]["a"]
    found = value["schema"]["openAPIV3Schema"]
    for _ in range(20):
        found = found["properties"]["a"]
    assert found == {"type": "string"}
