"""Empty maps and lists in error messages: once stored, they count as absent, but Go prints them the way they came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from koord_minicluster.apiserver.status import StatusError, unprocessable

_NONE: Final = "Invalid value: null"


def as_sent(error: StatusError, sent: Callable[[], Any]) -> StatusError:
    """The refusal, with `{}` or `[]` for null where that was sent. `sent` is asked only if it matters."""
    if error.code != 422 or not any(cause.message.startswith(_NONE) for cause in error.causes):
        return error
    body = sent()
    causes = [
        replace(cause, message=f"Invalid value: {shown}{cause.message[len(_NONE) :]}")
        if cause.message.startswith(_NONE) and (shown := _EMPTY.get(str(_at(body, cause.field))))
        else cause
        for cause in error.causes
    ]
    return unprocessable(error.kind, error.group, error.name, causes)


_EMPTY: Final = {"{}": "{}", "[]": "[]"}


def _at(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value
