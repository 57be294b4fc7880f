"""Objects at a revision, the events between revisions, and a watcher's queue of them.

Nothing here is copied per watcher: entries and events are shared, immutable but for the cache of encodings.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

EventType = Literal["ADDED", "MODIFIED", "DELETED"]

_EVENT_BYTES = 400
"What an event and its places in the history weigh, beside the values it holds."


class Overflow(Exception):
    """A watcher was too slow, and lost events."""


class Ended(Exception):
    """The server stops; no more events will come."""


class Index(msgspec.Struct, frozen=True, gc=False):
    """What the server must know of an object without parsing it."""

    labels: Mapping[str, str]
    fields: Mapping[str, str]
    uid: str
    owners: tuple[str, ...] = ()
    "UIDs of its owners."
    deleting: bool = False


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One object at one revision. `value` is what a GET answers."""

    key: str
    rev: int
    value: bytes
    index: Index


class Change(msgspec.Struct, eq=False, gc=False):
    """One write, as watchers see it. `entry` is the new state, of a deleted object the last one."""

    type: EventType
    entry: Entry
    previous: Entry | None
    frames: dict[object, bytes] = msgspec.field(default_factory=dict)
    "Its encodings, one per form that some watcher asked for, kept while the watchers are told."

    @property
    def rev(self) -> int:
        return self.entry.rev

    @property
    def weight_bytes(self) -> int:
        """The memory that goes when this event is forgotten: values that nothing newer shows, and its own."""
        weight = _EVENT_BYTES
        if self.previous is not None:
            weight += len(self.previous.value)
        if self.type == "DELETED":
            weight += len(self.entry.value)
        return weight


class Subscription:
    """A watcher's queue, bounded. `batch` waits for events and gives all there are, up to a number.

    A watcher that waits may be told at once: `direct` takes a group of events if it can, and then nothing is queued.
    """

    def __init__(
        self, wanted: Callable[[Change], bool] | None, limit: int, on_close: Callable[[Subscription], None]
    ) -> None:
        self.wanted, self._limit, self._on_close = wanted, limit, on_close
        "Which events are for this watcher; None: all. Those with the same function share the outcome."
        self.direct: Callable[[list[Change]], bool] | None = None
        self._queue: deque[Change] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._overflowed = False
        self._ended = False

    def push(self, events: list[Change]) -> None:
        """Those events of a group that are wanted, in order."""
        if self._overflowed:
            return
        waits = self._waiter is not None and not self._waiter.done()
        if waits and self.direct is not None and self.direct(events):
            return
        if len(self._queue) + len(events) > self._limit:
            self._overflowed = True
            self._queue.clear()
        else:
            self._queue.extend(events)
        if self._waiter is not None:
            wake(self._waiter)

    async def batch(self, timeout_s: float, most: int = 256) -> list[Change]:
        """The next events in order; empty when none came in time. Raises Overflow where some were lost, or Ended."""
        if not self._queue and not self._overflowed and not self._ended and timeout_s > 0:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            handle = loop.call_later(timeout_s, wake, self._waiter)
            try:
                await self._waiter
            finally:
                handle.cancel()
                self._waiter = None
        if self._overflowed:
            raise Overflow
        if self._ended and not self._queue:
            raise Ended
        return [self._queue.popleft() for _ in range(min(most, len(self._queue)))]

    def end(self) -> None:
        """Let the watcher take what there is, and no more."""
        self._ended = True
        if self._waiter is not None:
            wake(self._waiter)

    def close(self) -> None:
        self._queue.clear()
        self._on_close(self)


def wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
