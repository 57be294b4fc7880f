"""Room is made: victims are told and deleted, and a promise that cannot be kept is taken back."""

from __future__ import annotations

from typing import Any, cast

import pytest

from koord.api.kubernetes.pod import Pod
from koord.api.protocol.annotations.notice import EVICTION_DEADLINE, EVICTION_NOTICE
from koord.kube.client import Client
from koord.kube.errors import Status, error_for
from koord.kube.store import Delta
from koord.scheduler.core.decision import Nowhere
from koord.scheduler.live.noticing import UnderNotice
from koord.scheduler.live.preempting import Preempting
from koord.scheduler.live.telling import Telling
from tests.notice.build import annotated, patched
from tests.scheduler.core.build import Fed, deleting, node, pod
from tests.waiting import turns


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

    def told_to_go(self, victim: Any, asker: Any, deadline: str) -> None:
        self.told.append((victim.metadata.name, f"told to go for {asker.about}"))

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


class Api(FakeClient):
    """An API server with the pods of a bench: what is written is heard at once."""

    def __init__(self, fed: Fed) -> None:
        super().__init__()
        self.fed = fed
        self.deleted: list[str] = []
        self.fails = 0

    async def patch(self, kind: Any, name: str, patch: Any, **_: Any) -> None:
        if self.fails:
            self.fails -= 1
            raise error_for(Status("Failure", 500))
        self.calls.append((patch["status"]["conditions"][0]["reason"], name))
        if "annotations" in patch["metadata"]:
            found = self.fed.pods.get(f"shop/{name}")
            assert found is not None
            self.fed.put(patched(found, patch))

    async def delete(self, kind: Any, name: str, *, namespace: str, uid: str) -> None:
        self.deleted.append(name)
        found = self.fed.pods.get(f"shop/{name}")
        assert found is not None
        self.fed.delete(found)


class Story:
    """A node with pods on it, a more important pod that needs their room, and a scheduler that may start again."""

    def __init__(self, *victims: Pod) -> None:
        self.fed, self.telling = Fed(), FakeTelling()
        self.under = UnderNotice()
        self.api = Api(self.fed)
        self.fed.put(node("n1"), *victims)
        self.fed.put(pod("high", cpu="4", priority=10))
        self.start()

    def start(self) -> None:
        self.preempting = Preempting(
            cast(Client, self.api), self.fed.core, self.fed.clock, cast(Telling, self.telling),
            pod_of=self.fed.pods.get, wake=lambda: None, under=self.under,
        )  # fmt: skip

    async def settle(self) -> None:

        for record in self.fed.pods.records():
            self.under.hear(Delta(record.metadata.key, None, record))
        self.preempting.look()
        await turns()

    async def decide(self) -> None:
        self.preempting.start(self.fed.nowhere())
        await self.settle()


def asks(name: str, notice: str = "5m", **more: Any) -> Pod:
    return pod(
        name, on="n1", metadata={"annotations": {EVICTION_NOTICE.key: notice}}, status={"phase": "Running"}, **more
    )


async def test_a_victim_with_notice_is_told_once_and_goes_at_its_deadline_with_the_others() -> None:
    story = Story(asks("train", cpu="2"), pod("low", cpu="2", on="n1"))
    await story.decide()
    assert story.api.calls == [("PreemptionByScheduler", "train")]
    assert story.api.deleted == []
    story.fed.clock.advance(299)
    await story.settle()
    assert story.api.deleted == []
    assert story.fed.feed.cluster.nominations.of("shop/high") is not None
    story.fed.clock.advance(2)
    await story.settle()
    assert sorted(story.api.deleted) == ["low", "train"]
    assert ("train", "told to go for shop/high") in story.telling.told


async def test_a_victim_that_is_ready_goes_before_its_deadline() -> None:
    story = Story(asks("train", cpu="4"))
    await story.decide()
    train = story.fed.pods.get("shop/train")
    assert train is not None
    story.fed.put(annotated(train))
    await story.settle()
    assert story.api.deleted == ["train"]


async def test_a_victim_that_could_not_be_told_is_told_in_the_next_look() -> None:
    story = Story(asks("train", cpu="4"))
    story.api.fails = 1
    await story.decide()
    assert story.api.calls == []
    await story.settle()
    assert story.api.calls == [("PreemptionByScheduler", "train")]
    assert story.api.deleted == []


async def test_a_scheduler_that_starts_anew_waits_on_and_does_not_tell_again() -> None:
    story = Story(asks("train", cpu="4"))
    await story.decide()
    story.start()
    story.fed.core.take_back("shop/high")
    story.fed.clock.advance(200)
    await story.decide()
    assert len(story.api.calls) == 1
    assert story.api.deleted == []
    story.fed.clock.advance(101)
    await story.settle()
    assert story.api.deleted == ["train"]


async def test_a_victim_stays_when_the_pod_that_needed_its_room_is_gone() -> None:
    story = Story(asks("train", cpu="4"))
    await story.decide()
    high = story.fed.pods.get("shop/high")
    assert high is not None
    story.fed.delete(high)
    await story.settle()
    train = story.fed.pods.get("shop/train")
    assert train is not None
    assert EVICTION_DEADLINE.key not in train.metadata.annotations
    story.fed.clock.advance(3600)
    await story.settle()
    assert story.api.deleted == []
    assert story.api.calls[-1] == ("EvictionWithdrawn", "train")
