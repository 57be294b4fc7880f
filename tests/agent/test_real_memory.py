"""Memory QoS on a real kernel with cgroup v2: the limit that slows a batch pod holds what it reads."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from koord.agent.host.cgroups import Version
from koord.agent.host.knobs import MEMORY_HIGH, MEMORY_LIMIT
from koord.api.configuration.features import AgentGate
from tests.agent.loads import Process
from tests.agent.real_node import RealNode, batch, real_node

pytestmark = pytest.mark.root

MIB = 1 << 20
LIMIT = 64 * MIB
SLACK = 4 * MIB
"""What a process has beside the file, and what the kernel charges in one go."""


def reads(path: Path) -> Callable[[], None]:
    def work() -> None:
        while True:
            with path.open("rb", buffering=0) as file:
                while file.read(MIB):
                    pass

    return work


def used(node: RealNode, directory: str) -> int:
    return int(node.cgroups.files.once(node.cgroups.name("memory", directory, "memory.current")))


def test_a_batch_pod_fills_memory_up_to_where_it_is_slowed_and_further_when_that_is_switched_off(
    tmp_path: Path,
) -> None:
    config = {"enable": True, "throttlingPercent": 50, "minLimitPercent": 0, "lowLimitPercent": 0}
    with real_node(tmp_path, slo={"resourceQOSStrategy": {"beClass": {"memoryQOS": config}}}) as node:
        if node.cgroups.version is Version.V1:
            pytest.skip("memory.high needs cgroup v2")
        node.gates[AgentGate.CGROUP_RECONCILE] = True
        file = tmp_path / "large"
        file.write_bytes(os.urandom(2 * LIMIT))
        os.sync()
        os.posix_fadvise(fd := os.open(file, os.O_RDONLY), 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
        asked = {"kubernetes.io/batch-cpu": "1000", "kubernetes.io/batch-memory": str(LIMIT // 4)}
        pod = node.pod("job", **batch(requests=asked, limits={"kubernetes.io/batch-memory": str(LIMIT)}))
        (container,) = pod.containers
        node.cgroups.set(MEMORY_LIMIT, container.directory, LIMIT)
        before = node.settings()
        node.rounds(2)
        high = node.cgroups.get(MEMORY_HIGH, container.directory)
        assert isinstance(high, int)
        assert LIMIT // 2 < high < LIMIT - 2 * SLACK
        with Process(node.cgroups, container.directory, reads(file)):
            assert node.until(lambda: used(node, container.directory) > high - SLACK)
            most = max(used(node, container.directory) for _ in range(10) if node.rounds(1, each_s=0.1))
            assert most <= high + SLACK
            node.slo = {}
            assert node.until(lambda: used(node, container.directory) > high + SLACK), "nothing slows it any more"
        assert not node.agent.executor.restore_all(node.now_s).refused
        assert node.settings() == before
