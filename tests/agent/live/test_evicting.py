"""Evictions, carried out: accepted, refused, and killed in an emergency."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from koord.agent.executor.audit import Audit
from koord.agent.host.cgroups import Version
from koord.agent.live.evicting import Evictor
from koord.agent.qos import memory_evict
from koord.agent.qos.decision import Eviction
from koord.agent.series.names import NODE_MEMORY, pod_memory
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from koord.kube.clock import SystemClock
from koord.kube.errors import Status, TooManyRequests
from tests.agent.states import GIB, NOW, evicting, node, pod, samples
from tests.agent.trees import Tree

GATES = {gate: gate is AgentGate.BE_MEMORY_EVICT for gate in AgentGate}


class Refusing:
    """An API whose budgets let nobody go."""

    async def evict(self, namespace: str, name: str, *, uid: str) -> None:
        raise TooManyRequests(Status(message="a budget forbids it", code=429), verb="evict", what=name)


class Told:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def record(self, regarding: object, reason: str, note: str, **more: Any) -> None:
        self.reasons.append(reason)


@pytest.mark.parametrize(("used", "is_killed"), [(50 * GIB, False), (63 * GIB, True)])
async def test_only_a_node_about_to_run_out_kills_against_the_apis_word(
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
    told, audit = Told(), Audit()
    evictor = Evictor(
        cast(Any, Refusing()),
        cast(Any, told),
        audit,
        SystemClock(),
        tree.cgroups,
        done.append,
        lambda: None,
        kept.append,
    )
    try:
        await evictor.evict(eviction)
        if is_killed:
            assert await asyncio.wait_for(victim.wait(), 10) == -9
            assert (done, kept) == ([eviction], [])
        else:
            assert victim.returncode is None
            assert (done, kept) == ([], [eviction])
    finally:
        if victim.returncode is None:
            victim.kill()
            await victim.wait()
    assert told.reasons == ["evictPodSuccess" if is_killed else "evictPodFail"]
    assert [event.type for event in audit.newest(5)] == ["kill" if is_killed else "refused"]
