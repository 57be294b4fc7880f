"""The result of a patch is judged in the real server's words (of release 1.35)."""

from __future__ import annotations

from typing import Any

import pytest

from koord_minicluster.apiserver.bodies import patched
from koord_minicluster.apiserver.bodies.patched import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from koord_minicluster.apiserver.custom.kinds import custom_schema
from koord_minicluster.apiserver.resource import Obj
from koord_minicluster.apiserver.status import StatusError
from tests.minicluster.apiserver.bodies import custom, ours

DEPLOYMENTS = ours.resource_at("/apis/apps/v1/namespaces/default/deployments")
WIDGETS = ours.widgets(custom_schema(custom.SCHEMA))
DEPLOYMENT: Obj = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 1}}


@pytest.mark.parametrize(
    ("media_type", "body", "message"),
    [
        (MERGE_PATCH, b'{"spec":', "error decoding patch: unexpected end of JSON input"),
        (MERGE_PATCH, b"", "error decoding patch: unexpected end of JSON input"),
        (STRATEGIC_PATCH, b'{"spec":', "unexpected end of JSON input"),
        (MERGE_PATCH, b"null", "Invalid JSON Patch"),
        (
            MERGE_PATCH,
            b"[]",
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (STRATEGIC_PATCH, b'"x"', "json: cannot unmarshal string into Go value of type map[string]interface {}"),
        (
            JSON_PATCH,
            b"{}",
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
    ],
)
def test_a_patch_that_cannot_be_read_is_refused(media_type: str, body: bytes, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        patched.read(body, media_type)
    assert (refused.value.code, refused.value.message) == (400, message)


def test_a_strategic_patch_of_null_changes_nothing() -> None:
    assert patched.read(b"null", STRATEGIC_PATCH).value == {}


@pytest.mark.parametrize(
    ("spec", "merge", "strategic"),
    [
        (
            {"replicas": "x"},
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
            "unrecognized type: int32",
        ),
        (
            {"replicas": 1.5},
            "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
            "cannot convert float64 to int32",
        ),
        (
            {"template": {"spec": {"containers": "x"}}},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.template.spec.containers of type "
            "[]v1.Container",
            "cannot restore slice from string",
        ),
        (
            "x",
            "json: cannot unmarshal string into Go struct field Deployment.spec of type v1.DeploymentSpec",
            "cannot restore struct from: string",
        ),
        (
            {"template": {"metadata": {"labels": {"a": 3}}}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.spec.template.metadata.labels of type "
            "string",
            "cannot convert int64 to string",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_the_patchs_fault(spec: Any, merge: str, strategic: str) -> None:
    obj = {**DEPLOYMENT, "spec": spec}
    for media_type, why in ((MERGE_PATCH, merge), (STRATEGIC_PATCH, strategic)):
        with pytest.raises(StatusError) as refused:
            patched.outcome(DEPLOYMENTS, obj, patched.Patch(media_type, {"a": [1, True, None]}, []), "Warn")
        assert refused.value.code == 422
        assert refused.value.message.startswith(' "" is invalid: patch: Invalid value: ')
        assert refused.value.message.endswith(f": {why}")
    assert '"map[a:[1 true <nil>]]"' in refused.value.message


def test_unknown_and_repeated_fields_are_warned_of_or_refused() -> None:
    patch = patched.read(b'{"spec":{"replicas":1,"replicas":2,"foo":1}}', MERGE_PATCH)
    obj = {**DEPLOYMENT, "spec": {"replicas": 2, "foo": 1}}
    result, warnings = patched.outcome(DEPLOYMENTS, obj, patch, "Warn")
    assert "foo" not in result["spec"]
    assert warnings == ['duplicate field "spec.replicas"', 'unknown field "spec.foo"']
    assert patched.outcome(DEPLOYMENTS, obj, patch, "Ignore")[1] == []
    with pytest.raises(StatusError, match=r'strict decoding error: duplicate field "spec\.replicas", unknown field'):
        patched.outcome(DEPLOYMENTS, obj, patch, "Strict")


def test_operations_of_a_json_patch_are_checked_too() -> None:
    patch = patched.read(b'[{"op":"add","op":"add","path":"/a","value":1,"foo":1}]', JSON_PATCH)
    assert patch.faults == ['json patch duplicate field "[0].op"', 'json patch unknown field "[0].foo"']


def test_the_kind_stays() -> None:
    patch = patched.Patch(MERGE_PATCH, {"kind": "Foo"}, [])
    with pytest.raises(StatusError, match='no kind "Foo" is registered for version "apps/v1"'):
        patched.outcome(DEPLOYMENTS, {**DEPLOYMENT, "kind": "Foo"}, patch, "Warn")
    strategic = patched.Patch(STRATEGIC_PATCH, {"kind": "Foo"}, [])
    result, _ = patched.outcome(DEPLOYMENTS, {**DEPLOYMENT, "kind": "Foo"}, strategic, "Warn")
    assert result["kind"] == "Deployment"
    widget = {"apiVersion": "bodies.io/v1", "kind": "Foo", "metadata": {"name": "p"}, "spec": {"size": 1}}
    with pytest.raises(
        StatusError, match=r'Foo\.bodies\.io "p" is invalid: kind: Invalid value: "Foo": must be Widget'
    ):
        patched.outcome(WIDGETS, widget, patch, "Warn")


def test_a_patched_custom_object_is_pruned() -> None:
    widget = {
        "apiVersion": "bodies.io/v1",
        "kind": "Widget",
        "metadata": {"name": "p", "zz": 1},
        "spec": {"size": 1, "xx": 1},
    }
    result, warnings = patched.outcome(WIDGETS, widget, patched.Patch(MERGE_PATCH, {}, []), "Warn")
    assert result["spec"] == {"size": 1}
    assert warnings == ['unknown field "metadata.zz"', 'unknown field "spec.xx"']
