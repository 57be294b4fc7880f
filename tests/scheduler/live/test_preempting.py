"""Room is made: victims are told and deleted, and a promise that cannot be kept is taken back."""

from __future__ import annotations

from typing import Any, cast

import pytest

from koord.kube.client import Client
from koord.kube.errors import Status, error_for
from koord.scheduler.core.decision import Nowhere
from koord.scheduler.live.preempting import Preempting
from koord.scheduler.live.telling import Telling
from tests.scheduler.core.build import Fed, deleting, node, pod


class FakeClient:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.answer: Exception | None = None

    async def patch(self, kind: Any, name: str, patch: dict[str, Any], **_: Any) -> None:
        (condition,) = patch["status"]["conditions"]
        self.calls.append((f"{condition['type']} {condition['reason']}", name))

    async def delete(self, kind: Any, name: str, *, namespace: str, uid: str) -> None:
        self.calls.append((f"delete {uid}", name))
        if self.answer is not None:
            raise self.answer


class FakeTelling:
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def preempted(self, victim: Any, by: Any, node: str) -> None:
        self.told.append((victim.metadata.name, f"for {by.key} on {node}"))

    def not_promised(self, pod: Any) -> None:
        self.told.append((pod.metadata.name, "outbid"))


class Bench:
    def __init__(self) -> None:
        self.fed, self.client, self.telling = Fed(), FakeClient(), FakeTelling()
        self.preempting = Preempting(
            cast(Client, self.client),
            self.fed.core,
            self.fed.clock,
            cast(Telling, self.telling),
            pod_of=self.fed.pods.get,
            wake=lambda: None,
        )

    def decide(self) -> Nowhere:
        self.fed.put(node("n1"), pod("low", cpu="4", on="n1"), pod("high", cpu="3", priority=10))
        return self.fed.nowhere()

    async def carry_out(self, decision: Nowhere) -> None:
        import asyncio

        self.preempting.start(decision)
        await asyncio.gather(*self.preempting._tasks)


async def test_a_victim_is_told_why_and_deleted_and_no_other_pod_of_its_name() -> None:
    bench = Bench()
    await bench.carry_out(bench.decide())
    assert bench.client.calls == [("DisruptionTarget PreemptionByScheduler", "low"), ("delete low-uid", "low")]
    assert bench.telling.told == [("low", "for shop/high on n1")]
    assert bench.fed.feed.cluster.nominations.of("shop/high") is not None


async def test_a_victim_that_is_going_already_is_left_alone() -> None:
    bench = Bench()
    decision = bench.decide()
    bench.fed.put(deleting(bench.fed.pods.records()[0]))
    await bench.carry_out(decision)
    assert bench.client.calls == []
    assert bench.fed.feed.cluster.nominations.of("shop/high") is not None


@pytest.mark.parametrize(("code", "kept"), [(404, True), (409, True), (403, False), (500, False)])
async def test_a_promise_whose_victims_stay_is_taken_back_and_tried_again(code: int, kept: bool) -> None:
    bench = Bench()
    bench.client.answer = error_for(Status("Failure", code))
    await bench.carry_out(bench.decide())
    assert (bench.fed.feed.cluster.nominations.of("shop/high") is not None) == kept
    if not kept:
        assert bench.fed.nowhere().remedy.victims == ("shop/low",)


async def test_who_loses_a_promise_to_a_more_important_pod_is_told_and_tried_again() -> None:
    bench = Bench()
    bench.decide()
    bench.fed.put(pod("higher", cpu="4", priority=100))
    decision = bench.fed.nowhere()
    assert decision.outbid == ("shop/high",)
    await bench.carry_out(decision)
    assert ("high", "outbid") in bench.telling.told
    assert bench.fed.nowhere().ask.key == "shop/high"
