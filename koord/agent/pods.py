"""The pods of this node as strategies and hooks see them: classes, amounts, cgroups.

Made once from what kubelet tells (`pod_of`), then read each second. Amounts are in milli-cores and bytes, by resource
name; a resource that a container does not name is absent.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from koord.agent.host.layout import ContainerIdError, container_dir, pod_dir
from koord.api.kinds import PODS
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.resources import container_amounts, pod_limits, pod_requests
from koord.api.kubernetes.runnable import RunnableContainer, RunnableContainerStatus, RunnablePod
from koord.api.kubernetes.words import KubeQoS, PodConditionType, PodPhase
from koord.api.machinery.shield import Shield
from koord.api.protocol import names
from koord.api.protocol.priority import PriorityClass, QoSClass, kube_qos, priority_class, qos_class, raw_qos_class

log = logging.getLogger(__name__)

CPU: Final = names.RESOURCE_CPU
MEMORY: Final = names.RESOURCE_MEMORY
BATCH_CPU: Final = names.RESOURCE_BATCH_CPU
BATCH_MEMORY: Final = names.RESOURCE_BATCH_MEMORY
MID_CPU: Final = names.RESOURCE_MID_CPU
MID_MEMORY: Final = names.RESOURCE_MID_MEMORY
_RESIZING: Final = (PodConditionType.RESIZE_PENDING, PodConditionType.RESIZE_IN_PROGRESS)


@dataclass(frozen=True, slots=True)
class AgentContainer:
    name: str
    id: str
    "With its runtime, `containerd://ab12`; empty before it was made."
    directory: str
    "Its cgroup; empty before it was made."
    is_running: bool
    requests: Mapping[str, int]
    limits: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class AgentPod:
    meta: ObjectMeta
    phase: PodPhase
    labelled_qos: QoSClass
    "What its label says, NONE without."
    qos: QoSClass
    "With the default by Kubernetes' QoS."
    kube_qos: KubeQoS
    priority: int | None
    band: PriorityClass
    "With the default by QoS."
    directory: str
    containers: tuple[AgentContainer, ...]
    requests: Mapping[str, int]
    limits: Mapping[str, int]
    started: str | None
    "When, as the API writes it."
    address: str = ""
    "Its IP; empty before it has one."
    is_on_host_network: bool = False
    largest_cpu_limit: int = 0
    "Milli-cores of the container that may have most, those that made the pod ready among them."
    is_resizing: bool = False
    "Whether kubelet is about to change its resources in place, or would, if the node had more."
    is_resize_deferred: bool = False
    "Whether it would: nothing changes until then."

    @property
    def key(self) -> str:
        return self.meta.key

    @property
    def uid(self) -> str:
        return self.meta.uid

    @property
    def is_active(self) -> bool:
        """Running or about to, and not on its way out."""
        return self.is_present and self.meta.deletion_timestamp is None

    @property
    def is_present(self) -> bool:
        """Running or about to. One on its way out still runs, has its CPUs and keeps within its limits."""
        return self.phase in (PodPhase.RUNNING, PodPhase.PENDING)

    @property
    def is_best_effort(self) -> bool:
        """Of those that are held back: by label, or because Kubernetes takes them for best effort."""
        return self.labelled_qos is QoSClass.BE or self.kube_qos is KubeQoS.BEST_EFFORT


def pod_of(pod: RunnablePod, driver: CgroupDriver) -> AgentPod:
    if pod.status.condition(PodConditionType.RESIZE_PENDING) is not None:
        pod = _in_force(pod)
    of_kube = kube_qos(pod)
    directory = pod_dir(pod.metadata.uid, of_kube, driver)
    statuses = {status.name: status for status in pod.status.container_statuses}
    statuses |= {status.name: status for status in pod.status.init_container_statuses}
    containers = [*pod.spec.containers, *(container for container in pod.spec.init_containers if container.is_sidecar)]
    limits = [
        container_amounts(container.resources.limits) for container in (*pod.spec.containers, *pod.spec.init_containers)
    ]
    return AgentPod(
        meta=pod.metadata,
        phase=pod.status.phase,
        labelled_qos=raw_qos_class(pod.metadata.labels),
        qos=qos_class(pod),
        kube_qos=of_kube,
        priority=pod.spec.priority,
        band=priority_class(pod),
        directory=directory,
        containers=tuple(
            _container(container, statuses.get(container.name), directory, driver) for container in containers
        ),
        requests=pod_requests(pod, capped=True),
        limits=pod_limits(pod, capped=True),
        started=pod.status.start_time,
        address=pod.status.pod_ip,
        is_on_host_network=pod.spec.host_network,
        largest_cpu_limit=max((limits_of_one.get(CPU, 0) for limits_of_one in limits), default=0),
        is_resizing=any(pod.status.condition(resize) is not None for resize in _RESIZING),
        is_resize_deferred=pod.status.condition(PodConditionType.RESIZE_PENDING) is not None,
    )


def _in_force(pod: RunnablePod) -> RunnablePod:
    """With the resources that its containers were given, where the spec has others that kubelet does not give."""
    given = {status.name: status.resources for status in pod.status.container_statuses if status.resources is not None}
    containers = [
        replace(container, resources=replace(container.resources, requests=own.requests, limits=own.limits))
        if (own := given.get(container.name)) is not None
        else container
        for container in pod.spec.containers
    ]
    return replace(pod, spec=replace(pod.spec, containers=tuple(containers)))


def pods_of(pods: Iterable[RunnablePod], driver: CgroupDriver, shield: Shield | None = None) -> dict[str, AgentPod]:
    """By uid. Static pods are known by the uid of their own manifest, which is also their cgroup's. One that cannot be
    understood is left out, and so left alone."""
    pods_by_uid, shield = dict[str, AgentPod](), shield or Shield()
    for pod in pods:
        with shield.about("look after it", PODS, pod.metadata):
            pods_by_uid[pod.metadata.uid] = pod_of(pod, driver)
    return pods_by_uid


def _container(
    container: RunnableContainer, status: RunnableContainerStatus | None, pod: str, driver: CgroupDriver
) -> AgentContainer:
    container_id = status.container_id if status else ""
    directory = ""
    if container_id:
        try:
            directory = container_dir(pod, container_id, driver)
        except ContainerIdError as error:
            log.warning("container %s is left alone: %s", container.name, error)
    return AgentContainer(
        name=container.name,
        id=container_id,
        directory=directory,
        is_running=status is not None and status.state.running is not None,
        requests=container_amounts(container.resources.requests),
        limits=container_amounts(container.resources.limits),
    )
