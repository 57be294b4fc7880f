"""What the server knows: objects as bytes in memory, every write on disk before anyone hears of it.

Writers look at `head` (newest, perhaps not yet on disk), readers at `get` and `list` (only what is on disk). A write
gets its revision at once and waits in a queue; one task writes the whole queue as one group, then publishes it: the
committed view, the watchers, the waiting requests, in that order and in one step of the event loop.

A group that cannot be written (disk full) fails with all that queued behind it, since later writes may build on it.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from koord.apiserver.revision_log import Durability, RevisionLog, Row

log = logging.getLogger(__name__)

COMPACT_STEP = 2_000

T = TypeVar("T")
EventType = Literal["ADDED", "MODIFIED", "DELETED"]


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


class Overflow(Exception):
    """A watcher was too slow, and lost events."""


@dataclass(frozen=True, slots=True)
class Index:
    """What the server must know of an object without parsing it."""

    labels: Mapping[str, str]
    fields: Mapping[str, str]
    uid: str
    owners: tuple[str, ...] = ()
    "UIDs of its owners."
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One object at one revision. `value` is what a GET answers."""

    key: str
    rev: int
    value: bytes
    index: Index


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """One write, as watchers see it. `frames` keeps its encodings, one per form that some watcher asked for."""

    type: EventType
    entry: Entry
    previous: Entry | None
    frames: dict[object, bytes | None] = field(default_factory=dict)

    @property
    def rev(self) -> int:
        return self.entry.rev


@dataclass(frozen=True, slots=True)
class Limits:
    """How much history is kept: in memory for quick resumption, on disk for long gaps."""

    history_bytes: int = 32 << 20
    "Of replaced values in memory, over all collections."
    disk_revisions: int = 100_000
    watch_queue: int = 10_000
    "Events a watcher may lag behind."


class IndexOf(Protocol):
    """The index of a stored value; used when a collection is loaded from disk."""

    def __call__(self, value: bytes) -> Index: ...


@dataclass(slots=True)
class _Write:
    collection: Collection
    row: Row
    entry: Entry
    previous: Entry | None
    done: asyncio.Future[Entry]


class Subscription:
    """A watcher's queue. `batch` waits for events and gives all there are, up to a number."""

    def __init__(self, collection: Collection, wanted: Callable[[Event], bool], limit: int) -> None:
        self._collection, self._wanted, self._limit = collection, wanted, limit
        self._queue: deque[Event] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._overflowed = False

    def push(self, event: Event) -> None:
        if self._overflowed or not self._wanted(event):
            return
        if len(self._queue) >= self._limit:
            self._overflowed = True
            self._queue.clear()
        else:
            self._queue.append(event)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def batch(self, timeout_s: float, most: int = 256) -> list[Event]:
        """The next events in order; empty when none came in time. Raises Overflow if some were lost."""
        if not self._queue and not self._overflowed:
            self._waiter = asyncio.get_running_loop().create_future()
            handle = asyncio.get_running_loop().call_later(timeout_s, _wake, self._waiter)
            try:
                await self._waiter
            finally:
                handle.cancel()
                self._waiter = None
        if self._overflowed:
            raise Overflow
        return [self._queue.popleft() for _ in range(min(most, len(self._queue)))]

    def close(self) -> None:
        self._collection.subscriptions.discard(self)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Collection:
    """All objects of one resource. Made by `Store.collection`."""

    def __init__(self, store: Store, name: str, index_of: IndexOf) -> None:
        self.name, self.index_of = name, index_of
        self.subscriptions: set[Subscription] = set()
        self.listeners: list[Callable[[Event], None]] = []
        "Parts of the server that must know of a write before its answer leaves; called once it is on disk."
        self._store = store
        self._committed: dict[str, Entry] = {}
        self._keys: list[str] = []
        self._pending: dict[str, Entry | None] = {}
        self._history: deque[Event] = deque()

    def __len__(self) -> int:
        return len(self._committed)

    def head(self, key: str) -> Entry | None:
        """The newest version, even if it is not on disk yet. For writers only."""
        return self._pending[key] if key in self._pending else self._committed.get(key)

    def get(self, key: str) -> Entry | None:
        return self._committed.get(key)

    def entries(self, prefix: str = "", start_after: str = "", limit: int = 0) -> list[Entry]:
        """Committed entries in key order whose key begins with `prefix`, beginning after a key."""
        first = bisect_right(self._keys, start_after) if start_after > prefix else bisect_left(self._keys, prefix)
        last = bisect_left(self._keys, prefix + "\U0010ffff") if prefix else len(self._keys)
        if limit:
            last = min(last, first + limit)
        return [self._committed[key] for key in self._keys[first:last]]

    async def entries_at(self, rev: int, prefix: str = "", start_after: str = "") -> list[Entry]:
        """The same at an older revision."""
        self._store.check_revision(rev)
        if self._in_memory_since(rev):
            undone: dict[str, Entry | None] = {}
            for event in reversed(self._history):
                if event.rev <= rev:
                    break
                undone[event.entry.key] = event.previous
            then: dict[str, Entry | None] = {entry.key: entry for entry in self.entries(prefix, start_after)}
            then |= {key: was for key, was in undone.items() if key.startswith(prefix) and key > start_after}
            return [was for key in sorted(then) if (was := then[key]) is not None]
        full_prefix = f"{self.name}/{prefix}"
        rows = await self._store.in_thread(self._store.log.at, rev, full_prefix, f"{self.name}/{start_after}", 0)
        return [self._entry(row) for row in rows]

    async def put(self, key: str, expect_rev: int, build: Callable[[int], bytes], index: Index) -> Entry:
        """Write an object whose newest revision must be `expect_rev` (0: it must not exist).

        `build` gets the new revision and gives the bytes. Returns when they are on disk.
        """
        previous = self._expected(key, expect_rev)
        rev = self._store.next_revision()
        entry = Entry(key, rev, build(rev), index)
        return await self._store.enqueue(self, entry, previous, deleted=False)

    async def delete(self, key: str, expect_rev: int, build: Callable[[int], bytes]) -> Entry:
        """Remove an object. `build` gives its last state, as watchers see it deleted."""
        previous = self._expected(key, expect_rev)
        assert previous is not None
        rev = self._store.next_revision()
        entry = Entry(key, rev, build(rev), previous.index)
        return await self._store.enqueue(self, entry, previous, deleted=True)

    async def watch(self, from_rev: int, wanted: Callable[[Event], bool]) -> tuple[list[Event], Subscription]:
        """What happened after `from_rev`, and a queue of what happens from now on, without a gap between them."""
        self._store.check_revision(from_rev)
        older: list[Event] = []
        if not self._in_memory_since(from_rev):
            until = self._history[0].rev - 1 if self._history else self._store.revision
            older = await self._store.in_thread(self._events_from_disk, from_rev, until)
            from_rev = until
            if not self._in_memory_since(from_rev):
                # So much was written meanwhile that memory has moved on: the reader is too far behind.
                raise Compacted(from_rev, self._store.oldest)
        subscription = Subscription(self, wanted, self._store.limits.watch_queue)
        self.subscriptions.add(subscription)
        recent = [event for event in self._history if event.rev > from_rev]
        return [event for event in older + recent if wanted(event)], subscription

    def _in_memory_since(self, rev: int) -> bool:
        return rev >= self._store.forgotten.get(self.name, self._store.loaded_at)

    def _expected(self, key: str, expect_rev: int) -> Entry | None:
        head = self.head(key)
        if (head.rev if head else 0) != expect_rev:
            raise Raced
        return head

    def stage(self, entry: Entry, deleted: bool) -> None:
        self._pending[entry.key] = None if deleted else entry

    def unstage_all(self) -> None:
        self._pending.clear()

    def publish(self, entry: Entry, previous: Entry | None, deleted: bool) -> Event:
        key = entry.key
        if deleted:
            del self._committed[key]
            del self._keys[bisect_left(self._keys, key)]
        else:
            if previous is None:
                insort(self._keys, key)
            self._committed[key] = entry
        staged = self._pending.get(key)
        if key in self._pending and (staged is None if deleted else staged is entry):
            del self._pending[key]
        event = Event("DELETED" if deleted else "MODIFIED" if previous else "ADDED", entry, previous)
        self._history.append(event)
        for listener in self.listeners:
            listener(event)
        for subscription in self.subscriptions:
            subscription.push(event)
        return event

    def forget_oldest(self) -> Event:
        return self._history.popleft()

    def load(self, rows: Iterable[Row]) -> None:
        for row in rows:
            entry = self._entry(row)
            self._committed[entry.key] = entry
        self._keys = sorted(self._committed)

    def _entry(self, row: Row) -> Entry:
        return Entry(row.key[len(self.name) + 1 :], row.rev, row.value, self.index_of(row.value))

    def _events_from_disk(self, from_rev: int, until: int) -> list[Event]:
        events = []
        for row in self._store.log.since(from_rev, until, f"{self.name}/"):
            before = self._store.log.row(row.prev) if row.prev else None
            previous = self._entry(before) if before and not before.deleted else None
            kind: EventType = "DELETED" if row.deleted else "MODIFIED" if previous else "ADDED"
            events.append(Event(kind, self._entry(row), previous))
        return events


class Store:
    """All collections. Open it with `Store.open`, run its writer with `run`, and `close` it at the end."""

    def __init__(self, revision_log: RevisionLog, limits: Limits) -> None:
        self.log, self.limits = revision_log, limits
        self.revision = revision_log.revision()
        self.oldest = revision_log.compacted()
        self.loaded_at = self.revision
        self.forgotten: dict[str, int] = {}
        "Per collection: events up to this revision are no longer in memory."
        self._given = self.revision
        self._collections: dict[str, Collection] = {}
        self._unclaimed: dict[str, list[Row]] = {}
        self._queue: list[_Write] = []
        self._wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._history_order: deque[tuple[Collection, int]] = deque()
        self._history_bytes = 0
        self._advanced: set[asyncio.Future[None]] = set()
        for row in revision_log.live():
            self._unclaimed.setdefault(row.key.partition("/")[0], []).append(row)

    @classmethod
    async def open(cls, directory: Path, durability: Durability = "full", limits: Limits | None = None) -> Store:
        return cls(RevisionLog(directory, durability), limits or Limits())

    def close(self) -> None:
        self._thread.shutdown(wait=True)
        self.log.close()

    def collection(self, name: str, index_of: IndexOf) -> Collection:
        """The collection of that name, loaded from disk when first asked for."""
        if name not in self._collections:
            self._collections[name] = collection = Collection(self, name, index_of)
            collection.load(self._unclaimed.pop(name, ()))
        return self._collections[name]

    def next_revision(self) -> int:
        self._given += 1
        return self._given

    def check_revision(self, rev: int) -> None:
        if rev < self.oldest:
            raise Compacted(rev, self.oldest)
        if rev > self.revision:
            raise FutureRevision

    async def reached(self, rev: int, timeout_s: float) -> bool:
        """Whether `rev` is committed, waiting for it for a while."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while self.revision < rev:
            waiter = loop.create_future()
            handle = loop.call_at(deadline, _wake, waiter)
            self._advanced.add(waiter)
            await waiter
            handle.cancel()
            self._advanced.discard(waiter)
            if loop.time() >= deadline:
                return self.revision >= rev
        return True

    async def enqueue(self, collection: Collection, entry: Entry, previous: Entry | None, *, deleted: bool) -> Entry:
        row = Row(entry.rev, f"{collection.name}/{entry.key}", previous.rev if previous else 0, deleted, entry.value)
        collection.stage(entry, deleted)
        done: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        self._queue.append(_Write(collection, row, entry, previous, done))
        self._wake.set()
        # A client that goes away does not take its write back: the group is already built on it.
        return await asyncio.shield(done)

    async def run(self) -> None:
        """The one writer: a group at a time, until cancelled; then what is queued is still written."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._commit_group()
        finally:
            while self._queue:
                await self._commit_group()

    async def in_thread(self, call: Callable[..., T], *args: object) -> T:
        """Disk work, off the event loop, one piece at a time."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)

    async def _commit_group(self) -> None:
        group, self._queue = self._queue, []
        if not group:
            return
        try:
            await self.in_thread(self.log.append, [write.row for write in group])
        except (sqlite3.Error, OSError) as error:
            self._fail(group, error)
            return
        for write in group:
            self._publish(write)
        self._trim()
        for waiter in self._advanced:
            _wake(waiter)
        await self._compact()

    def _publish(self, write: _Write) -> None:
        self.revision = write.entry.rev
        write.collection.publish(write.entry, write.previous, write.row.deleted)
        self._history_order.append((write.collection, write.entry.rev))
        self._history_bytes += len(write.previous.value) if write.previous else 0
        if not write.done.done():
            write.done.set_result(write.entry)

    def _fail(self, group: list[_Write], error: Exception) -> None:
        log.error("writing to disk failed; the writes were refused", extra={"error": str(error), "writes": len(group)})
        behind, self._queue = self._queue, []
        for collection in self._collections.values():
            collection.unstage_all()
        self._given = self.revision
        for write in group + behind:
            if not write.done.done():
                write.done.set_exception(WriteFailed(str(error)))

    def _trim(self) -> None:
        """Drop the oldest events from memory once the values they alone keep alive weigh too much."""
        while self._history_bytes > self.limits.history_bytes and self._history_order:
            collection, rev = self._history_order.popleft()
            event = collection.forget_oldest()
            self.forgotten[collection.name] = rev
            self._history_bytes -= len(event.previous.value) if event.previous else 0

    async def _compact(self) -> None:
        """Forget a little of the oldest history after each group, so that no request waits for a long clean-up."""
        horizon = min(self.revision - self.limits.disk_revisions, self.oldest + COMPACT_STEP)
        if horizon > self.oldest + COMPACT_STEP // 2:
            self.oldest = horizon
            await self.in_thread(self.log.compact, horizon)
