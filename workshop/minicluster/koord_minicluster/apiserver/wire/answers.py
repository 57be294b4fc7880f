"""Responses: one with a complete body, or a stream of chunks.

A `Response` is sent in one write, head and body together. A `Stream` starts with its first chunk and waits while the
client is slow.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from koord_minicluster.apiserver.wire.connection import HttpRequest

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
MOST_UNSENT_BYTES: Final = 256 << 10
"A connection with more than this still to send is not written to directly."
_BODILESS: Final = frozenset({204, 304})


class Answer:
    """Base of all responses. Once the head is sent, it can no longer change (`begun`)."""

    __slots__ = ("begun", "headers", "more", "status")

    def __init__(self, status: int, headers: Mapping[str, str] | None) -> None:
        self.status, self.begun = status, False
        self.headers: dict[str, str] = dict(headers) if headers else {}
        self.more: Iterable[tuple[str, str]] = ()
        "Fields that may be there several times."

    def _head(self, framing: str) -> bytes:
        lines = [_status_line(self.status), _date_line(int(time.time()))]
        lines += [f"{name}: {value}\r\n" for name, value in self.headers.items()]
        lines += [f"{name}: {value}\r\n" for name, value in self.more]
        text = "".join(lines)
        if text.count("\n") != len(lines) or text.count("\r") != len(lines):
            raise ValueError(f"a header field of the answer has a line break: {text!r}")
        return f"{text}{framing}\r\n".encode("utf-8", "surrogateescape")


class Response(Answer):
    """An answer whose body is there."""

    __slots__ = ("body",)

    def __init__(
        self, status: int = 200, body: bytes = b"", content_type: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, headers)
        self.body = body
        if content_type:
            self.headers["Content-Type"] = content_type

    @property
    def content_type(self) -> str:
        return self.headers.get("Content-Type", "")

    def encoded(self, request: HttpRequest | None = None) -> bytes:
        """All that is sent."""
        framing = "" if self.status in _BODILESS else f"Content-Length: {len(self.body)}\r\n"
        head = self._head(framing if request is None else framing + request.connection_line())
        bodiless = self.status in _BODILESS or (request is not None and request.method == "HEAD")
        return head if bodiless else head + self.body


class Stream(Answer):
    """An answer that comes in pieces: `begin`, `write` ..., `end`."""

    __slots__ = ("_chunked", "_request", "_transport")

    def __init__(self, content_type: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(200, headers)
        self.headers["Content-Type"] = content_type
        self._request: HttpRequest | None = None
        self._transport: asyncio.Transport | None = None
        self._chunked = False

    def begin(self, request: HttpRequest) -> None:
        self._request, self.begun, request.streams = request, True, True
        self._chunked, self._transport = request.modern, request.transport
        if not self._chunked:
            # The end of the connection is the end of the body.
            request.close_after()
        framing = "Transfer-Encoding: chunked\r\n" if self._chunked else ""
        request.send(self._head(framing + request.connection_line()))

    async def write(self, piece: bytes) -> None:
        """Raises ConnectionResetError where the client is gone."""
        assert self._request is not None
        if piece:
            self._request.send(chunk(piece) if self._chunked else piece)
            await self._request.drained()

    def write_now(self, framed: bytes) -> bool:
        """Send what `chunk` made, unless the connection has enough to do or takes no chunks."""
        transport = self._transport
        if (
            transport is None
            or not self._chunked
            or transport.is_closing()
            or transport.get_write_buffer_size() > MOST_UNSENT_BYTES
        ):
            return False
        transport.write(framed)
        return True

    async def end(self) -> None:
        assert self._request is not None
        if self._chunked:
            self._request.send(b"0\r\n\r\n")
        await self._request.drained()


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


@lru_cache(128)
def _status_line(status: int) -> str:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\n"


@lru_cache(4)
def _date_line(now_s: int) -> str:
    return f"Date: {formatdate(now_s, usegmt=True)}\r\n"
