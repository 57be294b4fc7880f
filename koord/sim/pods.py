"""The objects that the scheduler gets: nodes with what they lend, pods of services, and batch pods.

A batch pod requests the resources of the policy's band, as admission would have made it from its CPU and memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from msgspec.structs import replace

from koord.api.kubernetes.meta import OwnerReference
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol import names
from koord.api.text.timestamp import from_seconds
from koord.sim.columns import NO_GPU, GpuShare, NodeGpus
from koord.sim.policies.policy import Band

START_S: Final = 1_800_000_000.0
"""What the clocks of the cluster show when a scenario begins."""
BATCH_NAMESPACE: Final = "batch"
SERVICES_NAMESPACE: Final = "services"
RESOURCES: Final[Mapping[Band, tuple[str, str]]] = {
    "batch": (names.RESOURCE_BATCH_CPU, names.RESOURCE_BATCH_MEMORY),
    "mid": (names.RESOURCE_MID_CPU, names.RESOURCE_MID_MEMORY),
    "plain": ("cpu", "memory"),
}
_PRIORITY: Final[Mapping[Band, int]] = {"batch": 5500, "mid": 7500, "plain": 5500}
_SERVICE_PRIORITY: Final = 9500
_PODS: Final = 1000
"""How many pods a node takes."""
_DOWN: Final = "node.kubernetes.io/unreachable"


def stamp(now_s: float) -> str:
    return from_seconds(START_S + now_s)


def node(name: str, cpu_milli: int, memory_bytes: int, labels: Mapping[str, str], gpus: NodeGpus | None = None) -> Node:
    """Ready, and lending nothing."""
    has: dict[str, int | str] = {"cpu": f"{cpu_milli}m", "memory": memory_bytes, "pods": _PODS}
    if gpus is not None:
        has |= {names.RESOURCE_GPU_CORE: 100 * gpus.number, names.RESOURCE_GPU_MEMORY_RATIO: 100 * gpus.number}
        labels = {names.LABEL_GPU_MODEL: gpus.model, **labels}
    return convert(
        Node,
        {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
            "status": {"allocatable": has, "capacity": has, "conditions": [{"type": "Ready", "status": "True"}]},
        },
    )


def lending(node: Node, band: Band, cpu_milli: int, memory_bytes: int) -> Node:
    """The node with other lent figures; below 0: without the resource."""
    has = dict(node.status.allocatable)
    for resource, amount in zip(RESOURCES[band], (cpu_milli, memory_bytes), strict=True):
        if amount < 0:
            has.pop(resource, None)
        else:
            has[resource] = amount
    return replace(node, status=replace(node.status, allocatable=has, capacity=has))


def unreachable(node: Node, is_down: bool) -> Node:
    """The node with the taint of a node that does not answer, or without it."""
    taint = convert(Node, {"metadata": {"name": "n"}, "spec": {"taints": [{"key": _DOWN, "effect": "NoSchedule"}]}})
    return replace(node, spec=replace(node.spec, taints=taint.spec.taints if is_down else ()))


@lru_cache(4096)
def _batch_template(
    band: Band, cpu_milli: int, memory_bytes: int, queue: str, gang: str, members: int, gpu: GpuShare
) -> Pod:
    cpu, memory = RESOURCES[band]
    amounts: dict[str, int | str] = {cpu: f"{cpu_milli}m" if band == "plain" else cpu_milli, memory: memory_bytes}
    if gpu.gpus:
        percent = gpu.gpus * gpu.milli // 10
        amounts |= {names.RESOURCE_GPU_CORE: percent, names.RESOURCE_GPU_MEMORY_RATIO: percent}
    labels = {names.LABEL_QOS_CLASS: "LS" if band == "plain" else "BE"}
    if queue:
        labels[names.LABEL_QUOTA_NAME] = queue
    annotations = {names.ANNOTATION_GANG_NAME: gang, names.ANNOTATION_GANG_MIN_AVAILABLE: str(members)} if gang else {}
    return convert(
        Pod,
        {
            "metadata": {"namespace": BATCH_NAMESPACE, "labels": labels, "annotations": annotations},
            "spec": {
                "schedulerName": names.SCHEDULER_KOORD,
                "priority": _PRIORITY[band],
                "containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}],
                **_on_models(gpu),
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        },
    )


def _on_models(gpu: GpuShare) -> dict[str, Any]:
    if not gpu.models:
        return {}
    rule = {"key": names.LABEL_GPU_MODEL, "operator": "In", "values": sorted(gpu.models)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def batch_pod(
    name: str,
    band: Band,
    cpu_milli: int,
    memory_bytes: int,
    created: str,
    queue: str,
    gang: str,
    members: int,
    job: str,
    gpu: GpuShare = NO_GPU,
) -> Pod:
    """`members`: how many pods its gang has; `gang` and `queue` are empty where it has none. `job`: its owner."""
    template = _batch_template(band, cpu_milli, memory_bytes, queue, gang, members, gpu)
    owner = OwnerReference(api_version="batch/v1", kind="Job", name=job, uid=job, controller=True)
    metadata = replace(template.metadata, name=name, uid=name, creation_timestamp=created, owner_references=(owner,))
    return replace(template, metadata=metadata)


def _service_template() -> Pod:
    return convert(
        Pod,
        {
            "metadata": {"namespace": SERVICES_NAMESPACE, "labels": {names.LABEL_QOS_CLASS: "LS"}},
            "spec": {
                "schedulerName": names.SCHEDULER_KOORD,
                "priority": _SERVICE_PRIORITY,
                "containers": [{"name": "main", "resources": {}}],
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        },
    )


_SERVICE: Final = _service_template()


def service_pod(name: str, owner: str, cpu_milli: int, memory_bytes: int, created: str) -> Pod:
    """`owner`: the ReplicaSet that makes it again where it is evicted."""
    (container,) = _SERVICE.spec.containers
    requests = {"cpu": f"{cpu_milli}m", "memory": memory_bytes}
    resources = replace(container.resources, requests=requests)
    reference = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=owner, uid=owner, controller=True)
    return replace(
        _SERVICE,
        metadata=replace(
            _SERVICE.metadata, name=name, uid=name, creation_timestamp=created, owner_references=(reference,)
        ),
        spec=replace(_SERVICE.spec, containers=(replace(container, resources=resources),)),
    )


def on_node(pod: Pod, name: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=name))
