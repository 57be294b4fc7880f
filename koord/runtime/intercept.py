"""From a call of the runtime interface to the question for a hook server, and the answer back into the call.

Fields that an answer does not name stay unchanged. In maps, the answer's entries replace those of the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from koord.api.machinery.messages import decode, encode
from koord.runtime.cri import (
    CdiDevice,
    ContainerConfig,
    Device,
    KeyValue,
    LinuxContainerConfig,
    LinuxContainerResources,
    LinuxPodSandboxConfig,
    Mount,
    PodSandboxConfig,
    PodSandboxMetadata,
    UpdateContainerResourcesRequest,
)
from koord.runtime.hook_service import (
    ContainerName,
    ContainerResourceHookRequest,
    ContainerResourceHookResponse,
    PodSandboxHookRequest,
    PodSandboxHookResponse,
)
from koord.runtime.records import ContainerRecord, SandboxRecord
from koord.runtime.stages import Stage

SKIP_LABEL: Final = "runtimeproxy.koordinator.sh/skip-hookserver"


@dataclass(frozen=True, slots=True)
class Question:
    stage: Stage
    sandbox: SandboxRecord
    container: ContainerRecord | None = None

    @property
    def is_skipped(self) -> bool:
        """The pod's own wish."""
        return self.sandbox.labels.get(SKIP_LABEL) == "true"

    def __str__(self) -> str:
        container = f", container {self.container.name}" if self.container is not None else ""
        return f"{self.stage} of pod {self.sandbox.namespace}/{self.sandbox.name}{container}"


@dataclass(frozen=True, slots=True)
class Answer:
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cgroup_parent: str = ""
    resources: LinuxContainerResources | None = None
    envs: Mapping[str, str] = field(default_factory=dict)
    devices: Sequence[Device] = ()
    mounts: Sequence[Mount] = ()
    cdi: Sequence[str] = ()


def asked_by_koordinator(question: Question) -> bytes:
    """As the RuntimeHookService wants it."""
    pod = question.sandbox
    meta = PodSandboxMetadata(pod.name, pod.uid, pod.namespace, pod.attempt)
    if question.container is None:
        return encode(
            PodSandboxHookRequest(
                meta,
                pod.handler,
                pod.labels,
                pod.annotations,
                pod.cgroup_parent,
                _resources(pod.overhead),
                _resources(pod.resources),
            )
        )
    own = question.container
    return encode(
        ContainerResourceHookRequest(
            meta,
            ContainerName(own.name, own.attempt, own.id),
            own.annotations,
            _resources(own.resources),
            _resources(pod.resources),
            pod.annotations,
            pod.labels,
            pod.cgroup_parent,
            own.envs,
        )
    )


def answered_by_koordinator(stage: Stage, data: bytes) -> Answer:
    """Raises MessageError."""
    if stage.is_of_sandbox:
        pod = decode(PodSandboxHookResponse, data)
        return Answer(pod.labels, pod.annotations, pod.cgroup_parent, pod.resources)
    own = decode(ContainerResourceHookResponse, data)
    return Answer(
        annotations=own.container_annotations,
        cgroup_parent=own.pod_cgroup_parent,
        resources=own.container_resources,
        envs=own.container_envs,
    )


def put_into_sandbox(config: PodSandboxConfig, answer: Answer) -> None:
    config.labels |= answer.labels
    config.annotations |= answer.annotations
    if answer.cgroup_parent or answer.resources is not None:
        config.linux = config.linux or LinuxPodSandboxConfig()
        config.linux.cgroup_parent = answer.cgroup_parent or config.linux.cgroup_parent
        if answer.resources is not None:
            config.linux.resources = over(config.linux.resources, answer.resources)


def put_into_container(config: ContainerConfig, sandbox: PodSandboxConfig | None, answer: Answer) -> None:
    config.annotations |= answer.annotations
    if answer.resources is not None:
        config.linux = config.linux or LinuxContainerConfig()
        config.linux.resources = over(config.linux.resources, answer.resources)
    if answer.cgroup_parent and sandbox is not None:
        sandbox.linux = sandbox.linux or LinuxPodSandboxConfig()
        sandbox.linux.cgroup_parent = answer.cgroup_parent
    if answer.envs:
        kept = [env for env in config.envs if env.key not in answer.envs]
        config.envs = [*kept, *(KeyValue(key, value.encode()) for key, value in answer.envs.items())]
    paths = {device.container_path for device in answer.devices}
    config.devices = [*(device for device in config.devices if device.container_path not in paths), *answer.devices]
    paths = {mount.container_path for mount in answer.mounts}
    config.mounts = [*(mount for mount in config.mounts if mount.container_path not in paths), *answer.mounts]

    there = {device.name for device in config.cdi}
    config.cdi += [CdiDevice(name) for name in answer.cdi if name not in there]


def put_into_update(request: UpdateContainerResourcesRequest, answer: Answer) -> None:
    request.annotations |= answer.annotations
    if answer.resources is not None:
        request.linux = over(request.linux, answer.resources)


def over(below: LinuxContainerResources | None, above: LinuxContainerResources) -> LinuxContainerResources:
    """What one says, and for what it says nothing of, the other."""
    below = below or LinuxContainerResources()
    return LinuxContainerResources(
        above.cpu_period or below.cpu_period,
        above.cpu_quota or below.cpu_quota,
        above.cpu_shares or below.cpu_shares,
        above.memory_limit_in_bytes or below.memory_limit_in_bytes,
        above.oom_score_adj or below.oom_score_adj,
        above.cpuset_cpus or below.cpuset_cpus,
        above.cpuset_mems or below.cpuset_mems,
        below.unified | above.unified,
        above.memory_swap_limit_in_bytes or below.memory_swap_limit_in_bytes,
        unknown=below.unknown + above.unknown,
    )


def _resources(data: bytes) -> LinuxContainerResources | None:
    return decode(LinuxContainerResources, data) if data else None
