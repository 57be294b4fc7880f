"""Hadoop RPC, version 9: the bytes of a connection, with simple authentication.

    "hrpc", 9, service class 0, auth 0     then frames: 4 bytes of length, and messages with their length before them

The first frame (call id -3) says who calls which protocol; a call is a frame with header, method and argument. An
answer is a header with a status, and the result or nothing. Kerberos is not supported: a server that requires it is
recognized by its answer.
"""

from __future__ import annotations

from koord.api.machinery.protobuf import (
    MessageError,
    as_int,
    as_text,
    delimited,
    fields,
    integer,
    message,
    read_delimited,
    text,
)
from koord.api.machinery.struct import Struct

VERSION = 9
PREAMBLE = b"hrpc" + bytes((VERSION, 0, 0))
_PROTOCOL_BUFFER = 2
_FINAL_PACKET = 0
_CONTEXT_CALL = -3
_NEVER_RETRIED = -1
_SUCCESS, _FATAL = 0, 2


class RpcAnswer(Struct):
    """The result, or what the server says against the call."""

    result: bytes = b""
    error: str = ""
    error_class: str = ""
    "A Java class, as org.apache.hadoop.security.AccessControlException."
    is_fatal: bool = False


class FrameError(ValueError):
    """Bytes that are not Hadoop's RPC."""


def opening(user: str, protocol: str, client_id: bytes) -> bytes:
    """What is sent before the first call."""
    context = message(2, text(1, user)) + text(3, protocol)
    return PREAMBLE + _frame(_header(_CONTEXT_CALL, client_id), context)


def call(number: int, client_id: bytes, protocol: str, method: str, argument: bytes) -> bytes:
    named = text(1, method) + text(2, protocol) + integer(3, 1)
    return _frame(_header(number, client_id), named, argument)


def answer(frame: bytes) -> RpcAnswer:
    """A frame without its length. Raises FrameError."""
    try:
        header, at = read_delimited(frame, 0)
        status, error, error_class = _SUCCESS, "", ""
        for number, value in fields(header):
            if number == 2:
                status = as_int(value)
            elif number == 4:
                error_class = as_text(value)
            elif number == 5:
                error = as_text(value)
        if status != _SUCCESS:
            said = error.strip().splitlines()[0] if error.strip() else error_class or "the server gave no reason"
            return RpcAnswer(b"", said, error_class, status == _FATAL)
        result, _ = read_delimited(frame, at) if at < len(frame) else (b"", at)
    except MessageError as problem:
        raise FrameError(f"the answer is not Hadoop's RPC: {problem}") from None
    return RpcAnswer(result)


def _header(number: int, client_id: bytes) -> bytes:
    return (
        integer(1, _PROTOCOL_BUFFER)
        + integer(2, _FINAL_PACKET)
        + integer(3, _zigzag(number))
        + message(4, client_id)
        + integer(5, _zigzag(_NEVER_RETRIED))
    )


def _zigzag(number: int) -> int:
    """How sint32 is written."""
    return number << 1 if number >= 0 else (-number << 1) - 1


def _frame(*messages: bytes) -> bytes:
    body = b"".join(delimited(part) for part in messages)
    return len(body).to_bytes(4, "big") + body
