"""The documents that kubectl explains, validates and merges by."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from koord.api import builtin_schemas as schemas
from koord_minicluster.apiserver.builtin.resources import builtin_resources
from koord_minicluster.apiserver.custom import kinds
from koord_minicluster.apiserver.openapi import OpenApi, old_document
from koord_minicluster.apiserver.registry import Registry
from tests.minicluster.apiserver.bodies.custom import SCHEMA
from tests.minicluster.apiserver.bodies.definitions import ver
from tests.minicluster.apiserver.custom.test_kinds import definition, settled

Json = dict[str, Any]


@pytest.fixture(scope="module")
def documents() -> dict[str, Json]:
    openapi = OpenApi(Registry(builtin_resources()))
    found = {}
    for path in openapi.index()["paths"]:
        document = openapi.document(path)
        assert document is not None
        found[path] = json.loads(document.body)
    return found


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_reference_leads_to_a_definition_of_the_same_document(documents: dict[str, Json]) -> None:
    for document in documents.values():
        known = document["components"]["schemas"]
        assert all(ref.removeprefix("#/components/schemas/") in known for ref in references(document))


def test_kubectl_finds_every_kind_by_the_path_of_its_collection(documents: dict[str, Json]) -> None:
    for resource in builtin_resources():
        root = f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"
        within = f"/{root}/namespaces/{{namespace}}" if resource.namespaced else f"/{root}"
        operations = documents[root]["paths"][f"{within}/{resource.plural}"]
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        assert all(operation["x-kubernetes-group-version-kind"] == kind for operation in operations.values())
        schemas_ = documents[root]["components"]["schemas"].values()
        assert any(kind in each.get("x-kubernetes-group-version-kind", ()) for each in schemas_)


def test_kubectl_learns_from_the_patch_what_it_may_do(documents: dict[str, Json]) -> None:
    patch = documents["api/v1"]["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert {"dryRun", "fieldValidation", "fieldManager", "force"} <= {
        parameter["name"] for parameter in patch["parameters"]
    }
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]


def test_lists_say_how_they_merge(documents: dict[str, Json]) -> None:
    spec = documents["api/v1"]["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]
    containers = spec["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert spec["required"] == ["containers"]


def test_a_custom_kind_is_published_as_it_was_defined() -> None:
    registry = Registry(builtin_resources())
    openapi = OpenApi(registry)
    before = openapi.index()
    [resource] = kinds.resources_of(settled(definition(versions=[ver("v1", storage=True, schema=SCHEMA)])))
    registry.add(resource)
    document = openapi.document("apis/x.io/v1")
    assert document is not None
    assert set(openapi.index()["paths"]) - set(before["paths"]) == {"apis/x.io/v1"}
    published = json.loads(document.body)["components"]["schemas"]["io.x.v1.Foo"]
    for name, schema in SCHEMA["properties"]["spec"]["properties"].items():
        assert published["properties"]["spec"]["properties"][name] == schema, name
    patch = json.loads(document.body)["paths"]["/apis/x.io/v1/namespaces/{namespace}/foos/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
    assert openapi.document("apis/x.io/v1") is document
    registry.remove("x.io", "v1", "foos")
    assert openapi.document("apis/x.io/v1") is None
    assert openapi.index() == before


def test_version_2_is_an_empty_document_in_both_forms() -> None:
    body, kind = old_document("application/json")
    assert json.loads(body)["swagger"] == "2.0"
    assert kind == "application/json"
    body, kind = old_document("application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
    assert body.startswith(b"\x0a\x032.0\x12")
    assert kind.endswith("+protobuf")


def test_a_pod_has_the_facts_that_merging_and_reading_need() -> None:
    pod = schemas.schema_for("", "v1", "Pod")
    container = pod.properties["spec"].properties["containers"].items
    assert container is not None
    assert container.properties["ports"].list_keys == ("containerPort", "protocol")
    assert container.properties["ports"].patch_merge_key == "containerPort"
    assert container.properties["resources"].written == "always"
    port = container.properties["ports"].items
    assert port is not None
    assert port.properties["protocol"].default == "TCP"
    assert schemas.schema_for("metrics.k8s.io", "v1beta1", "PodMetrics").properties["window"].format == "duration"
    with pytest.raises(KeyError):
        schemas.schema_for("apps", "v1", "Nothing")
