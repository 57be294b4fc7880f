"""A watch's bytes as events: which complete lines has a piece of the stream brought?

The server sends one JSON object per line, `{"type":"ADDED","object":{...}}`, of any length, in pieces cut anywhere.
Events are handed on in batches, one per piece, and their objects as bytes: what is done per event must be little.
"""

from __future__ import annotations

from typing import Final

import msgspec

from koord.api.machinery.codec import DecodeError, decode
from koord.kube.errors import ApiError, Status, error_for


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One change. `type` is ADDED, MODIFIED, DELETED or BOOKMARK; `object` is its JSON."""

    type: str
    object: msgspec.Raw


class Lines:
    """Puts lines together again. Long lines cost their length once, however many pieces they come in."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that `piece` completes, without their ends."""
        end = piece.rfind(b"\n")
        if end < 0:
            self._pending.append(piece)
            return []
        if not self._pending:
            lines = piece[:end].split(b"\n")
        else:
            self._pending.append(piece[:end])
            lines = b"".join(self._pending).split(b"\n")
            self._pending.clear()
        if end + 1 < len(piece):
            self._pending.append(piece[end + 1 :])
        return lines


_HEAD: Final = b'{"type":"'
_MIDDLE: Final = b'","object":{'
_TYPES: Final = {name.encode(): name for name in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")}


def events(lines: list[bytes], what: str) -> tuple[list[WatchEvent], ApiError | None]:
    """The events of some lines, and the error with which the server ended them, if it did.

    Lines in the one form that servers write are cut apart without being parsed; any other JSON is parsed.
    """
    batch: list[WatchEvent] = []
    for line in lines:
        quote = line.find(b'"', 9, 20)
        type_ = _TYPES.get(line[9:quote])
        if type_ is not None and line.startswith(_HEAD) and line.startswith(_MIDDLE, quote) and line.endswith(b"}}"):
            batch.append(WatchEvent(type_, msgspec.Raw(line[quote + 11 : -1])))
        elif line and not line.isspace():
            event = _parsed(line, what)
            if event.type == "ERROR":
                return batch, _error(event, what)
            batch.append(event)
    return batch, None


def _parsed(line: bytes, what: str) -> WatchEvent:
    try:
        return decode(WatchEvent, line)
    except DecodeError as error:
        raise DecodeError(f"watch of {what}", error.path, error.fault) from None


def _error(event: WatchEvent, what: str) -> ApiError:
    try:
        status = decode(Status, bytes(event.object))
    except DecodeError as fault:
        status = Status(status="Failure", message=f"the server ended the watch with an unreadable error: {fault}")
    return error_for(status, verb="watch", what=what)
