"""What is remembered of sandboxes and containers, so that a later call that only names an id can be understood.

A record is made of what the runtime was asked for, after it said yes. Of what ran before the proxy did, the runtime's
lists tell some of it: where its cgroup lies, its environment and its resources stay unknown.
"""

from __future__ import annotations

import msgspec

from koord.api.machinery.messages import decode, encode
from koord.runtime.cri import (
    Container,
    ContainerConfig,
    ContainerMetadata,
    LinuxContainerResources,
    LinuxPodSandboxConfig,
    PodSandbox,
    PodSandboxConfig,
    PodSandboxMetadata,
)


class SandboxRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str = ""
    "Empty before the runtime has given one."
    name: str = ""
    uid: str = ""
    namespace: str = ""
    attempt: int = 0
    handler: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    cgroup_parent: str = ""
    overhead: bytes = b""
    "LinuxContainerResources, as the interface has them."
    resources: bytes = b""


class ContainerRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str = ""
    sandbox: str = ""
    name: str = ""
    attempt: int = 0
    annotations: dict[str, str] = {}
    envs: dict[str, str] = {}
    resources: bytes = b""

    @property
    def cpu_quota_us(self) -> int:
        """The CPU quota; 0 if none is given."""
        return decode(LinuxContainerResources, self.resources).cpu_quota if self.resources else 0


class Records(msgspec.Struct):
    """Of one node, by id."""

    sandboxes: dict[str, SandboxRecord] = {}
    containers: dict[str, ContainerRecord] = {}


def resources_of(resources: LinuxContainerResources | None) -> bytes:
    return b"" if resources is None else encode(resources)


def sandbox_of(config: PodSandboxConfig | None, handler: str = "", id: str = "") -> SandboxRecord:
    config = config or PodSandboxConfig()
    meta, linux = config.metadata or PodSandboxMetadata(), config.linux or LinuxPodSandboxConfig()
    return SandboxRecord(
        id,
        meta.name,
        meta.uid,
        meta.namespace,
        meta.attempt,
        handler,
        dict(config.labels),
        dict(config.annotations),
        linux.cgroup_parent,
        resources_of(linux.overhead),
        resources_of(linux.resources),
    )


def container_of(config: ContainerConfig | None, sandbox: str, id: str = "") -> ContainerRecord:
    config = config or ContainerConfig()
    meta = config.metadata or ContainerMetadata()
    envs = {env.key: env.value.decode(errors="replace") for env in config.envs}
    resources = config.linux.resources if config.linux is not None else None
    return ContainerRecord(
        id, sandbox, meta.name, meta.attempt, dict(config.annotations), envs, resources_of(resources)
    )


def brought_in_line(before: Records, sandboxes: list[PodSandbox], containers: list[Container]) -> Records:
    """With what the runtime lists: the rest is gone."""
    records = Records({}, {})
    for pod in sandboxes:
        meta = pod.metadata or PodSandboxMetadata()
        records.sandboxes[pod.id] = before.sandboxes.get(pod.id) or SandboxRecord(
            pod.id,
            meta.name,
            meta.uid,
            meta.namespace,
            meta.attempt,
            pod.runtime_handler,
            dict(pod.labels),
            dict(pod.annotations),
        )
    for container in containers:
        name = container.metadata or ContainerMetadata()
        records.containers[container.id] = before.containers.get(container.id) or ContainerRecord(
            container.id, container.pod_sandbox_id, name.name, name.attempt, dict(container.annotations)
        )
    return records
