"""Streamed lists (WatchList): whether a server should be asked for one, learned from its answers.

An informer asks here before each full list. Servers, and proxies in front of them, refuse a streamed list in many ways:
with any code, inside an accepted stream, by ignoring the request, or by cutting it off. What they say decides nothing:

- A list whose stream was refused or broke off is asked for in pages at once.
- If the pages arrive, the stream was at fault. It is not asked for again for `FORGET_S`.
- If the pages fail too, the fault lies elsewhere, and nothing is learned.
- A busy server is asked for a stream again; after `PATIENCE` busy answers in a row, for pages. A server that cannot be
  reached would send no pages either.
"""

from __future__ import annotations

from typing import Final

from koord.kube.errors import ApiError, TooManyRequests, Unauthorized, Unavailable

FORGET_S: Final = 3600.0
"""A server may be upgraded, and what broke one stream may have passed: after this long it is asked again."""
PATIENCE: Final = 3


class UnfinishedStream(Exception):
    """The server accepted a streamed list and did not bring it to its end."""


class StreamedLists:
    """Whether one informer's server can stream lists."""

    __slots__ = ("_failures", "_pages_until", "_wanted")

    def __init__(self, *, wanted: bool) -> None:
        self._wanted = wanted
        self._failures = 0
        self._pages_until = 0.0

    def worth_asking(self, now: float) -> bool:
        """Whether the next full list should be a stream. `now` is monotonic."""
        return self._wanted and now >= self._pages_until

    def came(self) -> None:
        self._failures = 0

    def failed(self, error: Exception) -> bool:
        """Whether to ask for pages at once."""
        if isinstance(error, OSError) or (isinstance(error, ApiError) and not error.code):
            return False
        self._failures += 1
        busy = isinstance(error, Unavailable | TooManyRequests | Unauthorized)
        return not busy or self._failures >= PATIENCE

    def pages_came_instead(self, now: float) -> None:
        self._failures = 0
        self._pages_until = now + FORGET_S
