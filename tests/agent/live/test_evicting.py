"""Evictions, carried out: accepted, refused, and killed in an emergency."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from koord.agent.executor.audit import Audit
from koord.agent.host.cgroups import Version
from koord.agent.live import evicting as evicting_module
from koord.agent.live.api_requests import ApiRequests
from koord.agent.live.evicting import Evictor
from koord.agent.qos import memory_evict
from koord.agent.qos.decision import Eviction
from koord.agent.series.names import NODE_MEMORY, pod_memory
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from koord.kube.clock import SystemClock
from koord.kube.errors import Status, TooManyRequests
from tests.agent.live.pending import Pending
from tests.agent.states import GIB, NOW, evicting, node, pod, samples
from tests.agent.trees import Tree

GATES = {gate: gate is AgentGate.BE_MEMORY_EVICT for gate in AgentGate}


class Refusing:
    """An API whose budgets allow no eviction."""

    async def evict(self, namespace: str, name: str, *, uid: str) -> None:
        raise TooManyRequests(Status(message="a budget forbids it", code=429), verb="evict", what=name)


class EventLog:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def record(self, regarding: object, reason: str, note: str, **more: Any) -> None:
        self.reasons.append(reason)


@pytest.mark.parametrize(("used", "is_killed"), [(50 * GIB, False), (63 * GIB, True)])
async def test_only_a_node_about_to_run_out_kills_and_does_so_before_it_asks(
    tmp_path: Path, used: int, is_killed: bool
) -> None:
    tree = Tree(tmp_path, Version.V1, CgroupDriver.CGROUPFS)
    directory = tree.pod("job", KubeQoS.BEST_EFFORT, "job-main")
    victim = await asyncio.create_subprocess_exec("sleep", "60")
    tree.write(f"sys/fs/cgroup/cpu/{directory}/job-main/cgroup.procs", f"{victim.pid}\n")
    state = node(
        pod("job", "BE"), slo={"resourceUsedThresholdWithBE": {"enable": True, "memoryEvictThresholdPercent": 70}}
    )
    usage = samples({NODE_MEMORY: used, pod_memory("job"): float(GIB)})
    decision = evicting(memory_evict.STRATEGY, state, usage, GATES, (), float("-inf"), NOW)
    assert decision is not None
    (eviction,) = decision.evictions
    done: list[Eviction] = []
    kept: list[Eviction] = []
    event_log, audit, requests = EventLog(), Audit(), Pending()
    evictor = Evictor(
        cast(Any, Refusing()),
        requests,
        cast(Any, event_log),
        audit,
        SystemClock(),
        tree.cgroups,
        done.append,
        lambda: None,
        kept.append,
    )
    try:
        evictor.evict(eviction)
        if is_killed:
            # Before anybody was asked.
            assert await asyncio.wait_for(victim.wait(), 60) == -9
            assert (done, kept) == ([eviction], [])
        assert evictor.unanswered == {"job"}
        await requests.answered()
        assert evictor.unanswered == set()
        if is_killed:
            assert (done, kept) == ([eviction], [])
        else:
            assert victim.returncode is None
            assert (done, kept) == ([], [eviction])
    finally:
        if victim.returncode is None:
            victim.kill()
            await victim.wait()
    assert event_log.reasons == ["evictPodSuccess" if is_killed else "evictPodFail"]
    assert [event.type for event in audit.newest(5)] == (["refused", "kill"] if is_killed else ["refused"])


class Hanging:
    """An API that never answers."""

    async def evict(self, namespace: str, name: str, *, uid: str) -> None:
        await asyncio.Event().wait()


async def test_no_answer_in_time_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evicting_module, "ANSWER_S", 0.01)
    kept: list[Eviction] = []
    event_log, audit, requests = EventLog(), Audit(), Pending()
    client, recorder, cgroups = cast(Any, Hanging()), cast(Any, event_log), cast(Any, None)
    evictor = Evictor(
        client, requests, recorder, audit, SystemClock(), cgroups, lambda _: None, lambda: None, kept.append
    )
    eviction = Eviction(pod("job", "BE"), "memory_evict", "BEMemoryEvict", "75%")
    evictor.evict(eviction)
    evictor.evict(eviction)
    assert len(requests.requests) == 1, "a pod is asked about once at a time"
    await requests.answered()
    assert (kept, event_log.reasons) == ([eviction], ["evictPodFail"])


async def test_without_room_for_another_request_a_pod_stays_for_now(tmp_path: Path) -> None:
    kept: list[Eviction] = []
    client, recorder, cgroups = cast(Any, Hanging()), cast(Any, EventLog()), cast(Any, None)
    requests = ApiRequests(most_waiting=1)
    evictor = Evictor(
        client, requests, recorder, Audit(), SystemClock(), cgroups, lambda _: None, lambda: None, kept.append
    )
    evictions = [Eviction(pod(name, "BE"), "memory_evict", "BEMemoryEvict", "75%") for name in ("a", "b")]
    for eviction in evictions:
        evictor.evict(eviction)
    assert kept == evictions[1:]
    assert evictor.unanswered == {"a"}
