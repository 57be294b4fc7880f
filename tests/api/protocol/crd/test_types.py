"""The custom resources' types: complete, faithful on the wire, and with defaults that readers can rely on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

from koord.api import kinds
from koord.api.machinery.codec import DecodeError, convert, decode, encode
from koord.api.machinery.schema import resource_schema
from koord.api.machinery.struct import Struct
from koord.api.protocol.crd.definitions import DEFINITIONS, Definition
from koord.api.protocol.crd.node_slo import NodeSLO
from koord.api.protocol.crd.pod_group import PodGroup
from koord.api.protocol.crd.reservation import Reservation
from tests.api.protocol.crd import example

PROTOCOL = json.loads((Path(__file__).parent.parent / "data" / "crd_fields.json").read_text())

each_definition = pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda d: d.kind.kind)


def leaves(schema: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """The path and the type of every field that holds a value, as in the table of the protocol's fields."""
    if schema.get("type") == "array":
        yield from leaves(schema["items"], f"{path}[]")
    elif "properties" in schema:
        for name, inner in schema["properties"].items():
            yield from leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(schema.get("additionalProperties"), dict):
        yield from leaves(schema["additionalProperties"], path + "{}")
    elif schema.get("x-kubernetes-int-or-string"):
        yield path, "int-or-string"
    elif schema.get("x-kubernetes-preserve-unknown-fields"):
        yield path, "free-form"
    else:
        yield path, " ".join(filter(None, (schema["type"], schema.get("format"))))


@pytest.mark.parametrize("resource", PROTOCOL)
def test_no_field_of_the_protocol_is_lost_and_its_type_is_the_same(resource: str) -> None:
    name, _, _version = resource.partition("/")
    definition = next(d for d in DEFINITIONS if d.name == name)
    ours = dict(leaves(resource_schema(definition.kind.type), ""))
    missing_or_different = {path: form for path, form in PROTOCOL[resource].items() if ours.get(path) != form}
    assert not missing_or_different


def test_every_custom_kind_has_a_definition() -> None:
    assert {d.kind for d in DEFINITIONS} == set(kinds.CUSTOM)


@each_definition
def test_an_object_with_every_field_is_read_and_written_unchanged(definition: Definition) -> None:
    manifest = example.manifest(definition)
    data = json.dumps(manifest).encode()
    read = decode(definition.kind.type, data)
    assert json.loads(encode(definition.kind.manifest(read))) == manifest
    assert decode(definition.kind.type, encode(read)) == read


@each_definition
def test_defaults_that_the_api_server_fills_in_are_those_that_readers_assume(definition: Definition) -> None:
    for where, field in _fields(definition.kind.type):
        served = _more(field.type).get("default")
        if served is not None and field.default is not None:
            assert field.default == served, where


def _fields(type_: type[Struct]) -> Iterator[tuple[str, inspect.Field]]:
    info = inspect.multi_type_info([type_])[0]
    assert isinstance(info, inspect.StructType)
    todo, seen = [info], set()
    while todo:
        struct = todo.pop()
        if struct.cls in seen:
            continue
        seen.add(struct.cls)
        for field in struct.fields:
            yield f"{struct.cls.__name__}.{field.encode_name}", field
            todo.extend(_structs(field.type))


def _structs(type_: inspect.Type) -> Iterator[inspect.StructType]:
    match type_:
        case inspect.StructType():
            yield type_
        case inspect.Metadata(type=inner):
            yield from _structs(inner)
        case inspect.UnionType(types=types):
            for member in types:
                yield from _structs(member)
        case inspect.VarTupleType(item_type=item) | inspect.DictType(value_type=item):
            yield from _structs(item)


def _more(type_: inspect.Type) -> dict[str, Any]:
    return dict(type_.extra_json_schema or {}) if isinstance(type_, inspect.Metadata) else {}


class TestReservation:
    BARE = b'{"metadata": {"name": "r"}, "spec": {"template": {}, "owners": [{"labelSelector": {}}]}}'

    def test_lives_a_day_and_serves_one_owner_unless_told_otherwise(self) -> None:
        reservation = decode(Reservation, self.BARE)
        assert (reservation.spec.ttl, reservation.spec.allocate_once) == ("24h", True)
        assert reservation.status.phase == "Pending"

    def test_keeps_what_the_pod_template_says_beyond_what_koord_reads(self) -> None:
        template = {"spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}], "nodeName": "n1"}}
        reservation = convert(Reservation, {"spec": {"template": template, "owners": [{"object": {"name": "p"}}]}})
        assert msgspec.to_builtins(reservation)["spec"]["template"] == template
        assert reservation.spec.pod_template.spec.node_name == "n1"

    def test_names_the_field_of_a_template_that_is_no_pod(self) -> None:
        reservation = convert(Reservation, {"spec": {"template": {"spec": []}, "owners": [{"object": {}}]}})
        with pytest.raises(DecodeError, match="spec"):
            _ = reservation.spec.pod_template

    def test_needs_an_owner(self) -> None:
        with pytest.raises(DecodeError, match="owners"):
            decode(Reservation, b'{"spec": {"template": {}, "owners": []}}')


def test_what_nobody_set_in_a_node_slo_stays_unset_so_that_overlays_work() -> None:
    slo = decode(NodeSLO, b'{"spec": {"resourceUsedThresholdWithBE": {"cpuSuppressThresholdPercent": 0}}}')
    strategy = slo.spec.resource_used_threshold_with_be
    assert strategy is not None
    assert (strategy.cpu_suppress_threshold_percent, strategy.enable) == (0, None)
    assert msgspec.to_builtins(strategy) == {"cpuSuppressThresholdPercent": 0}


def test_a_phase_that_a_newer_writer_may_use_is_kept() -> None:
    group = decode(PodGroup, b'{"status": {"phase": "Thinking"}}')
    assert encode(group.status) == b'{"phase":"Thinking"}'


quantities = st.sampled_from(["0", "1", "250m", "1.5Gi", "-3", "1e3", 4])
durations = st.sampled_from(["0s", "5m0s", "1h30m", "300ms"])
free_form = st.dictionaries(st.text(max_size=4), st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4))
_BY_SCHEMA: dict[str, st.SearchStrategy[Any]] = {
    "quantity": quantities,
    "duration": durations,
    "date-time": st.sampled_from(["2026-11-15T04:25:02Z", "1970-01-01T00:00:00Z"]),
    "int-or-string": st.integers(0, 100) | st.sampled_from(["30%", "50M"]),
    "free-form": free_form,
}


def objects(type_: inspect.Type) -> st.SearchStrategy[Any]:
    """Plain data that a type accepts: fields present or absent, ranges and enumerations respected."""
    match type_:
        case inspect.Metadata(extra=extra) if extra and "schema" in extra:
            return _BY_SCHEMA[extra["schema"]]
        case inspect.Metadata(type=inner):
            return objects(inner)
        case inspect.UnionType(types=types):
            return st.one_of([objects(t) for t in types if not isinstance(t, inspect.NoneType)])
        case inspect.StructType(fields=fields):
            present = {f.encode_name: objects(f.type) for f in fields if f.required}
            absent = {f.encode_name: objects(f.type) for f in fields if not f.required}
            return st.fixed_dictionaries(present, optional=absent)
        case inspect.DictType(value_type=item):
            return st.dictionaries(st.sampled_from(["a", "b.example/c"]), objects(item), max_size=2)
        case inspect.VarTupleType(item_type=item, min_length=shortest):
            return st.lists(objects(item), min_size=shortest or 0, max_size=2)
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.EnumType(cls=cls):
            return st.sampled_from([member.value for member in cls])
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType():
            low = type_.ge if type_.ge is not None else type_.gt + 1 if type_.gt is not None else -(2**53)
            return st.integers(low, type_.le if type_.le is not None else 2**53)
        case inspect.StrType(min_length=shortest):
            return st.text("ab-", min_size=shortest or 0, max_size=5)
        case _:
            return st.text("ab-", max_size=5)


@each_definition
@settings(max_examples=15)
@given(data=st.data())
def test_decode_of_encode_is_the_same_object(definition: Definition, data: st.DataObject) -> None:
    type_ = definition.kind.type
    first = convert(type_, data.draw(objects(inspect.type_info(type_))))
    assert decode(type_, encode(first)) == first
