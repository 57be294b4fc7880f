"""Events for browsers: each topic's newest state or changes, numbered, and kept for five minutes for those that come
back.

An event is encoded once, whatever the number of readers. A reader that missed more than is kept, or that comes from
another epoch, is told to load everything again.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

KEPT_S: Final = 300.0
MOST_KEPT: Final = 4096
MOST_BYTES: Final = 32 << 20


class Event(NamedTuple):
    rev: int
    topic: str
    at_s: float
    data: bytes


class Ring:
    """The last events of all topics."""

    def __init__(self, epoch: str) -> None:
        self.epoch = epoch
        self.rev = 0
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._dropped_rev = 0
        "The newest revision that is no longer kept."

    def add(self, topic: str, data: bytes, now_s: float) -> Event:
        """`data` was encoded with revision `rev + 1`."""
        self.rev += 1
        event = Event(self.rev, topic, now_s, data)
        self._events.append(event)
        self._bytes += len(data)
        while self._events and (
            self._events[0].at_s < now_s - KEPT_S or len(self._events) > MOST_KEPT or self._bytes > MOST_BYTES
        ):
            dropped = self._events.popleft()
            self._bytes -= len(dropped.data)
            self._dropped_rev = dropped.rev
        return event

    def skip(self) -> None:
        """A change without an event: a page that reconnects loads everything again."""
        self.rev += 1
        self._dropped_rev = self.rev

    def after(self, rev: int) -> list[Event] | None:
        """Events after a revision; None if some of them are gone."""
        if rev < self._dropped_rev or rev > self.rev:
            return None
        return [event for event in self._events if event.rev > rev]

    def resumed(self, last_id: str) -> list[Event] | None:
        """Events after `EPOCH-REV`, as browsers send it; None if everything must be loaded again."""
        epoch, _, rev = last_id.rpartition("-")
        if epoch != self.epoch or not rev.isdecimal() or len(rev) > 18:
            return None
        return self.after(int(rev))

    def encoded(self, event: Event) -> bytes:
        return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (
            self.epoch.encode(),
            event.rev,
            event.topic.encode(),
            event.data,
        )
