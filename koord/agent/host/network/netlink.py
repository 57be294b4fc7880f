"""Netlink, as far as queues, links, routes and packet classification need it.

Messages are few and small, so they are packed here: a library for all of netlink would cost each node ten megabytes.
A socket belongs to the network namespace in which it was made, so one is made by a thread that enters the namespace and
then ends; nothing else of the process is ever in there.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import threading
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

ROUTE: Final = 0
NETFILTER: Final = 12
_CLONE_NEWNET: Final = 0x40000000
_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
CREATE: Final = 0x400
EXCLUSIVE: Final = 0x200
REPLACE: Final = 0x100
_ERROR, _DONE = 2, 3
_HEAD: Final = struct.Struct("=IHHII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_TYPE_MASK: Final = 0x3FFF
_NESTED: Final = 0x8000
_CHUNK: Final = 1 << 17
_TIMEOUT_MS: Final = 5000
_AF_NETLINK, _RAW, _CLOEXEC = 16, 3, os.O_CLOEXEC


class Message(NamedTuple):
    kind: int
    body: bytes
    flags: int = 0


class Netlink:
    """Not for use by several threads. Raises OSError with what the kernel answers."""

    def __init__(self, protocol: int, namespace: str) -> None:
        """`namespace`: its file below /proc, or wherever it is bound."""
        self._fd = _socket_in(namespace, protocol)
        self._answers_come = select.poll()
        self._answers_come.register(self._fd, select.POLLIN)
        self._number = 0

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Netlink:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def ask(self, message: Message) -> None:
        """Has something done."""
        self._send([message._replace(flags=message.flags | _ACK)])
        for answer in self._answers():
            if answer.kind == _ERROR:
                _raise(answer)
                return

    def ask_all(self, messages: list[Message]) -> None:
        """Has several things done at once or not at all: the first and the last message begin and end the batch."""
        first, *inner, last = messages
        self._send([first, *(message._replace(flags=message.flags | _ACK) for message in inner), last])
        left = len(inner)
        for answer in self._answers():
            if answer.kind == _ERROR:
                _raise(answer)
                left -= 1
                if not left:
                    return

    def dump(self, message: Message) -> list[Message]:
        """All there is of a kind."""
        self._send([message._replace(flags=message.flags | _DUMP)])
        messages_in: list[Message] = []
        for answer in self._answers():
            if answer.kind == _DONE:
                return messages_in
            if answer.kind == _ERROR:
                _raise(answer)
                return messages_in
            messages_in.append(answer)
        return messages_in

    def _send(self, messages: list[Message]) -> None:
        packed = b""
        self._number += 1
        for message in messages:
            packed += _HEAD.pack(
                _HEAD.size + len(message.body), message.kind, message.flags | _REQUEST, self._number, 0
            )
            packed += message.body + bytes(-len(message.body) % 4)
        os.write(self._fd, packed)

    def _answers(self) -> Iterator[Message]:
        while True:
            if not self._answers_come.poll(_TIMEOUT_MS):
                raise TimeoutError(errno.ETIMEDOUT, "the kernel does not answer")
            data = os.read(self._fd, _CHUNK)
            at = 0
            while at + _HEAD.size <= len(data):
                length, kind, flags, number, _ = _HEAD.unpack_from(data, at)
                if number == self._number:
                    yield Message(kind, data[at + _HEAD.size : at + length], flags)
                at += max(length + 3 & ~3, _HEAD.size)


def _raise(answer: Message) -> None:
    (code,) = struct.unpack_from("=i", answer.body)
    if code:
        raise OSError(-code, os.strerror(-code))


def attribute(kind: int, payload: bytes) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(payload), kind) + payload + bytes(-len(payload) % 4)


def nested(kind: int, *attributes: bytes) -> bytes:
    return attribute(kind | _NESTED, b"".join(attributes))


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def attributes(data: bytes) -> Mapping[int, bytes]:
    """By kind; of several of one kind, the last."""
    return dict(each_attribute(data))


def each_attribute(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            return
        yield kind & _TYPE_MASK, data[at + _ATTRIBUTE.size : at + length]
        at += length + 3 & ~3


def name_in(data: bytes) -> str:
    return data.rstrip(b"\0").decode(errors="replace")


def _socket_in(namespace: str, protocol: int) -> int:
    outcome: list[int | OSError] = []

    libc = ctypes.CDLL(None, use_errno=True)

    def make() -> None:
        try:
            fd = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _checked(libc.setns(fd, _CLONE_NEWNET), namespace)
            finally:
                os.close(fd)
            outcome.append(_checked(libc.socket(_AF_NETLINK, _RAW | _CLOEXEC, protocol), namespace))
        except OSError as error:
            outcome.append(error)

    thread = threading.Thread(target=make, name="network-namespace")
    thread.start()
    thread.join()
    (made,) = outcome
    if isinstance(made, OSError):
        if made.errno in (errno.ENOENT, errno.ESRCH):
            raise FileNotFoundError(errno.ENOENT, "the network namespace does not exist", namespace) from made
        raise made
    return made


def _checked(answer: int, about: str) -> int:
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), about)
    return answer
