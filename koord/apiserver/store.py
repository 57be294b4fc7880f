"""What the server knows: objects as bytes in memory, every write on disk before anyone hears of it.

Writers look at `head` (newest, perhaps not yet on disk), readers at `get` and `entries` (only what is on disk). A write
gets its revision at once and waits in a queue; one task writes the whole queue as one group, then publishes it: the
committed view, the watchers, the waiting requests, in that order and in one step of the event loop.

A group that cannot be written (disk full) fails with all that queued behind it, since later writes may build on it.
Revisions are never given twice while the server runs, so that a writer that saw a failed one cannot mistake another
write for it.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Protocol, TypeVar

from koord.apiserver.events import Ended, Entry, Event, EventType, Index, Overflow, Subscription, wake
from koord.apiserver.revision_log import DataDirUnusable, Durability, RevisionLog, Row

__all__ = [
    "Collection",
    "Compacted",
    "Ended",
    "Entry",
    "Event",
    "EventType",
    "FutureRevision",
    "Index",
    "Limits",
    "Overflow",
    "Raced",
    "Store",
    "Subscription",
    "WriteFailed",
]

log = logging.getLogger(__name__)

T = TypeVar("T")

PROBE_EVERY_S = 1.0
"How often a disk that refused a write is tried again."


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


@dataclass(frozen=True, slots=True)
class Limits:
    """How much history is kept: in memory for quick resumption, on disk for long gaps and restarts."""

    history_bytes: int = 32 << 20
    "Of replaced values in memory, over all collections."
    disk_revisions: int = 100_000
    disk_age_s: float = 300.0
    "What is older than either is forgotten."
    compact_step: int = 500
    "Revisions forgotten at a time, so that no write waits for a long clean-up."
    watch_queue: int = 10_000
    "Events a watcher may lag behind."
    tell_every_s: float = 0.005
    "Watchers are told at once if nothing happened for so long; else together with what else happens in that time."
    inline_commit_s: float = 0.0005
    "A lone write to a disk that is usually quicker than this is not worth a thread."


class IndexOf(Protocol):
    """The index of a stored value; used when a collection is loaded from disk."""

    def __call__(self, value: bytes) -> Index: ...


class _Write:
    """One write on its way to the disk."""

    __slots__ = ("collection", "deleted", "done", "entry", "previous")

    def __init__(self, collection: Collection, entry: Entry, previous: Entry | None, deleted: bool) -> None:
        self.collection, self.entry, self.previous, self.deleted = collection, entry, previous, deleted
        self.done: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()

    def row(self) -> Row:
        prev = self.previous.rev if self.previous else 0
        return Row(self.entry.rev, f"{self.collection.name}/{self.entry.key}", prev, self.deleted, self.entry.value)


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
        self._pending: dict[str, _Write] = {}
        self._history: deque[Event] = deque()
        self._untold: list[Event] = []
        self._told_s = float("-inf")
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
        """The entries as they were at an older revision."""
        self._store.check_revision(rev)
        if rev >= self._forgotten:
            undone = self._undone(rev, prefix, start_after)
            if not undone:
                return self.entries(prefix, start_after, limit)
            # However many of the newer entries are undone, enough are left to fill the page.
            newer = self.entries(prefix, start_after, limit + len(undone) if limit else 0)
            then: dict[str, Entry | None] = {entry.key: entry for entry in newer}
            then |= undone
            found = [was for key in sorted(then) if (was := then[key]) is not None]
            return found[:limit] if limit else found
        found = await self._store.reading(self._entries_from_disk, rev, prefix, start_after, limit)
        self._store.check_revision(rev)
        return found

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

    async def put(self, key: str, expect_rev: int, build: Callable[[int], bytes], index: Index) -> Entry:
        """Write an object whose newest revision must be `expect_rev` (0: it must not exist).

        `build` gets the new revision and gives the bytes. Returns when they are on disk.
        """
        previous = self._expected(key, expect_rev)
        rev = self._store.next_revision()
        return await self._store.enqueue(_Write(self, Entry(key, rev, build(rev), index), previous, deleted=False))

    async def delete(self, key: str, expect_rev: int, build: Callable[[int], bytes]) -> Entry:
        """Remove an object. `build` gives its last state, as watchers see it deleted."""
        previous = self._expected(key, expect_rev)
        if previous is None:
            raise Raced
        rev = self._store.next_revision()
        entry = Entry(key, rev, build(rev), previous.index)
        return await self._store.enqueue(_Write(self, entry, previous, deleted=True))

    async def settled(self, entry: Entry) -> None:
        """Wait until what `head` gave is on disk. Raises WriteFailed if it could not be put there."""
        pending = self._pending.get(entry.key)
        if pending is not None and pending.entry.rev >= entry.rev:
            await asyncio.shield(pending.done)

    async def watch(
        self, from_rev: int, wanted: Callable[[Event], bool] | None = None
    ) -> tuple[list[Event], Subscription]:
        """What happened after `from_rev`, and a queue of what happens from now on, without a gap between them."""
        self._store.check_revision(from_rev)
        older: list[Event] = []
        reached = from_rev
        while reached < self._forgotten:
            until = self._history[0].rev - 1 if self._history else self._store.revision
            older += await self._store.reading(self._events_from_disk, reached, until)
            # Memory may have moved on meanwhile, and the disk's history even past where the watch begins.
            self._store.check_revision(from_rev)
            reached = until
        # Before the newcomer is there, to whom it is all history.
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

    def _stage(self, write: _Write) -> None:
        self._pending[write.entry.key] = write

    def _unstage_all(self) -> None:
        self._pending.clear()

    def _publish(self, write: _Write) -> Event:
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
        event = Event(kind, entry, previous)
        self._history.append(event)
        for listener in self.listeners:
            listener(event)
        return event

    def _tell(self, events: list[Event]) -> None:
        """Let the watchers know of a group, now or soon."""
        if not self.subscriptions:
            return
        self._untold += events
        if self._telling is None:
            loop = asyncio.get_running_loop()
            next_s = self._told_s + self._store.limits.tell_every_s
            if loop.time() >= next_s:
                self.tell_now()
            else:
                self._telling = loop.call_at(next_s, self.tell_now)

    def tell_now(self) -> None:
        """Let the watchers know of all that was committed. What they encode for each other is kept no longer."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        events, self._untold = self._untold, []
        if not events:
            return
        self._told_s = asyncio.get_running_loop().time()
        for subscription in self.subscriptions:
            subscription.push(events)
        for event in events:
            event.frames.clear()

    def _oldest_event_rev(self) -> int:
        return self._history[0].rev

    def _forget_oldest(self) -> Event:
        event = self._history.popleft()
        self._forgotten = event.rev
        return event

    def _load(self, rows: Iterable[Row]) -> None:
        for row in rows:
            entry = self._entry(row)
            self._committed[entry.key] = entry
        self._keys = sorted(self._committed)

    def _entry(self, row: Row) -> Entry:
        key = row.key[len(self.name) + 1 :]
        live = self._committed.get(key)
        return live if live and live.rev == row.rev else Entry(key, row.rev, row.value, self.index_of(row.value))

    def _entries_from_disk(self, rev: int, prefix: str, start_after: str, limit: int) -> list[Entry]:
        rows = self._store.log.at(rev, f"{self.name}/{prefix}", f"{self.name}/{start_after}", limit)
        return [self._entry(row) for row in rows]

    def _events_from_disk(self, from_rev: int, until: int) -> list[Event]:
        events = []
        for row, replaced in self._store.log.since(from_rev, until, self.name):
            previous = self._entry(replaced) if replaced else None
            kind: EventType = "DELETED" if row.deleted else "MODIFIED" if previous else "ADDED"
            events.append(Event(kind, self._entry(row), previous))
        return events


class Store:
    """All collections. Open it with `Store.open`, run its writer with `run`, and `close` it at the end."""

    def __init__(self, revision_log: RevisionLog, limits: Limits, clock_s: Callable[[], float]) -> None:
        self.log, self.limits = revision_log, limits
        self.revision = revision_log.revision()
        self.oldest = revision_log.compacted()
        self._clock_s = clock_s
        self._given = self.revision
        self._collections: dict[str, Collection] = {}
        self._unclaimed: dict[str, list[Row]] = {}
        self._queue: list[_Write] = []
        self._work = asyncio.Event()
        self._closing = False
        self.ending = False
        "Whether watches come to their end."
        self.fault = ""
        "Why the last write was refused by the disk; empty while writes succeed."
        self.on_commit: Callable[[int, float], None] = _nothing
        "Told of every group: how many writes, and the seconds until they were on disk."
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="store-reader")
        self._history_order: deque[Collection] = deque()
        self._history_bytes = 0
        self._commit_s = 1.0
        "What a commit took lately; at first a guess, since the disk is not known."
        self._was_alone = False
        self._ages: deque[tuple[float, int]] = deque([(clock_s(), self.revision)])
        "When revisions were reached, about a second apart."
        self._advanced: set[asyncio.Future[None]] = set()
        for row in revision_log.live():
            self._unclaimed.setdefault(row.key.partition("/")[0], []).append(row)

    @classmethod
    async def open(
        cls,
        directory: Path,
        durability: Durability = "full",
        limits: Limits | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> Store:
        revision_log = RevisionLog(directory, durability)
        try:
            return cls(revision_log, limits or Limits(), clock_s)
        except sqlite3.Error as error:
            revision_log.close()
            raise DataDirUnusable(f"{revision_log.path} cannot be read: {error}") from error

    def close(self) -> None:
        self._closing = True
        self._writer.shutdown(wait=True)
        self._reader.shutdown(wait=True)
        self.log.close()

    def collection(self, name: str, index_of: IndexOf) -> Collection:
        """The collection of that name, loaded from disk when first asked for."""
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = Collection(self, name, index_of)
            found._load(self._unclaimed.pop(name, ()))
        return found

    def collections(self) -> Iterable[Collection]:
        return self._collections.values()

    def end_watches(self) -> None:
        """Let every watch end as if its time were up: its client resumes at the next server."""
        self.ending = True
        for collection in self._collections.values():
            collection.tell_now()
            for subscription in collection.subscriptions:
                subscription.end()

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
        while self.revision < rev and loop.time() < deadline:
            waiter = loop.create_future()
            handle = loop.call_at(deadline, wake, waiter)
            self._advanced.add(waiter)
            try:
                await waiter
            finally:
                handle.cancel()
                self._advanced.discard(waiter)
        return self.revision >= rev

    async def enqueue(self, write: _Write) -> Entry:
        if self._closing:
            raise WriteFailed("the server is stopping")
        write.collection._stage(write)
        self._queue.append(write)
        self._work.set()
        # A client that goes away does not take its write back: others may already build on it.
        return await asyncio.shield(write.done)

    async def run(self) -> None:
        """The one writer: a group at a time, until cancelled; what is queued by then is still written."""
        writing = asyncio.create_task(self._write_groups())
        try:
            await asyncio.shield(writing)
        finally:
            self._closing = True
            self._work.set()
            await writing

    async def _write_groups(self) -> None:
        while self._queue or not self._closing:
            await self._next_work()
            self._work.clear()
            if self._queue:
                await self._commit_group()
                await self._tidy()

    async def _next_work(self) -> None:
        """Wait for writes; meanwhile a disk that refused some is tried, so that others learn when it takes them."""
        while self.fault and not self._work.is_set():
            try:
                async with asyncio.timeout(PROBE_EVERY_S):
                    await self._work.wait()
            except TimeoutError:
                await self._probe()
        await self._work.wait()

    async def _probe(self) -> None:
        try:
            await self._writing(self.log.probe)
        except (sqlite3.Error, OSError) as error:
            self.fault = str(error)
        else:
            self.fault = ""
            log.info("the disk takes writes again")

    async def reading(self, call: Callable[..., T], *args: object) -> T:
        """Reads of history, off the event loop and out of the writer's way."""
        return await asyncio.get_running_loop().run_in_executor(self._reader, call, *args)

    async def _writing(self, call: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer, call, *args)

    async def _commit(self, *, alone: bool) -> None:
        """Put the staged group on disk: from a thread, while requests go on, unless it is one write after another."""
        inline = alone and self._was_alone and self._commit_s < self.limits.inline_commit_s
        self._was_alone = alone
        took_s = self._timed_commit() if inline else await self._writing(self._timed_commit)
        self._commit_s += (took_s - self._commit_s) / 8

    def _timed_commit(self) -> float:
        began_s = time.perf_counter()
        self.log.commit()
        return time.perf_counter() - began_s

    async def _commit_group(self) -> None:
        group, self._queue = self._queue, []
        began_s = time.perf_counter()
        try:
            # Here rather than in the thread: there each row would wait for its turn at the interpreter.
            self.log.stage([write.row() for write in group])
            await self._commit(alone=len(group) == 1)
        except (sqlite3.Error, OSError, ValueError) as error:
            self.log.roll_back()
            self._fail(group, error)
            return
        self.fault = ""
        self.on_commit(len(group), time.perf_counter() - began_s)
        self._publish(group)
        self._trim()
        for waiter in self._advanced:
            wake(waiter)

    def _publish(self, group: list[_Write]) -> None:
        told: dict[Collection, list[Event]] = {}
        for write in group:
            self.revision = write.entry.rev
            event = write.collection._publish(write)
            self._history_order.append(write.collection)
            self._history_bytes += event.weight_bytes
            told.setdefault(write.collection, []).append(event)
        for collection, events in told.items():
            collection._tell(events)
        for write in group:
            write.done.set_result(write.entry)

    def _fail(self, group: list[_Write], error: Exception) -> None:
        self.fault = str(error)
        behind, self._queue = self._queue, []
        refused = group + behind
        log.error("%d writes refused, since the disk did not take them: %s", len(refused), error)
        for collection in self._collections.values():
            collection._unstage_all()
        for write in refused:
            write.done.set_exception(WriteFailed(str(error)))
            # The writer may have gone away; then nobody asks for the exception, and that is no defect.
            write.done.exception()

    def _trim(self) -> None:
        """Drop the oldest events from memory: those the disk has forgotten, and those that weigh too much."""
        order, most_bytes = self._history_order, self.limits.history_bytes
        while order and (self._history_bytes > most_bytes or order[0]._oldest_event_rev() <= self.oldest):
            self._history_bytes -= order.popleft()._forget_oldest().weight_bytes

    async def _tidy(self) -> None:
        """Forget a little of the oldest history; carry the log over into the database when it has grown."""
        step = self.limits.compact_step
        horizon = min(self._horizon(), self.oldest + step)
        try:
            if horizon >= self.oldest + max(1, step // 2):
                # First, so that no reader relies on what is about to go.
                self.oldest = horizon
                await self._writing(self.log.compact, horizon)
            if self.log.is_checkpoint_due:
                await self._writing(self.log.checkpoint)
        except (sqlite3.Error, OSError) as error:
            log.warning("the store could not be tidied up, and grows: %s", error)

    def _horizon(self) -> int:
        """The newest revision that is too old to keep."""
        now_s = self._clock_s()
        if now_s - self._ages[-1][0] >= 1.0:
            self._ages.append((now_s, self.revision))
        while len(self._ages) > 1 and self._ages[1][0] <= now_s - self.limits.disk_age_s:
            self._ages.popleft()
        reached_s, rev = self._ages[0]
        too_old = rev if reached_s <= now_s - self.limits.disk_age_s else 0
        return max(too_old, self.revision - self.limits.disk_revisions)


def _nothing(_writes: int, _took_s: float) -> None: ...
