"""Cgroups that change hands: made again under the same name, or resized by kubelet while the agent holds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from koord.agent.host.knobs import CPU_QUOTA, CPU_SHARES
from koord.api.configuration.features import AgentGate
from tests.agent import states
from tests.agent.real import limit_cpu, make, remove
from tests.agent.real_node import DRIVER, batch, real_node

pytestmark = pytest.mark.root

RATIO = "node.koordinator.sh/cpu-normalization-ratio"
BATCH_CPU = "kubernetes.io/batch-cpu"


def test_a_cgroup_made_anew_under_the_same_name_is_set_in_the_next_round(tmp_path: Path) -> None:
    with real_node(tmp_path) as node:
        job = node.pod("job", **batch(limits={BATCH_CPU: "500"}))
        node.rounds(2, each_s=0)
        container = job.containers[0].directory
        set_to = [
            node.cgroups.get(knob, each) for knob in (CPU_QUOTA, CPU_SHARES) for each in (job.directory, container)
        ]
        remove(node.cgroups, job.directory)
        for directory in (job.directory, container):
            make(node.cgroups, directory)
        assert node.cgroups.get(CPU_QUOTA, container) == -1
        node.later_s += 11  # Hooks look every ten seconds.
        node.round()
        again = [
            node.cgroups.get(knob, each) for knob in (CPU_QUOTA, CPU_SHARES) for each in (job.directory, container)
        ]
        assert again == set_to


def test_a_pod_resized_while_its_quota_was_normalised_gets_its_new_limit_back(tmp_path: Path) -> None:
    with real_node(tmp_path) as node:
        node.gates[AgentGate.CPU_NORMALIZATION] = True
        node.annotations = {RATIO: "1.25"}
        web = node.pod("web", "LS", requests={"cpu": "500m"}, limits={"cpu": "1"})
        container = web.containers[0].directory
        node.round()
        assert node.cgroups.get(CPU_QUOTA, container) == 80_000
        # Resized to 0.8 cores: kubelet writes what the agent wrote.
        for directory in (container, web.directory):
            limit_cpu(node.cgroups, directory, 800)
        resized = states.pod("web", "LS", requests={"cpu": "500m"}, limits={"cpu": "800m"}, driver=DRIVER)
        node.pods = {**node.pods, web.uid: resized}
        node.round()
        assert node.cgroups.get(CPU_QUOTA, container) == 64_000
        node.annotations = {}
        node.round()
        assert [node.cgroups.get(CPU_QUOTA, each) for each in (container, web.directory)] == [80_000, 80_000]
