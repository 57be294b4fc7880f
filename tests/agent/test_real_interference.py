"""Interference on this machine's kernel: a pod that slows a periodic task down is named, held back, and let go again.

Windows are short here, so that a test is; what is counted and compared is what a node's agent counts and compares.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from koord.agent.host.knobs import CPU_QUOTA, MEMORY_LIMIT
from koord.agent.interference.episode import Finding, Step
from koord.agent.interference.story import sentence
from koord.agent.qos.interference import strategy_of
from koord.agent.series import names
from koord.api.configuration.features import AgentGate
from tests.agent.loads import Process, burn_on
from tests.agent.real_node import RealNode, batch, real_node
from tests.crowd import needs_room

pytestmark = pytest.mark.root

WINDOW_S = 0.4
LEARNING = 8
MOST_WINDOWS = 25


def periodic_on(cpu: int) -> Callable[[], None]:
    """A little work, a hundred times a second, always on one CPU."""

    def work() -> None:
        os.sched_setaffinity(0, {cpu})
        while True:
            until_s = time.thread_time() + 0.001
            while time.thread_time() < until_s:
                pass
            time.sleep(0.009)

    return work


def looking(node: RealNode) -> RealNode:
    """Whose agent looks for interference, in short windows."""
    node.agent.strategies = (strategy_of(WINDOW_S),)
    node.agent.waitings.every_s = 0.0
    node.agent.slowly_s = WINDOW_S
    node.gates[AgentGate.INTERFERENCE_CONTROL] = True
    return node


@contextmanager
def watched_node(state_dir: Path) -> Iterator[RealNode]:
    with real_node(state_dir, slo={}) as node:
        yield looking(node)


def windows(node: RealNode, count: int) -> list[Finding]:
    return [finding for done in node.rounds(count, WINDOW_S) for finding in done.findings]


def told(findings: list[Finding]) -> list[tuple[Step, str]]:
    return [(finding.taken.step, finding.taken.uid) for finding in findings]


def until_held(node: RealNode, uid: str) -> list[Finding]:
    """What is found until a pod is held back. What others run on the machine may spoil a window or two."""
    findings: list[Finding] = []
    for _ in range(MOST_WINDOWS):
        findings += windows(node, 1)
        if (Step.HELD_BACK, uid) in told(findings):
            return findings
    raise AssertionError([sentence(finding.episode, str, float) for finding in findings])


def test_a_spinner_beside_a_periodic_task_is_named_and_held_back_and_all_is_put_back(tmp_path: Path) -> None:
    needs_room()
    with watched_node(tmp_path) as node, ExitStack() as running:
        web, build = node.pod("web", "LS", requests={"cpu": "400m"}), node.pod("build", **batch())
        idle, cpu = node.pod("idle", **batch()), min(node.topology.all)
        node.round()
        before = node.settings()
        running.enter_context(Process(node.cgroups, web.containers[0].directory, periodic_on(cpu)))
        running.enter_context(Process(node.cgroups, idle.containers[0].directory, lambda: time.sleep(600)))
        calm = windows(node, 1 + LEARNING)
        running.enter_context(Process(node.cgroups, build.containers[0].directory, burn_on(cpu)))
        # Three windows, where nothing else runs on the machine.
        findings = until_held(node, "build")
        assert not any(
            suspect.uid == "idle" for finding in calm + findings for suspect in finding.episode.suspects.listed
        )
        assert "build used more CPU meanwhile" in sentence(findings[-1].episode, str, float)
        held = node.cgroups.get(CPU_QUOTA, build.directory)
        assert isinstance(held, int)
        assert 10_000 <= held <= 30_000, "a quarter of one CPU"
        # Another agent, after this one was killed, knows what was there, and not why it was changed.
        node.start()
        looking(node)
        node.round()
        assert node.settings() == before


def throttled_beside_burners(state_dir: Path) -> list[tuple[Step, str]]:
    """What is done in five windows while a service meets its own limit and best effort burns the other CPUs."""
    with watched_node(state_dir) as node, ExitStack() as running:
        web, build = node.pod("web", "LS", limits={"cpu": "200m"}), node.pod("build", **batch())
        container = web.containers[0].directory
        cpu, *others = sorted(node.topology.all)
        running.enter_context(Process(node.cgroups, container, periodic_on(cpu)))
        windows(node, 1 + LEARNING)
        for other in others:
            running.enter_context(Process(node.cgroups, build.containers[0].directory, burn_on(other)))
        running.enter_context(Process(node.cgroups, container, burn_on(cpu)))
        return told(windows(node, 5))


def test_a_task_throttled_by_its_own_limit_is_no_victim(tmp_path: Path) -> None:
    needs_room()
    assert (Step.HELD_BACK, "build") not in throttled_beside_burners(tmp_path)


def fills(path: Path) -> Callable[[], None]:
    """More page cache than its container may have, again and again."""

    def work() -> None:
        while True:
            with path.open("rb", buffering=0) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                while file.read(1 << 20):
                    pass

    return work


def test_a_container_that_meets_its_own_memory_limit_is_seen_to(tmp_path: Path) -> None:
    """On v1 the pod's own counter stays at nothing, whatever its containers meet."""
    file = tmp_path / "large"
    file.write_bytes(os.urandom(32 << 20))
    os.sync()
    with watched_node(tmp_path) as node, ExitStack() as running:
        web = node.pod("web", "LS", requests={"cpu": "400m"})
        (container,) = web.containers
        node.cgroups.set(MEMORY_LIMIT, container.directory, 8 << 20)
        windows(node, 1)
        assert not node.agent.samples.last(names.pod_memory_limit_hits("web"), time.monotonic(), 60.0)
        running.enter_context(Process(node.cgroups, container.directory, fills(file)))
        for _ in range(MOST_WINDOWS):
            windows(node, 1)
            if node.agent.samples.last(names.pod_memory_limit_hits("web"), time.monotonic(), 60.0):
                return
        raise AssertionError("a container of 8 MiB read 32 MiB, and the agent did not see that it met its limit")
