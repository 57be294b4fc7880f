"""The messages of Koordinator's RuntimeHookService, by their public field numbers.

The proxy asks hook servers with them, Koordinator's own agent among them; and koord's hooks answer Koordinator's proxy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from koord.api.machinery.messages import Message, at
from koord.runtime.cri import LinuxContainerResources, PodSandboxMetadata

SERVICE: Final = "runtime.v1alpha1.RuntimeHookService"


@dataclass(slots=True)
class ContainerName(Message):
    name: str = at(1, "")
    attempt: int = at(2, 0)
    id: str = at(3, "")


@dataclass(slots=True)
class PodSandboxHookRequest(Message):
    pod_meta: PodSandboxMetadata | None = at(1, None)
    runtime_handler: str = at(2, "")
    labels: dict[str, str] = at(3, dict)
    annotations: dict[str, str] = at(4, dict)
    cgroup_parent: str = at(5, "")
    overhead: LinuxContainerResources | None = at(6, None)
    resources: LinuxContainerResources | None = at(7, None)


@dataclass(slots=True)
class PodSandboxHookResponse(Message):
    labels: dict[str, str] = at(1, dict)
    annotations: dict[str, str] = at(2, dict)
    cgroup_parent: str = at(3, "")
    resources: LinuxContainerResources | None = at(4, None)


@dataclass(slots=True)
class ContainerResourceHookRequest(Message):
    pod_meta: PodSandboxMetadata | None = at(1, None)
    container_meta: ContainerName | None = at(2, None)
    container_annotations: dict[str, str] = at(3, dict)
    container_resources: LinuxContainerResources | None = at(4, None)
    pod_resources: LinuxContainerResources | None = at(5, None)
    pod_annotations: dict[str, str] = at(6, dict)
    pod_labels: dict[str, str] = at(7, dict)
    pod_cgroup_parent: str = at(8, "")
    container_envs: dict[str, str] = at(9, dict)


@dataclass(slots=True)
class ContainerResourceHookResponse(Message):
    container_annotations: dict[str, str] = at(1, dict)
    container_resources: LinuxContainerResources | None = at(2, None)
    pod_cgroup_parent: str = at(3, "")
    container_envs: dict[str, str] = at(4, dict)
