"""Wishes name targets, not places: the same ones serve containers that run and that will run."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from koord.agent import wish
from koord.agent.core import Agent
from koord.agent.executor.delivery import Delivery
from koord.agent.executor.executor import Executor
from koord.agent.executor.ledger import Ledger
from koord.agent.hooks.hook import Hook
from koord.agent.hooks.registry import HOOKS, wishes_for
from koord.agent.host.cgroups import Version
from koord.agent.host.knobs import CPU_QUOTA, CPU_SHARES, CPUSET_CPUS, MEMORY_LIMIT, OOM_SCORE_ADJ
from koord.agent.pods import AgentContainer, AgentPod, pod_of
from koord.agent.qos.decision import Eviction, StrategyDecision
from koord.agent.qos.strategy import Sight, Strategy, Turn
from koord.agent.state import NodeState
from koord.agent.wish import Device, Env, Mount, Wish
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.runnable import RunnablePod
from koord.api.kubernetes.words import KubeQoS
from koord.api.machinery.codec import convert
from koord.api.text.cpuset import CPUSet
from tests.agent.states import NOW, node, pod
from tests.agent.trees import Tree

ALL_ON = dict.fromkeys(AgentGate, True)
STATUS = "scheduling.koordinator.sh/resource-status"


def to_come(qos: str, resources: dict[str, str], **annotations: str) -> AgentPod:
    """A pod that kubelet is about to start: it has no container, and no directory."""
    spec = {"name": "main", "resources": {"requests": resources, "limits": resources}}
    meta = {"namespace": "ns", "name": "new", "uid": "u1", "labels": {"koordinator.sh/qosClass": qos}}
    raw = {"metadata": {**meta, "annotations": annotations}, "spec": {"containers": [spec]}}
    return pod_of(convert(RunnablePod, raw), CgroupDriver.SYSTEMD)


def test_hooks_answer_for_a_container_before_it_exists() -> None:
    state = replace(node(slo={}), gates=ALL_ON)
    batch = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"}
    job = to_come("BE", batch, **{"koordinator.sh/oom-score-adj": "500"})
    assert not job.containers[0].directory
    found = wishes_for(state, job, job.containers[0])
    assert {wish.target for wish in found} == {wish.container("u1", "main")}
    assert {wish.setting: wish.value for wish in found} == {
        CPU_SHARES: 512,
        CPU_QUOTA: 50_000,
        MEMORY_LIMIT: 1 << 30,
        OOM_SCORE_ADJ: 1000,
    }
    assert {wish.target for wish in wishes_for(state, job)} == {wish.pod("u1")}


def test_of_two_hooks_on_one_setting_the_later_counts_before_it_exists_too() -> None:
    """Its CPUs are its limit: the quota that normalisation would give is not its."""
    state = replace(node(slo={}), gates=ALL_ON)
    own = to_come("LSR", {"cpu": "2", "memory": "1Gi"}, **{STATUS: '{"cpuset": "2-3"}'})
    found = {wish.setting: wish.value for wish in wishes_for(state, own, own.containers[0])}
    assert found == {CPUSET_CPUS: CPUSet([2, 3]), CPU_QUOTA: -1}


def test_a_gate_that_is_off_and_a_node_that_is_switched_off_want_nothing_of_it() -> None:
    job = to_come("BE", {"kubernetes.io/batch-cpu": "500"})
    assert wishes_for(replace(node(slo={}), gates=dict.fromkeys(AgentGate, False)), job) == ()
    assert wishes_for(replace(node(slo={}), gates=ALL_ON, is_colocation_off=True), job) == ()


def inject(state: NodeState, pod: AgentPod, container: AgentContainer) -> Iterator[Wish]:
    target = wish.container(pod.uid, container.name)
    yield Wish(target, Env("NVIDIA_VISIBLE_DEVICES"), "0,1", "gpu_env", "two devices")
    yield Wish(target, Device("/dev/infiniband/uverbs0"), "/dev/infiniband/uverbs0", "rdma", "a device")
    yield Wish(target, Mount("/tmp/vgpulock"), "/tmp/vgpulock", "gpu_env", "shared devices")


def test_what_only_a_container_to_come_can_have_is_left_to_whoever_makes_it(tmp_path: Path) -> None:
    hook = Hook("inject", AgentGate.GPU_ENV_INJECT, for_container=inject)
    web = pod("web", "LS")
    state = replace(node(web, slo={}), gates=ALL_ON)
    found = wishes_for(state, web, web.containers[0], hooks=(*HOOKS, hook))
    assert {type(wish.setting) for wish in found} >= {Env, Device, Mount}
    tree = Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS)
    tree.pod("web", KubeQoS.BEST_EFFORT, "web-main")
    assert Delivery(tree.cgroups).writes([hook.wishes(state)], state) == []


def test_every_level_has_its_place(tmp_path: Path) -> None:
    apps = [{"name": "nginx", "qos": "LS"}]
    state = node(pod("web", "LS", requests={"cpu": "1"}), slo={"hostApplications": apps})
    tree = Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS)
    targets = {
        wish.NODE: "",
        wish.band(KubeQoS.BEST_EFFORT): "kubepods/besteffort",
        wish.pod("web"): "kubepods/burstable/podweb",
        wish.container("web", "main"): "kubepods/burstable/podweb/web-main",
        wish.application("nginx"): "host-latency-sensitive/nginx",
        wish.cgroup("kubepods/guest"): "kubepods/guest",
    }
    wishes = tuple(Wish(target, CPU_SHARES, 2, "test", "why") for target in (*targets, wish.pod("gone")))
    assert [write.directory for write in Delivery(tree.cgroups).writes([wishes], state)] == list(targets.values())


def test_a_strategy_is_a_value_with_a_memory_of_its_own(tmp_path: Path) -> None:
    """A new one is an entry of the list, and nothing else."""

    def decide(sight: Sight, held: None, rounds: int) -> Turn[int]:
        target = wish.band(KubeQoS.BEST_EFFORT)
        return Turn(StrategyDecision((Wish(target, CPU_SHARES, 100 + rounds, "slow_start", "why"),)), rounds + 1)

    counting = Strategy("slow_start", (AgentGate.CORE_SCHED,), 0, decide)
    tree = Tree(tmp_path, Version.V1, CgroupDriver.CGROUPFS)
    agent = Agent(tree.cgroups, Executor(tree.cgroups, Ledger()), strategies=(counting,))
    off, on = node(slo={}), replace(node(slo={}), gates=ALL_ON)
    seen = []
    for now_s, state in enumerate((off, on, on, off)):
        agent.decide(state, NOW + now_s)
        seen.append(tree.cgroups.get(CPU_SHARES, "kubepods/besteffort"))
    assert seen == [1024, 100, 101, 1024]


def test_only_the_strategy_that_evicted_waits_for_the_effect(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS)
    agent = Agent(tree.cgroups, Executor(tree.cgroups, Ledger()))
    agent.was_evicted(Eviction(pod("job", "BE"), "cpu_evict", "MemoryIsInTheName", "why"), NOW)
    assert agent.last_release_s == {"cpu_evict": NOW}
