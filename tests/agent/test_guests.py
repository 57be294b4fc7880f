"""YARN's containers on a node: counted with best effort, released before pods, ended by their copilot."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from koord.agent.executor.audit import Audit
from koord.agent.guests import guests_of, with_guests
from koord.agent.host.cgroups import Cgroups
from koord.agent.live.copilot import STALE_S, CopilotClient
from koord.agent.live.evicting import Evictor
from koord.agent.qos import cpu_evict, memory_evict
from koord.agent.qos.cpu_budget import cpu_budget
from koord.agent.qos.decision import Eviction
from koord.agent.series.names import (
    BE_CPU,
    BE_CPU_LIMIT,
    BE_CPU_REQUEST,
    NODE_CPU,
    NODE_MEMORY,
    guest_memory,
    host_application_cpu,
    pod_cpu,
    pod_memory,
)
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import ResourceRequirements
from koord.api.protocol.copilot import ContainerInfo
from koord.api.protocol.crd.node_slo import NodeSLOSpec
from koord.kube.clock import SystemClock
from koord.yarn.live.copilot import Copilot, serve
from koord.yarn.live.placing import Placing
from tests.agent.live.pending import Pending
from tests.agent.real import real_cgroups
from tests.agent.states import GIB, NOW, evicting, node, pod, samples
from tests.kube.manual_clock import ManualClock
from tests.waiting import eventually
from tests.yarn.test_copilot import MASTER, OLD, node_manager

GATES = {gate: gate.default for gate in AgentGate}
MEMORY = {**GATES, AgentGate.BE_MEMORY_EVICT: True}
CPU = {**GATES, AgentGate.BE_CPU_EVICT: True}


def container(name: str, cpu: str = "1", directory: str = "") -> ContainerInfo:
    needs = ResourceRequirements(requests={"cpu": cpu, "memory": "1Gi"})
    place = directory or f"kubepods/besteffort/hadoop-yarn/{name}"
    return ContainerInfo(name=name, uid=name, cgroup_dir=place, resources=needs)


def with_yarn(state: NodeState, *names: str) -> NodeState:
    assert state.slo is not None
    return replace(state, guests=guests_of(container(name) for name in names), slo=with_guests(state.slo))


def full(*pods: Any) -> NodeState:
    settings = {"enable": True, "memoryEvictThresholdPercent": 75}
    return node(*pods, slo={"resourceUsedThresholdWithBE": settings}, memory=128 * GIB)


def evicted(strategy: Any, state: NodeState, used: Any, gates: dict[AgentGate, bool], *gone: str) -> list[str]:
    decision = evicting(strategy, state, used, gates, gone, NOW - 1000, NOW)
    assert decision is not None
    return [eviction.pod.meta.name for eviction in decision.evictions]


def test_memory_is_released_by_containers_in_the_copilots_order_and_then_by_pods() -> None:
    # 99 of 128 GiB is 77%, and has to be 73%: 5.12 GiB.
    state = with_yarn(full(pod("a", "BE", priority=5000)), "young", "old")
    used = {NODE_MEMORY: 99.0 * GIB, pod_memory("a"): 4.0 * GIB, guest_memory("young"): 2.0 * GIB}
    usage = samples({**used, guest_memory("old"): 2.0 * GIB})
    assert evicted(memory_evict.STRATEGY, state, usage, MEMORY) == ["young", "old", "a"]
    enough = samples({**used, guest_memory("old"): 4.0 * GIB})
    assert evicted(memory_evict.STRATEGY, state, enough, MEMORY) == ["young", "old"]
    # One that was told to go, and is still there, counts as released.
    assert evicted(memory_evict.STRATEGY, state, enough, MEMORY, "young") == ["old"]


def test_cpu_is_released_by_containers_before_pods() -> None:
    settings = {
        "enable": True,
        "cpuEvictBESatisfactionLowerPercent": 40,
        "cpuEvictBESatisfactionUpperPercent": 50,
    }
    job = pod("a", "BE", priority=5000, requests={"kubernetes.io/batch-cpu": "4000"})
    state = with_yarn(node(job, slo={"resourceUsedThresholdWithBE": settings}), "young", "old")
    # 6000m asked for, 2000m had: a third, to be half.
    usage = samples({BE_CPU_REQUEST: 6000.0, BE_CPU_LIMIT: 2000.0, BE_CPU: 2000.0})
    assert evicted(cpu_evict.STRATEGY, state, usage, CPU) == ["young"]


def test_suppress_takes_yarn_for_best_effort_and_not_for_the_system() -> None:
    state = node(pod("web", "LS"), slo={})
    used = {NODE_CPU: 6000.0, pod_cpu("web"): 1000.0, host_application_cpu("hadoop-yarn"): 4000.0}
    alone = cpu_budget(state, samples(used), 65, None, NOW)
    beside = cpu_budget(with_yarn(state), samples(used), 65, None, NOW)
    assert alone is not None
    assert beside is not None
    assert (alone.system, beside.system) == (5000, 1000)
    assert beside.host_applications == 0


def test_yarn_is_a_host_application_once() -> None:
    once = with_guests(NodeSLOSpec())
    assert [application.name for application in once.host_applications] == ["hadoop-yarn"]
    assert with_guests(once) is once


def test_a_cgroup_outside_of_the_nodes_is_left_alone() -> None:
    assert guests_of([container("bad", directory="../../system.slice")]) == {}


@pytest.fixture
def cgroups() -> Iterator[Cgroups]:
    with real_cgroups() as found:
        yield found


class EventLog:
    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    def record(self, regarding: object, reason: str, note: str, **more: Any) -> None:
        self.notes.append((reason, note))


@pytest.mark.root
async def test_the_agent_has_a_real_container_ended_by_a_real_copilot_of_root_alone(
    tmp_path: Path, cgroups: Cgroups, caplog: pytest.LogCaptureFixture
) -> None:
    socket = str(tmp_path / "copilot.sock")
    async with node_manager(tmp_path) as nm:
        placing = Placing(cgroups, CgroupDriver.CGROUPFS, [str(nm.local)])
        serving = asyncio.create_task(serve(Copilot(f"127.0.0.1:{nm.port}", placing, SystemClock()), socket))
        client = CopilotClient(socket, SystemClock())
        await client.look()
        looking = asyncio.create_task(client.run())
        try:
            nm.start(MASTER.id)
            nm.start(OLD.id)
            await eventually(lambda: list(client.guests) == [OLD.id, MASTER.id])
            assert client.guests[OLD.id].requests == {
                "kubernetes.io/batch-cpu": 2000,
                "kubernetes.io/batch-memory": GIB // 2,
            }
            done: list[Eviction] = []
            api, event_log, requests = cast(Any, None), EventLog(), Pending()
            events, audit, clock = cast(Any, event_log), Audit(), SystemClock()
            evictor = Evictor(api, requests, events, audit, clock, cgroups, done.append, Node, copilot=client)
            evictor.evict(Eviction(client.guests[OLD.id], "memory_evict", "BEMemoryEvict", "memory is short"))
            await requests.answered()
            assert [eviction.pod.uid for eviction in done] == [OLD.id]
            assert event_log.notes[0][0] == "YarnContainerEnded"
            await eventually(lambda: list(client.guests) == [MASTER.id])
            assert nm.alive() == [MASTER.id]
            # Whoever else made the socket could name any cgroup.
            os.chown(socket, 65534, 65534)
            stranger = CopilotClient(socket, SystemClock())
            await stranger.look()
            assert stranger.found is None
            assert "belongs to user 65534" in caplog.text
        finally:
            for task in (looking, serving):
                task.cancel()
            await asyncio.gather(looking, serving, return_exceptions=True)


async def test_whether_there_is_a_copilot_is_not_known_before_its_socket_was_looked_at(tmp_path: Path) -> None:
    client = CopilotClient(str(tmp_path / "none.sock"), SystemClock())
    assert not client.has_looked
    await client.look()
    assert (client.has_looked, client.found) == (True, None)


async def test_a_copilot_that_does_not_answer_is_still_one(tmp_path: Path) -> None:
    """Nothing is known of its containers, but what is set for all of them stays."""
    path, clock = tmp_path / "copilot.sock", ManualClock()
    answers = [b"[]"]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = answers.pop() if answers else b"not now"
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    for has_answered in (True, False):
        client = CopilotClient(str(path), clock)
        async with await asyncio.start_unix_server(answer, path):
            os.chmod(path, 0o600)
            for _ in range(2 if has_answered else 1):
                await client.look()
                assert client.found == {}
            clock.advance(STALE_S + 1)
            await client.look()
            assert client.found == {}
        path.unlink()
        clock.advance(STALE_S + 1)
        await client.look()
        assert client.found is None
