"""A memory limit that is lowered while more is in use, on a real kernel: cgroup v1 refuses it, cgroup v2 would kill."""

from __future__ import annotations

import pytest

from koord.agent.executor.executor import Executor, ExecutorOutcome
from koord.agent.executor.ledger import Ledger
from koord.agent.executor.write import Write
from koord.agent.host.knobs import MEMORY_LIMIT
from koord.agent.host.layout import qos_dir
from koord.agent.host.usage import memory
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from tests.agent.loads import Level, Process, hold
from tests.agent.real import make, real_cgroups
from tests.waiting import until

pytestmark = pytest.mark.root

MIB = 1 << 20
LOW, HIGH, HELD = 64 * MIB, 512 * MIB, 160 * MIB


def test_a_process_outlives_a_limit_below_what_it_uses_and_the_limit_comes_when_it_is_gone() -> None:
    with real_cgroups() as cgroups:
        job = make(cgroups, f"{qos_dir(KubeQoS.BEST_EFFORT, CgroupDriver.CGROUPFS)}/podjob")
        cgroups.set(MEMORY_LIMIT, job, HIGH)
        executor = Executor(cgroups, Ledger())

        def limited(to: int, now_s: float) -> ExecutorOutcome:
            return executor.apply(
                [Write(MEMORY_LIMIT, job, to, "batch_resource", "its spec")], {"batch_resource"}, now_s
            )

        limited(HIGH + MIB, 0.0)
        with Process(cgroups, job, hold(Level(HELD))):
            # What the process shares with the test that forked it is charged elsewhere: the cgroup's own charge counts.
            until(lambda: memory(cgroups, job).without_page_cache >= HELD)
            for now_s in (1.0, 2.0):
                assert len(limited(LOW, now_s).refused) == 1
                assert cgroups.get(MEMORY_LIMIT, job) == HIGH + MIB
            assert memory(cgroups, job).without_page_cache >= HELD, "it lives"
        assert limited(LOW, 3.0).refused == []
        assert cgroups.get(MEMORY_LIMIT, job) == LOW
