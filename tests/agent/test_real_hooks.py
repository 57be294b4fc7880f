"""What hooks set, on a real kernel: it refuses nothing, and all of it can be undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from koord.agent.host.knobs import MEMORY_LIMIT
from koord.agent.host.layout import container_dir
from koord.agent.pods import BATCH_MEMORY
from koord.api.kubernetes.words import KubeQoS
from koord.api.text.cpuset import CPUSet
from tests.agent.real import make
from tests.agent.real_node import DRIVER, batch, owning, real_node

pytestmark = pytest.mark.root


def test_services_make_room_for_a_pod_with_cpus_of_its_own_and_come_back(tmp_path: Path) -> None:
    """With the sandboxes that are in their directories, and with one that came while they had less room."""
    with real_node(tmp_path) as node:
        if len(node.topology.cpus) < 2:
            pytest.skip("a machine of two CPUs is needed to leave one of them")
        web = node.pod("web", "LS", requests={"cpu": "100m"})
        sandbox = make(node.cgroups, container_dir(web.directory, "containerd://pause", DRIVER))
        before = node.settings()
        first = node.topology.all & CPUSet([min(node.topology.all)])
        db = node.pod("db", **owning(*first))
        assert not node.round().outcome.refused
        burstable = node.directory(KubeQoS.BURSTABLE)
        for directory in (burstable, web.directory, web.containers[0].directory, sandbox):
            assert node.cpus(directory) == node.topology.all - first
        late = node.pod("late", "LS", requests={"cpu": "100m"})
        assert not node.round().outcome.refused
        node.drop(db)
        assert not node.round().outcome.refused
        assert node.cpus(late.containers[0].directory) == node.topology.all
        node.drop(late)
        assert node.settings() == before


def test_a_limit_that_is_no_number_of_pages_is_written_once_and_put_back(tmp_path: Path) -> None:
    with real_node(tmp_path) as node:
        job = node.pod("job", **batch(limits={BATCH_MEMORY: "100M"}))
        before = node.settings()
        assert not node.round().outcome.refused
        kept = node.cgroups.get(MEMORY_LIMIT, job.containers[0].directory)
        assert isinstance(kept, int)
        assert 0 <= 100_000_000 - kept < 1 << 16
        node.later_s += 61
        assert not any(done.write.knob is MEMORY_LIMIT for done in node.round().outcome.done)
        node.agent.executor.restore_all(node.now_s)
        assert node.settings() == before
