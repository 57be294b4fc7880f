"""The messages of NRI (v1alpha1) that koord reads or sends, by their public field numbers, and wishes in its words."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from koord.agent.adjustment import Adjustment
from koord.agent.announced import Asking, PodTold
from koord.api.machinery.messages import Message, at

PLUGIN_SERVICE: Final = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE: Final = "nri.pkg.api.v1alpha1.Runtime"

RUN_POD_SANDBOX, REMOVE_POD_SANDBOX, CREATE_CONTAINER, UPDATE_CONTAINER, STOP_CONTAINER = 1, 3, 4, 8, 10
EVENTS: Final = sum(
    1 << (event - 1)
    for event in (RUN_POD_SANDBOX, REMOVE_POD_SANDBOX, CREATE_CONTAINER, UPDATE_CONTAINER, STOP_CONTAINER)
)
CREATED, RUNNING = 1, 3


@dataclass(slots=True)
class Number(Message):
    """Of a field that may be absent."""

    value: int = at(1, 0)


@dataclass(slots=True)
class Text(Message):
    """Likewise."""

    value: str = at(1, "")


@dataclass(slots=True)
class LinuxMemory(Message):
    limit: Number | None = at(1, None)


@dataclass(slots=True)
class LinuxCPU(Message):
    shares: Number | None = at(1, None)
    quota: Number | None = at(2, None)
    period: Number | None = at(3, None)
    cpus: str = at(6, "")


@dataclass(slots=True)
class LinuxResources(Message):
    memory: LinuxMemory | None = at(1, None)
    cpu: LinuxCPU | None = at(2, None)
    rdt_class: Text | None = at(5, None)


@dataclass(slots=True)
class LinuxPodSandbox(Message):
    cgroup_parent: str = at(3, "")


@dataclass(slots=True)
class PodSandbox(Message):
    id: str = at(1, "")
    name: str = at(2, "")
    uid: str = at(3, "")
    namespace: str = at(4, "")
    labels: dict[str, str] = at(5, dict)
    annotations: dict[str, str] = at(6, dict)
    linux: LinuxPodSandbox | None = at(8, None)


@dataclass(slots=True)
class LinuxDevice(Message):
    path: str = at(1, "")
    type: str = at(2, "")
    major: int = at(3, 0)
    minor: int = at(4, 0)
    file_mode: Number | None = at(5, None)


@dataclass(slots=True)
class LinuxContainer(Message):
    resources: LinuxResources | None = at(3, None)


@dataclass(slots=True)
class Container(Message):
    id: str = at(1, "")
    pod_sandbox_id: str = at(2, "")
    name: str = at(3, "")
    state: int = at(4, 0)
    linux: LinuxContainer | None = at(11, None)


@dataclass(slots=True)
class RegisterPluginRequest(Message):
    plugin_name: str = at(1, "")
    plugin_idx: str = at(2, "")


@dataclass(slots=True)
class ConfigureRequest(Message):
    runtime_name: str = at(2, "")
    runtime_version: str = at(3, "")
    request_timeout: int = at(5, 0)


@dataclass(slots=True)
class ConfigureResponse(Message):
    events: int = at(2, 0)


@dataclass(slots=True)
class SynchronizeRequest(Message):
    pods: list[PodSandbox] = at(1, list)
    containers: list[Container] = at(2, list)
    more: bool = at(3, False)


@dataclass(slots=True)
class LinuxContainerUpdate(Message):
    resources: LinuxResources | None = at(1, None)


@dataclass(slots=True)
class ContainerUpdate(Message):
    container_id: str = at(1, "")
    linux: LinuxContainerUpdate | None = at(2, None)
    ignore_failure: bool = at(3, False)


@dataclass(slots=True)
class SynchronizeResponse(Message):
    update: list[ContainerUpdate] = at(1, list)
    more: bool = at(2, False)


@dataclass(slots=True)
class UpdateContainersRequest(Message):
    update: list[ContainerUpdate] = at(1, list)


@dataclass(slots=True)
class UpdateContainersResponse(Message):
    failed: list[ContainerUpdate] = at(1, list)


@dataclass(slots=True)
class StateChangeEvent(Message):
    event: int = at(1, 0)
    pod: PodSandbox | None = at(2, None)
    container: Container | None = at(3, None)


@dataclass(slots=True)
class PodAndContainer(Message):
    """What most calls carry."""

    pod: PodSandbox | None = at(1, None)
    container: Container | None = at(2, None)


@dataclass(slots=True)
class UpdateContainerRequest(Message):
    pod: PodSandbox | None = at(1, None)
    container: Container | None = at(2, None)
    resources: LinuxResources | None = at(3, None)
    "What kubelet changes."

    @property
    def cpu_quota_us(self) -> int:
        cpu = self.resources.cpu if self.resources is not None else None
        return cpu.quota.value if cpu is not None and cpu.quota is not None else 0


@dataclass(slots=True)
class Mount(Message):
    destination: str = at(1, "")
    type: str = at(2, "")
    source: str = at(3, "")
    options: list[str] = at(4, list)


@dataclass(slots=True)
class KeyValue(Message):
    key: str = at(1, "")
    value: str = at(2, "")


@dataclass(slots=True)
class LinuxContainerAdjustment(Message):
    devices: list[LinuxDevice] = at(1, list)
    resources: LinuxResources | None = at(2, None)
    oom_score_adj: Number | None = at(4, None)


@dataclass(slots=True)
class CdiDevice(Message):
    name: str = at(1, "")


@dataclass(slots=True)
class ContainerAdjustment(Message):
    mounts: list[Mount] = at(3, list)
    env: list[KeyValue] = at(4, list)
    linux: LinuxContainerAdjustment | None = at(6, None)
    cdi: list[CdiDevice] = at(8, list)


@dataclass(slots=True)
class CreateContainerResponse(Message):
    adjust: ContainerAdjustment | None = at(1, None)


@dataclass(slots=True)
class UpdateContainerResponse(Message):
    update: list[ContainerUpdate] = at(1, list)


def asking(pod: PodSandbox, container: str = "") -> Asking:
    parent = pod.linux.cgroup_parent if pod.linux is not None else ""
    pod_info = PodTold(pod.uid, pod.name, pod.namespace, pod.labels, pod.annotations, parent)
    return Asking(pod_info, container, "nri")


def resources(wanted: Adjustment) -> LinuxResources | None:
    """None where nothing is wanted."""
    cpu = LinuxCPU(
        _number(wanted.cpu_shares), _number(wanted.cpu_quota_us), _number(wanted.cpu_period_us), wanted.cpus or ""
    )
    memory = LinuxMemory(_number(wanted.memory_limit_bytes)) if wanted.memory_limit_bytes is not None else None
    if memory is None and cpu == LinuxCPU():
        return None
    return LinuxResources(memory, cpu if cpu != LinuxCPU() else None)


def adjustment(wanted: Adjustment) -> ContainerAdjustment:
    limits = resources(wanted)
    if wanted.rdt_class:
        # Only here: tasks that run already are moved by the agent.
        limits = limits or LinuxResources()
        limits.rdt_class = Text(wanted.rdt_class)
    linux = LinuxContainerAdjustment(
        [device for wanted_device in wanted.devices for device in _device(wanted_device.path, wanted_device.host_path)],
        limits,
        _number(wanted.oom_score_adj),
    )
    mounts = [
        Mount(mount.path, "bind", mount.host_path, ["rbind", "ro" if mount.is_read_only else "rw"])
        for mount in wanted.mounts
    ]
    env = [KeyValue(name, value) for name, value in wanted.env.items()]
    cdi = [CdiDevice(name) for name in wanted.cdi]
    return ContainerAdjustment(mounts, env, linux if linux != LinuxContainerAdjustment() else None, cdi)


def update(container: str, wanted: Adjustment) -> ContainerUpdate | None:
    linux = resources(wanted)
    return ContainerUpdate(container, LinuxContainerUpdate(linux), True) if linux is not None else None


def is_news(wanted: Adjustment, given: Adjustment) -> bool:
    """Whether a running container needs other settings than it was given. Settings that no hook wants stay."""
    pairs = (
        (wanted.cpu_shares, given.cpu_shares),
        (wanted.cpu_quota_us, given.cpu_quota_us),
        (wanted.cpu_period_us, given.cpu_period_us),
        (wanted.memory_limit_bytes, given.memory_limit_bytes),
        (wanted.cpus, given.cpus),
    )
    return any(wish is not None and wish != before for wish, before in pairs)


def differs(has: LinuxResources | None, wanted: Adjustment) -> bool:
    """Whether a running container has other values than it should."""
    has = has or LinuxResources()
    cpu, memory = has.cpu or LinuxCPU(), has.memory or LinuxMemory()
    pairs = (
        (cpu.shares, wanted.cpu_shares),
        (cpu.quota, wanted.cpu_quota_us),
        (memory.limit, wanted.memory_limit_bytes),
    )
    for shown, wish in pairs:
        if wish is not None and _shown(shown) != wish:
            return True
    return wanted.cpus is not None and cpu.cpus != wanted.cpus


def _shown(number: Number | None) -> int:
    """What is not said is not limited."""
    return number.value if number is not None and number.value > 0 else -1


def _number(value: int | None) -> Number | None:
    return None if value is None else Number(value)


def _device(path: str, host_path: str) -> Iterable[LinuxDevice]:
    """Of a device that this node has."""
    try:
        status = os.stat(host_path)
    except OSError:
        return
    kind = "c" if stat.S_ISCHR(status.st_mode) else "b" if stat.S_ISBLK(status.st_mode) else ""
    if kind:
        mode = Number(stat.S_IMODE(status.st_mode))
        yield LinuxDevice(path, kind, os.major(status.st_rdev), os.minor(status.st_rdev), mode)
