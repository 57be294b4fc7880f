"""Containers that another system runs beside Kubernetes, below best effort, and that its copilot can end: YARN's.

They are like best-effort pods: the agent counts what they ask for and use, holds them back with all of best effort, and
ends them before it evicts pods, since their own system runs them again. Kubelet does not know them: nothing of theirs
is written or reported one by one. All together they are a host application.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from koord.agent.host.cgroups import is_inside
from koord.agent.pods import BATCH_CPU, BATCH_MEMORY, AgentPod
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.words import KubeQoS, PodPhase
from koord.api.protocol.copilot import DIRECTORY, ContainerInfo
from koord.api.protocol.crd.node_slo import CgroupPath, HostApplicationSpec, NodeSLOSpec
from koord.api.protocol.priority import PriorityClass, QoSClass
from koord.api.text.quantity import milli, value

APPLICATION: Final = HostApplicationSpec(
    name=DIRECTORY,
    priority=PriorityClass.BATCH.value,
    qos=QoSClass.BE.value,
    cgroup_path=CgroupPath(base="KubepodsBesteffort", relative_path=DIRECTORY),
)


def guests_of(containers: Iterable[ContainerInfo]) -> dict[str, AgentPod]:
    """By uid, in the order in which they go. What would lead out of the node's cgroups is left out."""
    return {
        container.uid: _guest(container)
        for container in containers
        if container.uid and is_inside(container.cgroup_dir)
    }


def _guest(container: ContainerInfo) -> AgentPod:
    asked = container.resources.requests
    return AgentPod(
        meta=ObjectMeta(name=container.name, namespace=container.namespace, uid=container.uid),
        phase=PodPhase.RUNNING,
        labelled_qos=QoSClass.BE,
        qos=QoSClass.BE,
        kube_qos=KubeQoS.BEST_EFFORT,
        priority=container.priority,
        band=PriorityClass.BATCH,
        directory=container.cgroup_dir,
        containers=(),
        requests={BATCH_CPU: milli(asked.get("cpu", 0)), BATCH_MEMORY: value(asked.get("memory", 0))},
        limits={},
        started=container.create_timestamp,
    )


def with_guests(slo: NodeSLOSpec) -> NodeSLOSpec:
    """The settings with YARN as a best-effort host application, unless they name it already."""
    for app in slo.host_applications:
        path = app.cgroup_path
        if path is not None and path.relative_path.strip("/") == DIRECTORY:
            return slo
    return replace(slo, host_applications=(*slo.host_applications, APPLICATION))


def requested_milli(guests: Mapping[str, AgentPod]) -> int:
    return sum(guest.requests.get(BATCH_CPU, 0) for guest in guests.values())
