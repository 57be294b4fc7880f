"""SPDY/3.1 as Kubernetes' clients use it to carry several streams over one connection: frames from bytes, and back.

`kubectl port-forward` speaks it inside of a WebSocket, older versions of kubectl for all streams on the connection
itself. Pure. What neither side uses is read over: priorities, settings, and windows, which no Kubernetes program fills.

    control frame   1|version:15  type:16      flags:8  length:24  ...
    data frame      0|stream:31                flags:8  length:24  ...
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, TypeAlias

MOST_FRAME_BYTES: Final = 1 << 20
"""Clients send at most 64 KiB in a frame."""
MOST_HEADER_BYTES: Final = 64 << 10
"""Of the headers of a stream, once they are no longer compressed."""

_VERSION: Final = 3
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GO_AWAY = 1, 2, 3, 6, 7
_FIN: Final = 1
_CANCEL: Final = 5
_HEAD: Final = struct.Struct("!II")
_WORD: Final = struct.Struct("!I")
_STREAM_ID: Final = 0x7FFFFFFF


class SpdyError(ValueError):
    """What arrived is not SPDY, or too large."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The client opens a stream. Names of headers are in lower case."""

    stream: int
    headers: Mapping[str, str]
    is_last: bool


@dataclass(frozen=True, slots=True)
class Data:
    stream: int
    data: bytes
    is_last: bool


@dataclass(frozen=True, slots=True)
class Reset:
    stream: int


@dataclass(frozen=True, slots=True)
class Ping:
    number: int


@dataclass(frozen=True, slots=True)
class GoAway:
    pass


Frame: TypeAlias = Opened | Data | Reset | Ping | GoAway


def _dictionary() -> bytes:
    """The text that both sides know before the first header (draft-mbelshe-httpbis-spdy-00, 2.6.10.1)."""
    words = (
        "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age "
        "allow authorization cache-control connection content-base content-encoding content-language content-length "
        "content-location content-md5 content-range content-type date etag expect expires from host if-match "
        "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
        "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
        "user-agent vary via warning www-authenticate method get status"
    )
    fields = [*words.split(" "), "200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin"]
    codes = (
        "100 101 201 202 205 206 300 302 303 304 305 306 307 402 405 406 407 408 409 410 411 412 413 414 415 416 417 "
        "502 504 505"
    ).replace(" ", "")
    phrases = (
        "203 Non-Authoritative Information", "204 No Content", "301 Moved Permanently", "400 Bad Request",
        "401 Unauthorized", "403 Forbidden", "404 Not Found", "500 Internal Server Error", "501 Not Implemented",
        "503 Service Unavailable",
    )  # fmt: skip
    dates = "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    values = (
        "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
        "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
    )
    named = b"".join(_WORD.pack(len(name)) + name.encode() for name in fields)
    return named + "".join((codes, *phrases, dates, values)).encode()


DICTIONARY: Final = _dictionary()


@dataclass(slots=True)
class Decoder:
    """Takes what arrives, in whatever pieces, and gives whole frames. Headers are compressed as one stream."""

    _buffer: bytearray = field(default_factory=bytearray)
    _inflate: zlib._Decompress = field(default_factory=lambda: zlib.decompressobj(zdict=DICTIONARY))

    def frames(self, arrived: bytes) -> Iterator[Frame]:
        """Raises SpdyError; then the connection is of no more use."""
        buffer = self._buffer
        buffer += arrived
        while len(buffer) >= _HEAD.size:
            first, second = _HEAD.unpack_from(buffer)
            flags, length = second >> 24, second & 0xFFFFFF
            if length > MOST_FRAME_BYTES:
                raise SpdyError(f"a frame of {length} bytes; at most {MOST_FRAME_BYTES} are taken")
            end = _HEAD.size + length
            if len(buffer) < end:
                return
            body = bytes(buffer[_HEAD.size : end])
            del buffer[:end]
            frame = self._frame(first, flags, body)
            if frame is not None:
                yield frame

    def _frame(self, first: int, flags: int, body: bytes) -> Frame | None:
        is_last = bool(flags & _FIN)
        if not first >> 31:
            return Data(first, body, is_last)
        version, kind = first >> 16 & 0x7FFF, first & 0xFFFF
        if version != _VERSION:
            raise SpdyError(f"version {version} of SPDY; {_VERSION} is spoken here")
        try:
            match kind:
                case 1:
                    return Opened(_word(body) & _STREAM_ID, self._headers(body[10:]), is_last)
                case 3:
                    return Reset(_word(body) & _STREAM_ID)
                case 6:
                    return Ping(_word(body))
                case 7:
                    return GoAway()
                case 2 | 8:
                    # Not of interest, but the next headers are compressed with these.
                    self._headers(body[4:])
        except (struct.error, zlib.error, UnicodeDecodeError) as error:
            raise SpdyError(f"a malformed frame of kind {kind}: {error}") from error
        return None

    def _headers(self, compressed: bytes) -> dict[str, str]:
        text = self._inflate.decompress(compressed, MOST_HEADER_BYTES)
        if self._inflate.unconsumed_tail:
            raise SpdyError(f"more than {MOST_HEADER_BYTES} bytes of headers")
        headers, at = {}, _WORD.size
        for _ in range(_word(text)):
            name, at = _text(text, at)
            headers[name.lower()], at = _text(text, at)
        return headers


@dataclass(slots=True)
class Encoder:
    """Makes the bytes of frames. One for a connection: headers are compressed as one stream."""

    _deflate: zlib._Compress = field(default_factory=lambda: zlib.compressobj(zdict=DICTIONARY))

    def opened(self, stream: int, headers: Mapping[str, str], *, is_last: bool = False) -> bytes:
        return _control(_SYN_STREAM, struct.pack("!IIH", stream, 0, 0) + self._headers(headers), is_last)

    def reply(self, stream: int) -> bytes:
        return _control(_SYN_REPLY, _WORD.pack(stream) + self._headers({}), False)

    def data(self, stream: int, data: bytes, *, is_last: bool = False) -> bytes:
        return _HEAD.pack(stream, (_FIN if is_last else 0) << 24 | len(data)) + data

    def reset(self, stream: int) -> bytes:
        return _control(_RST_STREAM, _HEAD.pack(stream, _CANCEL), False)

    def ping(self, number: int) -> bytes:
        return _control(_PING, _WORD.pack(number), False)

    def go_away(self) -> bytes:
        return _control(_GO_AWAY, _HEAD.pack(0, 0), False)

    def _headers(self, headers: Mapping[str, str]) -> bytes:
        texts = (text.encode() for text in chain.from_iterable(headers.items()))
        plain = _WORD.pack(len(headers)) + b"".join(_WORD.pack(len(text)) + text for text in texts)
        return self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def _control(kind: int, body: bytes, is_last: bool) -> bytes:
    return _HEAD.pack(1 << 31 | _VERSION << 16 | kind, (_FIN if is_last else 0) << 24 | len(body)) + body


def _word(body: bytes, at: int = 0) -> int:
    word: int = _WORD.unpack_from(body, at)[0]
    return word


def _text(body: bytes, at: int) -> tuple[str, int]:
    begin = at + _WORD.size
    end = begin + _word(body, at)
    if end > len(body):
        raise SpdyError("a header is longer than its frame")
    return body[begin:end].decode(), end
