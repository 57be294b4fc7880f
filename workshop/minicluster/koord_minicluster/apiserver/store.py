"""What the server knows: objects as bytes in memory, every write on disk before anyone hears of it.

Writers look at `head` (newest, perhaps not yet on disk), readers at `get` and `entries` (only what is on disk). A write
gets its revision at once and waits in a queue; one task writes the whole queue as one group, then publishes it: the
committed view, the watchers, the waiting requests, in that order and in one step of the event loop. Writes that are
queued in one step are in one group: all of them are on disk, or none.

A group that cannot be written (disk full) fails with all that queued behind it, since later writes may build on it.
Revisions are never given twice while the server runs, so that a writer that saw a failed one cannot mistake another
write for it.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from koord_minicluster.apiserver.collection import (
    Collection,
    Compacted,
    FutureRevision,
    IndexOf,
    Raced,
    Write,
    WriteFailed,
)
from koord_minicluster.apiserver.events import Change, Ended, Entry, EventType, Index, Overflow, Subscription, wake
from koord_minicluster.apiserver.revision_log import Damaged, Durability, RevisionLog, Row
from koord_minicluster.apiserver.worker import Worker

__all__ = [
    "Change",
    "Collection",
    "Compacted",
    "Ended",
    "Entry",
    "EventType",
    "FutureRevision",
    "Index",
    "Overflow",
    "Raced",
    "Store",
    "StoreLimits",
    "Subscription",
    "WriteFailed",
]

log = logging.getLogger(__name__)

T = TypeVar("T")

UNKNOWN_S = float("inf")
PROBE_EVERY_S = 1.0
"How often a disk that refused a write is tried again."


@dataclass(frozen=True, slots=True)
class StoreLimits:
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
    "Watchers get an event at once if none came for this long; otherwise together with the others of that time."
    inline_commit_s: float = 0.0005
    "A lone write to a disk that is usually quicker than this is not worth a thread."
    quiet_commit_s: float = 0.02
    "The same limit while no other requests arrive."


class Store:
    """All collections. Open it with `Store.open`, run its writer with `run`, and `close` it at the end."""

    def __init__(self, revision_log: RevisionLog, limits: StoreLimits, clock_s: Callable[[], float]) -> None:
        self.log, self.limits = revision_log, limits
        self.revision = revision_log.revision()
        self.oldest = revision_log.compacted()
        self._clock_s = clock_s
        self._given = self.revision
        self._collections: dict[str, Collection] = {}
        self._unclaimed: dict[str, list[Row]] = {}
        self._queue: list[Write] = []
        self._group: list[Write] = []
        "What is being written."
        self._work = asyncio.Event()
        self._closing = False
        self.ending = False
        "Whether watches come to their end."
        self.fault = ""
        "Why the last write was refused by the disk; empty while writes succeed."
        self.requests: Callable[[], int] = lambda: 0
        "How many requests there were so far."
        self.on_commit: Callable[[int, float], None] = _nothing
        "Told of every group: how many writes, and the seconds until they were on disk."
        self._writer = Worker("store-writer")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="store-reader")
        self._history_order: deque[Collection] = deque()
        self._history_bytes = 0
        self._commit_s = UNKNOWN_S
        "What a commit took lately."
        self._was_alone = False
        self._requests_before = 0
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
        limits: StoreLimits | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> Store:
        revision_log = RevisionLog(directory, durability)
        try:
            return cls(revision_log, limits or StoreLimits(), clock_s)
        except (sqlite3.Error, TypeError, ValueError, AttributeError) as error:
            revision_log.close()
            raise Damaged(revision_log.path, f"it cannot be read: {error}") from error

    def close(self) -> None:
        self._closing = True
        self._writer.close()
        self._reader.shutdown(wait=True)
        self.log.close()

    def collection(self, name: str, index_of: IndexOf) -> Collection:
        """The collection of that name, loaded from disk when first asked for."""
        collection = self._collections.get(name)
        if collection is None:
            collection = self._collections[name] = Collection(self, name, index_of)
            collection.load(self._unclaimed.pop(name, ()))
        return collection

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

    def enqueue(self, write: Write) -> Awaitable[Entry]:
        done = write.done()
        if self._closing:
            write.fail(WriteFailed(self.fault or "the server is stopping"))
            return done
        write.collection.stage(write)
        self._queue.append(write)
        self._work.set()
        return done

    async def run(self) -> None:
        """The one writer: a group at a time, until cancelled; what is queued by then is still written."""
        writing = asyncio.create_task(self._write_groups())
        try:
            await asyncio.shield(writing)
        except Exception as error:
            # A defect: only the disk shows which writes succeeded. No write may keep waiting for an answer, and the
            # caller must start again from the disk.
            self._closing = True
            self._fail(self._group, f"the store's writer has failed: {error!r}")
            raise
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
        """Wait for writes. While the disk is refusing writes, probe it, so that `fault` clears when it recovers."""
        while self.fault and not self._work.is_set():
            try:
                async with asyncio.timeout(PROBE_EVERY_S):
                    await self._work.wait()
            except TimeoutError:
                await self._probe()
        await self._work.wait()

    async def _probe(self) -> None:
        try:
            await self._writer.call(self.log.probe)
        except (sqlite3.Error, OSError) as error:
            self.fault = str(error)
        else:
            self.fault = ""
            log.info("the disk takes writes again")

    async def reading(self, call: Callable[..., T], *args: object) -> T:
        """Reads of history, off the event loop and out of the writer's way."""
        return await asyncio.get_running_loop().run_in_executor(self._reader, call, *args)

    async def _commit(self, rows: list[Row]) -> None:
        """Put a group on disk: from a thread, while requests go on, unless it is one write after another.

        A thread costs two changes of context, which on a busy machine are what a lone writer waits for most.
        """
        alone, requests = len(rows) == 1, self.requests()
        quiet = requests - self._requests_before <= 1
        self._requests_before = requests
        bearable_s = max(self.limits.inline_commit_s, self.limits.quiet_commit_s if quiet else 0.0)
        inline = alone and self._was_alone and self._commit_s < bearable_s
        self._was_alone = alone
        took_s = self._timed_commit(rows) if inline else await self._writer.call(partial(self._timed_commit, rows))
        self._commit_s = took_s if self._commit_s == UNKNOWN_S else self._commit_s + (took_s - self._commit_s) / 8

    def _timed_commit(self, rows: list[Row]) -> float:
        began_s = time.perf_counter()
        self.log.commit(rows)
        return time.perf_counter() - began_s

    async def _commit_group(self) -> None:
        group, self._queue = self._queue, []
        self._group = group
        began_s = time.perf_counter()
        try:
            await self._commit([write.row() for write in group])
        except (sqlite3.Error, OSError, ValueError) as error:
            self._fail(group, str(error))
            return
        self.fault = ""
        self.on_commit(len(group), time.perf_counter() - began_s)
        self._publish(group)
        self._trim()
        self._group = []
        for waiter in self._advanced:
            wake(waiter)

    def _publish(self, group: list[Write]) -> None:
        by_collection: dict[Collection, list[Change]] = {}
        for write in group:
            self.revision = write.entry.rev
            event = write.collection.publish(write)
            self._history_order.append(write.collection)
            self._history_bytes += event.weight_bytes
            by_collection.setdefault(write.collection, []).append(event)
        for collection, events in by_collection.items():
            collection.tell(events)
        for write in group:
            write.succeed()

    def _fail(self, group: list[Write], why: str) -> None:
        self.fault = why
        behind, self._queue = self._queue, []
        refused = group + behind
        log.error("%d writes refused: %s", len(refused), why)
        for collection in self._collections.values():
            collection.unstage_all()
        for write in refused:
            write.fail(WriteFailed(why))

    def _trim(self) -> None:
        """Drop the oldest events from memory: those the disk has forgotten, and those that weigh too much."""
        order, most_bytes = self._history_order, self.limits.history_bytes
        while order and (self._history_bytes > most_bytes or order[0].oldest_event_rev() <= self.oldest):
            self._history_bytes -= order.popleft().forget_oldest().weight_bytes

    async def _tidy(self) -> None:
        """Forget a little of the oldest history; carry the log over into the database when it has grown."""
        step = self.limits.compact_step
        horizon = min(self._horizon(), self.oldest + step)
        try:
            if horizon >= self.oldest + max(1, step // 2):
                # First, so that no reader relies on what is about to go.
                self.oldest = horizon
                await self._writer.call(partial(self.log.compact, horizon))
            if self.log.is_checkpoint_due:
                await self._writer.call(self.log.checkpoint)
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
