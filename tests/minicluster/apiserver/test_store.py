"""The store against a plain model, and its promises under failing disks and slow readers."""

from __future__ import annotations

import asyncio
import queue
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from koord_minicluster.apiserver import revision_log
from koord_minicluster.apiserver.revision_log import DataDirInUse, DataDirUnusable, Row
from koord_minicluster.apiserver.store import (
    Change,
    Collection,
    Compacted,
    Ended,
    FutureRevision,
    Index,
    Overflow,
    Raced,
    Store,
    StoreLimits,
    Subscription,
    WriteFailed,
)
from tests.waiting import eventually, turns

T = TypeVar("T")
KEYS = ("a/1", "a/2", "ab/1", "b/1", "b/2")
NAMES = st.sampled_from(["pods", "nodes"])
PREFIXES = ("", "a/", "b/")


def index_of(value: bytes) -> Index:
    return Index({"value": value.decode()}, {}, uid="")


def value_at(key: str) -> Callable[[int], bytes]:
    return lambda rev: f"{key}@{rev}".encode()


async def put(collection: Collection, key: str, expect_rev: int | None = None) -> int:
    """Write the key over whatever it is."""
    head = collection.head(key)
    expected = expect_rev if expect_rev is not None else head.rev if head else 0
    return (await collection.put(key, expected, value_at(key), index_of(b""))).rev


async def remove(collection: Collection, key: str) -> int:
    head = collection.head(key)
    assert head is not None
    return (await collection.delete(key, head.rev, value_at(key))).rev


def everything(_event: Change) -> bool:
    return True


def seen(events: list[Change]) -> list[tuple[str, str, int, bytes | None]]:
    return [(e.type, e.entry.key, e.rev, e.previous.value if e.previous else None) for e in events]


@asynccontextmanager
async def opened(directory: Path, **limits: Any) -> AsyncIterator[Store]:
    # Tests hold commits up, which must not hold up the event loop.
    store = await Store.open(
        directory, limits=StoreLimits(**{"inline_commit_s": 0, "quiet_commit_s": 0, "tell_every_s": 0, **limits})
    )
    writer = asyncio.create_task(store.run())
    try:
        yield store
    finally:
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)
        store.close()


class Gate:
    """Stands before a store's commits. Once closed, each `pass_one` lets one of them through, or breaks it."""

    def __init__(self, store: Store) -> None:
        self._commit = store.log.commit
        self._tokens: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.is_open, self.is_holding = True, False
        store.log.commit = self.commit  # type: ignore[method-assign]

    def commit(self, rows: Sequence[Row]) -> None:
        broken = False
        if not self.is_open:
            self.is_holding = True
            broken = self._tokens.get(timeout=30)
            self.is_holding = False
        if broken:
            raise sqlite3.OperationalError("database or disk is full")
        self._commit(rows)

    def close(self) -> None:
        self.is_open = False

    def pass_one(self, *, broken: bool = False) -> None:
        self._tokens.put(broken)

    def open(self) -> None:
        """Let through what waits and all that comes."""
        self.is_open = True
        self._tokens.put(False)


class Happened(NamedTuple):
    """An event as the model has it."""

    type: str
    key: str
    rev: int
    previous: bytes | None


class Waiting(NamedTuple):
    """A write that is not on disk yet."""

    name: str
    key: str
    rev: int
    deleted: bool
    task: asyncio.Task[int]


class Watcher(NamedTuple):
    collection: str
    from_rev: int
    subscription: Subscription
    received: list[tuple[str, str, int, bytes | None]]


class StoreModel(RuleBasedStateMachine):
    """Random writes, held and failing commits, reads of the past, watches and restarts against dicts and lists."""

    watchers: Bundle[Watcher] = Bundle("watchers")

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="koord-store-"))
        self.loop = asyncio.new_event_loop()
        self.committed: dict[str, dict[str, int]] = {"pods": {}, "nodes": {}}
        self.head: dict[str, dict[str, int]] = {"pods": {}, "nodes": {}}
        self.history: dict[str, list[Happened]] = {"pods": [], "nodes": []}
        self.in_flight: list[Waiting] = []
        self.behind: list[Waiting] = []
        self.alive: list[Watcher] = []
        self.newest = self.given = 0
        self._open()

    def _open(self) -> None:
        async def start() -> tuple[Store, asyncio.Task[None]]:
            store = await Store.open(
                self.directory,
                limits=StoreLimits(
                    history_bytes=3000,
                    disk_revisions=12,
                    compact_step=4,
                    inline_commit_s=0,
                    quiet_commit_s=0,
                    tell_every_s=0,
                ),
            )
            return store, asyncio.create_task(store.run())

        self.store, self.writer = self.loop.run_until_complete(start())
        self.gate = Gate(self.store)
        self.collections = {name: self.store.collection(name, index_of) for name in self.committed}

    def do(self, work: Awaitable[T]) -> T:
        async def bounded() -> T:
            return await asyncio.wait_for(work, 60)

        return self.loop.run_until_complete(bounded())

    def _rest(self) -> None:
        """Let the writer come to where it waits: for work, or at the gate. It may have history to forget before."""

        async def resting() -> None:
            await eventually(lambda: self.store._work._waiters or self.gate.is_holding)

        self.do(resting())

    def _stop(self) -> None:
        self.writer.cancel()
        self.do(asyncio.wait([self.writer]))
        self.store.close()

    def teardown(self) -> None:
        self._settle()
        self._stop()
        self.loop.close()
        shutil.rmtree(self.directory)

    @initialize(keys=st.lists(st.tuples(NAMES, st.sampled_from(KEYS)), min_size=15, max_size=15))
    def some_history(self, keys: list[tuple[str, str]]) -> None:
        self.write([(name, key, 3) for name, key in keys])

    @rule(writes=st.lists(st.tuples(NAMES, st.sampled_from(KEYS), st.integers(0, 7)), min_size=1, max_size=8))
    def write(self, writes: list[tuple[str, str, int]]) -> None:
        """Several writes at once. Some are deletions, and one in eight names a revision that is not the newest."""
        for name, key, chance in writes:
            newest = self.head[name].get(key, 0)
            deleted = chance in (1, 2)
            if chance == 0 or (deleted and not newest):
                self._refused(name, key, newest + 1, deleted)
            else:
                self._begin(name, key, newest, deleted)
        if self.gate.is_open:
            self._finish(self.in_flight + self.behind)
            self.in_flight, self.behind = [], []

    def _refused(self, name: str, key: str, expected: int, deleted: bool) -> None:
        collection = self.collections[name]
        with pytest.raises(Raced):
            if deleted:
                self.do(collection.delete(key, expected, value_at(key)))
            else:
                self.do(put(collection, key, expected))

    def _begin(self, name: str, key: str, expected: int, deleted: bool) -> None:
        collection = self.collections[name]

        async def written() -> int:
            if deleted:
                return (await collection.delete(key, expected, value_at(key))).rev
            return await put(collection, key, expected)

        async def started() -> asyncio.Task[int]:
            task = asyncio.create_task(written())
            await turns(5)
            return task

        idle = not self.in_flight
        task = self.loop.run_until_complete(started())
        self.given += 1
        write = Waiting(name, key, self.given, deleted, task)
        # The writer takes what is queued when it begins; what comes during its commit is the next group.
        (self.in_flight if idle else self.behind).append(write)
        if deleted:
            del self.head[name][key]
        else:
            self.head[name][key] = write.rev

    @rule()
    def hold_commits(self) -> None:
        self.gate.close()

    @precondition(lambda self: self.in_flight)
    @rule()
    def let_one_commit_through(self) -> None:
        self.gate.pass_one()
        group, self.in_flight, self.behind = self.in_flight, self.behind, []
        self._finish(group)

    @precondition(lambda self: self.in_flight)
    @rule()
    def break_one_commit(self) -> None:
        """All that waits fails: the group that was on its way, and what queued behind it."""
        self.gate.pass_one(broken=True)
        for write in self.in_flight + self.behind:
            with pytest.raises(WriteFailed):
                self.do(write.task)
        self.in_flight, self.behind = [], []
        self._rest()
        self.head = {name: dict(keys) for name, keys in self.committed.items()}

    def _finish(self, group: list[Waiting]) -> None:
        for name, key, rev, deleted, task in group:
            assert self.do(task) == rev
            self.newest = rev
            was = self.committed[name].get(key)
            previous = f"{key}@{was}".encode() if was else None
            kind = "DELETED" if deleted else "MODIFIED" if was else "ADDED"
            self.history[name].append(Happened(kind, key, rev, previous))
            if deleted:
                del self.committed[name][key]
            else:
                self.committed[name][key] = rev
        self._rest()

    def _settle(self) -> None:
        if not self.gate.is_open:
            self.gate.open()
        self._finish(self.in_flight + self.behind)
        self.in_flight, self.behind = [], []

    @precondition(lambda self: self.newest > 25)
    @rule()
    def restart(self) -> None:
        """What was never given to anyone may be given again."""
        self._settle()
        self._stop()
        self.alive.clear()
        self.given = self.newest
        self._open()

    @rule(
        target=watchers,
        name=NAMES,
        age=st.integers(0, 15),
        prefix=st.sampled_from(PREFIXES),
    )
    def watch(self, name: str, age: int, prefix: str) -> Watcher:
        """From any revision: the past that is still known, then the present, nothing twice and nothing missing."""
        from_rev = max(0, self.newest - age)
        wanted = lambda event: event.entry.key.startswith(prefix)  # noqa: E731
        closed = Watcher(name, from_rev, Subscription(everything, 1, lambda _: None), [])
        if from_rev < self.store.oldest:
            with pytest.raises(Compacted):
                self.do(self.collections[name].watch(from_rev, wanted))
            return closed
        past, subscription = self.do(self.collections[name].watch(from_rev, wanted))
        expected = [e for e in self.history[name] if e.rev > from_rev and e.key.startswith(prefix)]
        assert seen(past) == expected
        if prefix:
            subscription.close()
            return closed
        watcher = Watcher(name, from_rev, subscription, seen(past))
        self.alive.append(watcher)
        return watcher

    @rule(watcher=consumes(watchers))
    def close_watch(self, watcher: Watcher) -> None:
        if watcher in self.alive:
            watcher.subscription.close()
            self.alive.remove(watcher)

    @rule(
        name=NAMES,
        age=st.integers(0, 15),
        prefix=st.sampled_from(PREFIXES),
        start_after=st.sampled_from(["", "a/1", "a/2", "b/1"]),
        limit=st.integers(0, 3),
    )
    def list_the_past(self, name: str, age: int, prefix: str, start_after: str, limit: int) -> None:
        rev = max(0, self.newest - age)
        collection = self.collections[name]
        if rev < self.store.oldest:
            with pytest.raises(Compacted):
                self.do(collection.entries_at(rev, prefix, start_after, limit))
            return
        then: dict[str, int] = {}
        for event in self.history[name]:
            if event.rev <= rev:
                then[event.key] = event.rev
                if event.type == "DELETED":
                    del then[event.key]
        expected = [(key, then[key]) for key in sorted(then) if key.startswith(prefix) and key > start_after]
        entries = self.do(collection.entries_at(rev, prefix, start_after, limit))
        assert [(entry.key, entry.rev) for entry in entries] == expected[: limit or None]
        assert [entry.value for entry in entries] == [f"{entry.key}@{entry.rev}".encode() for entry in entries]
        assert self.do(collection.count_at(rev, prefix, start_after)) == len(expected)

    @invariant()
    def readers_see_what_is_on_disk_and_writers_the_newest(self) -> None:
        assert self.store.revision == self.newest
        for name, collection in self.collections.items():
            assert {entry.key: entry.rev for entry in collection.entries()} == self.committed[name]
            assert [entry.key for entry in collection.entries()] == sorted(self.committed[name])
            for key in KEYS:
                entry, head = collection.get(key), collection.head(key)
                assert (entry.rev if entry else None) == self.committed[name].get(key)
                assert (head.rev if head else None) == self.head[name].get(key)

    @invariant()
    def watchers_saw_every_write_once_and_in_order(self) -> None:
        for watcher in self.alive:
            watcher.received.extend(seen(self.do(watcher.subscription.batch(0))))
            assert watcher.received == [e for e in self.history[watcher.collection] if e.rev > watcher.from_rev]


StoreModel.TestCase.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestStoreModel = StoreModel.TestCase


async def test_nothing_is_visible_before_it_is_on_disk(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        pods = store.collection("pods", index_of)
        await put(pods, "a/1")
        gate = Gate(store)
        gate.close()
        changes: list[Change] = []
        pods.listeners.append(changes.append)
        _, watcher = await pods.watch(store.revision, everything)
        writes = [asyncio.create_task(put(pods, key)) for key in ("a/1", "a/2")]
        await eventually(lambda: gate.is_holding)
        head, entry = pods.head("a/1"), pods.get("a/1")
        assert head is not None
        assert entry is not None
        assert (head.rev, entry.rev, store.revision) == (2, 1, 1)
        assert pods.get("a/2") is None
        assert [e.key for e in pods.entries()] == ["a/1"]
        assert (await watcher.batch(0), changes, [w.done() for w in writes]) == ([], [], [False, False])
        assert not await store.reached(2, 0.01)
        gate.open()
        assert await asyncio.gather(*writes) == [2, 3]
        assert [e.rev for e in await watcher.batch(1)] == [e.rev for e in changes] == [2, 3]


async def test_writes_that_came_meanwhile_share_one_commit(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        pods = store.collection("pods", index_of)
        commits = 0
        commit = store.log.commit

        def counted(rows: Sequence[Row]) -> None:
            nonlocal commits
            commits += 1
            commit(rows)

        store.log.commit = counted  # type: ignore[method-assign]
        await asyncio.gather(*(put(pods, f"a/{i}") for i in range(100)))
        assert commits <= 2


@pytest.mark.parametrize("quick_s", [0.0, 60.0])
async def test_lone_writes_need_no_thread_where_the_disk_is_quick(tmp_path: Path, quick_s: float) -> None:
    async with opened(tmp_path, inline_commit_s=quick_s) as store:
        pods = store.collection("pods", index_of)
        threads = []
        commit = store.log.commit

        def noted(rows: Sequence[Row]) -> None:
            threads.append(threading.current_thread())
            commit(rows)

        store.log.commit = noted  # type: ignore[method-assign]
        for _ in range(5):
            await put(pods, "a/1")
        await asyncio.gather(*(put(pods, f"a/{i}") for i in range(5)))
        on_loop = [thread is threading.current_thread() for thread in threads]
        assert on_loop == [False, quick_s > 0, quick_s > 0, quick_s > 0, quick_s > 0, False]


@pytest.mark.parametrize("others", [0, 1, 5])
async def test_lone_writes_block_nobody_else(tmp_path: Path, others: int) -> None:
    async with opened(tmp_path, quiet_commit_s=60.0) as store:
        pods = store.collection("pods", index_of)
        threads = []
        commit, requests = store.log.commit, 0

        def noted(rows: Sequence[Row]) -> None:
            threads.append(threading.current_thread())
            commit(rows)

        store.log.commit = noted  # type: ignore[method-assign]
        store.requests = lambda: requests
        for _ in range(4):
            requests += 1 + others
            await put(pods, "a/1")
        on_loop = [thread is threading.current_thread() for thread in threads]
        assert on_loop == [False, *[others == 0] * 3]


async def test_the_log_is_carried_over_into_the_database_when_it_has_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revision_log, "_BYTES_BEFORE_CHECKPOINT", 300_000)
    async with opened(tmp_path) as store:
        pods = store.collection("pods", index_of)
        for _ in range(500):
            await put(pods, "a/1")
        assert (tmp_path / "store.sqlite-wal").stat().st_size < 2_000_000
        assert (tmp_path / "store.sqlite").stat().st_size > 20_000


async def test_a_failed_commit_takes_back_what_was_built_on_it_and_the_store_goes_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        pods = store.collection("pods", index_of)
        await put(pods, "a/1")
        gate = Gate(store)
        gate.close()
        first = asyncio.create_task(put(pods, "a/1"))
        await eventually(lambda: gate.is_holding)
        failed_head = pods.head("a/1")
        assert failed_head is not None
        behind = asyncio.create_task(put(pods, "a/1"))
        await asyncio.sleep(0)
        gate.pass_one(broken=True)
        for task in (first, behind):
            with pytest.raises(WriteFailed, match="full"):
                await task
        gate.open()
        head = pods.head("a/1")
        assert head is not None
        assert head.rev == 1
        again = await put(pods, "a/1")
        assert again > failed_head.rev, "a writer that saw the failed revision must not find another write under it"
        with pytest.raises(Raced):
            await put(pods, "a/1", failed_head.rev)


async def test_a_full_database_refuses_writes_and_takes_them_again_when_there_is_room(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        pods = store.collection("pods", index_of)
        await put(pods, "a/1")
        pages = store.log._db.execute("PRAGMA page_count").fetchone()[0]
        store.log._db.execute(f"PRAGMA max_page_count = {pages + 1}")
        big = lambda rev: b"x" * 100_000  # noqa: E731
        with pytest.raises(WriteFailed, match="full"):
            await pods.put("a/big", 0, big, index_of(b""))
        assert pods.get("a/big") is None
        assert [e.key for e in pods.entries()] == ["a/1"]
        await put(pods, "a/2")
        store.log._db.execute("PRAGMA max_page_count = 1000000")
        await pods.put("a/big", 0, big, index_of(b""))
    async with opened(tmp_path) as store:
        assert [e.key for e in store.collection("pods", index_of).entries()] == ["a/1", "a/2", "a/big"]


async def test_a_disk_that_refused_a_write_is_tried_until_it_takes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koord_minicluster.apiserver.store.PROBE_EVERY_S", 0.01)
    async with opened(tmp_path) as store:
        pods = store.collection("pods", index_of)
        groups: list[int] = []
        store.on_commit = lambda writes, _took_s: groups.append(writes)
        await put(pods, "a/1")
        assert (store.fault, groups) == ("", [1])
        gate = Gate(store)
        gate.close()
        writing = asyncio.create_task(put(pods, "a/2"))
        await eventually(lambda: gate.is_holding)
        gate.pass_one(broken=True)
        with pytest.raises(WriteFailed):
            await writing
        assert "full" in store.fault
        gate.open()
        await eventually(lambda: not store.fault)
        assert groups == [1], "trying is no write"
        assert store.revision == 1


async def test_a_client_that_goes_away_does_not_take_its_write_back(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        pods = store.collection("pods", index_of)
        gate = Gate(store)
        gate.close()
        leaving = asyncio.create_task(put(pods, "a/1"))
        await eventually(lambda: gate.is_holding)
        leaving.cancel()
        await asyncio.sleep(0)
        gate.open()
        await put(pods, "a/1")
        assert [e.rev for e in pods.entries()] == [2]


async def test_what_was_queued_when_the_server_stops_is_written(tmp_path: Path) -> None:
    store = await Store.open(tmp_path, limits=StoreLimits(inline_commit_s=0, quiet_commit_s=0))
    pods = store.collection("pods", index_of)
    gate = Gate(store)
    gate.close()
    writer = asyncio.create_task(store.run())
    first = asyncio.create_task(put(pods, "a/1"))
    await eventually(lambda: gate.is_holding)
    second = asyncio.create_task(put(pods, "a/2"))
    await asyncio.sleep(0)
    writer.cancel()
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(writer, return_exceptions=True)
    assert (await first, await second) == (1, 2)
    with pytest.raises(WriteFailed, match="stopping"):
        await put(pods, "a/3")
    store.close()


async def test_head_can_be_waited_for(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        pods = store.collection("pods", index_of)
        gate = Gate(store)
        gate.close()
        writing = asyncio.create_task(put(pods, "a/1"))
        await eventually(lambda: gate.is_holding)
        head = pods.head("a/1")
        assert head is not None
        waiting = asyncio.create_task(pods.settled(head))
        await turns()
        assert not waiting.done()
        gate.open()
        await waiting
        assert pods.get("a/1") is head
        await writing
        await pods.settled(head)


async def test_a_slow_watcher_is_told_that_it_lost_events_and_disturbs_nobody(tmp_path: Path) -> None:
    async with opened(tmp_path, watch_queue=5) as store:
        pods = store.collection("pods", index_of)
        _, slow = await pods.watch(0, everything)
        _, quick = await pods.watch(0, everything)
        received = []
        for i in range(10):
            await put(pods, f"a/{i}")
            received += await quick.batch(1)
        assert [e.rev for e in received] == list(range(1, 11))
        with pytest.raises(Overflow):
            await slow.batch(0)
        slow.close()
        quick.close()
        assert not pods.subscriptions


async def test_a_watch_that_is_ended_gives_what_it_has_and_then_stops(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        pods = store.collection("pods", index_of)
        _, idle = await pods.watch(0, everything)
        waiting = asyncio.create_task(idle.batch(60))
        await asyncio.sleep(0)
        _, behind = await pods.watch(0, everything)
        await put(pods, "a/1")
        assert [e.rev for e in await waiting] == [1]
        waiting = asyncio.create_task(idle.batch(60))
        await asyncio.sleep(0)
        store.end_watches()
        assert [e.rev for e in await behind.batch(60)] == [1]
        for subscription in (behind, idle, (await pods.watch(1, everything))[1]):
            with pytest.raises(Ended):
                await (waiting if subscription is idle else subscription.batch(60))


async def test_events_in_quick_succession_reach_watchers_together(tmp_path: Path) -> None:
    async with opened(tmp_path, tell_every_s=0.2) as store:
        pods = store.collection("pods", index_of)
        _, watcher = await pods.watch(0, everything)
        await put(pods, "a/1")
        assert [e.rev for e in await watcher.batch(0)] == [1]
        for _ in range(3):
            await put(pods, "a/1")
        assert await watcher.batch(0) == []
        assert [e.rev for e in await watcher.batch(5)] == [2, 3, 4]
        await put(pods, "a/1")
        past, newcomer = await pods.watch(4, everything)
        assert [e.rev for e in past] == [5]
        assert [e.rev for e in await watcher.batch(0)] == [5]
        assert await newcomer.batch(0.3) == []


async def test_a_watch_of_the_future_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        with pytest.raises(FutureRevision):
            await store.collection("pods", index_of).watch(1, everything)


async def test_a_watch_resumes_across_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        pods = store.collection("pods", index_of)
        await put(pods, "a/1")
        await put(pods, "a/1")
        await remove(pods, "a/1")
    async with opened(tmp_path) as store:
        pods = store.collection("pods", index_of)
        await put(pods, "a/1")
        past, subscription = await pods.watch(1, everything)
        assert seen(past) == [
            ("MODIFIED", "a/1", 2, b"a/1@1"),
            ("DELETED", "a/1", 3, b"a/1@2"),
            ("ADDED", "a/1", 4, None),
        ]
        await put(pods, "a/2")
        assert seen(await subscription.batch(1)) == [("ADDED", "a/2", 5, None)]


async def test_writes_during_the_replay_from_disk_are_neither_lost_nor_doubled(tmp_path: Path) -> None:
    async with opened(tmp_path, history_bytes=2000) as store:
        pods = store.collection("pods", index_of)
        for _ in range(50):
            await put(pods, "a/1")
        reading = asyncio.create_task(pods.watch(0, everything))
        for _ in range(50):
            await put(pods, "a/1")
        past, subscription = await reading
        await put(pods, "a/1")
        events = past
        while events[-1].rev < store.revision:
            events += await subscription.batch(1)
        assert [e.rev for e in events] == list(range(1, 102))


async def test_history_is_forgotten_by_age(tmp_path: Path) -> None:
    now_s = 0.0
    store = await Store.open(tmp_path, limits=StoreLimits(disk_age_s=300, compact_step=1), clock_s=lambda: now_s)
    writer = asyncio.create_task(store.run())
    pods = store.collection("pods", index_of)
    for _ in range(3):
        await put(pods, "a/1")
        now_s += 150
    await pods.watch(0, everything)
    for _ in range(4):
        await put(pods, "a/2")
    await eventually(lambda: store.oldest >= 1)
    assert store.oldest <= 3
    with pytest.raises(Compacted):
        await pods.watch(0, everything)
    past, _ = await pods.watch(3, everything)
    assert [e.rev for e in past] == [4, 5, 6, 7]
    writer.cancel()
    await asyncio.gather(writer, return_exceptions=True)
    store.close()


async def test_compaction_keeps_live_objects_and_the_newest_revision(tmp_path: Path) -> None:
    async with opened(tmp_path, disk_revisions=2, compact_step=2) as store:
        pods = store.collection("pods", index_of)
        await put(pods, "a/old")
        for _ in range(20):
            await put(pods, "a/1")
        for _ in range(2):
            await put(pods, "a/2")
            await remove(pods, "a/2")
        rows = store.log._db.execute("SELECT COUNT(*) FROM revision").fetchone()[0]
        assert rows < 12
        newest = store.revision
    async with opened(tmp_path) as store:
        pods = store.collection("pods", index_of)
        assert store.revision == newest
        assert [(e.key, e.rev) for e in pods.entries()] == [("a/1", 21), ("a/old", 1)]
        assert await put(pods, "a/3") == newest + 1


async def test_a_compaction_that_fails_stops_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, disk_revisions=2, compact_step=2) as store:
        pods = store.collection("pods", index_of)

        def broken(horizon: int) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        store.log.compact = broken  # type: ignore[method-assign]
        for i in range(10):
            assert await put(pods, "a/1") == i + 1


async def test_a_collection_claimed_late_has_its_objects(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await put(store.collection("widgets.example.com", index_of), "a/1")
    async with opened(tmp_path) as store:
        await put(store.collection("pods", index_of), "a/1")
        widgets = store.collection("widgets.example.com", index_of)
        assert [e.rev for e in widgets.entries()] == [1]
        assert [e.rev for e in (await widgets.watch(0, everything))[0]] == [1]


async def test_one_process_has_the_directory(tmp_path: Path) -> None:
    async with opened(tmp_path):
        with pytest.raises(DataDirInUse, match="in use by process"):
            await Store.open(tmp_path)
    async with opened(tmp_path):
        pass


async def test_damage_in_the_middle_of_the_file_is_told(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        pods = store.collection("pods", index_of)
        for i in range(200):
            await put(pods, f"a/{i}")
    path = tmp_path / "store.sqlite"
    content = bytearray(path.read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    path.write_bytes(content)
    with pytest.raises(DataDirUnusable, match=f"{path} is damaged"):
        await Store.open(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE revision SET value = x'00ff'",
        "UPDATE revision SET value = '[1]'",
        "UPDATE revision SET key = x'00'",
        "DROP TABLE meta",
        "DROP TABLE revision",
    ],
)
async def test_an_object_that_cannot_be_read_is_named(change: str, tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await put(store.collection("pods", index_of), "a/1")
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as database:
        database.execute(change)
        database.commit()

    def strict_index_of(value: bytes) -> Index:
        return Index({}, {}, msgspec.json.decode(value)["uid"])

    with pytest.raises(DataDirUnusable, match=r"is damaged: (pods/a/1 of revision 1|it) cannot be read"):
        async with opened(tmp_path) as store:
            store.collection("pods", strict_index_of)
