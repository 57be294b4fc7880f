"""The agent beside systemd, which made the cgroups of pods and holds itself to be their owner.

Told a property, it writes again what it knows of that unit, over what the agent wrote; the agent's answer is the next
round. Only where systemd is the first process of a machine that is the test's own.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from koord.agent.executor.executor import VERIFIED_FOR_S
from koord.agent.host.convert import LEAST_SHARES
from koord.agent.host.knobs import CPU_BURST, CPU_QUOTA, CPU_SHARES
from koord.agent.pods import BATCH_CPU
from koord.api.text.cpuset import CPUSet
from tests.agent import service, slices
from tests.agent.loads import Level, Process, burn, cores
from tests.agent.real_node import RealNode, batch, owning, real_node, suppressed
from tests.agent.test_real_disturbed import BURST, IDENTITY, restore
from tests.waiting import until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not slices.IN_USE, reason="systemd is not the first process of a machine of the test's own"),
]

KILLS = 4
HELD_CORES = 0.7
"What best effort has at most, of a node of one core."


def test_systemd_as_the_second_writer_is_survived_and_corrected(tmp_path: Path) -> None:
    slo = {**suppressed("cfsQuota"), **BURST, **IDENTITY}
    with real_node(tmp_path, cores=1, slo=slo) as node, ExitStack() as running:
        first, *_ = sorted(node.topology.all)
        web = node.pod("web", "LS", limits={"cpu": "300m"})
        job = node.pod("job", **batch(limits={BATCH_CPU: "500"}))
        owner = node.pod("owner", **owning(first))
        before = node.settings()
        container, batch_container = web.containers[0].directory, job.containers[0].directory
        for directory, work in ((container, cores(Level(0.1))), (batch_container, burn)):
            running.enter_context(Process(node.cgroups, directory, work))
        node.rounds(2)
        assert node.best_effort_cores < HELD_CORES
        shares = [node.cgroups.get(CPU_SHARES, directory) for directory in (job.directory, batch_container)]
        for quota, weight in (("5%", "idle"), ("80%", "20"), ("", "300"), ("", "100")):
            for directory in (node.best_effort, job.directory, batch_container):
                slices.tell(directory, f"CPUQuota={quota}", f"CPUWeight={weight}")
            slices.tell(container, f"CPUQuota={quota or '30%'}")
            slices.systemctl("daemon-reload")
            node.rounds(2)
            assert node.best_effort_cores < HELD_CORES, "what holds best effort back is looked at in each round"
        # The rest is looked at again after a minute.
        node.later_s += VERIFIED_FOR_S
        assert not [done for done in node.rounds(2) if done.outcome.refused]
        assert node.cgroups.get(CPU_SHARES, node.best_effort) == LEAST_SHARES
        assert [node.cgroups.get(CPU_SHARES, directory) for directory in (job.directory, batch_container)] == shares
        assert [node.cgroups.get(CPU_QUOTA, directory) for directory in (job.directory, batch_container)] == [-1, -1]
        assert node.cgroups.get(CPU_BURST, container) == 30_000
        assert node.cpus(container) == node.topology.all - CPUSet([first])
        assert node.cpus(owner.directory) == CPUSet([first])
        assert not node.agent.executor.restore_all(node.now_s).refused
        assert node.settings() == before


def test_an_agent_that_systemd_starts_again_holds_best_effort_back_again(tmp_path: Path) -> None:
    slo = {**suppressed("cfsQuota"), **IDENTITY}
    with real_node(tmp_path, cores=1, slo=slo) as node, ExitStack() as running:
        node.pod("web", "LS", limits={"cpu": "300m"})
        job = node.pod("job", **batch(limits={BATCH_CPU: "500"}))
        before = node.settings()
        running.enter_context(Process(node.cgroups, job.containers[0].directory, burn))
        with service.running(node):
            until(lambda: is_held(node), what="the service holds best effort back")
            for number in range(1, KILLS + 1):
                time.sleep(0.07 * number)
                slices.systemctl("kill", "--signal=KILL", service.UNIT)
                # While no agent looks.
                slices.tell(node.best_effort, "CPUQuota=", f"CPUWeight={100 * number}")
                slices.systemctl("daemon-reload")
                until(partial(has_restarted, number), what="systemd starts it again")
                until(lambda: is_held(node), what="and the next one goes on")
            assert runs_in_its_own_cgroup(node)
        slices.tell(node.best_effort, "CPUWeight=100")
        restore(node, before, "with the service stopped")


def is_held(node: RealNode) -> bool:
    return node.best_effort_cores < HELD_CORES and node.cgroups.get(CPU_SHARES, node.best_effort) == LEAST_SHARES


def has_restarted(times: int) -> bool:
    return int(slices.systemctl("show", "--property=NRestarts", "--value", service.UNIT)) >= times


def runs_in_its_own_cgroup(node: RealNode) -> bool:
    pid = int(slices.systemctl("show", "--property=MainPID", "--value", service.UNIT))
    return node.cgroups.processes(f"system.slice/{service.UNIT}") == (pid,)
