"""Whatever an API server sends is decoded, or gives a DecodeError that names object and field; never anything else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds import ALL, PODS
from koord.api.kubernetes.admissionregistration import AdmissionReview
from koord.api.kubernetes.runnable import RunnablePod
from koord.api.machinery.codec import DecodeError, decode
from koord_bench.pods import pod
from tests.api.samples import sample

TYPES: list[Any] = [kind.type for kind in ALL] + [RunnablePod, AdmissionReview]

# As JSON text, so that things are there which no Python value is printed as.
ODDITIES = [
    "null",
    "true",
    "0",
    "-1",
    "1.0",
    "1.5",
    "1e400",
    "-1e-400",
    "9" * 19,
    "9" * 400,
    "9" * 5000,
    "0" + "." + "1" * 400,
    '""',
    '"\\u0000"',
    '"\\ud800"',
    '"\\ud83d\\ude00"',
    '"\\x"',
    '"' + "x" * 10_000 + '"',
    "[]",
    "{}",
    "[null]",
    '{"a":null}',
    '{"":{"":[]}}',
    "[" * 100 + "]" * 100,
    "[" * 5000 + "]" * 5000,
    '{"a":' * 5000 + "1" + "}" * 5000,
    "NaN",
    "Infinity",
    "",
]


@cache
def filled(type_: Any) -> dict[str, Any]:
    data: dict[str, Any] = sample(type_)
    return data


def places(data: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    if isinstance(data, dict):
        for key, value in data.items():
            yield from places(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from places(value, (*path, index))


def replaced(data: object, path: tuple[str | int, ...], text: str) -> str:
    """The JSON of `data` with `text` at a place."""
    if not path:
        return text
    head, *rest = path
    if isinstance(data, dict):
        parts = (
            f"{json.dumps(key)}:{replaced(value, tuple(rest), text) if key == head else json.dumps(value)}"
            for key, value in data.items()
        )
        return "{" + ",".join(parts) + "}"
    assert isinstance(data, list)
    items = (replaced(v, tuple(rest), text) if i == head else json.dumps(v) for i, v in enumerate(data))
    return "[" + ",".join(items) + "]"


def decodes_or_is_named(type_: Any, text: bytes) -> None:
    try:
        result: object = decode(type_, text)
    except DecodeError as error:
        result = error
    if isinstance(result, DecodeError):
        assert result.what
        assert result.fault
        assert str(result).startswith(result.what)
    else:
        assert isinstance(result, type_)


@pytest.mark.parametrize("type_", TYPES, ids=lambda type_: type_.__name__)
def test_an_object_with_every_field_is_decoded_and_printed_again(type_: Any) -> None:
    text = json.dumps(filled(type_)).encode()
    once = decode(type_, text)
    assert decode(type_, msgspec.json.encode(once)) == once


@pytest.mark.parametrize("type_", TYPES, ids=lambda type_: type_.__name__)
def test_null_counts_as_absent_in_every_optional_field(type_: Any) -> None:
    required = {field.encode_name for field in msgspec.structs.fields(type_) if field.required}
    for name in filled(type_).keys() - required:
        rest = {key: value for key, value in filled(type_).items() if key != name}
        assert decode(type_, json.dumps({**rest, name: None}).encode()) == decode(type_, json.dumps(rest).encode())


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_an_oddity_anywhere_in_any_object(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from(TYPES))
    path = data.draw(st.sampled_from(list(places(filled(type_)))))
    text = replaced(filled(type_), path, data.draw(st.sampled_from(ODDITIES)))
    decodes_or_is_named(type_, text.encode("utf-8", "surrogatepass"))


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_an_oddity_anywhere_in_a_real_pod(data: st.DataObject) -> None:
    real = pod(data.draw(st.integers(0, 50)))
    path = data.draw(st.sampled_from(list(places(real))))
    text = replaced(real, path, data.draw(st.sampled_from(ODDITIES)))
    decodes_or_is_named(PODS.type, text.encode("utf-8", "surrogatepass"))


@given(st.sampled_from(TYPES), st.data())
@settings(max_examples=200, deadline=None)
def test_bytes_changed_cut_or_added(type_: Any, data: st.DataObject) -> None:
    text = json.dumps(filled(type_)).encode()
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 20))
    decodes_or_is_named(type_, text[:start] + data.draw(st.binary(max_size=8)) + text[start + length :])


@given(st.sampled_from(TYPES), st.binary(max_size=40))
@settings(deadline=None)
def test_any_bytes(type_: Any, text: bytes) -> None:
    decodes_or_is_named(type_, text)


def test_the_error_names_object_and_field() -> None:
    broken = pod(1)
    broken["spec"]["containers"][1]["name"] = 7
    with pytest.raises(DecodeError) as caught:
        decode(PODS.type, json.dumps(broken).encode())
    name = broken["metadata"]["name"]
    assert str(caught.value).startswith(f"Pod checkout/{name}: spec.containers[1].name: expected `str`")
