"""Messages of other systems' protocols (CRI, NRI, kubelet's sockets) as typed classes: each field by its public number.

    @dataclass(slots=True)
    class ContainerMetadata(Message):
        name: str = at(1, "")
        attempt: int = at(2, 0)

A class has the fields that koord reads or sets, and no more. All others survive being read, changed and written again,
so that a runtime gets what its client sent in whatever version. No library of protocol buffers is loaded for it: what
runs on every node has to be light.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from koord.api.machinery.protobuf import (
    BYTES,
    VARINT,
    MessageError,
    integer,
    message,
    read_delimited,
    read_varint,
    signed,
)

T = TypeVar("T")
M = TypeVar("M", bound="Message")

_NUMBER: Final = "number"
_SIZES: Final = {1: 8, 5: 4}
DEEPEST: Final = 32
"""Levels of messages in messages: none that is known here comes near it."""


def at(number: int, default: T | Callable[[], T]) -> T:
    """A field by its number; absent, it has the default. A callable makes one for each message."""
    if callable(default):
        return field(default_factory=default, metadata={_NUMBER: number})
    return field(default=default, metadata={_NUMBER: number})


@dataclass(slots=True)
class Message:
    unknown: bytes = field(default=b"", kw_only=True, repr=False, compare=False)
    "Fields that the class does not have, as they came."


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    number: int
    is_many: bool
    is_map: bool
    of: type
    "int, bool, str, bytes, or a message."


@dataclass(slots=True)
class _Entry(Message):
    key: str = at(1, "")
    value: str = at(2, "")


_known: dict[type, dict[int, _Field]] = {}
"""By class, its fields by number: classes are few."""


def _fields_of(kind: type) -> dict[int, _Field]:
    fields_by_number = _known.get(kind)
    if fields_by_number is None:
        fields_by_number = _known[kind] = dict(_read_fields(kind))
    return fields_by_number


def _read_fields(kind: type) -> Iterator[tuple[int, _Field]]:
    hints = get_type_hints(kind)
    for declared in fields(kind):
        if _NUMBER in declared.metadata:
            number = declared.metadata[_NUMBER]
            yield number, _field(declared.name, number, hints[declared.name])


def _field(name: str, number: int, hint: Any) -> _Field:
    if isinstance(hint, UnionType):
        (hint,) = [part_type for part_type in get_args(hint) if part_type is not NoneType]
    if get_origin(hint) is list:
        return _Field(name, number, True, False, get_args(hint)[0])
    if get_origin(hint) is dict:
        return _Field(name, number, True, True, _Entry)
    return _Field(name, number, False, False, hint)


def decode(kind: type[M], data: bytes, deep: int = 0) -> M:
    """Raises MessageError."""
    if deep > DEEPEST:
        raise MessageError(f"more than {DEEPEST} messages in each other")
    fields_by_number, decoded = _fields_of(kind), kind()
    unknown, place, end = bytearray(), 0, len(data)
    while place < end:
        begins = place
        key, place = read_varint(data, place)
        wire = key & 7
        value: int | bytes = b""
        if wire == VARINT:
            value, place = read_varint(data, place)
        elif wire == BYTES:
            value, place = read_delimited(data, place)
        elif wire in _SIZES:
            place += _SIZES[wire]
            if place > end:
                raise MessageError("a fixed-size number is cut off")
        else:
            raise MessageError(f"there is no wire type {wire}")
        message_field = fields_by_number.get(key >> 3)
        if message_field is None or not _suits(message_field, wire):
            unknown += data[begins:place]
        else:
            _put(decoded, message_field, _value(message_field.of, value, deep))
    decoded.unknown = bytes(unknown)
    return decoded


def _suits(message_field: _Field, wire: int) -> bool:
    return wire == (VARINT if message_field.of in (int, bool) else BYTES)


def _value(of: type, value: int | bytes, deep: int) -> Any:
    if isinstance(value, int):
        return bool(value) if of is bool else signed(value)
    if of is bytes:
        return value
    if of is str:
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise MessageError("a text is not UTF-8") from None
    return decode(of, value, deep + 1)


def _put(into: Message, message_field: _Field, value: Any) -> None:
    if message_field.is_map:
        getattr(into, message_field.name)[value.key] = value.value
    elif message_field.is_many:
        getattr(into, message_field.name).append(value)
    else:
        setattr(into, message_field.name, value)


def encode(of: Message) -> bytes:
    """Values that are their type's zero are left out, as proto3 does."""
    out = bytearray()
    for number, message_field in _fields_of(type(of)).items():
        value = getattr(of, message_field.name)
        if message_field.is_map:
            for key, text in value.items():
                out += message(number, encode(_Entry(key, text)))
        elif message_field.is_many:
            for one in value:
                out += _one(number, one)
        elif value or is_dataclass(value):
            out += _one(number, value)
    return bytes(out) + of.unknown


def _one(number: int, value: Any) -> bytes:
    if isinstance(value, int):
        return integer(number, value)
    if isinstance(value, bytes):
        return message(number, value)
    if isinstance(value, str):
        return message(number, value.encode())
    return message(number, encode(value))
