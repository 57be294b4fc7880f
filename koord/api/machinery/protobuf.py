"""Protocol buffers on the wire, as far as other systems' messages need them: varints and length-delimited fields.

A message is written as a list of fields and read as pairs of number and value. Fields that a reader does not know are
passed over, so that other versions of a protocol are understood. `messages` has whole messages as typed classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

VARINT: Final = 0
BYTES: Final = 2
_SIZES: Final = {1: 8, 5: 4}
_MASK: Final = (1 << 64) - 1


class MessageError(ValueError):
    """Bytes that are no protobuf message."""


def varint(number: int) -> bytes:
    """Negative numbers take ten bytes, as int32 and int64 do."""
    rest = number & _MASK
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def integer(field: int, number: int) -> bytes:
    return varint(field << 3 | VARINT) + varint(number)


def message(field: int, body: bytes) -> bytes:
    return varint(field << 3 | BYTES) + varint(len(body)) + body


def text(field: int, value: str) -> bytes:
    return message(field, value.encode())


def delimited(body: bytes) -> bytes:
    return varint(len(body)) + body


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number, and where it ends. Raises MessageError."""
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise MessageError("a number is cut off")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & _MASK, at
        shift += 7


def read_delimited(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = read_varint(data, at)
    if at + length > len(data):
        raise MessageError("a message is cut off")
    return data[at : at + length], at + length


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field, in order. Raises MessageError."""
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        at += 1
        if key > 0x7F:
            key, at = read_varint(data, at - 1)
        kind = key & 7
        if kind == VARINT:
            value = data[at] if at < end else 0x80
            at += 1
            if value > 0x7F:
                value, at = read_varint(data, at - 1)
            yield key >> 3, value
        elif kind == BYTES:
            body, at = read_delimited(data, at)
            yield key >> 3, body
        elif kind in _SIZES:
            at += _SIZES[kind]
            if at > end:
                raise MessageError("a fixed-size number is cut off")
        else:
            raise MessageError(f"there is no wire type {kind}")


def signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def as_text(value: int | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def as_int(value: int | bytes) -> int:
    return signed(value) if isinstance(value, int) else 0


def as_bytes(value: int | bytes) -> bytes:
    return value if isinstance(value, bytes) else b""
