"""The messages of the container runtime interface, v1, that the proxy looks into, by their public field numbers.

Everything else of the interface passes as bytes, whatever it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from koord.api.machinery.messages import Message, at

RUNTIME: Final = "runtime.v1.RuntimeService"
_OF_RUNTIME: Final = """
Version RunPodSandbox StopPodSandbox RemovePodSandbox PodSandboxStatus ListPodSandbox CreateContainer StartContainer
StopContainer RemoveContainer ListContainers ContainerStatus UpdateContainerResources ReopenContainerLog ExecSync Exec
Attach PortForward ContainerStats ListContainerStats PodSandboxStats ListPodSandboxStats UpdateRuntimeConfig Status
CheckpointContainer ListMetricDescriptors ListPodSandboxMetrics RuntimeConfig UpdatePodSandboxResources
"""
_OF_IMAGES: Final = "ListImages ImageStatus PullImage RemoveImage ImageFsInfo"
UNARY: Final = frozenset(
    [f"/{RUNTIME}/{name}" for name in _OF_RUNTIME.split()]
    + [f"/runtime.v1.ImageService/{name}" for name in _OF_IMAGES.split()]
)
"""Calls of one question and one answer, which is the quick way. Any other is passed as one with many answers, as
streams are, which fits both."""


@dataclass(slots=True)
class LinuxContainerResources(Message):
    """Zero and empty say nothing."""

    cpu_period: int = at(1, 0)
    cpu_quota: int = at(2, 0)
    cpu_shares: int = at(3, 0)
    memory_limit_in_bytes: int = at(4, 0)
    oom_score_adj: int = at(5, 0)
    cpuset_cpus: str = at(6, "")
    cpuset_mems: str = at(7, "")
    unified: dict[str, str] = at(9, dict)
    memory_swap_limit_in_bytes: int = at(10, 0)


@dataclass(slots=True)
class PodSandboxMetadata(Message):
    name: str = at(1, "")
    uid: str = at(2, "")
    namespace: str = at(3, "")
    attempt: int = at(4, 0)


@dataclass(slots=True)
class LinuxPodSandboxConfig(Message):
    cgroup_parent: str = at(1, "")
    overhead: LinuxContainerResources | None = at(4, None)
    resources: LinuxContainerResources | None = at(5, None)


@dataclass(slots=True)
class PodSandboxConfig(Message):
    metadata: PodSandboxMetadata | None = at(1, None)
    labels: dict[str, str] = at(6, dict)
    annotations: dict[str, str] = at(7, dict)
    linux: LinuxPodSandboxConfig | None = at(8, None)


@dataclass(slots=True)
class RunPodSandboxRequest(Message):
    config: PodSandboxConfig | None = at(1, None)
    runtime_handler: str = at(2, "")


@dataclass(slots=True)
class SandboxId(Message):
    """RunPodSandbox's answer, and what StopPodSandbox and RemovePodSandbox are asked with."""

    pod_sandbox_id: str = at(1, "")


@dataclass(slots=True)
class ContainerId(Message):
    """CreateContainer's answer, and what StartContainer, StopContainer and RemoveContainer are asked with."""

    container_id: str = at(1, "")


@dataclass(slots=True)
class ContainerMetadata(Message):
    name: str = at(1, "")
    attempt: int = at(2, 0)


@dataclass(slots=True)
class KeyValue(Message):
    key: str = at(1, "")
    value: bytes = at(2, b"")


@dataclass(slots=True)
class Mount(Message):
    container_path: str = at(1, "")
    host_path: str = at(2, "")
    readonly: bool = at(3, False)


@dataclass(slots=True)
class Device(Message):
    container_path: str = at(1, "")
    host_path: str = at(2, "")
    permissions: str = at(3, "")


@dataclass(slots=True)
class CdiDevice(Message):
    """By its whole name. Runtimes of before 1.7 do not know this field, and pass over it."""

    name: str = at(1, "")


@dataclass(slots=True)
class LinuxContainerConfig(Message):
    resources: LinuxContainerResources | None = at(1, None)


@dataclass(slots=True)
class ContainerConfig(Message):
    metadata: ContainerMetadata | None = at(1, None)
    envs: list[KeyValue] = at(6, list)
    mounts: list[Mount] = at(7, list)
    devices: list[Device] = at(8, list)
    annotations: dict[str, str] = at(10, dict)
    linux: LinuxContainerConfig | None = at(15, None)
    cdi: list[CdiDevice] = at(17, list)


@dataclass(slots=True)
class CreateContainerRequest(Message):
    pod_sandbox_id: str = at(1, "")
    config: ContainerConfig | None = at(2, None)
    sandbox_config: PodSandboxConfig | None = at(3, None)


@dataclass(slots=True)
class UpdateContainerResourcesRequest(Message):
    container_id: str = at(1, "")
    linux: LinuxContainerResources | None = at(2, None)
    annotations: dict[str, str] = at(4, dict)


@dataclass(slots=True)
class PodSandbox(Message):
    id: str = at(1, "")
    metadata: PodSandboxMetadata | None = at(2, None)
    labels: dict[str, str] = at(5, dict)
    annotations: dict[str, str] = at(6, dict)
    runtime_handler: str = at(7, "")


@dataclass(slots=True)
class PodSandboxes(Message):
    """ListPodSandbox's answer."""

    items: list[PodSandbox] = at(1, list)


@dataclass(slots=True)
class Container(Message):
    id: str = at(1, "")
    pod_sandbox_id: str = at(2, "")
    metadata: ContainerMetadata | None = at(3, None)
    annotations: dict[str, str] = at(9, dict)


@dataclass(slots=True)
class Containers(Message):
    """ListContainers' answer."""

    containers: list[Container] = at(1, list)
