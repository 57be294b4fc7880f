"""Which GPUs a container sees: those that the scheduler gave its pod, and of a share no more than the share.

`NVIDIA_VISIBLE_DEVICES` is for NVIDIA's container runtime, which brings the device files along. It names GPUs by their
minors, as Koordinator does, and a MIG instance by its UUID, since it has no other name there. Where a CDI
specification of the node names a GPU by its UUID, it is also asked for by that name: then any runtime brings it along,
and the file itself says what becomes of the variable. A share's memory and processors are only held to where the
isolation provider's library is on the node; elsewhere its pods must keep to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from koord.agent import wish
from koord.agent.devices.cdi import named
from koord.agent.devices.inventory import FIRST_INSTANCE, NO_DEVICES
from koord.agent.hooks.hook import Hook
from koord.agent.pods import AgentContainer, AgentPod
from koord.agent.state import NodeState
from koord.agent.wish import CdiDevice, Env, Mount, Wish
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.resources import amounts
from koord.api.protocol import names
from koord.api.protocol.annotations.device import DEVICE_ALLOCATED, GPU_ISOLATION_PROVIDER, AllocatedDevice
from koord.api.protocol.annotations.value import AnnotationError

NAME: Final = "gpu"
VISIBLE: Final = Env("NVIDIA_VISIBLE_DEVICES")
HAMI: Final = "HAMi-core"
HAMI_DIRECTORY: Final = "/usr/local/vgpu"
HAMI_LIBRARY: Final = f"{HAMI_DIRECTORY}/libvgpu.so"
HAMI_LOCK: Final = "/tmp/vgpulock"
WHOLE: Final = 100


def gpus_of(pod: AgentPod) -> tuple[AllocatedDevice, ...]:
    """The GPUs allocated to a pod; empty if the annotation is invalid, which an event on the pod reports."""
    try:
        return DEVICE_ALLOCATED.read(pod.meta).get("gpu", ())
    except AnnotationError:
        return ()


def _for_container(state: NodeState, pod: AgentPod, container: AgentContainer) -> Iterator[Wish]:
    given = gpus_of(pod)
    if not given:
        return
    target = wish.container(pod.uid, container.name)
    visible = ",".join(
        device.id if device.minor >= FIRST_INSTANCE and device.id else str(device.minor) for device in given
    )
    yield Wish(target, VISIBLE, visible, NAME, "the scheduler gave the pod these GPUs")
    for name in _specified(state, given):
        yield Wish(target, CdiDevice(name), name, NAME, "a specification of the node has this GPU")
    if GPU_ISOLATION_PROVIDER.read(pod.meta) == HAMI:
        yield from _held_to(state, pod, container, given[0])


def _specified(state: NodeState, given: tuple[AllocatedDevice, ...]) -> Iterator[str]:
    devices = state.devices or NO_DEVICES
    if not devices.cdi:
        return
    uuids = {device.minor: device.uuid for device in devices.others}
    uuids |= {gpu.minor: gpu.uuid for gpu in devices.usable_gpus()}
    for device in given:
        uuid = device.id or uuids.get(device.minor, "")
        name = named(devices.cdi, uuid) if uuid else None
        if name is not None:
            yield name


def _held_to(state: NodeState, pod: AgentPod, container: AgentContainer, share: AllocatedDevice) -> Iterator[Wish]:
    """Shares are alike on all GPUs of a pod."""
    has, target = amounts(share.resources), wish.container(pod.uid, container.name)
    if has.get(names.RESOURCE_GPU_MEMORY_RATIO, WHOLE) >= WHOLE or names.RESOURCE_GPU_MEMORY not in has:
        return
    env = {"CUDA_DEVICE_MEMORY_LIMIT": str(has[names.RESOURCE_GPU_MEMORY])}
    if names.RESOURCE_GPU_CORE in has:
        env["CUDA_DEVICE_SM_LIMIT"] = str(has[names.RESOURCE_GPU_CORE])
    env["LD_PRELOAD"] = HAMI_LIBRARY
    mounts = {HAMI_LIBRARY: HAMI_LIBRARY, HAMI_LOCK: HAMI_LOCK}
    if state.gates[AgentGate.HAMI_CORE_VGPU_MONITOR]:
        own = f"{pod.uid}_{container.name}"
        env["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = f"{HAMI_DIRECTORY}/{own}.cache"
        mounts[HAMI_DIRECTORY] = f"{HAMI_DIRECTORY}/containers/{own}"
    for name, text in env.items():
        yield Wish(target, Env(name), text, NAME, "its share of a GPU, held to by HAMi-core")
    for path, source in mounts.items():
        is_read_only = path == HAMI_LIBRARY
        yield Wish(target, Mount(path, is_read_only), source, NAME, "HAMi-core, which holds it to its share")


HOOK: Final = Hook(NAME, AgentGate.GPU_ENV_INJECT, for_container=_for_container)
