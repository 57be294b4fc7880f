"""Attempts in the order of the sorting plugin: one heap for all, or one for each lane."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

from koord.scheduler.core.entity import Attempt, Entity, Where

Order: TypeAlias = Callable[[Attempt], Sequence[Any]]
"""Who is first: lower comes first. It may look at `entity` and `queued_at_s`."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """Entities of one lane queue behind each other: the pods of a tenant, say."""

    of: Callable[[Entity], Hashable]
    is_open: Callable[[Hashable], bool] = lambda lane: True
    "Whether the first of a lane can go now. Lanes that are closed are passed over, and nothing is popped from them."


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


class InLanes:
    """The active ones, a heap for each lane. The first of all open lanes comes next."""

    def __init__(self, where: Where, order: Order, lanes: Lanes) -> None:
        self._where, self._order, self._lanes = where, order, lanes
        self._heaps: dict[Hashable, Heap] = {}

    def push(self, attempt: Attempt) -> None:
        lane = self._lanes.of(attempt.entity)
        heap = self._heaps.get(lane)
        if heap is None:
            heap = self._heaps[lane] = Heap(self._where, self._order)
        heap.push(attempt)

    def first(self) -> Attempt | None:
        found = self._next()
        return None if found is None else found.first()

    def pop(self) -> Attempt | None:
        found = self._next()
        return None if found is None else found.pop()

    def _next(self) -> Heap | None:
        """The open lane whose first one comes before those of the others."""
        best: tuple[Any, int] | None = None
        found: Heap | None = None
        for lane, heap in list(self._heaps.items()):
            first = heap.first()
            if first is None:
                del self._heaps[lane]
                continue
            rank = (self._order(first), first.arrival)
            if (best is None or rank < best) and self._lanes.is_open(lane):
                best, found = rank, heap
        return found
