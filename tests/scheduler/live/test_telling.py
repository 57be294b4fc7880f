"""What users are told: once for each change, and never an old word after a new one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from koord.kube.client import Client
from koord.kube.errors import NotFound, Status
from koord.kube.events import EventRecorder
from koord.kube.store import Delta
from koord.scheduler.core.decision import Broken, Nowhere
from koord.scheduler.live.telling import Telling
from koord.scheduler.message import MOST_OF_AN_EVENT, for_an_event
from tests.scheduler.core.build import Fed, changed, node, pod
from tests.waiting import turns


class FakeClient:
    def __init__(self) -> None:
        self.patches: list[dict[str, Any]] = []
        self.go = asyncio.Event()
        self.go.set()
        self.answer: Exception | None = None

    async def patch(self, kind: Any, name: str, patch: dict[str, Any], **_: Any) -> None:
        await self.go.wait()
        self.patches.append(patch)
        if self.answer is not None:
            raise self.answer


class FakeEvents:
    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []
        self.themes: list[str | None] = []

    def record(self, regarding: Any, reason: str, note: str, *, theme: str | None = None, **_: Any) -> None:
        self.notes.append((reason, note))
        self.themes.append(theme)


class Bench:
    def __init__(self) -> None:
        self.client, self.events, self.fed = FakeClient(), FakeEvents(), Fed()
        self.telling = Telling(cast(Client, self.client), cast(EventRecorder, self.events), self.fed.clock)

    def giant(self) -> Nowhere:
        self.fed.clock.advance(20)
        self.pod = pod("giant", cpu="100")
        self.fed.put(node("n1"), self.pod)
        return self.fed.nowhere()

    @property
    def messages(self) -> list[str]:
        return [patch["status"]["conditions"][0]["message"] for patch in self.client.patches]


@asynccontextmanager
async def writing(bench: Bench) -> AsyncIterator[None]:
    task = asyncio.create_task(bench.telling.run())
    try:
        yield
        await turns()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_reason_is_written_once_however_often_it_is_found() -> None:
    bench = Bench()
    decision = bench.giant()
    async with writing(bench):
        for _ in range(3):
            bench.telling.nowhere(decision)
            await turns()
    assert len(bench.client.patches) == 1
    (condition,) = bench.client.patches[0]["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")
    assert bench.client.patches[0]["metadata"] == {"uid": "giant-uid"}
    assert [reason for reason, _ in bench.events.notes] == ["FailedScheduling"] * 3


async def test_a_reason_of_more_nodes_is_no_other_event() -> None:
    bench = Bench()
    bench.telling.nowhere(bench.giant())
    bench.fed.put(node("n2"), node("n3"), changed(bench.pod, priority=1))
    bench.fed.clock.advance(20)
    bench.telling.nowhere(bench.fed.nowhere())
    bench.fed.put(node("n3", unschedulable=True), changed(bench.pod, priority=2))
    bench.fed.clock.advance(20)
    bench.telling.nowhere(bench.fed.nowhere())
    first, second, third = bench.events.themes
    assert first == second == "Insufficient cpu"
    assert third not in (first, None)
    assert len({note for _, note in bench.events.notes}) == 3


async def test_what_changes_faster_than_it_can_be_written_is_one_write_of_the_newest() -> None:
    bench = Bench()
    decision = bench.giant()
    bench.client.go.clear()
    async with writing(bench):
        bench.telling.nowhere(decision)
        await turns()
        bench.telling.broken(_as(decision, "2"))
        bench.telling.broken(_as(decision, "3"))
        bench.client.go.set()
    assert bench.messages == [decision.message, "3"]


def _as(decision: Nowhere, message: str) -> Broken:
    return Broken(decision.attempt, decision.profile, decision.asks, message)


async def test_a_pod_that_is_about_to_be_bound_waits_for_what_is_being_written() -> None:
    bench = Bench()
    bench.client.go.clear()
    async with writing(bench):
        bench.telling.nowhere(bench.giant())
        await turns()
        settled = asyncio.create_task(bench.telling.settled("giant-uid"))
        await turns()
        assert not settled.done()
        bench.client.go.set()
        await asyncio.wait_for(settled, 60)
    assert len(bench.client.patches) == 1


async def test_what_is_not_written_when_the_pod_is_bound_or_gone_never_is() -> None:
    bench = Bench()
    bench.telling.nowhere(bench.giant())
    bench.telling.pod(Delta("shop/giant", bench.pod, changed(bench.pod, node_name="n1")))
    async with writing(bench):
        pass
    assert bench.client.patches == []
    bench.telling.nowhere(_again(bench))
    bench.telling.pod(Delta("shop/giant", bench.pod, None))
    async with writing(bench):
        pass
    assert bench.client.patches == []


def _again(bench: Bench) -> Nowhere:
    bench.fed = Fed()
    return bench.giant()


async def test_a_pod_that_says_so_already_is_not_written_to() -> None:
    bench = Bench()
    decision = bench.giant()
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": decision.message}
    told = pod("giant", cpu="100", status={"conditions": [condition]})
    bench.fed = Fed()
    bench.fed.put(node("n1"), told)
    async with writing(bench):
        bench.telling.nowhere(bench.fed.nowhere())
    assert bench.client.patches == []


async def test_a_pod_that_is_gone_is_forgotten_and_another_fault_is_written_again() -> None:
    bench = Bench()
    bench.client.answer = NotFound(Status("Failure", 404))
    decision = bench.giant()
    async with writing(bench):
        bench.telling.nowhere(decision)
        await turns()
        bench.telling.nowhere(decision)
    assert len(bench.client.patches) == 2


def test_an_event_has_at_most_as_much_text_as_it_may() -> None:
    assert for_an_event("short") == "short"
    long = for_an_event("x" * 5000)
    assert len(long) == MOST_OF_AN_EVENT
    assert long.endswith(" ...")
