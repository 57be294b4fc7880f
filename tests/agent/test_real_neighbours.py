"""The agent beside others who write to the same cgroups.

What kubelet and runtimes write is taken by the kernel while the agent's values are in force. When those are undone,
every file is unchanged, also those that no agent wrote.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from koord.agent.executor.executor import ExecutorOutcome
from koord.agent.executor.write import Write
from koord.agent.host.cgroups import Version
from koord.agent.host.knobs import CPU_BURST, CPU_QUOTA, CPUSET_CPUS
from koord.agent.host.layout import container_dir
from koord.agent.pods import BATCH_CPU, BATCH_MEMORY, AgentPod
from koord.agent.series import names
from koord.agent.state import Kubelet
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.words import PodConditionType
from tests.agent import slices, states
from tests.agent.real import limit_cpu, make
from tests.agent.real_node import DRIVER, RealNode, batch, owning, real_node, suppressed

pytestmark = pytest.mark.root

RATIO = "node.koordinator.sh/cpu-normalization-ratio"
BURST = {"cpuBurstStrategy": {"policy": "auto", "cpuBurstPercent": 1000, "cfsQuotaBurstPercent": 300}}
STATIC = Kubelet("static")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RealNode]:
    with real_node(tmp_path) as made:
        if len(made.topology.cpus) < 2:
            pytest.skip("a machine of two CPUs is needed to leave one of them")
        yield made


def started(node: RealNode, pod: AgentPod, name: str) -> str:
    """A container that a runtime makes in the pod as kubelet's static CPU manager asks: on all shared CPUs."""
    directory = make(node.cgroups, container_dir(pod.directory, f"containerd://{name}", DRIVER))
    node.cgroups.set(CPUSET_CPUS, directory, node.topology.all)
    return directory


def lse(*cpus: int) -> dict[str, Any]:
    return {**owning(*cpus), "qos": "LSE"}


@pytest.mark.parametrize("strategy", [{}, suppressed("cpuset")], ids=["off", "suppressed"])
def test_kubelets_static_cpu_manager_can_start_containers_beside_cpus_that_are_somebodys_alone(
    node: RealNode, strategy: dict[str, Any]
) -> None:
    node.kubelet, node.slo = STATIC, {"resourceUsedThresholdWithBE": {"enable": False}, **strategy}
    job, web = node.pod("job", **batch()), node.pod("web", "LS", requests={"cpu": "100m"})
    alone = min(node.topology.all)
    node.pod("db", **lse(alone))
    node.rounds(2, each_s=0.1)
    for pod in (job, web):
        container = pod.containers[0].directory
        assert alone not in node.cpus(container)
        started(node, pod, "again")
        # Kubelet says so again every ten seconds.
        node.cgroups.set(CPUSET_CPUS, container, node.topology.all)
    node.later_s += 61
    node.rounds(2, each_s=0.1)
    assert [alone in node.cpus(pod.containers[0].directory) for pod in (job, web)] == [False, False]


def test_a_container_starts_again_in_a_pod_whose_quota_is_normalised(node: RealNode) -> None:
    node.gates[AgentGate.CPU_NORMALIZATION] = True
    node.annotations = {RATIO: "1.25"}
    web = node.pod("web", "LS", requests={"cpu": "500m"}, limits={"cpu": "1"})
    node.round()
    assert node.cgroups.get(CPU_QUOTA, web.containers[0].directory) == 80_000
    again = make(node.cgroups, container_dir(web.directory, "containerd://again", DRIVER))
    limit_cpu(node.cgroups, again, 1000)


def two(first: str, second: str) -> list[dict[str, Any]]:
    limits = {"first": first, "second": second}
    return [{"name": name, "resources": {"limits": {"cpu": cpu}}} for name, cpu in limits.items()]


def throttled(node: RealNode, pod: AgentPod, rounds: int) -> None:
    """The last container of a pod is throttled for so long, on an idle node."""
    for _ in range(rounds):
        node.later_s += 1
        node.agent.samples.add(names.NODE_CPU, node.now_s, 0.0)
        node.agent.samples.add(names.container_throttled(pod.containers[-1].id), node.now_s, 0.5)
        assert not decided(node).refused


def decided(node: RealNode) -> ExecutorOutcome:
    """A round on samples of the test."""
    return node.agent.decide(node.state(), node.now_s, is_thorough=True).outcome


@pytest.mark.skipif(slices.IN_USE, reason="systemd's quotas are told to systemd")
def test_a_pod_whose_quota_was_raised_can_be_resized_in_place(node: RealNode) -> None:
    """Kubelet lowers a container below what it may save up, and then the pod below what its other container has."""
    node.slo = BURST
    web = node.pod("web", "LS", containers=two("500m", "700m"))
    before = node.all_files()
    throttled(node, web, 8)
    first, second = (container.directory for container in web.containers)
    assert node.cgroups.get(CPU_QUOTA, second) == 210_000
    assert node.cgroups.get(CPU_BURST, first) == 50_000
    wanted: dict[str, Any] = {"containers": two("200m", "700m"), "driver": DRIVER}
    # What the pod had goes back once kubelet says what it is about.
    asked = states.pod("web", "LS", conditions=[PodConditionType.RESIZE_IN_PROGRESS], **wanted)
    node.pods = {**node.pods, web.uid: asked}
    assert not decided(node).refused
    assert node.all_files() == before
    node.cgroups.set(CPU_QUOTA, first, 20_000)
    node.cgroups.set(CPU_QUOTA, web.directory, 90_000)
    decided(node)
    assert [node.cgroups.get(CPU_QUOTA, each) for each in (first, second, web.directory)] == [20_000, 70_000, 90_000]
    node.pods = {**node.pods, web.uid: states.pod("web", "LS", **wanted)}
    throttled(node, web, 1)
    assert [node.cgroups.get(CPU_QUOTA, each) for each in (first, second, web.directory)] == [20_000, 84_000, 104_000]


@pytest.mark.skipif(slices.IN_USE, reason="systemd's quotas are told to systemd")
def test_at_a_runtimes_word_that_a_pod_is_resized_it_alone_is_left_to_kubelet(node: RealNode) -> None:
    node.slo = BURST
    other = node.pod("other", "LS", containers=two("500m", "700m"))
    before = node.all_files()
    web = node.pod("web", "LS", containers=two("500m", "700m"))
    throttled(node, web, 3)
    assert not node.agent.stood_aside(web, node.now_s).refused
    directories = (web.directory, *(container.directory for container in web.containers))
    assert [node.cgroups.get(CPU_QUOTA, directory) for directory in directories] == [120_000, 50_000, 70_000]
    assert [node.cgroups.get(CPU_BURST, directory) for directory in directories] == [0, 0, 0]
    assert node.cgroups.get(CPU_BURST, other.directory) == 120_000
    assert not node.agent.executor.restore_all(node.now_s).refused
    assert {file: text for file, text in node.all_files().items() if file in before} == before


@pytest.mark.skipif(slices.IN_USE, reason="systemd's quotas are told to systemd")
def test_a_pods_quota_that_somebody_else_reset_is_never_less_than_its_limit(node: RealNode) -> None:
    node.slo = BURST
    web = node.pod("web", "LS", containers=two("500m", "700m"))
    throttled(node, web, 3)
    raised = node.cgroups.get(CPU_QUOTA, web.directory)
    assert isinstance(raised, int)
    if node.cgroups.version is Version.V2:
        node.cgroups.set(CPU_QUOTA, web.directory, 120_000)
    else:
        node.cgroups.set(CPU_QUOTA, web.directory, raised - 10_000)
    node.later_s += 61
    assert not decided(node).refused
    assert node.cgroups.get(CPU_QUOTA, web.directory) == raised


@pytest.mark.skipif(slices.IN_USE, reason="systemd's quotas are told to systemd")
def test_all_of_best_effort_is_held_to_less_than_one_of_its_pods_was_before(node: RealNode) -> None:
    job, executor = node.pod("job", **batch()), node.agent.executor
    before, inside = node.all_files(), (job.directory, job.containers[0].directory)

    def held(directories: Collection[str], quota_us: int, by: str) -> None:
        writes = [Write(CPU_QUOTA, directory, quota_us, by, "") for directory in directories]
        node.later_s += 1
        assert not executor.apply(writes, {by}, node.now_s).refused

    held(inside, 150_000, "interference")
    held([node.best_effort], 100_000, "cpu_suppress")
    held(inside, 150_000, "interference")
    assert node.best_effort_cores == 1.0
    if node.cgroups.version is Version.V1:
        assert [node.cgroups.get(CPU_QUOTA, each) for each in inside] == [100_000, 100_000]
    held([node.best_effort], 180_000, "cpu_suppress")
    held(inside, 150_000, "interference")
    assert [node.cgroups.get(CPU_QUOTA, each) for each in inside] == [150_000, 150_000]
    assert not executor.restore_all(node.now_s).refused
    assert node.all_files() == before


SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    BURST,
    suppressed("cpuset"),
    suppressed("cfsQuota"),
    {**suppressed("cfsQuota"), **BURST},
    {"resourceQOSStrategy": {"lsClass": {"memoryQOS": {"enable": True, "minLimitPercent": 50, "oomKillGroup": 1}}}},
)


def test_whatever_was_written_every_file_is_as_it_was_found(tmp_path: Path) -> None:
    """Of the node's root and all below, in every hierarchy, after four settings that come and go."""
    for seed in range(8):
        chosen = random.Random(seed)
        with real_node(tmp_path / str(seed)) as node:
            web = node.pod("web", "LS", requests={"memory": "64Mi"}, containers=two("500m", "1"))
            node.pod("job", **batch(limits={BATCH_CPU: "500", BATCH_MEMORY: "64Mi"}))
            node.pod("db", **lse(max(node.topology.all)))
            node.gates |= {AgentGate.CPU_NORMALIZATION: True, AgentGate.CGROUP_RECONCILE: True}
            before = node.all_files()
            for _ in range(4):
                node.slo, node.kubelet = chosen.choice(SETTINGS), Kubelet(chosen.choice(["none", "static"]))
                ratio = chosen.choice(["", "1.25", "2"])
                node.annotations = {RATIO: ratio} if ratio else {}
                throttled(node, web, chosen.randint(1, 4))
            assert not node.agent.executor.restore_all(node.now_s).refused
            assert node.all_files() == before, f"seed {seed}"
