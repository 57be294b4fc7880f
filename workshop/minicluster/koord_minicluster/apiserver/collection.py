"""All objects of one resource: the newest of each for writers, what is on disk for readers, and the watchers of it.

Made by `Store.collection`. A write is staged here at once, and published here when the store has put it on disk.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from itertools import takewhile
from typing import TYPE_CHECKING, Protocol

from koord_minicluster.apiserver.events import Change, Entry, EventType, Index, Subscription
from koord_minicluster.apiserver.revision_log import Damaged, Row

if TYPE_CHECKING:
    from koord_minicluster.apiserver.store import Store


PAUSE_PER_TELLING = 8.0
"How much longer than it takes to tell the watchers they are left in peace."
LONGEST_PAUSE = 5.0
"In units of the usual pause between tellings."


class Raced(Exception):
    """The object changed since it was read; read again."""


class Compacted(Exception):
    """The revision asked for is too old: its history is gone."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")
        self.asked, self.oldest = asked, oldest


class FutureRevision(Exception):
    """The revision asked for has not been reached yet."""


class WriteFailed(Exception):
    """The group of writes could not be put on disk; nothing of it happened."""


class IndexOf(Protocol):
    """The index of a stored value; used when a collection is loaded from disk."""

    def __call__(self, value: bytes) -> Index: ...


class Write:
    """One write on its way to the disk."""

    __slots__ = ("_waiting", "collection", "deleted", "entry", "previous")

    def __init__(self, collection: Collection, entry: Entry, previous: Entry | None, deleted: bool) -> None:
        self.collection, self.entry, self.previous, self.deleted = collection, entry, previous, deleted
        self._waiting: list[asyncio.Future[Entry]] = []

    def done(self) -> asyncio.Future[Entry]:
        """A future that is done when the write is on disk. Each waiter gets its own: a client that disconnects does not
        cancel its write, since others may already depend on it."""
        waiting: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        return waiting

    def succeed(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(self.entry)

    def fail(self, error: WriteFailed) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(error)
                # The waiting task may be cancelled and never retrieve the exception; that is not a defect.
                waiting.exception()

    def row(self) -> Row:
        prev = self.previous.rev if self.previous else 0
        return Row(self.entry.rev, f"{self.collection.name}/{self.entry.key}", prev, self.deleted, self.entry.value)


class Collection:
    """All objects of one resource."""

    def __init__(self, store: Store, name: str, index_of: IndexOf) -> None:
        self.name, self.index_of = name, index_of
        self.subscriptions: set[Subscription] = set()
        self.listeners: list[Callable[[Change], None]] = []
        "Parts of the server that must know of a write before its answer leaves; called once it is on disk."
        self._store = store
        self._committed: dict[str, Entry] = {}
        self._keys: list[str] = []
        self._pending: dict[str, Write] = {}
        self._history: deque[Change] = deque()
        self._untold: list[Change] = []
        self._told_s = float("-inf")
        self._telling_took_s = 0.0
        self._telling: asyncio.TimerHandle | None = None
        self._forgotten = store.revision
        "Events up to this revision are not in memory."

    def __len__(self) -> int:
        return len(self._committed)

    def head(self, key: str) -> Entry | None:
        """The newest version, even if it is not on disk yet. For writers only."""
        pending = self._pending.get(key)
        if pending is None:
            return self._committed.get(key)
        return None if pending.deleted else pending.entry

    def get(self, key: str) -> Entry | None:
        return self._committed.get(key)

    def entries(self, prefix: str = "", start_after: str = "", limit: int = 0) -> list[Entry]:
        """Committed entries in key order whose key begins with `prefix`, beginning after a key."""
        first, last = self._range(prefix, start_after)
        if limit:
            last = min(last, first + limit)
        committed = self._committed
        return [committed[key] for key in self._keys[first:last]]

    def count(self, prefix: str = "", start_after: str = "") -> int:
        """How many `entries` there are."""
        first, last = self._range(prefix, start_after)
        return max(0, last - first)

    def _range(self, prefix: str, start_after: str) -> tuple[int, int]:
        first = bisect_right(self._keys, start_after) if start_after > prefix else bisect_left(self._keys, prefix)
        return first, bisect_left(self._keys, prefix + "\U0010ffff") if prefix else len(self._keys)

    async def entries_at(self, rev: int, prefix: str = "", start_after: str = "", limit: int = 0) -> list[Entry]:
        """The entries at an older revision."""
        self._store.check_revision(rev)
        if rev >= self._forgotten:
            undone = self._undone(rev, prefix, start_after)
            if not undone:
                return self.entries(prefix, start_after, limit)
            # However many of the newer entries are undone, enough are left to fill the page.
            newer = self.entries(prefix, start_after, limit + len(undone) if limit else 0)
            then: dict[str, Entry | None] = {entry.key: entry for entry in newer}
            then |= undone
            page = [was for key in sorted(then) if (was := then[key]) is not None]
            return page[:limit] if limit else page
        page = await self._store.reading(self._entries_from_disk, rev, prefix, start_after, limit)
        self._store.check_revision(rev)
        return page

    async def count_at(self, rev: int, prefix: str = "", start_after: str = "") -> int:
        """How many `entries_at` there are."""
        if rev < self._forgotten:
            return len(await self.entries_at(rev, prefix, start_after))
        self._store.check_revision(rev)
        undone = self._undone(rev, prefix, start_after)
        lost = sum(1 for was in undone.values() if was is not None)
        gained = sum(1 for key in undone if key in self._committed)
        return self.count(prefix, start_after) + lost - gained

    def _undone(self, rev: int, prefix: str, start_after: str) -> dict[str, Entry | None]:
        """The keys that changed after `rev`, and what they were then."""
        undone: dict[str, Entry | None] = {}
        for event in reversed(self._history):
            if event.rev <= rev:
                break
            key = event.entry.key
            if key.startswith(prefix) and key > start_after:
                undone[key] = event.previous
        return undone

    def put(self, key: str, expect_rev: int, build: Callable[[int], bytes], index: Index) -> Awaitable[Entry]:
        """Write an object whose newest revision must be `expect_rev` (0: it must not exist).

        `build` gets the new revision and gives the bytes, at once. What is returned is there when they are on disk.
        """
        previous = self._expected(key, expect_rev)
        rev = self._store.next_revision()
        return self._store.enqueue(Write(self, Entry(key, rev, build(rev), index), previous, deleted=False))

    def delete(self, key: str, expect_rev: int, build: Callable[[int], bytes]) -> Awaitable[Entry]:
        """Remove an object. `build` gives its last state, as watchers see it deleted."""
        previous = self._expected(key, expect_rev)
        if previous is None:
            raise Raced
        rev = self._store.next_revision()
        entry = Entry(key, rev, build(rev), previous.index)
        return self._store.enqueue(Write(self, entry, previous, deleted=True))

    async def settled(self, entry: Entry) -> None:
        """Wait until what `head` gave is on disk. Raises WriteFailed if it could not be put there."""
        pending = self._pending.get(entry.key)
        if pending is not None and pending.entry.rev >= entry.rev:
            await pending.done()

    async def absent(self, key: str) -> None:
        """Wait until what `head` gave as gone is gone on disk too."""
        pending = self._pending.get(key)
        if pending is not None and pending.deleted:
            await pending.done()

    async def watch(
        self, from_rev: int, wanted: Callable[[Change], bool] | None = None
    ) -> tuple[list[Change], Subscription]:
        """What happened after `from_rev`, and a queue of what happens from now on, without a gap between them."""
        self._store.check_revision(from_rev)
        older: list[Change] = []
        reached = from_rev
        while reached < self._forgotten:
            until = self._history[0].rev - 1 if self._history else self._store.revision
            older += await self._store.reading(self._events_from_disk, reached, until)
            # In the meantime memory may have moved on, and the disk's history may start after the watch's revision.
            self._store.check_revision(from_rev)
            reached = until
        # Before the new subscription exists: it gets these events as history.
        self.tell_now()
        subscription = Subscription(wanted, self._store.limits.watch_queue, self.subscriptions.discard)
        self.subscriptions.add(subscription)
        if self._store.ending:
            subscription.end()
        recent = list(takewhile(lambda event: event.rev > reached, reversed(self._history)))
        past = older + recent[::-1]
        return [event for event in past if wanted(event)] if wanted else past, subscription

    def _expected(self, key: str, expect_rev: int) -> Entry | None:
        head = self.head(key)
        if (head.rev if head else 0) != expect_rev:
            raise Raced
        return head

    def stage(self, write: Write) -> None:
        self._pending[write.entry.key] = write

    def unstage_all(self) -> None:
        self._pending.clear()

    def publish(self, write: Write) -> Change:
        entry, previous, key = write.entry, write.previous, write.entry.key
        kind: EventType
        if write.deleted:
            kind = "DELETED"
            del self._committed[key]
            del self._keys[bisect_left(self._keys, key)]
        else:
            kind = "MODIFIED" if previous else "ADDED"
            if previous is None:
                insort(self._keys, key)
            self._committed[key] = entry
        if self._pending.get(key) is write:
            del self._pending[key]
        event = Change(kind, entry, previous)
        self._history.append(event)
        for listener in self.listeners:
            listener(event)
        return event

    def tell(self, events: list[Change]) -> None:
        """Let the watchers know of a group, now or soon."""
        if not self.subscriptions:
            return
        self._untold += events
        if self._telling is None:
            loop = asyncio.get_running_loop()
            next_s = self._told_s + self._pause_s()
            if loop.time() >= next_s:
                self.tell_now()
            else:
                self._telling = loop.call_at(next_s, self.tell_now)

    def tell_now(self) -> None:
        """Send all committed events to the watchers. Drops the frames that they encoded for each other."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        events, self._untold = self._untold, []
        if not events:
            return
        self._told_s = asyncio.get_running_loop().time()
        began_s = time.perf_counter()
        chosen: dict[Callable[[Change], bool] | None, list[Change]] = {None: events}
        for subscription in self.subscriptions:
            wanted = subscription.wanted
            if wanted is not None and wanted not in chosen:
                chosen[wanted] = [event for event in events if wanted(event)]
            if mine := chosen[wanted]:
                subscription.push(mine)
        self._telling_took_s = time.perf_counter() - began_s
        for event in events:
            event.frames.clear()

    def _pause_s(self) -> float:
        """The pause until watchers are notified again: the more a round costs, the more events it should carry."""
        every_s = self._store.limits.tell_every_s
        return min(max(every_s, self._telling_took_s * PAUSE_PER_TELLING), every_s * LONGEST_PAUSE)

    def oldest_event_rev(self) -> int:
        return self._history[0].rev

    def forget_oldest(self) -> Change:
        event = self._history.popleft()
        self._forgotten = event.rev
        return event

    def load(self, rows: Iterable[Row]) -> None:
        for row in rows:
            try:
                entry = self._entry(row)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                how = f"{row.key} of revision {row.rev} cannot be read: {error}"
                raise Damaged(self._store.log.path, how) from error
            self._committed[entry.key] = entry
        self._keys = sorted(self._committed)

    def _entry(self, row: Row) -> Entry:
        key = row.key[len(self.name) + 1 :]
        live = self._committed.get(key)
        return live if live and live.rev == row.rev else Entry(key, row.rev, row.value, self.index_of(row.value))

    def _entries_from_disk(self, rev: int, prefix: str, start_after: str, limit: int) -> list[Entry]:
        rows = self._store.log.at(rev, f"{self.name}/{prefix}", f"{self.name}/{start_after}", limit)
        return [self._entry(row) for row in rows]

    def _events_from_disk(self, from_rev: int, until: int) -> list[Change]:
        events = []
        for row, replaced in self._store.log.since(from_rev, until, self.name):
            previous = self._entry(replaced) if replaced else None
            kind: EventType = "DELETED" if row.deleted else "MODIFIED" if previous else "ADDED"
            events.append(Change(kind, self._entry(row), previous))
        return events
