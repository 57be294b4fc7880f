"""Streamed lists that a server refuses, ignores or breaks off: the informer is as true by pages, and remembers."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from koord.api.kinds import CONFIG_MAPS
from koord.api.kubernetes.core import ConfigMap
from koord.kube import client as client_module
from koord.kube import informer as informer_module
from koord.kube.client import Client
from koord.kube.clock import SystemClock
from koord.kube.errors import error_for, status_from, unreachable
from koord.kube.informer import Informer
from koord.kube.streamed_list import FORGET_S, PATIENCE, StreamedLists, UnfinishedStream
from tests.kube.raw_server import RawServer, chunked, refusal
from tests.kube.scripted_server import Refusal, ScriptedServer
from tests.waiting import eventually

NO_PROGRESS = "a watch stream was requested but the required storage feature RequestWatchProgress is disabled"
REFUSALS: dict[str, Refusal] = {
    "unknown parameter": (400, "BadRequest", "unknown query parameter sendInitialEvents"),
    "no right": (403, "Forbidden", "configmaps is forbidden: cannot watch"),
    "no such path": (404, "NotFound", "the server could not find the requested resource"),
    "no such verb": (405, "MethodNotAllowed", "watch is not supported"),
    "expired": (410, "Expired", "too old resource version"),
    "feature off": (422, "Invalid", "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch"),
    "old storage": (500, "InternalError", NO_PROGRESS),
    "not built": (501, "", "not implemented"),
    "version ahead": (504, "Timeout", "Too large resource version: 7, current: 5"),
}
BUSY: dict[str, Refusal] = {
    "too many": (429, "TooManyRequests", "too many streams"),
    "proxy": (502, "", "bad gateway"),
    "unavailable": (503, "ServiceUnavailable", "no healthy upstream"),
}


class SkippingClock(SystemClock):
    """The machine's clock, moved on by what a test adds."""

    def __init__(self) -> None:
        self.skipped_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.skipped_s


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer_module, "BACKOFF_BASE_S", 0.05)
    monkeypatch.setattr(informer_module, "BACKOFF_CAP_S", 0.3)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as server:
        for number in range(5):
            server.put(f"c{number}")
        yield server


@asynccontextmanager
async def following(server: ScriptedServer, clock: SystemClock | None = None) -> AsyncIterator[Informer[ConfigMap]]:
    async with Client(server.config) as client:
        informer: Informer[ConfigMap] = Informer(client, CONFIG_MAPS, clock=clock)
        task = asyncio.create_task(informer.run())
        try:
            await asyncio.wait_for(informer.synced(), 60)
            await eventually(lambda: server.watching > 0)
            yield informer
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def asked_for_streams(server: ScriptedServer) -> int:
    return sum(query.get("sendInitialEvents") == "true" for query in server.requests)


async def follows(server: ScriptedServer, informer: Informer[ConfigMap], name: str) -> None:
    """What changes in the server arrives, and nothing else is there."""
    server.put(name)
    await eventually(
        lambda: {obj.metadata.key: obj.metadata.resource_version for obj in informer.list()} == server.versions()
    )


async def must_list_again(server: ScriptedServer, informer: Informer[ConfigMap]) -> None:
    before = informer.relists
    server.version += 1
    server.compact()
    server.break_watches()
    await eventually(lambda: informer.relists > before and server.watching > 0)


async def assert_pages_and_remembered(server: ScriptedServer, asked: int) -> None:
    async with following(server) as informer:
        assert asked_for_streams(server) == asked
        assert not informer.watch_list
        await follows(server, informer, "later")
        for _ in range(2):
            await must_list_again(server, informer)
        await follows(server, informer, "last")
        assert asked_for_streams(server) == asked, "a server that refused is not asked again at each list"


@pytest.mark.parametrize("refused", REFUSALS.values(), ids=REFUSALS)
async def test_a_refused_stream_is_listed_in_pages_and_not_asked_for_again(
    server: ScriptedServer, refused: Refusal
) -> None:
    server.refuse_streamed_lists = refused
    await assert_pages_and_remembered(server, 1)


@pytest.mark.parametrize("refused", [*REFUSALS.values(), *BUSY.values()], ids=[*REFUSALS, *BUSY])
async def test_a_stream_that_is_accepted_and_then_refused_is_listed_in_pages(
    server: ScriptedServer, refused: Refusal
) -> None:
    server.fail_streamed_lists = refused
    await assert_pages_and_remembered(server, 1)


@pytest.mark.parametrize("refused", BUSY.values(), ids=BUSY)
async def test_a_server_that_is_busy_for_streams_alone_is_listed_in_pages_in_the_end(
    server: ScriptedServer, refused: Refusal
) -> None:
    server.refuse_streamed_lists = refused
    await assert_pages_and_remembered(server, PATIENCE)


async def test_a_stream_that_is_always_cut_in_the_middle_is_listed_in_pages(server: ScriptedServer) -> None:
    server.cut_streamed_lists = True
    await assert_pages_and_remembered(server, 1)


async def test_a_stream_without_an_end_of_its_initial_events_is_listed_in_pages(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer_module, "INITIAL_SILENCE_S", 1.0)
    server.watch_list = None
    await assert_pages_and_remembered(server, 1)


async def test_a_stream_that_goes_on_with_changes_and_never_ends_its_initial_events_is_listed_in_pages(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer_module, "INITIAL_EVENTS_S", 0.8)
    server.watch_list = None

    async def change_for_ever() -> None:
        while True:
            server.put("busy")
            await asyncio.sleep(0.05)

    changing = asyncio.create_task(change_for_ever())
    try:
        async with following(server) as informer:
            assert not informer.watch_list
    finally:
        changing.cancel()


async def test_a_bookmark_before_the_end_says_that_the_request_for_a_stream_was_ignored(server: ScriptedServer) -> None:
    server.watch_list = None
    async with Client(server.config) as client:
        informer: Informer[ConfigMap] = Informer(client, CONFIG_MAPS)
        task = asyncio.create_task(informer.run())
        await eventually(lambda: server.watching > 0)
        server.bookmark()
        await asyncio.wait_for(informer.synced(), 60)
        task.cancel()


async def test_a_server_that_refused_is_asked_again_after_an_hour(server: ScriptedServer) -> None:
    server.refuse_streamed_lists = REFUSALS["old storage"]
    clock = SkippingClock()
    async with following(server, clock) as informer:
        server.refuse_streamed_lists = None
        clock.skipped_s += FORGET_S + 1
        await must_list_again(server, informer)
        assert asked_for_streams(server) == 2
        assert informer.watch_list


async def test_a_server_that_refuses_pages_too_is_asked_for_a_stream_again(server: ScriptedServer) -> None:
    server.refuse_with = (403, "Forbidden")
    async with Client(server.config) as client:
        informer: Informer[ConfigMap] = Informer(client, CONFIG_MAPS)
        task = asyncio.create_task(informer.run())
        # Not before the pages were refused as well: pages that came after a refused stream would speak against streams.
        await eventually(lambda: [query.get("sendInitialEvents") for query in server.requests][-2:] == ["true", None])
        assert not informer.has_synced
        server.refuse_with = None
        await asyncio.wait_for(informer.synced(), 60)
        assert informer.watch_list, "the refusal said nothing about streams"
        task.cancel()


async def test_a_silent_watch_is_replaced_without_a_warning_or_a_list(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client_module, "WATCH_IDLE_S", 0.2)
    with caplog.at_level(logging.INFO, "koord.kube"):
        async with following(server) as informer:
            await eventually(lambda: informer.reconnects >= 3)
            assert informer.last_error is None
            await follows(server, informer, "later")
            assert informer.relists == 1
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


async def test_a_server_that_is_gone_behind_a_silent_watch_is_reported(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client_module, "WATCH_IDLE_S", 0.5)
    async with following(server) as informer:
        server.refuse_with = (503, "ServiceUnavailable")
        await eventually(lambda: informer.last_error is not None)
    assert "lost its stream" in caplog.text


async def test_a_refused_watch_waits_as_long_as_the_server_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    class NotingClock(SystemClock):
        async def sleep(self, seconds: float) -> None:
            waits.append(seconds)
            await asyncio.sleep(0.01)

    busy = refusal(429, "", "Too many requests, please try again later.", Retry_After="7")
    metadata = {"resourceVersion": "5", "annotations": {informer_module.INITIAL_EVENTS_END: "true"}}
    end = json.dumps({"type": "BOOKMARK", "object": {"metadata": metadata}}).encode() + b"\n"
    async with RawServer(busy, chunked(end)) as server, Client(server.config) as client:
        informer: Informer[ConfigMap] = Informer(client, CONFIG_MAPS, clock=NotingClock())
        task = asyncio.create_task(informer.run())
        await asyncio.wait_for(informer.synced(), 60)
        task.cancel()
    assert waits[0] == 7.0


def test_a_server_that_cannot_be_reached_teaches_nothing_about_streams() -> None:
    lists = StreamedLists(wanted=True)
    for _ in range(2 * PATIENCE):
        assert not lists.failed(unreachable("connection refused"))
        assert not lists.failed(ConnectionResetError())
    assert lists.worth_asking(0.0)


def test_only_busy_answers_are_waited_for() -> None:
    for code in range(400, 600):
        lists = StreamedLists(wanted=True)
        assert lists.failed(error_for(status_from(code, b""))) == (code not in (401, 429, 502, 503)), code
    assert StreamedLists(wanted=True).failed(UnfinishedStream("cut"))


def test_a_stream_that_came_ends_the_row_of_busy_answers() -> None:
    lists = StreamedLists(wanted=True)
    busy = error_for(status_from(503, b""))
    for _ in range(PATIENCE - 1):
        assert not lists.failed(busy)
    lists.came()
    assert not lists.failed(busy)


def test_pages_are_kept_to_for_an_hour() -> None:
    lists = StreamedLists(wanted=True)
    lists.pages_came_instead(100.0)
    assert not lists.worth_asking(100.0 + FORGET_S - 1)
    assert lists.worth_asking(100.0 + FORGET_S)
    assert not StreamedLists(wanted=False).worth_asking(1e9)
