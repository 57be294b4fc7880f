"""Informers against a server that misbehaves: the store is right again, and the deltas said exactly how."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from koord.api.kinds import CONFIG_MAPS
from koord.api.kubernetes.core import ConfigMap
from koord.kube import informer as informer_module
from koord.kube.client import Client
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord.kube.store import Delta, Identity
from tests.kube.manual_clock import ManualClock
from tests.kube.scripted_server import ScriptedServer
from tests.waiting import eventually


class Replay:
    """A handler that rebuilds the state from deltas alone, and notes them."""

    def __init__(self) -> None:
        self.state: dict[str, str] = {}
        self.seen: list[tuple[str, str]] = []

    def __call__(self, delta: Delta[ConfigMap]) -> None:
        old = delta.old.metadata.resource_version if delta.old else None
        assert self.state.get(delta.key) == old, f"{delta.key}: a delta must start from what was last told"
        if delta.new is None:
            del self.state[delta.key]
        else:
            self.state[delta.key] = delta.new.metadata.resource_version
        self.seen.append((delta.type, delta.key.removeprefix("default/")))

    def take(self) -> list[tuple[str, str]]:
        taken, self.seen = self.seen, []
        return taken


def versions(informer: Informer[ConfigMap]) -> dict[str, str]:
    return {record.metadata.key: record.metadata.resource_version for record in informer.list()}


@asynccontextmanager
async def following(server: ScriptedServer, **options: Any) -> AsyncIterator[tuple[Informer[ConfigMap], Replay]]:
    replay = Replay()
    async with Client(server.config) as client:
        informer: Informer[ConfigMap] = Informer(client, CONFIG_MAPS, **options)
        informer.add_handler(replay)
        task = asyncio.create_task(informer.run())
        try:
            await asyncio.wait_for(informer.synced(), 60)
            await eventually(lambda: server.watching > 0)
            yield informer, replay
            assert versions(informer) == replay.state, "deltas replayed give the store"
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def converged(server: ScriptedServer, informer: Informer[ConfigMap], within_s: float = 60.0) -> None:
    await eventually(lambda: versions(informer) == server.versions(), within_s)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer_module, "BACKOFF_BASE_S", 0.05)
    monkeypatch.setattr(informer_module, "BACKOFF_CAP_S", 0.3)


@pytest.fixture(params=[True, False], ids=["watch-list", "pages"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer(watch_list=request.param) as server:
        for number in range(5):
            server.put(f"c{number}", n=str(number))
        yield server


async def test_it_lists_then_follows(server: ScriptedServer) -> None:
    async with following(server) as (informer, replay):
        assert sorted(replay.take()) == [("added", f"c{n}") for n in range(5)]
        server.put("c1", n="changed")
        server.delete("c2")
        server.put("new")
        await converged(server, informer)
        assert replay.take() == [("updated", "c1"), ("deleted", "c2"), ("added", "new")]
        changed = informer.get("default/c1")
        assert changed is not None
        assert changed.data == {"n": "changed"}
        assert informer.resource_version == str(server.version)


async def test_a_list_comes_in_pages_of_one_version() -> None:
    async with ScriptedServer(watch_list=False) as server:
        for number in range(7):
            server.put(f"c{number}")
        async with following(server, page_size=3) as (informer, _):
            assert versions(informer) == server.versions()
        lists = [query for query in server.requests if "watch" not in query and query.get("limit") != "1"]
        assert [query.get("limit") for query in lists] == ["3", "3", "3"]
        assert all("resourceVersion" not in query for query in lists), "a consistent read, never an old one"


async def test_a_broken_watch_is_resumed_where_it_was(server: ScriptedServer) -> None:
    async with following(server) as (informer, replay):
        replay.take()
        server.put("c1", n="before")
        await converged(server, informer)
        seen = informer.resource_version
        server.break_watches()
        server.put("c1", n="meanwhile")
        server.delete("c3")
        await converged(server, informer)
        assert replay.take() == [("updated", "c1"), ("updated", "c1"), ("deleted", "c3")]
        assert [query.get("resourceVersion") for query in server.requests if "watch" in query][-1] == seen
        assert informer.relists == 1


async def test_bookmarks_alone_advance_the_version(server: ScriptedServer) -> None:
    async with following(server) as (informer, _):
        server.bookmark(advance=500)
        await eventually(lambda: informer.resource_version == str(server.version))
        server.compact()
        server.break_watches()
        server.put("c1", n="after")
        await converged(server, informer)
        assert informer.relists == 1, "the bookmark spared it the list"


async def test_gone_is_answered_by_a_list_that_tells_differences_only(server: ScriptedServer) -> None:
    async with following(server) as (informer, replay):
        replay.take()
        server.break_watches()
        server.put("c1", n="changed")
        server.delete("c2")
        server.delete("c3")
        server.put("c3", n="another object of that name")
        server.put("new")
        server.compact()
        await converged(server, informer)
        assert sorted(replay.take()) == sorted(
            [("updated", "c1"), ("deleted", "c2"), ("deleted", "c3"), ("added", "c3"), ("added", "new")]
        )
        assert informer.relists == 2


async def test_gone_in_the_middle_of_a_watch_loses_nothing(server: ScriptedServer) -> None:
    async with following(server) as (informer, replay):
        replay.take()
        gone = b'{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410}}\n'
        server.put("c1", n="a")
        server.send(gone)
        server.end_watches()
        server.delete("c0")
        await converged(server, informer)
        assert sorted(replay.take()) == [("deleted", "c0"), ("updated", "c1")]


async def test_a_server_that_is_gone_every_time_is_not_asked_in_a_tight_loop() -> None:
    async with ScriptedServer(watch_list=False) as server, Client(server.config) as client:
        server.put("c0")
        server._compacted = 10**9
        clock = ManualClock()
        informer: Informer[ConfigMap] = Informer(client, CONFIG_MAPS, clock=clock)
        task = asyncio.create_task(informer.run())
        await eventually(lambda: len(server.requests) >= 30)
        task.cancel()
        assert informer.has_synced
        assert sum(clock.sleeps) > 1.0


@pytest.mark.parametrize("times", [1, 2])
async def test_a_list_whose_pages_expire_is_begun_again(times: int) -> None:
    async with ScriptedServer(watch_list=False) as server:
        for number in range(9):
            server.put(f"c{number}")
        server.expire_next_continue = times
        async with following(server, page_size=2) as (informer, replay):
            assert versions(informer) == server.versions()
            assert len(replay.take()) == 9


async def test_initial_events_that_break_off_delete_nothing() -> None:
    async with ScriptedServer() as server:
        for number in range(9):
            server.put(f"c{number}")
        async with following(server) as (informer, replay):
            replay.take()
            server.break_initial_events_after = 3
            server.compact()
            server.put("c8", n="x")
            server.break_watches()
            server.compact()
            await eventually(lambda: server.break_initial_events_after is None)
            assert len(informer) == 9
            await converged(server, informer)
            assert replay.take() == [("updated", "c8")]


async def test_a_server_that_ignores_watch_list_is_listed_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer_module, "INITIAL_SILENCE_S", 0.3)
    async with ScriptedServer(watch_list=None) as server:
        server.put("c0")
        async with following(server) as (informer, replay):
            assert not informer.watch_list
            assert replay.take() == [("added", "c0")]


async def test_it_survives_the_server_going_away_and_coming_back(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer_module, "RESUME_WITHIN_S", 0.2)
    async with following(server) as (informer, replay):
        replay.take()
        await server.stop()
        server.put("c1", n="while away")
        server.delete("c4")
        await eventually(lambda: informer.last_error is not None)
        await eventually(lambda: informer.staleness_s > informer_module.RESUME_WITHIN_S + 0.1)
        assert len(informer) == 5, "what was known stays known"
        await server.start()
        await converged(server, informer)
        assert sorted(replay.take()) == [("deleted", "c4"), ("updated", "c1")]
        await eventually(lambda: informer.last_error is None)


async def test_a_server_that_comes_back_with_an_older_history_is_believed(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer_module, "RESUME_WITHIN_S", 0.2)
    async with following(server) as (informer, replay):
        replay.take()
        await server.stop()
        server.restore(version=10)
        server.put("c1", n="restored")
        await eventually(lambda: informer.last_error is not None)
        await eventually(lambda: informer.staleness_s > informer_module.RESUME_WITHIN_S + 0.1)
        await server.start()
        await converged(server, informer)
        assert informer.resource_version == str(server.version)
        server.put("later")
        await converged(server, informer)


async def test_another_history_is_noticed_however_soon_the_server_is_back(server: ScriptedServer) -> None:
    async with following(server) as (informer, _):
        await server.stop()
        server.restore(version=10)
        server.put("c1", n="restored")
        await server.start()
        await converged(server, informer)
        server.put("later")
        await converged(server, informer)


async def test_an_informer_that_is_run_again_goes_on_from_where_it_was(server: ScriptedServer) -> None:
    async with Client(server.config) as client:
        informer: Informer[ConfigMap] = Informer(client, CONFIG_MAPS)
        replay = Replay()
        informer.add_handler(replay)
        for value in ("first", "second"):
            server.put("c1", n=value)
            task = asyncio.create_task(informer.run())
            await converged(server, informer)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert replay.take()[5:] == [("updated", "c1")]
        assert informer.relists == 1


async def test_a_server_that_refuses_for_a_while_is_asked_again(server: ScriptedServer) -> None:
    async with following(server) as (informer, _):
        server.refuse_with = (403, "Forbidden")
        server.break_watches()
        await eventually(lambda: "Forbidden" in str(informer.last_error))
        server.refuse_with = None
        server.put("c1", n="x")
        await converged(server, informer)


async def test_an_unreadable_object_is_reported_and_the_others_go_on(server: ScriptedServer) -> None:
    reports: list[str] = []
    server.put("bad", n=["no", "string"])
    async with following(server, on_malformed=lambda key, error: reports.append(f"{key}: {error}")) as (informer, _):
        assert len(informer) == 5
        assert informer.malformed == 1
        assert "default/bad" in reports[0]
        assert "data" in reports[0]
        server.put("bad", n="mended")
        await converged(server, informer)
        assert informer.unreadable == {}


async def test_what_turns_unreadable_keeps_its_last_record_until_it_is_deleted(
    server: ScriptedServer,
) -> None:
    async with following(server) as (informer, replay):
        replay.take()
        server.put("c1", n=17)
        await eventually(lambda: "default/c1" in informer.unreadable)
        record = informer.get("default/c1")
        assert record is not None
        assert record.data == {"n": "1"}
        server.break_watches()
        server.compact()
        server.put("c0", n="a")
        server.compact()
        await eventually(lambda: ("updated", "c0") in replay.seen)
        assert informer.get("default/c1") is record, "also through a relist"
        assert set(informer.unreadable) == {"default/c1"}
        replay.take()
        server.delete("c1")
        await eventually(lambda: informer.unreadable == {})
        assert replay.take() == [("deleted", "c1")]


async def test_an_unreadable_successor_deletes_the_object_that_had_its_name(server: ScriptedServer) -> None:
    async with following(server) as (informer, replay):
        replay.take()
        server.delete("c1")
        server.put("c1", n=17)
        server.put("c0", n="b")
        await eventually(lambda: ("updated", "c0") in replay.seen)
        assert replay.take() == [("deleted", "c1"), ("updated", "c0")]
        assert informer.get("default/c1") is None


async def test_a_line_that_is_no_json_costs_a_new_stream_and_nothing_else(server: ScriptedServer) -> None:
    async with following(server) as (informer, replay):
        replay.take()
        server.send(b'{"type":"ADDED","object":{"metadata"\n')
        server.put("c1", n="x")
        await converged(server, informer)
        assert replay.take() == [("updated", "c1")]


async def test_a_deletion_that_cannot_be_read_costs_a_list_and_nothing_else(server: ScriptedServer) -> None:
    async with following(server) as (informer, replay):
        replay.take()
        del server.objects["default/c1"]
        server.send(b'{"type":"DELETED","object":{"metadata":{"name":5}}}\n')
        await converged(server, informer)
        assert replay.take() == [("deleted", "c1")]


async def test_a_failing_handler_is_named_and_spares_the_others(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(delta: Delta[ConfigMap]) -> None:
        raise RuntimeError("handler is broken")

    async with following(server) as (informer, replay):
        replay.take()
        with caplog.at_level(logging.ERROR):
            informer.add_handler(broken)
            server.put("c1", n="x")
            await converged(server, informer)
        assert replay.take() == [("updated", "c1")]
        assert informer.handler_failures == 6
        assert "default/c1" in caplog.text


async def test_a_late_handler_hears_what_is_there_and_then_what_changes(server: ScriptedServer) -> None:
    async with following(server) as (informer, _):
        late = Replay()
        remove = informer.add_handler(late)
        assert late.state == versions(informer)
        server.put("c1", n="x")
        await converged(server, informer)
        assert late.state == versions(informer)
        remove()
        server.put("c1", n="y")
        await converged(server, informer)
        assert late.state != versions(informer)


async def test_a_handler_added_by_a_handler_misses_and_repeats_nothing(server: ScriptedServer) -> None:
    added = Replay()

    async with following(server) as (informer, _):

        def once(delta: Delta[ConfigMap]) -> None:
            if delta.type == "deleted" and not added.seen:
                informer.add_handler(added)

        informer.add_handler(once)
        server.break_watches()
        server.delete("c1")
        server.put("c1", n="another object of that name")
        server.compact()
        await converged(server, informer)
        assert added.state == versions(informer)


async def test_indexes_follow_the_records(server: ScriptedServer) -> None:
    def by_n(record: ConfigMap) -> Iterable[str]:
        return tuple(record.data.values())

    async with following(server, indexes={"n": by_n}) as (informer, _):
        assert [record.metadata.name for record in informer.by_index("n", "3")] == ["c3"]
        server.put("c3", n="4")
        await converged(server, informer)
        assert informer.by_index("n", "3") == []
        assert {record.metadata.name for record in informer.by_index("n", "4")} == {"c3", "c4"}


async def test_a_transform_keeps_what_it_returns_and_nothing_else(server: ScriptedServer) -> None:
    def row(raw: msgspec.Raw) -> tuple[str, str, str]:
        meta = msgspec.json.decode(raw, type=ConfigMap).metadata
        return meta.key, meta.uid, meta.resource_version

    def identity(record: tuple[str, str, str]) -> Identity:
        return record

    async with Client(server.config) as client, Informers(client) as informers:
        rows = informers.get(CONFIG_MAPS, transform=row, identity=identity)
        await informers.synced()
        assert {key: version for key, _, version in rows.list()} == server.versions()


async def test_who_asks_the_same_shares_one_stream_and_no_task_outlives_the_block(server: ScriptedServer) -> None:
    async with Client(server.config) as client:
        async with Informers(client) as informers:
            first = informers.get(CONFIG_MAPS)
            second = informers.get(CONFIG_MAPS, indexes={"uid": lambda record: (record.metadata.uid,)})
            await informers.synced(freeze=True)
            assert first is second
            assert second.by_index("uid", "uid-1") == [first.get("default/c0")]
            assert informers.get(CONFIG_MAPS, labels="a=b") is not first
            await eventually(lambda: server.watching == 2)
        assert {task for task in asyncio.all_tasks() if task.get_name().startswith("informer/")} == set()
    await eventually(lambda: server.watching == 0)


async def test_staleness_grows_while_the_server_is_silent(server: ScriptedServer) -> None:
    async with following(server) as (informer, _):
        began_s = time.monotonic()
        server.put("c1", n="x")
        await converged(server, informer)
        fresh = informer.staleness_s
        stale = await eventually(lambda: informer.staleness_s if informer.staleness_s > fresh else 0.0)
        assert stale < time.monotonic() - began_s
        assert informer.last_sync is not None


async def test_an_error_in_the_block_comes_out_as_it_is(server: ScriptedServer) -> None:
    async with Client(server.config) as client:
        with pytest.raises(LookupError, match="own"):
            async with Informers(client) as informers:
                informers.get(CONFIG_MAPS)
                raise LookupError("own")


async def test_an_informer_runs_once_at_a_time(server: ScriptedServer) -> None:
    async with following(server) as (informer, _):
        with pytest.raises(RuntimeError, match="configmaps"):
            await informer.run()
