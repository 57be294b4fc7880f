"""Attempts in the order of the sorting plugin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

from koord.scheduler.core.entity import Attempt, Where

Order: TypeAlias = Callable[[Attempt], Sequence[Any]]
"""The order of attempts: lower comes first. It may read `entity` and `queued_at_s`."""


@dataclass(eq=False, slots=True)
class Heap:
    """Attempts in order. One that has moved on since stays as a husk until it comes up, or there are too many."""

    where: Where
    order: Callable[[Attempt], Any]
    items: list[tuple[Any, int, int, Attempt]] = field(default_factory=list)
    _compact_at: int = 64

    def push(self, attempt: Attempt) -> None:
        attempt.where = self.where
        attempt._stamp += 1
        if len(self.items) >= self._compact_at:
            self.items = [item for item in self.items if item[3]._stamp == item[2]]
            heapify(self.items)
            self._compact_at = 2 * len(self.items) + 64
        heappush(self.items, (self.order(attempt), attempt.arrival, attempt._stamp, attempt))

    def first(self) -> Attempt | None:
        while self.items and self.items[0][3]._stamp != self.items[0][2]:
            heappop(self.items)
        return self.items[0][3] if self.items else None

    def pop(self) -> Attempt | None:
        while self.items:
            _, _, stamp, attempt = heappop(self.items)
            if attempt._stamp == stamp:
                return attempt
        return None
