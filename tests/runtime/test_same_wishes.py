"""One hook function decides; the agent's executor, the proxy and the NRI plugin deliver the same values."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from koord.agent.adjustment import Adjustment
from koord.agent.announced import Asking, PodTold, announced, answer
from koord.agent.devices.inventory import Gpu, Inventory, RdmaCard
from koord.agent.hooks.registry import HOOKS, wishes_for
from koord.agent.host.knobs import CPU_QUOTA, CPU_SHARES, CPUSET_CPUS, GROUP_IDENTITY, MEMORY_LIMIT, OOM_SCORE_ADJ
from koord.agent.host.knobs import Knob as HostKnob
from koord.agent.pods import AgentPod, pod_of
from koord.agent.state import Kernel, NodeState
from koord.agent.wish import CdiDevice, Device, Env, Mount, Wish
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.runnable import RunnablePod
from koord.api.machinery.codec import convert
from koord.api.machinery.messages import decode, encode
from koord.runtime import nri
from koord.runtime.cri import LinuxContainerResources
from koord.runtime.live.hook_servers import of_adjustment
from tests.agent.hooks.test_hooks import RATIO, identities
from tests.agent.states import node

ALL_ON = dict.fromkeys(AgentGate, True)
STATUS = "scheduling.koordinator.sh/resource-status"
ALLOCATED = "scheduling.koordinator.sh/device-allocated"
WHOLE = {"minor": 1, "resources": {"koordinator.sh/gpu-core": "100"}}
SHARE = {
    "minor": 1,
    "resources": {
        "koordinator.sh/gpu-core": "50",
        "koordinator.sh/gpu-memory-ratio": "50",
        "koordinator.sh/gpu-memory": "40Gi",
    },
}
CARD = {"minor": 0, "resources": {}}
DEVICES = Inventory(
    gpus=(Gpu(minor=1, uuid="GPU-5e", model="H100", memory_bytes=80 << 30, bus_id="0000:3a:00.0"),),
    # A device file that every machine has stands for the card's.
    cards=(RdmaCard("mlx5_0", 0, "0000:3b:00.0", "null"),),
    cdi=("nvidia.com/gpu=GPU-5e", "x.org/net-rdma=0000:3b:00.0"),
)

LEFT_TO_THE_AGENT: Final = {GROUP_IDENTITY}
"""What no runtime can set."""
BY_RUNTIMES: Final = {CPU_SHARES, CPU_QUOTA, MEMORY_LIMIT, OOM_SCORE_ADJ, CPUSET_CPUS}

PODS = [
    ("BE", {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"}, {}),
    ("BE", {"kubernetes.io/batch-cpu": "1"}, {"koordinator.sh/oom-score-adj": "900"}),
    ("BE", {"kubernetes.io/batch-memory": "5"}, {}),
    ("LSR", {"cpu": "2", "memory": "1Gi"}, {STATUS: '{"cpuset": "0-1"}'}),
    ("LS", {"cpu": "500m"}, {"koordinator.sh/oom-score-adj": "-7"}),
    ("LS", {"cpu": "1"}, {ALLOCATED: json.dumps({"gpu": [WHOLE]})}),
    ("LS", {"cpu": "1"}, {ALLOCATED: json.dumps({"gpu": [SHARE]})}),
    ("LS", {"cpu": "1"}, {ALLOCATED: json.dumps({"gpu": [WHOLE], "rdma": [CARD]})}),
    ("", {}, {}),
]
STATES = {
    "plain": node(slo={}),
    "slower CPUs, by a ratio": node(slo={}, annotations={RATIO: "1.25"}),
    "identities": replace(node(slo=identities(ls=2, be=-1)), kernel=Kernel(has_group_identity=True)),
}


def made(qos: str, resources: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[AgentPod, PodTold]:
    labels = {"koordinator.sh/qosClass": qos} if qos else {}
    labels["koordinator.sh/gpu-isolation-provider"] = "HAMi-core"
    meta = {"uid": "u1", "name": "p", "namespace": "ns", "labels": labels, "annotations": dict(annotations)}
    spec = {"containers": [{"name": "main", "resources": {"requests": resources, "limits": resources}}]}
    pod = pod_of(convert(RunnablePod, {"metadata": meta, "spec": spec}), CgroupDriver.CGROUPFS)
    return pod, PodTold("u1", "p", "ns", labels, dict(annotations), f"/{pod.directory}")


def on(name: str) -> NodeState:
    return replace(STATES[name], gates=ALL_ON, devices=DEVICES)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("qos", "resources", "annotations"), PODS)
def test_all_three_deliver_the_same(
    qos: str, resources: dict[str, str], annotations: dict[str, str], state: str
) -> None:
    pod, pod_told = made(qos, resources, annotations)
    wishes = {wish.setting: wish.value for wish in wishes_for(on(state), pod, pod.containers[0])}
    executed = {each: value for each, value in wishes.items() if each not in LEFT_TO_THE_AGENT}
    adjustment = answer(on(state), pod, Asking(pod_told, "main"))
    assert by_proxy(adjustment) == executed
    # The plugin names devices by their numbers, so it passes over what this machine does not have.
    has = {each: it for each, it in executed.items() if not isinstance(each, Device) or os.path.exists(str(it))}
    assert by_nri(adjustment) == {each: "" if isinstance(each, Device) else it for each, it in has.items()}


def by_proxy(adjustment: Adjustment) -> dict[object, object]:
    """What a runtime is asked for by the proxy, as the wishes that it came of."""
    found = of_adjustment(adjustment, is_pod=False)
    numbers = found.resources or LinuxContainerResources()
    shown: dict[object, object] = {
        CPU_SHARES: numbers.cpu_shares or None,
        CPU_QUOTA: numbers.cpu_quota or None,
        MEMORY_LIMIT: numbers.memory_limit_in_bytes or None,
        OOM_SCORE_ADJ: numbers.oom_score_adj or None,
        CPUSET_CPUS: _cpus(adjustment, numbers.cpuset_cpus),
        **{Env(name): text for name, text in found.envs.items()},
        **{Device(device.container_path, device.permissions): device.host_path for device in found.devices},
        **{Mount(mount.container_path, mount.readonly): mount.host_path for mount in found.mounts},
        **{CdiDevice(name): name for name in found.cdi},
    }
    return {setting: value for setting, value in shown.items() if value is not None}


def by_nri(adjustment: Adjustment) -> dict[object, object]:
    container_adjustment = nri.adjustment(adjustment)
    linux = container_adjustment.linux or nri.LinuxContainerAdjustment()
    resources = linux.resources or nri.LinuxResources()
    cpu, memory = resources.cpu or nri.LinuxCPU(), resources.memory or nri.LinuxMemory()
    numbers = {CPU_SHARES: cpu.shares, CPU_QUOTA: cpu.quota, MEMORY_LIMIT: memory.limit}
    shown: dict[object, object] = {
        **{knob: number.value for knob, number in numbers.items() if number is not None},
        OOM_SCORE_ADJ: linux.oom_score_adj.value if linux.oom_score_adj is not None else None,
        CPUSET_CPUS: _cpus(adjustment, cpu.cpus),
        **{Env(key_value.key): key_value.value for key_value in container_adjustment.env},
        **{Device(device.path): "" for device in linux.devices},
        **{Mount(mount.destination, "ro" in mount.options): mount.source for mount in container_adjustment.mounts},
        **{CdiDevice(cdi_device.name): cdi_device.name for cdi_device in container_adjustment.cdi},
    }
    return {setting: value for setting, value in shown.items() if value is not None}


def _cpus(adjustment: Adjustment, text: str) -> object:
    """No CPUs of its own is said by saying nothing."""
    if adjustment.cpus is None:
        assert text == ""
        return None
    return _Cpus(text)


class _Cpus(str):
    """Equal to the set of CPUs that it names."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other)

    __hash__ = str.__hash__


def all_wishes() -> list[Wish]:
    found = []
    for state in STATES:
        for each in PODS:
            pod, _ = made(*each)
            found += [*wishes_for(on(state), pod), *wishes_for(on(state), pod, pod.containers[0])]
    return found


def test_every_hook_and_every_setting_is_among_what_is_compared() -> None:
    """A new hook needs a pod above for which it wants something; a new setting, a path that delivers it."""
    wishes = all_wishes()
    assert {wish.by for wish in wishes} == {hook.name for hook in HOOKS}
    knobs = {wish.setting for wish in wishes if isinstance(wish.setting, HostKnob)}
    assert knobs == BY_RUNTIMES | LEFT_TO_THE_AGENT
    assert {type(wish.setting) for wish in wishes} == {HostKnob, Env, Device, Mount, CdiDevice}


def test_the_table_of_the_docs_says_of_every_hook_what_it_sets_and_by_which_way() -> None:
    page = (Path(__file__).parents[2] / "docs" / "before-the-first-instruction.md").read_text()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| `")
    ]
    told = {(hook.strip("`"), sets): ways for hook, sets, *ways in rows}
    assert {hook for hook, _ in told} == {str(hook.gate) for hook in HOOKS}
    wants = {hook.name: str(hook.gate) for hook in HOOKS}
    for wish in all_wishes():
        # What it takes away from kubelet is not a way of its own: `CPUs, and no CPU quota`.
        (ways,) = {
            tuple(ways) for (hook, sets), ways in told.items() if hook == wants[wish.by] and WORDS[_kind(wish)] in sets
        }
        alone = "not possible" if not isinstance(wish.setting, HostKnob) else "within a second"
        by_runtime = "left to the agent" if wish.setting in LEFT_TO_THE_AGENT else "first instruction"
        assert [way.partition(",")[0] for way in ways] == [by_runtime, by_runtime, alone], (wish.by, wish.setting)


WORDS: Final[Mapping[object, str]] = {
    CPU_SHARES: "CPU shares",
    CPU_QUOTA: "quota",
    MEMORY_LIMIT: "memory limit",
    CPUSET_CPUS: "CPUs",
    OOM_SCORE_ADJ: "oom_score_adj",
    GROUP_IDENTITY: "group identity",
    Env: "environment",
    Mount: "mounts",
    Device: "device files",
    CdiDevice: "CDI name",
}


def _kind(wish: Wish) -> object:
    return wish.setting if isinstance(wish.setting, HostKnob) else type(wish.setting)


@pytest.mark.parametrize("amount", ["9223372036854775807", "1e30", "99999999999999999999999", "8Ei"])
def test_amounts_that_no_machine_has_are_still_what_a_runtime_takes(amount: str) -> None:
    """A message that a runtime cannot read would cost it the plugin, and a sum beyond 64 bits would be negative."""
    state = replace(node(slo={}), gates=ALL_ON)
    batch = {"kubernetes.io/batch-cpu": amount, "kubernetes.io/batch-memory": amount}
    extended = json.dumps({"containers": {name: {"requests": batch, "limits": batch} for name in ("main", "other")}})
    annotations = {"node.koordinator.sh/extended-resource-spec": extended}
    pod_told = PodTold("u1", "p", "ns", {"koordinator.sh/qosClass": "BE"}, annotations, "/kubepods/besteffort/podu1")
    for container in ("main", ""):
        adjustment = answer(state, announced(pod_told, CgroupDriver.CGROUPFS), Asking(pod_told, container))
        given = nri.adjustment(adjustment)
        assert decode(type(given), encode(given)) == given
        wishes = wishes_for(state, announced(pod_told, CgroupDriver.CGROUPFS))
        assert all(-1 <= wish.value <= 1 << 62 for wish in wishes if isinstance(wish.value, int))


def test_a_pod_that_only_the_runtime_knows_is_made_like_one_that_kubelet_lists() -> None:
    state = replace(node(slo={}), gates=ALL_ON)
    batch = {"kubernetes.io/batch-cpu": "750", "kubernetes.io/batch-memory": "2Gi"}
    extended = json.dumps({"containers": {"main": {"requests": batch, "limits": batch}}})
    annotations = {"node.koordinator.sh/extended-resource-spec": extended}
    pod_told = PodTold("u1", "p", "ns", {"koordinator.sh/qosClass": "BE"}, annotations, "/kubepods/besteffort/podu1")
    unknown = announced(pod_told, CgroupDriver.CGROUPFS)
    adjustment = answer(state, unknown, Asking(pod_told, "main"))
    assert (adjustment.cpu_quota_us, adjustment.cpu_shares, adjustment.memory_limit_bytes) == (75_000, 768, 2 << 30)
