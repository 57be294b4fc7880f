"""Core scheduling on a kernel that has it, on a machine with two threads a core: in a guest (`make test-guest`)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from koord.agent.host.core_sched import KernelCookies
from koord.agent.host.files import Files
from koord.api.configuration.features import AgentGate
from tests.agent.loads import Process, burn, nap
from tests.agent.real import make
from tests.agent.real_node import RealNode, real_node

pytestmark = pytest.mark.root

BOTH = {
    "resourceQOSStrategy": {
        "policies": {"cpuPolicy": "coreSched"},
        "lsClass": {"cpuQOS": {"enable": True}},
        "beClass": {"cpuQOS": {"enable": True}},
    }
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RealNode]:
    if missing := KernelCookies(Files("/")).absence():
        pytest.skip(missing)
    with real_node(tmp_path) as found:
        found.gates[AgentGate.CORE_SCHED] = True
        found.slo = BOTH
        found.start()
        yield found


def test_cookies_are_given_mended_kept_over_a_restart_and_taken_away(node: RealNode) -> None:
    cookies = KernelCookies(Files("/"))
    web, job = node.pod("web", "LS", requests={"cpu": "1"}), node.pod("job", "BE")
    make(node.cgroups, f"{web.directory}/pause")
    with ExitStack() as running:

        def start(directory: str) -> int:
            return running.enter_context(Process(node.cgroups, directory, nap)).pid

        services = [start(web.containers[0].directory) for _ in range(2)]
        jobs = [start(job.containers[0].directory)]
        sandbox = start(f"{web.directory}/pause")
        node.reconciled()
        given, of_job = {*map(cookies.of, services)}, cookies.of(jobs[0])
        assert len(given) == 1
        assert of_job not in (0, *given)
        assert 0 not in given
        assert (cookies.of(sandbox), cookies.of(os.getppid())) == (0, 0)
        services.append(start(web.containers[0].directory))
        assert cookies.of(services[-1]) == 0
        node.start()
        node.reconciled()
        assert {*map(cookies.of, services)} == given, "another agent goes on with them"
        assert cookies.of(jobs[0]) == of_job
        node.start()
        assert not node.agent.executor.restore_all(node.now_s).refused
        assert {*map(cookies.of, [*services, *jobs])} == {0}


def test_two_groups_never_run_beside_each_other_on_one_core(node: RealNode) -> None:
    """Both threads of a core, and a process of each group: together they get one core's time, not two."""
    pair = next(cpus for cpus in node.topology.siblings.values() if len(cpus) == 2)
    web, job = node.pod("web", "LS", requests={"cpu": "1"}), node.pod("job", "BE")
    with ExitStack() as running:
        burners = []
        for cpu, pod in zip(sorted(pair), (web, job), strict=True):
            burners.append(running.enter_context(Process(node.cgroups, pod.containers[0].directory, burn)).pid)
            os.sched_setaffinity(burners[-1], {cpu})
        apart = _cores(burners)
        node.reconciled()
        together = _cores(burners)
        assert apart > 1.6
        assert together < 1.3


def _cores(pids: list[int], for_s: float = 2.0) -> float:
    def used() -> float:
        return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids) / 1e9

    began, before = time.monotonic(), used()
    time.sleep(for_s)
    return (used() - before) / (time.monotonic() - began)
