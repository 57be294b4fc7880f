"""GPUs in a simulated cluster: their devices, pods that ask for them, and the policy that packs them.

The policy is an argument of the scheduler's plugin DeviceShare. In a run that names one, that plugin alone scores, so
that policies are compared and not mixtures of them. All filters stay, and no pod makes room for another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace

from koord.api.configuration.component_config import PluginConfig, PluginRef, PluginSet
from koord.api.configuration.scheduler_args import DeviceScoringStrategy, DeviceShareArgs
from koord.api.configuration.scheduler_config import SchedulerConfiguration, SchedulerProfile
from koord.api.configuration.scheduler_plugins import Plugins
from koord.api.machinery.codec import convert
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.protocol.crd.device import Device
from koord.sim.chance import chance
from koord.sim.columns import BatchTasks, GpuShare, NodeGpus
from koord.sim.minutes import Floats
from koord.sim.traces.trace import GpuNode, GpuPod

POLICIES: Final[Mapping[str, str]] = {
    "ShadowPrices": "where the value of what is left, if filled well, falls least",
    "FGD": "where the least idle GPU becomes useless for typical pods",
    "MostAllocated": "best fit: where the least GPU is left",
    "LeastAllocated": "worst fit: where the most GPU is left",
}
"""By the name of the scoring strategy, in the order in which tables show them."""
WHOLE: Final = 1000
"""A GPU, in thousandths."""
GPU_BYTES: Final = 16 << 30
MIB: Final = 1 << 20
_DEVICE_SHARE: Final = "DeviceShare"


def configured(config: SchedulerConfiguration, packing: str) -> SchedulerConfiguration:
    """The configuration with that scoring strategy."""
    return replace(config, profiles=tuple(_packing(profile, packing) for profile in config.profiles))


def _packing(profile: SchedulerProfile, packing: str) -> SchedulerProfile:
    args = profile.args_of(_DEVICE_SHARE, DeviceShareArgs)
    own = replace(
        args,
        scoring_strategy=DeviceScoringStrategy(type=packing),  # type: ignore[arg-type] # checked with the scenario
        disable_device_numa_topology_alignment=True,
    )
    others = tuple(config for config in profile.plugin_config if config.name != _DEVICE_SHARE)
    only = PluginSet(enabled=(PluginRef(_DEVICE_SHARE, 1),), disabled=(PluginRef("*"),))
    nothing = PluginSet(disabled=(PluginRef("*"),))
    plugins = replace(profile.plugins or Plugins(), score=only, pre_score=only, post_filter=nothing)
    return replace(profile, plugins=plugins, plugin_config=(*others, PluginConfig(_DEVICE_SHARE, own)))


def device(node: str, gpus: NodeGpus) -> Device:
    offers = {
        names.RESOURCE_GPU_CORE: "100",
        names.RESOURCE_GPU_MEMORY_RATIO: "100",
        names.RESOURCE_GPU_MEMORY: str(GPU_BYTES),
    }
    devices = [
        {"type": "gpu", "minor": minor, "id": f"{node}-{minor}", "health": True, "resources": offers}
        for minor in range(gpus.number)
    ]
    return convert(Device, {"metadata": {"name": node}, "spec": {"devices": devices}})


def gpus_of(nodes: Sequence[GpuNode]) -> dict[str, NodeGpus]:
    return {node.name: NodeGpus(node.gpus, node.model) for node in nodes if node.gpus}


@dataclass(frozen=True, slots=True)
class Window:
    """The time of a scenario, and the part of it that counts."""

    from_s: float
    to_s: float


def tasks_of(
    pods: Sequence[GpuPod], nodes: Sequence[GpuNode], load: float, window: Window, step_s: float, seed: int
) -> BatchTasks:
    """Pods that use the CPU which they request, for as long as they lived.

    The trace's days are brought to the length of the scenario, and repeated, each time from another moment on, until
    pods would use that share of all GPUs in the part of the scenario that counts.
    """
    living = [pod for pod in pods if pod.end_s > pod.begin_s]
    begin_s = np.array([pod.begin_s for pod in living], np.float64)
    life_s = np.array([pod.end_s - pod.begin_s for pod in living], np.float64)
    gpu_milli = np.array([pod.gpus * pod.gpu_milli for pod in living], np.float64)
    if not gpu_milli.any():
        raise BadInput("the trace has no pod with GPUs that lived")
    share = (begin_s - begin_s.min()) / (np.ptp(begin_s) + 1)
    wanted = load * WHOLE * sum(node.gpus for node in nodes) * (window.to_s - window.from_s)
    rows, turns, arrival_s = [], [], []
    turn = 0
    while wanted > 0:
        at_s = (share + chance(seed, "turn", turn)) % 1 * window.to_s
        order = np.argsort([chance(seed, "pod", turn, pod.name) for pod in living], kind="stable")
        counted_s = np.minimum(at_s + life_s, window.to_s) - np.maximum(at_s, window.from_s)
        asked = np.cumsum((gpu_milli * np.maximum(counted_s, 0.0))[order])
        taken = order[: np.searchsorted(asked, wanted) + 1]
        rows.append(taken)
        arrival_s.append(at_s[taken])
        turns.append(np.full(len(taken), turn))
        wanted -= float(asked[-1])
        turn += 1
    row, turn_of, at_s = np.concatenate(rows), np.concatenate(turns), np.concatenate(arrival_s)
    order = np.argsort(at_s, kind="stable")
    row, turn_of, at_s = row[order], turn_of[order], at_s[order]
    cpu = np.array([pod.cpu_milli for pod in living], np.int64)
    memory = np.array([pod.memory_mib * MIB for pod in living], np.int64)
    shares = [GpuShare(pod.gpus, pod.gpu_milli, pod.models) for pod in living]
    steps = np.maximum(1, np.round(life_s / step_s)).astype(np.int64)[row]
    return BatchTasks(
        ids=tuple(f"{living[i].name}-{turn}" for i, turn in zip(row.tolist(), turn_of.tolist(), strict=True)),
        arrival_s=at_s,
        request_cpu_milli=cpu[row],
        request_memory_bytes=memory[row],
        step_s=step_s,
        offset=np.concatenate(([0], np.cumsum(steps))),
        use_milli=np.repeat(cpu[row], steps).astype(np.float32),
        gpu=tuple(shares[i] for i in row.tolist()),
    )


def capacity_of(nodes: Sequence[str], gpus: Mapping[str, NodeGpus]) -> Floats:
    """By node, its GPUs in thousandths."""
    return np.array([float(WHOLE * gpus[name].number) if name in gpus else 0.0 for name in nodes])


def gpu_milli_of(tasks: BatchTasks) -> Floats:
    """By task, what it asks for of all GPUs together."""
    if tasks.gpu is None:
        return np.zeros(len(tasks.ids))
    return np.array([share.gpus * share.milli for share in tasks.gpu], np.float64)
