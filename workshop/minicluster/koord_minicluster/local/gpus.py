"""Which GPUs of this machine a pod sees: those that the scheduler gave it, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from koord.agent.devices.inventory import Inventory, UsableGpu
from koord.agent.hooks.gpu import gpus_of
from koord.agent.pods import AgentPod
from koord_minicluster.local.environment import ConfigError

CUDA_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"


def given(inventory: Inventory, pod: AgentPod) -> tuple[UsableGpu, ...]:
    """Raises ConfigError where this machine has not what the scheduler gave the pod."""
    by_minor = {gpu.minor: gpu for gpu in inventory.usable_gpus()}
    gpus = []
    for device in gpus_of(pod):
        gpu = by_minor.get(device.minor)
        if gpu is None or (device.id and device.id != gpu.uuid):
            named = f"{device.minor} ({device.id})" if device.id else str(device.minor)
            raise ConfigError(f"GPU {named}, which the scheduler gave it, is not on this machine")
        gpus.append(gpu)
    return tuple(gpus)


def gpu_environment(inventory: Inventory, pod: AgentPod) -> dict[str, str]:
    """Names GPUs by UUID, since CUDA numbers them in its own order. A pod without GPUs sees none."""
    return {CUDA_VISIBLE: ",".join(gpu.uuid for gpu in given(inventory, pod))} if inventory.gpus else {}


def hidden_nodes(inventory: Inventory, pod: AgentPod) -> tuple[str, ...]:
    """The device files of this machine's GPUs that the pod may not open, below /dev."""
    own = {node for gpu in given(inventory, pod) for node in gpu.nodes}
    return tuple(dict.fromkeys(node for node in _all_nodes(inventory) if node not in own))


def _all_nodes(inventory: Inventory) -> Iterator[str]:
    for gpu in inventory.gpus:
        yield gpu.node
    for usable in inventory.usable_gpus():
        yield from usable.nodes
