"""Lines and events from the pieces of a watch stream."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.machinery.codec import DecodeError
from koord.kube.errors import ApiError, Gone, Status
from koord.kube.watch import Lines, events

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b"")), max_size=8), st.data())
def test_lines_do_not_depend_on_where_the_stream_is_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = Lines()
    found = [
        line
        for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        if a < b
        for line in reader.feed(stream[a:b])
    ]
    assert found == lines


@given(
    st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]),
    st.dictionaries(st.text(max_size=6), json_values, max_size=4),
    st.sampled_from([(",", ":"), (", ", ": ")]),
    st.booleans(),
)
def test_an_event_is_the_same_in_any_spelling_of_its_json(
    type_: str, obj: dict[str, object], separators: tuple[str, str], type_first: bool
) -> None:
    whole = {"type": type_, "object": obj} if type_first else {"object": obj, "type": type_}
    watch_events, error = events([json.dumps(whole, separators=separators).encode()], "pods")
    assert error is None
    assert [(event.type, msgspec.json.decode(event.object)) for event in watch_events] == [(type_, obj)]


@given(st.binary(max_size=60) | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_line_is_an_event_an_error_or_a_named_fault(line: bytes) -> None:
    try:
        _, outcome = events(line.split(b"\n"), "pods")
    except DecodeError as fault:
        outcome = ApiError(Status(), what=fault.what)
    assert outcome is None or outcome.what in ("pods", "watch of pods")


def test_empty_lines_are_skipped() -> None:
    watch_events, error = events([b"", b"  ", b'{"type":"ADDED","object":{}}', b"\r"], "pods")
    assert ([event.type for event in watch_events], error) == (["ADDED"], None)


def test_what_follows_an_error_is_dropped() -> None:
    lines = [b'{"type":"ERROR","object":{"code":410,"reason":"Expired"}}', b'{"type":"ADDED","object":{}}']
    watch_events, error = events(lines, "pods")
    assert watch_events == []
    assert isinstance(error, Gone)


@pytest.mark.parametrize("body", [b"{}", b"5", b'{"code":"x"}', b"null"])
def test_an_unreadable_error_is_still_an_error(body: bytes) -> None:
    _, error = events([b'{"type":"ERROR","object":' + body + b"}"], "pods")
    assert isinstance(error, ApiError)
