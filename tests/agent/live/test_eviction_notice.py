"""Pods that ask for notice: the agent tells them and waits, but not for longer than the node can bear."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from koord.agent.executor.audit import Audit
from koord.agent.live.evicting import Evictor
from koord.agent.pods import AgentPod
from koord.agent.qos.cpu_evict import NOTICE_S as CPU_S
from koord.agent.qos.decision import Eviction
from koord.agent.qos.evicting import WANTED_S, Account, Task, evictions
from koord.agent.qos.memory_evict import NOTICE_S as MEMORY_S
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.annotations.notice import EVICTION_DEADLINE
from tests.agent.live.pending import Pending
from tests.agent.states import pod as agent_pod
from tests.kube.manual_clock import ManualClock
from tests.notice.build import START_S, annotated, patched, pod


class Api:
    def __init__(self, given: Pod) -> None:
        self.pod, self.gone = given, False

    async def get(self, kind: object, name: str, *, namespace: str) -> Pod:
        return self.pod

    async def patch(self, kind: object, name: str, patch: Any, **more: Any) -> None:
        self.pod = patched(self.pod, patch)

    async def evict(self, namespace: str, name: str, *, uid: str) -> None:
        self.gone = True


class Story:
    """An agent that wants a pod gone each second, or not."""

    def __init__(self, notice: str = "5m", *, notice_s: float = MEMORY_S) -> None:
        self.clock, self.api = ManualClock(START_S), Api(pod(notice))
        self.notice_s = notice_s
        self.reasons: list[str] = []
        self.requests = Pending()
        client, events, cgroups = cast(Any, self.api), cast(Any, self), cast(Any, None)
        self.evictor = Evictor(
            client, self.requests, events, Audit(), self.clock, cgroups, lambda _: None, lambda: None
        )

    def record(self, regarding: object, reason: str, note: str, **more: Any) -> None:
        self.reasons.append(reason)

    @property
    def seen(self) -> AgentPod:
        """As kubelet tells of it."""
        return replace(agent_pod("u1", "BE"), meta=self.api.pod.metadata)

    async def rounds(self, number: int, *, wants: bool = True) -> None:
        for _ in range(number):
            if wants and not self.api.gone:
                self.evictor.evict(Eviction(self.seen, "memory_evict", "BEMemoryEvict", "75%", notice_s=self.notice_s))
            self.evictor.let_stay([self.seen])
            await self.requests.answered()
            self.clock.advance(1)


@pytest.mark.parametrize(
    ("notice", "notice_s", "after"), [("5m", MEMORY_S, 10), ("5s", MEMORY_S, 5), ("5m", CPU_S, 60)]
)
async def test_a_pod_is_told_once_and_goes_as_soon_as_the_node_cannot_wait(
    notice: str, notice_s: float, after: int
) -> None:
    story = Story(notice, notice_s=notice_s)
    await story.rounds(after)
    assert not story.api.gone
    assert EVICTION_DEADLINE.key in story.api.pod.metadata.annotations
    await story.rounds(1)
    assert story.api.gone
    assert story.reasons == ["EvictionNotice", "evictPodSuccess"]


async def test_a_pod_that_is_ready_goes_in_the_next_round() -> None:
    story = Story()
    await story.rounds(2)
    story.api.pod = annotated(story.api.pod)
    await story.rounds(1)
    assert story.api.gone


async def test_in_an_emergency_nobody_is_waited_for() -> None:
    story = Story(notice_s=0.0)
    await story.rounds(1)
    assert story.api.gone
    assert story.reasons == ["evictPodSuccess"]


async def test_a_pod_stays_when_the_node_has_cooled_down() -> None:
    story = Story()
    await story.rounds(3)
    await story.rounds(int(WANTED_S) + 1, wants=False)
    assert not story.api.gone
    assert story.api.pod.metadata.annotations == pod("5m").metadata.annotations


async def test_an_agent_that_starts_anew_lets_those_stay_that_it_does_not_want_gone() -> None:
    story = Story()
    await story.rounds(3)
    again = Story()
    again.api = story.api
    again.evictor._client = cast(Any, story.api)
    await again.rounds(int(WANTED_S) + 2, wants=False)
    assert story.api.pod.metadata.annotations == pod("5m").metadata.annotations


def test_who_has_notice_is_chosen_before_others_as_long_as_the_reason_lasts() -> None:
    first, second = agent_pod("a", "BE"), agent_pod("b", "BE")
    task = Task("BEMemoryEvict", Account("usage", "memory"), 1, [first, second], lambda _: 1, "75%")
    assert [eviction.pod.uid for eviction in evictions("memory_evict", [task], (), noticed={"b"}, notice_s=10.0)] == [
        "b"
    ]
    urgent = replace(task, is_emergency=True)
    assert [
        (eviction.pod.uid, eviction.notice_s) for eviction in evictions("memory_evict", [urgent], (), noticed={"b"})
    ] == [("a", 0.0)]
