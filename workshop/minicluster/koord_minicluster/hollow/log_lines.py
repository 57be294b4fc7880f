"""What a modelled container would have logged: one line every few seconds since it started.

A line is a function of (seed, container, its number), so that a tail costs only the lines that it shows, and reading
twice shows the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from koord.api.text.timestamp import micro_from_seconds
from koord_minicluster.hollow.chance import chance

PERIOD_S: Final = 2.0
MOST_LINES: Final = 100_000
"""A log keeps this many lines, as a node's rotation would."""

_WORK: Final = ("GET /api/items", "GET /api/items/42", "POST /api/orders", "GET /healthz", "PUT /api/carts/7")


@dataclass(frozen=True, slots=True)
class LogSource:
    """One run of a container; `until_s` is when it ended, if it has."""

    uid: str
    container: str
    started_s: float
    until_s: float | None = None
    seed: int = 0

    def time_s(self, number: int) -> float:
        return self.started_s + number * PERIOD_S

    def count(self, now_s: float) -> int:
        """How many lines there are."""
        end_s = now_s if self.until_s is None else min(now_s, self.until_s)
        return max(0, int((end_s - self.started_s) // PERIOD_S) + 1) if end_s >= self.started_s else 0

    def line(self, number: int, *, timestamps: bool) -> str:
        stamp = micro_from_seconds(self.time_s(number))[:-1] + "000Z "
        return (stamp if timestamps else "") + self._text(number) + "\n"

    def lines(
        self, now_s: float, *, tail: int | None = None, since_s: float | None = None, timestamps: bool = False
    ) -> Iterator[str]:
        """The lines so far: the last `tail` of them, of those not before `since_s`."""
        count = self.count(now_s)
        first = max(0, count - MOST_LINES)
        if since_s is not None:
            first = max(first, -int(-(since_s - self.started_s) // PERIOD_S))
        if tail is not None:
            first = max(first, count - tail)
        for number in range(first, count):
            yield self.line(number, timestamps=timestamps)

    def _text(self, number: int) -> str:
        if number == 0:
            return f"{self.container} started on a hollow node; nothing really runs here"
        luck = chance(self.seed, "log", self.uid, self.container, number)
        what = _WORK[int(luck * 1e6) % len(_WORK)]
        failed = luck > 0.99
        took_ms = 2 + int(luck * luck * 80)
        return (
            f"modelled=true level={'error' if failed else 'info'} request={number} call={what!r} took={took_ms}ms"
            + (" error='upstream timed out'" if failed else "")
        )
