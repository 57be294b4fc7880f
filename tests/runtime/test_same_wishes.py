"""One hook function decides; the agent's executor, the proxy and the NRI plugin deliver the same values."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from koord.agent.announced import Asking, PodTold, announced, answer
from koord.agent.hooks.registry import wishes_for
from koord.agent.host.knobs import CPU_QUOTA, CPU_SHARES, CPUSET_CPUS, MEMORY_LIMIT, OOM_SCORE_ADJ, Value
from koord.agent.pods import AgentPod, pod_of
from koord.agent.state import NodeState
from koord.agent.wish import Device, Env, Mount
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.runnable import RunnablePod
from koord.api.machinery.codec import convert
from koord.runtime import nri
from koord.runtime.cri import LinuxContainerResources
from koord.runtime.live.hook_servers import of_adjustment
from tests.agent.states import node

ALL_ON = dict.fromkeys(AgentGate, True)
STATUS = "scheduling.koordinator.sh/resource-status"
ALLOCATED = "scheduling.koordinator.sh/device-allocated"
GPUS = json.dumps({"gpu": [{"minor": 1, "resources": {"koordinator.sh/gpu-core": "100"}}]})

PODS = [
    ("BE", {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"}, {}),
    ("BE", {"kubernetes.io/batch-cpu": "1"}, {"koordinator.sh/oom-score-adj": "900"}),
    ("BE", {"kubernetes.io/batch-memory": "5"}, {}),
    ("LSR", {"cpu": "2", "memory": "1Gi"}, {STATUS: '{"cpuset": "0-1"}'}),
    ("LS", {"cpu": "500m"}, {"koordinator.sh/oom-score-adj": "-7"}),
    ("LS", {"cpu": "1"}, {ALLOCATED: GPUS}),
    ("", {}, {}),
]


def executed(state: NodeState, pod: AgentPod) -> dict[object, Value | str]:
    return {each.setting: each.value for each in wishes_for(state, pod, pod.containers[0])}


@pytest.mark.parametrize(("qos", "resources", "annotations"), PODS)
def test_all_three_deliver_the_same(qos: str, resources: dict[str, str], annotations: dict[str, str]) -> None:
    state = replace(node(slo={}), gates=ALL_ON)
    labels = {"koordinator.sh/qosClass": qos} if qos else {}
    meta = {"uid": "u1", "name": "p", "namespace": "ns", "labels": labels, "annotations": annotations}
    spec = {"containers": [{"name": "main", "resources": {"requests": resources, "limits": resources}}]}
    pod = pod_of(convert(RunnablePod, {"metadata": meta, "spec": spec}), CgroupDriver.CGROUPFS)
    wanted = executed(state, pod)
    told = PodTold("u1", "p", "ns", labels, annotations, f"/{pod.directory}")
    adjustment = answer(state, pod, Asking(told, "main"))

    by_proxy = of_adjustment(adjustment, is_pod=False)
    numbers = by_proxy.resources or LinuxContainerResources()
    assert (numbers.cpu_shares or None, numbers.cpu_quota or None) == (wanted.get(CPU_SHARES), wanted.get(CPU_QUOTA))
    assert (numbers.memory_limit_in_bytes or None) == wanted.get(MEMORY_LIMIT)
    assert (numbers.oom_score_adj or None) == wanted.get(OOM_SCORE_ADJ)
    cpus = wanted.get(CPUSET_CPUS)
    assert numbers.cpuset_cpus == ("" if cpus is None else str(cpus))
    assert by_proxy.envs == {each.name: text for each, text in wanted.items() if isinstance(each, Env)}
    devices = {each.path for each in wanted if isinstance(each, Device)}
    mounts = {each.path for each in wanted if isinstance(each, Mount)}
    assert {each.container_path for each in by_proxy.devices} == devices
    assert {each.container_path for each in by_proxy.mounts} == mounts

    by_nri = nri.adjustment(adjustment)
    linux = by_nri.linux or nri.LinuxContainerAdjustment()
    found = linux.resources or nri.LinuxResources()
    cpu, memory = found.cpu or nri.LinuxCPU(), found.memory or nri.LinuxMemory()
    for shown, knob in (
        (cpu.shares, CPU_SHARES),
        (cpu.quota, CPU_QUOTA),
        (memory.limit, MEMORY_LIMIT),
        (linux.oom_score_adj, OOM_SCORE_ADJ),
    ):
        assert (None if shown is None else shown.value) == wanted.get(knob)
    assert cpu.cpus == numbers.cpuset_cpus
    assert {each.key: each.value for each in by_nri.env} == by_proxy.envs
    assert {each.destination for each in by_nri.mounts} == mounts


def test_a_pod_that_only_the_runtime_knows_is_made_like_one_that_kubelet_lists() -> None:
    state = replace(node(slo={}), gates=ALL_ON)
    batch = {"kubernetes.io/batch-cpu": "750", "kubernetes.io/batch-memory": "2Gi"}
    extended = json.dumps({"containers": {"main": {"requests": batch, "limits": batch}}})
    annotations = {"node.koordinator.sh/extended-resource-spec": extended}
    told = PodTold("u1", "p", "ns", {"koordinator.sh/qosClass": "BE"}, annotations, "/kubepods/besteffort/podu1")
    unknown = announced(told, CgroupDriver.CGROUPFS)
    found = answer(state, unknown, Asking(told, "main"))
    assert (found.cpu_quota_us, found.cpu_shares, found.memory_limit_bytes) == (75_000, 768, 2 << 30)
