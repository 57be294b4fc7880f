"""Which part of a container's log is asked for, as kubelet reads it from a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from koord.api.text.timestamp import TimestampError, parse_timestamp

MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class LogQuery:
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since_s: float | None = None


def log_query(query: Mapping[str, str], now_s: float) -> LogQuery:
    """Raises ValueError that names the parameter."""
    since = _number(query, "sinceSeconds")
    return LogQuery(
        follow=query.get("follow") == "true",
        previous=query.get("previous") == "true",
        timestamps=query.get("timestamps") == "true",
        tail_lines=_number(query, "tailLines"),
        limit_bytes=_number(query, "limitBytes"),
        since_s=_since_s(query) if since is None else now_s - since,
    )


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        shown = text if len(text) <= 2 * MOST_DIGITS else f"{text[: 2 * MOST_DIGITS]}..."
        raise ValueError(f"{name} is {shown!r}; it must be a whole number of at most {MOST_DIGITS} digits")
    return int(text)


def _since_s(query: Mapping[str, str]) -> float | None:
    text = query.get("sinceTime")
    if text is None:
        return None
    try:
        return parse_timestamp(text)
    except TimestampError as error:
        raise ValueError(f"sinceTime: {error}") from None
