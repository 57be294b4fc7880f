"""Messages by field numbers, beside the library of protocol buffers itself."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.machinery.messages import DEEPEST, Message, at, decode, encode
from koord.api.machinery.protobuf import MessageError, message


@dataclass(slots=True)
class Inner(Message):
    name: str = at(1, "")
    size: int = at(2, 0)


@dataclass(slots=True)
class Outer(Message):
    name: str = at(1, "")
    number: int = at(2, 0)
    is_on: bool = at(3, False)
    raw: bytes = at(4, b"")
    labels: dict[str, str] = at(6, dict)
    inner: Inner | None = at(8, None)
    many: list[Inner] = at(9, list)
    words: list[str] = at(17, list)


@dataclass(slots=True)
class Narrow(Message):
    """Somebody who knows little of it."""

    number: int = at(2, 0)


@dataclass(slots=True)
class Nested(Message):
    below: Nested | None = at(1, None)


def the_library() -> Any:
    """The same message, described to the library."""
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="name", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    inner.field.add(name="size", number=2, type=kinds.TYPE_INT64, label=kinds.LABEL_OPTIONAL)
    outer = file.message_type.add(name="Outer")
    entry = outer.nested_type.add(name="LabelsEntry")
    entry.options.map_entry = True
    for name, number in (("key", 1), ("value", 2)):
        entry.field.add(name=name, number=number, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    for name, number, kind, of, label in (
        ("name", 1, kinds.TYPE_STRING, "", kinds.LABEL_OPTIONAL),
        ("number", 2, kinds.TYPE_INT64, "", kinds.LABEL_OPTIONAL),
        ("is_on", 3, kinds.TYPE_BOOL, "", kinds.LABEL_OPTIONAL),
        ("raw", 4, kinds.TYPE_BYTES, "", kinds.LABEL_OPTIONAL),
        ("labels", 6, kinds.TYPE_MESSAGE, ".t.Outer.LabelsEntry", kinds.LABEL_REPEATED),
        ("inner", 8, kinds.TYPE_MESSAGE, ".t.Inner", kinds.LABEL_OPTIONAL),
        ("many", 9, kinds.TYPE_MESSAGE, ".t.Inner", kinds.LABEL_REPEATED),
        ("words", 17, kinds.TYPE_STRING, "", kinds.LABEL_REPEATED),
    ):
        outer.field.add(name=name, number=number, type=kind, label=label, **({"type_name": of} if of else {}))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Outer"))


LIBRARY = the_library()
TEXTS = st.text(max_size=8)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
INNERS = st.builds(Inner, TEXTS, NUMBERS)
OUTERS = st.builds(
    Outer,
    TEXTS,
    NUMBERS,
    st.booleans(),
    st.binary(max_size=8),
    st.dictionaries(TEXTS, TEXTS, max_size=3),
    st.none() | INNERS,
    st.lists(INNERS, max_size=3),
    st.lists(TEXTS, max_size=3),
)


def told(by_library: Any) -> Outer:
    inner = Inner(by_library.inner.name, by_library.inner.size) if by_library.HasField("inner") else None
    many = [Inner(each.name, each.size) for each in by_library.many]
    plain = by_library.name, by_library.number, by_library.is_on, by_library.raw
    return Outer(*plain, dict(by_library.labels), inner, many, list(by_library.words))


@given(OUTERS)
def test_the_library_reads_what_we_write_and_we_read_what_it_writes(given: Outer) -> None:
    theirs = LIBRARY.FromString(encode(given))
    assert told(theirs) == given
    assert decode(Outer, theirs.SerializeToString()) == given


@given(OUTERS, NUMBERS)
def test_fields_that_a_reader_does_not_know_survive(given: Outer, number: int) -> None:
    narrow = decode(Narrow, encode(given))
    narrow.number = number
    found = told(LIBRARY.FromString(encode(narrow)))
    for field in fields(Outer):
        if field.name not in ("number", "unknown"):
            assert getattr(found, field.name) == getattr(given, field.name)
    assert found.number == number


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_an_error_as_for_the_library(data: bytes) -> None:
    try:
        decode(Outer, data)
    except MessageError:
        with pytest.raises(Exception):  # noqa: B017 - the library has several
            LIBRARY.FromString(data)


def test_messages_in_messages_end_somewhere() -> None:
    data = b""
    for _ in range(DEEPEST + 2):
        data = message(1, data)
    with pytest.raises(MessageError, match="in each other"):
        decode(Nested, data)
