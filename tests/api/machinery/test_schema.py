"""Structs as structural schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.words import PodPhase
from koord.api.machinery.schema import Schema, SchemaError, resource_schema, type_schema
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol.crd.definitions import DEFINITIONS, Definition, find, manifest
from koord.api.protocol.crd.fields import FreeForm, Int32, IntOrString, served_default
from koord.api.text.duration import Duration
from koord.api.text.quantity import Quantity, ResourceList
from koord.api.text.timestamp import Timestamp

each_definition = pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda d: d.kind.kind)

INT_OR_STRING = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (int, {"type": "integer", "format": "int64"}),
        (float, {"type": "number", "format": "double"}),
        (Int32, {"type": "integer", "format": "int32", "minimum": -(2**31), "maximum": 2**31 - 1}),
        (Annotated[int, Meta(ge=0, le=100)], {"type": "integer", "format": "int64", "minimum": 0, "maximum": 100}),
        (Annotated[int, Meta(gt=0, lt=9)], {"type": "integer", "format": "int64", "minimum": 1, "maximum": 8}),
        (
            Annotated[float, Meta(gt=0, le=1)],
            {"type": "number", "format": "double", "minimum": 0, "exclusiveMinimum": True, "maximum": 1},
        ),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", "b"] | None, {"type": "string", "enum": ["a", "b"]}),
        (PodPhase, {"type": "string"}),
        (IntOrString, INT_OR_STRING),
        (Timestamp, {"type": "string", "format": "date-time"}),
        (FreeForm, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (Mapping[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (tuple[str, ...], {"type": "array", "items": {"type": "string"}}),
        (Annotated[bool, served_default(True)], {"type": "boolean", "default": True}),
    ],
)
def test_a_type_becomes_the_schema_that_kubernetes_has_for_it(type_: Any, expected: Schema) -> None:
    assert type_schema(type_) == expected


def test_an_open_union_is_refused_because_it_cannot_be_structural() -> None:
    with pytest.raises(SchemaError):
        type_schema(int | str)


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        (
            Quantity,
            ["1", "1.5Gi", ".5", "+1", "-3m", "1e3", "1E-3", "10k", "5E", "1Ei", "100n", "2u", "1."],
            ["", "1 Gi", "1K", "Gi", "1kk", "abc", "1e", "1ki"],
        ),
        (
            Duration,
            ["24h", "0", "0s", "5m0s", "1h30m", "1.5h", ".5s", "-1m", "+2ms", "3µs", "3us", "7ns"],
            ["", "1", "1d", "h", "1h30", "1 h", "1m,2s"],
        ),
    ],
    ids=["quantity", "duration"],
)
def test_texts_are_accepted_exactly_where_kubernetes_can_read_them(type_: Any, good: list[str], bad: list[str]) -> None:
    pattern = re.compile(type_schema(type_)["pattern"])
    assert [text for text in good if not pattern.match(text)] == []
    assert [text for text in bad if pattern.match(text)] == []


class Inner(Struct):
    size: Quantity
    "How large."
    note: str = ""


class Example(Struct, kw_only=True):
    """One line
    over two.

    And what users need not know.
    """

    metadata: ObjectMeta = ObjectMeta()
    inner: Inner
    "What is in it."
    limits: ResourceList = EMPTY
    ("A long description in two parts.")


def test_descriptions_are_the_strings_below_the_fields() -> None:
    schema = resource_schema(Example)
    assert schema["description"] == "One line over two."
    assert schema["properties"]["inner"]["description"] == "What is in it."
    assert schema["properties"]["inner"]["properties"]["size"]["description"] == "How large."
    assert "description" not in schema["properties"]["inner"]["properties"]["note"]
    assert schema["properties"]["limits"]["description"] == "A long description in two parts."


def test_fields_without_default_are_required_and_metadata_is_left_to_the_api_server() -> None:
    schema = resource_schema(Example)
    assert schema["required"] == ["inner"]
    assert schema["properties"]["inner"]["required"] == ["size"]
    assert schema["properties"]["metadata"] == {"type": "object"}


ALLOWED = {
    "type", "format", "description", "properties", "additionalProperties", "items", "required", "enum", "default",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems", "minLength", "maxLength",
    "pattern", "nullable", "anyOf", "minProperties",
    "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-map-type",
}  # fmt: skip


def nodes(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], path + "{}")


@each_definition
def test_schemas_are_structural(definition: Definition) -> None:
    for path, schema in nodes(resource_schema(definition.kind.type), ""):
        assert set(schema) <= ALLOWED, path
        if schema.get("x-kubernetes-int-or-string"):
            assert "type" not in schema, path
            assert schema["anyOf"] == INT_OR_STRING["anyOf"], path
        else:
            assert schema["type"] in {"object", "array", "string", "integer", "number", "boolean"}, path
            assert "anyOf" not in schema, path
        assert not ("properties" in schema and "additionalProperties" in schema), path
        if "default" in schema and "enum" in schema:
            assert schema["default"] in schema["enum"], path


@each_definition
def test_every_field_has_a_description(definition: Definition) -> None:
    bare = [
        path
        for path, schema in nodes(resource_schema(definition.kind.type), "")
        if path != "metadata" and not path.endswith(("[]", "{}")) and not schema.get("description", "").strip(" .")
    ]
    assert bare == []


@each_definition
def test_descriptions_end_as_sentences_and_fit_a_terminal(definition: Definition) -> None:
    for path, schema in nodes(resource_schema(definition.kind.type), ""):
        text = schema.get("description")
        if text is not None:
            assert text.endswith("."), f"{path}: {text}"
            assert len(text) < 250, path


NAMES = {
    "ClusterColocationProfile": ("config.koordinator.sh", "Cluster", [], True),
    "NodeMetric": ("slo.koordinator.sh", "Cluster", [], True),
    "NodeSLO": ("slo.koordinator.sh", "Cluster", [], True),
    "Reservation": ("scheduling.koordinator.sh", "Cluster", [], True),
    "PodMigrationJob": ("scheduling.koordinator.sh", "Cluster", ["pmj"], True),
    "Device": ("scheduling.koordinator.sh", "Cluster", [], False),
    "ClusterNetworkTopology": ("scheduling.koordinator.sh", "Cluster", [], True),
    "ScheduleExplanation": ("scheduling.koordinator.sh", "Namespaced", ["sched-exp"], True),
    "ElasticQuotaProfile": ("quota.koordinator.sh", "Namespaced", ["eqp"], False),
    "Recommendation": ("analysis.koordinator.sh", "Namespaced", ["recom"], True),
    "InterferencePair": ("analysis.koordinator.sh", "Cluster", ["ifpair"], False),
    "ElasticQuota": ("scheduling.sigs.k8s.io", "Namespaced", [], False),
    "PodGroup": ("scheduling.sigs.k8s.io", "Namespaced", [], False),
    "NodeResourceTopology": ("topology.node.k8s.io", "Cluster", ["node-res-topo"], False),
}
"""Group, scope, short names and status subresource of each kind, as the protocol has them. InterferencePair is koord's
own."""


@each_definition
def test_definitions_carry_the_protocols_names(definition: Definition) -> None:
    crd = manifest(definition)
    spec, names = crd["spec"], crd["spec"]["names"]
    has_status = ["subresources" in version for version in spec["versions"]]
    assert (spec["group"], spec["scope"], names.get("shortNames", [])) == NAMES[names["kind"]][:3]
    assert set(has_status) == {NAMES[names["kind"]][3]}
    assert crd["metadata"]["name"] == f"{names['plural']}.{spec['group']}"
    assert "koord" in names["categories"]


def test_node_resource_topologies_are_served_in_both_versions_and_stored_as_the_newer() -> None:
    definition = find("node-res-topo")
    assert definition is not None
    versions = manifest(definition)["spec"]["versions"]
    assert [(v["name"], v["served"], v["storage"]) for v in versions] == [
        ("v1alpha1", True, False),
        ("v1alpha2", True, True),
    ]


COLUMNS_BEFORE = {
    "Reservation": {"Phase", "Age", "Node", "TTL", "Expires"},
    "PodMigrationJob": {
        "Phase", "Status", "Age", "Node", "Reservation", "PodNamespace", "Pod", "NewPod", "TTL",
    },
    "Recommendation": {"Age", "Type", "Kind", "Name", "LastUpdateTime"},
}  # fmt: skip


@each_definition
def test_columns_point_at_fields_that_exist_and_print_their_type(definition: Definition) -> None:
    for column in definition.columns:
        if column.path.startswith(".metadata."):
            continue
        schema = resource_schema(definition.kind.type)
        for step in re.sub(r"\[[^\]]*\]", "", column.path).lstrip(".").split("."):
            schema = schema.get("items", schema)
            schema = schema["properties"][step] if "properties" in schema else schema["additionalProperties"]
        wire = "date" if schema.get("format") == "date-time" else schema.get("type", "string")
        if wire in ("date", "integer", "boolean"):
            assert column.type == wire or (wire, column.name) == ("date", "Expires"), column


@pytest.mark.parametrize("kind", COLUMNS_BEFORE)
def test_columns_that_scripts_may_read_are_still_there(kind: str) -> None:
    definition = find(kind)
    assert definition is not None
    assert COLUMNS_BEFORE[kind] <= {column.name for column in definition.columns if not column.wide}


@pytest.mark.parametrize(
    "name", ["Reservation", "reservation", "reservations", "RESERVATIONS.scheduling.koordinator.sh"]
)
def test_a_definition_is_found_by_each_of_its_names(name: str) -> None:
    definition = find(name)
    assert definition is not None
    assert definition.kind.kind == "Reservation"


def test_an_unknown_name_finds_nothing() -> None:
    assert find("pods") is None
