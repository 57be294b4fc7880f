"""What an API server may refuse, as exceptions named for what happened.

`error_for(status, ...)` picks the class by the server's reason, else by the HTTP code. Every error reads as
`VERB KIND OBJECT: the server's message (CODE REASON)`. `Unavailable` is also raised when no answer came at all; its
`maybe_done` then says whether a write may have reached the server.
"""

from __future__ import annotations

from typing import Final

from koord.api.machinery.codec import DecodeError, decode
from koord.api.machinery.struct import Struct


class StatusCause(Struct):
    """One of several things that were wrong."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(Struct):
    """The `Status` object that an API server sends in place of an object."""

    status: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails = StatusDetails()


class ApiError(Exception):
    """A call that the API server refused, or that did not reach it."""

    def __init__(self, status: Status, *, verb: str = "", what: str = "") -> None:
        self.status, self.verb, self.what = status, verb, what
        self.retry_after_s: float | None = status.details.retry_after_seconds or None
        "How long the server asks to wait before the next attempt."
        super().__init__(status)

    @property
    def code(self) -> int:
        return self.status.code

    @property
    def reason(self) -> str:
        return self.status.reason

    @property
    def message(self) -> str:
        return self.status.message

    def __str__(self) -> str:
        call = " ".join(part for part in (self.verb, self.what) if part)
        outcome = " ".join(str(part) for part in (self.status.code, self.status.reason) if part)
        text = self.status.message or "refused"
        if outcome:
            text = f"{text} ({outcome})"
        return f"{call}: {text}" if call else text


class BadRequest(ApiError):
    """The server did not understand the call."""


class Unauthorized(ApiError):
    """The server could not authenticate the caller."""


class Forbidden(ApiError):
    """The caller may not do this."""


class NotFound(ApiError):
    """The object, or its kind, does not exist."""


class MethodNotAllowed(ApiError):
    """The kind does not have this verb."""


class Conflict(ApiError):
    """The object has changed since it was read, or another field manager owns a field."""


class AlreadyExists(Conflict):
    """An object of that name is there."""


class Gone(ApiError):
    """The requested resourceVersion or page is no longer kept: list again."""


class TooLarge(ApiError):
    """The object is bigger than the server takes."""


class UnsupportedMediaType(ApiError):
    """The kind does not take this type of patch."""


class Invalid(ApiError):
    """The object breaks a rule; `status.details.causes` says which, field by field."""


class TooManyRequests(ApiError):
    """The server is busy and asks to come back later."""


class EvictionRefused(TooManyRequests):
    """A disruption budget does not allow the eviction at this time."""


class ServerError(ApiError):
    """The server failed (5xx)."""


class ServerTimeout(ServerError):
    """The server ran out of time; the call may or may not have had an effect."""


class Unavailable(ServerError):
    """No answer: the server cannot be reached, or cannot serve at this time."""

    def __init__(self, status: Status, *, verb: str = "", what: str = "", maybe_done: bool = False) -> None:
        super().__init__(status, verb=verb, what=what)
        self.maybe_done = maybe_done


class Silent(Unavailable):
    """An open stream brought nothing for too long: the connection is dead, or nothing has happened."""


_BY_REASON: Final[dict[str, type[ApiError]]] = {
    "AlreadyExists": AlreadyExists,
    "BadRequest": BadRequest,
    "Conflict": Conflict,
    "Expired": Gone,
    "Forbidden": Forbidden,
    "Gone": Gone,
    "InternalError": ServerError,
    "Invalid": Invalid,
    "MethodNotAllowed": MethodNotAllowed,
    "NotFound": NotFound,
    "RequestEntityTooLarge": TooLarge,
    "ServerTimeout": ServerTimeout,
    "ServiceUnavailable": Unavailable,
    "Timeout": ServerTimeout,
    "TooManyRequests": TooManyRequests,
    "Unauthorized": Unauthorized,
    "UnsupportedMediaType": UnsupportedMediaType,
}

_BY_CODE: Final[dict[int, type[ApiError]]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
    502: Unavailable,
    503: Unavailable,
    504: ServerTimeout,
}


def error_for(status: Status, *, verb: str = "", what: str = "") -> ApiError:
    """The exception for a refusal."""
    fallback = ServerError if status.code >= 500 else ApiError
    return (_BY_REASON.get(status.reason) or _BY_CODE.get(status.code, fallback))(status, verb=verb, what=what)


def unreachable(message: str, *, verb: str = "", what: str = "", maybe_done: bool = False) -> Unavailable:
    """The exception for a call that got no answer."""
    return Unavailable(Status(status="Failure", message=message), verb=verb, what=what, maybe_done=maybe_done)


def status_from(code: int, body: bytes) -> Status:
    """What an error answer says: the server's Status, or the text that a proxy or an old server sent instead."""
    try:
        status = decode(Status, body)
    except DecodeError:
        status = Status()
    if status.status or status.reason:
        return status if status.code else Status("Failure", code, status.reason, status.message, status.details)
    text = " ".join(body[:300].decode("utf-8", "replace").split())
    return Status(status="Failure", code=code, message=text or f"HTTP status {code} without a message")


def is_terminating(error: ApiError) -> bool:
    """Whether something could not be created because its namespace is being deleted."""
    return any(cause.reason == "NamespaceTerminating" for cause in error.status.details.causes)
