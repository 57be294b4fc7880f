"""ttrpc, gRPC's small sister that containerd speaks with plugins, and the multiplexing below it.

A frame is ten bytes (length, stream, type, flags) and a protobuf message. NRI puts two connections on one socket:
each piece is preceded by the connection's number and its length. Connection 1 carries calls to the plugin, 2 calls to
the runtime. No package for Python speaks either.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from koord.api.machinery.messages import Message, at
from koord.api.machinery.protobuf import MessageError

REQUEST: Final = 1
RESPONSE: Final = 2
MOST_BYTES: Final = 4 << 20
"""Of one message."""
_FRAME: Final = struct.Struct(">IIBB")
_PIECE: Final = struct.Struct(">II")
_LONGEST_PIECE: Final = MOST_BYTES + _FRAME.size

PLUGIN: Final = 1
RUNTIME: Final = 2


@dataclass(slots=True)
class Request(Message):
    service: str = at(1, "")
    method: str = at(2, "")
    payload: bytes = at(3, b"")
    timeout_nano: int = at(4, 0)


@dataclass(slots=True)
class Status(Message):
    code: int = at(1, 0)
    message: str = at(2, "")


@dataclass(slots=True)
class Response(Message):
    status: Status | None = at(1, None)
    payload: bytes = at(2, b"")


OK, UNKNOWN, UNIMPLEMENTED = 0, 2, 12


@dataclass(frozen=True, slots=True)
class Frame:
    stream: int
    type: int
    body: bytes

    def encoded(self) -> bytes:
        return _FRAME.pack(len(self.body), self.stream, self.type, 0) + self.body


def piece(connection: int, data: bytes) -> bytes:
    return _PIECE.pack(connection, len(data)) + data


class Pieces:
    """Bytes of a socket in, frames of its connections out, however the bytes were cut."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._of: dict[int, bytearray] = {PLUGIN: bytearray(), RUNTIME: bytearray()}

    def feed(self, data: bytes) -> Iterator[tuple[int, Frame]]:
        """Connection and frame. Raises MessageError for what cannot be."""
        self._data += data
        while len(self._data) >= _PIECE.size:
            connection, length = _PIECE.unpack_from(self._data)
            if length > _LONGEST_PIECE:
                raise MessageError(f"a piece of {length} bytes")
            if len(self._data) < _PIECE.size + length:
                return
            body = self._data[_PIECE.size : _PIECE.size + length]
            del self._data[: _PIECE.size + length]
            if connection in self._of:
                self._of[connection] += body
                for frame in _frames(self._of[connection]):
                    yield connection, frame


def _frames(data: bytearray) -> Iterator[Frame]:
    while len(data) >= _FRAME.size:
        length, stream, kind, _ = _FRAME.unpack_from(data)
        if length > MOST_BYTES:
            raise MessageError(f"a message of {length} bytes")
        if len(data) < _FRAME.size + length:
            return
        body = bytes(data[_FRAME.size : _FRAME.size + length])
        del data[: _FRAME.size + length]
        yield Frame(stream, kind, body)
