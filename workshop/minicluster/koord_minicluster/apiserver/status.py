"""Error responses in Kubernetes' format: a `Status` with code, reason, message and causes.

Every part of the server that refuses a request raises `StatusError`, and the HTTP layer sends it unchanged. Validation
collects `Cause`s. Their texts match the real server's, because people search for them and programs match on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from koord.api.text.go_format import go_quoted


@dataclass(frozen=True, slots=True)
class Cause:
    """One fault of a field: where, what type of fault, and a text that holds the value."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def required(field: str, detail: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", _joined("Required value", detail))


def invalid(field: str, value: object, detail: str) -> Cause:
    return Cause(field, "FieldValueInvalid", _joined(f"Invalid value: {shown(value)}", detail))


def duplicate(field: str, value: object) -> Cause:
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {shown(value)}")


def not_supported(field: str, value: object, supported: Iterable[object]) -> Cause:
    listed = ", ".join(shown(item) for item in supported)
    detail = f"supported values: {listed}" if listed else ""
    return Cause(field, "FieldValueNotSupported", _joined(f"Unsupported value: {shown(value)}", detail))


def forbidden(field: str, detail: str) -> Cause:
    return Cause(field, "FieldValueForbidden", _joined("Forbidden", detail))


def not_found(field: str, value: object) -> Cause:
    return Cause(field, "FieldValueNotFound", f"Not found: {shown(value)}")


def too_long(field: str, limit: int) -> Cause:
    unit = "byte" if limit == 1 else "bytes"
    return Cause(field, "FieldValueTooLong", f"Too long: may not be more than {limit} {unit}")


def too_many(field: str, actual: int, limit: int) -> Cause:
    unit = "item" if limit == 1 else "items"
    return Cause(field, "FieldValueTooMany", f"Too many: {actual}: must have at most {limit} {unit}")


def type_invalid(field: str, value: object, detail: str) -> Cause:
    return Cause(field, "FieldValueTypeInvalid", _joined(f"Invalid value: {shown(value)}", detail))


def shown(value: object) -> str:
    """A value as Go's field errors print it: strings quoted, scalars bare, structures as JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return go_quoted(value)
    return msgspec.json.encode(value).decode()


def _joined(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text


def _sayable(text: str) -> str:
    """Without the bytes of a path that are no text: they come as lone surrogates, which no answer can hold."""
    return text if text.isascii() else text.encode(errors="surrogateescape").decode(errors="replace")


class StatusError(Exception):
    """A request was refused; this is the answer."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        name: str = "",
        group: str = "",
        kind: str = "",
        uid: str = "",
        causes: Sequence[Cause] = (),
        retry_after_s: int = 0,
        details: bool = True,
        empty_details: bool = False,
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, _sayable(message)
        self.name, self.group, self.kind, self.uid = _sayable(name), _sayable(group), _sayable(kind), uid
        self.causes, self.retry_after_s, self.has_details = tuple(causes), retry_after_s, details
        self.has_empty_details = empty_details
        self.continue_token = ""
        "Of an expired list: where to go on, for clients that can."

    def body(self) -> dict[str, Any]:
        details: dict[str, Any] = {}
        for key in ("name", "group", "kind", "uid"):
            if value := getattr(self, key):
                details[key] = value
        if self.causes:
            details["causes"] = [
                {k: v for k, v in (("reason", c.reason), ("message", c.message), ("field", c.field)) if v}
                for c in self.causes
            ]
        if self.retry_after_s:
            details["retryAfterSeconds"] = self.retry_after_s
        metadata = {"continue": self.continue_token} if self.continue_token else {}
        status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure"}
        if self.message:
            status["message"] = self.message
        if self.reason:
            status["reason"] = self.reason
        bare = self.reason in ("BadRequest", "Unauthorized", "NotAcceptable") and not self.has_empty_details
        if self.has_details and (details or not bare):
            status["details"] = details
        return {**status, "code": self.code}


def qualified(resource: str, group: str) -> str:
    """`deployments.apps`, `pods`: as messages name a resource."""
    return f"{resource}.{group}" if group else resource


def object_not_found(resource: str, group: str, name: str) -> StatusError:
    message = f"{qualified(resource, group)} {go_quoted(name)} not found"
    return StatusError(404, "NotFound", message, name=name, group=group, kind=resource)


def already_exists(resource: str, group: str, name: str, *, deleting: bool = False) -> StatusError:
    message = f'{qualified(resource, group)} "{name}" already exists'
    if deleting:
        message = f"object is being deleted: {message}"
    return StatusError(409, "AlreadyExists", message, name=name, group=group, kind=resource)


def conflict(resource: str, group: str, name: str, detail: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {detail}'
    return StatusError(409, "Conflict", message, name=name, group=group, kind=resource)


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def unprocessable(kind: str, group: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """422: the object is well formed but not valid. `kind` is the Kind, not the resource, as the real server has it."""
    # A fault that several checks find is a cause each time, but told once.
    texts = list(dict.fromkeys(str(cause) for cause in causes))
    listed = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    message = f"{qualified(kind, group)} {go_quoted(name)} is invalid: {listed}"
    return StatusError(422, "Invalid", message, name=name, group=group, kind=kind, causes=causes)


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def gone(message: str) -> StatusError:
    return StatusError(410, "Expired", message, details=False)


def too_many_requests(message: str, retry_after_s: int = 1, causes: Sequence[Cause] = ()) -> StatusError:
    return StatusError(429, "TooManyRequests", message, retry_after_s=retry_after_s, causes=causes)


def internal_error(message: str) -> StatusError:
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", causes=[Cause("", "", message)])
