"""What is known of one node: rows that are compact enough to keep for every pod of a large cluster.

Rows are made once, from objects as they come in, so that calculating again costs only additions. A quantity that
cannot be read is a `BadInput`: an event reports it on the object, and the earlier row stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, get_args

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests, stored_amounts
from koord.api.kubernetes.words import PodPhase
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol import names
from koord.api.protocol.annotations.cpu import CPU_BASIC_INFO, NODE_RESERVATION, RESOURCE_STATUS, CPUBasicInfo
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.device import Device, DeviceInfo
from koord.api.protocol.crd.node_metric import LendingMetric, NodeMetric, PolicyLine, PolicyMetric, ResourceMap
from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology, Zone
from koord.api.protocol.old_names import with_current_names
from koord.api.protocol.pool_names import ALIASES
from koord.api.protocol.priority import DEFAULT_PRIORITY, PriorityClass, QoSClass, priority_class, qos_class
from koord.api.text.quantity import Quantity, QuantityError, ResourceList, milli, value
from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord.manager.figures import Op, Term

BATCH: Final = (names.RESOURCE_BATCH_CPU, names.RESOURCE_BATCH_MEMORY)
MID: Final = (names.RESOURCE_MID_CPU, names.RESOURCE_MID_MEMORY)
GPU: Final = (
    names.RESOURCE_GPU,
    names.RESOURCE_GPU_CORE,
    names.RESOURCE_GPU_MEMORY,
    names.RESOURCE_GPU_MEMORY_RATIO,
    names.RESOURCE_GPU_SHARED,
    names.RESOURCE_HUAWEI_NPU_CORE,
    names.RESOURCE_HUAWEI_NPU_CPU,
    names.RESOURCE_HUAWEI_NPU_DVPP,
)
RDMA: Final = (names.RESOURCE_RDMA,)
OURS: Final[tuple[str, ...]] = (*BATCH, *MID, *GPU, *RDMA, *ALIASES)
"""All resources that the manager publishes on nodes."""

LENDING: Final = "koordinator.sh/Lending"
"""The node condition that says whether batch resources are published, and if not, why. koord's own addition."""

_LOW: Final = (PriorityClass.BATCH, PriorityClass.FREE)
_BELOW_PROD: Final = (PriorityClass.MID, *_LOW)
_ACTIVE: Final = (PodPhase.RUNNING, PodPhase.PENDING)


class Amounts(Struct):
    cpu_milli: int = 0
    memory_bytes: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.cpu_milli + other.cpu_milli, self.memory_bytes + other.memory_bytes)

    def largest(self, other: Amounts) -> Amounts:
        return Amounts(max(self.cpu_milli, other.cpu_milli), max(self.memory_bytes, other.memory_bytes))


NOTHING: Final = Amounts()


class PodRow(Struct):
    """A pod that has a node."""

    key: str
    uid: str
    version: str
    node: str
    band: PriorityClass
    "With default."
    qos: QoSClass
    "With default."
    active: bool
    "Whether it runs or is about to."
    above_batch: bool
    "Whether batch resources are only what it leaves."
    above_mid: bool
    "Whether mid resources are only what it leaves."
    cpu_milli: int
    "Asked for."
    memory_bytes: int
    numa_nodes: tuple[int, ...] = ()
    "Where the scheduler put it, if it chose NUMA nodes."
    batch_cpu_milli: int = 0
    "Asked for of batch resources, like the next one."
    batch_memory_bytes: int = 0
    by_other_names: Mapping[str, int] = EMPTY
    "Part of these that it requests by other systems' names of the pool: by name, in the name's unit."


class PodUsage(Struct):
    """What a pod was measured to use. `priority` is what the agent took it for."""

    cpu_milli: int
    memory_bytes: int
    priority: str = ""


class HostUsage(Struct):
    """What an application outside of Kubernetes was measured to use."""

    name: str
    priority: str
    used: Amounts

    def is_above(self, band: PriorityClass) -> bool:
        own = DEFAULT_PRIORITY.get(PriorityClass(self.priority), 0) if self.priority in _CLASSES else 0
        return own > DEFAULT_PRIORITY[band]


class LendingRow(Struct):
    """The figures of the policy `adaptive`, as a node reports them, in milli-cores and bytes."""

    mark: int
    rise: int
    scale: float
    margin: int
    services: int
    more: int
    counted: Mapping[str, int]
    "By uid of a batch pod."
    counted_of_others: int
    requested_by_others: int
    memory_services: int
    short_share: float
    minutes: int
    "Of history."


class PolicyRow(Struct):
    """The calculation of another system's policy, as a node reports it, in milli-cores and bytes."""

    policy: str
    cpu: tuple[Term, ...]
    memory: tuple[Term, ...]


class MetricRow(Struct):
    """A NodeMetric's report."""

    name: str
    uid: str
    version: str
    updated_s: float | None
    "When the node wrote it, by its own clock; None where it never did."
    used: Amounts | None
    "By all of the node; None where the report lacks it."
    system: Amounts
    pods: Mapping[str, PodUsage]
    host: tuple[HostUsage, ...]
    prod_reclaimable: Amounts | None
    lending: LendingRow | None = None
    "What the node has learned about lending; None where it does not say, or in a form that cannot be read."
    policy: PolicyRow | None = None
    "With the policy of another system; None as above."


class NodeFacts(Struct):
    name: str
    uid: str
    version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    capacity: Amounts
    reserved_by_kubelet: Amounts
    reserved_by_annotation: Amounts
    allocatable: Mapping[str, int]
    "What is published of the manager's resources."
    lent_capacity: Mapping[str, int]
    "The same in capacity."
    lending: tuple[str, str] = ("", "")
    "Status and reason of the condition that says whether the node lends."

    @property
    def for_pods(self) -> Amounts:
        """Capacity without what kubelet reserves."""
        reserved = self.reserved_by_kubelet
        return Amounts(self.capacity.cpu_milli - reserved.cpu_milli, self.capacity.memory_bytes - reserved.memory_bytes)

    @property
    def meta(self) -> ObjectMeta:
        return ObjectMeta(name=self.name, uid=self.uid, labels=self.labels, annotations=self.annotations)

    @property
    def reserved(self) -> Amounts:
        return self.reserved_by_kubelet.largest(self.reserved_by_annotation)


class TopologyFacts(Struct):
    """A NodeResourceTopology. `zones` are complete, because they are written back as a list."""

    name: str
    uid: str
    version: str
    zones: tuple[Zone, ...]
    cpu: CPUBasicInfo | None
    cpu_fault: str = ""
    "Why nothing is known of the CPUs."


class DeviceFacts(Struct):
    name: str
    uid: str
    version: str
    labels: Mapping[str, str]
    devices: tuple[DeviceInfo, ...]


@dataclass(frozen=True, slots=True)
class NodeState:
    """All that decides about one node."""

    node: NodeFacts
    pods: Sequence[PodRow] = ()
    metric: MetricRow | None = None
    topology: TopologyFacts | None = None
    device: DeviceFacts | None = None
    heard_s: float | None = None
    "When the report came in, by our clock: a node whose clock is ahead is not believed to be from the future."
    unusable: frozenset[str] = field(default=frozenset())
    "Sections of the configuration that cannot be read and never could."

    @property
    def reported_s(self) -> float | None:
        """When the metric was written, as far as that can be."""
        if self.metric is None or self.metric.updated_s is None:
            return None
        return self.metric.updated_s if self.heard_s is None else min(self.metric.updated_s, self.heard_s)


def pod_row(pod: Pod) -> PodRow:
    meta = pod.metadata
    band = priority_class(pod)
    requests = pod_requests(pod)
    return PodRow(
        meta.key,
        meta.uid,
        meta.resource_version,
        pod.spec.node_name,
        band,
        qos_class(pod),
        pod.status.phase in _ACTIVE,
        band not in _LOW,
        band not in _BELOW_PROD,
        requests.get("cpu", 0),
        requests.get("memory", 0),
        _numa_nodes(meta),
        requests.get(names.RESOURCE_BATCH_CPU, 0),
        requests.get(names.RESOURCE_BATCH_MEMORY, 0),
        _by_other_names(pod),
    )


def _by_other_names(pod: Pod) -> Mapping[str, int]:
    spec = pod.spec
    lists = [container.resources.requests for container in (*spec.containers, *spec.init_containers)]
    written = {name for resources in (*lists, spec.overhead) for name in resources}
    if ALIASES.keys().isdisjoint(written):
        return EMPTY
    return {name: amount for name, amount in pod_requests(pod, by_name=True).items() if name in ALIASES}


def node_facts(node: Node) -> NodeFacts:
    meta, status = node.metadata, node.status
    capacity = _amounts(status.capacity)
    allocatable = _amounts(status.allocatable)
    return NodeFacts(
        meta.name,
        meta.uid,
        meta.resource_version,
        meta.labels,
        meta.annotations,
        capacity,
        Amounts(
            max(0, capacity.cpu_milli - allocatable.cpu_milli), max(0, capacity.memory_bytes - allocatable.memory_bytes)
        ),
        _annotated(meta),
        _ours(status.allocatable),
        _ours(status.capacity),
        next(
            ((condition.status, condition.reason) for condition in status.conditions if condition.type == LENDING),
            ("", ""),
        ),
    )


def metric_row(metric: NodeMetric) -> MetricRow:
    meta, status = metric.metadata, metric.status
    measured = status.node_metric
    usage = measured.node_usage.resources if measured is not None else EMPTY
    reclaimable = status.prod_reclaimable_metric
    return MetricRow(
        meta.name,
        meta.uid,
        meta.resource_version,
        _seconds(status.update_time),
        _measured(usage) if "cpu" in usage and "memory" in usage else None,
        _used(measured.system_usage) if measured is not None else NOTHING,
        {f"{pod.namespace}/{pod.name}": _pod_usage(pod.pod_usage, pod.priority) for pod in status.pods_metric},
        tuple(
            HostUsage(application.name, application.priority, _used(application.usage))
            for application in status.host_application_metric
        ),
        _used(reclaimable.resource) if reclaimable is not None and reclaimable.resource.resources else None,
        _lending_row(status.lending_metric) if status.lending_metric is not None else None,
        _policy_row(status.policy_metric) if status.policy_metric is not None else None,
    )


def _lending_row(metric: LendingMetric) -> LendingRow | None:
    """All or nothing: without one of its lines the calculation would be another one."""
    lines = (metric.cpu_mark, metric.cpu_rise, metric.cpu_margin, metric.cpu_services, metric.cpu_more)
    try:
        mark, rise, margin, services, more = (max(milli(line), 0) for line in lines if line is not None)
        return LendingRow(
            mark,
            rise,
            metric.scale_permille / 1000,
            margin,
            services,
            more,
            {pod.uid: max(milli(pod.cpu), 0) for pod in metric.counted if pod.cpu is not None},
            max(milli(metric.counted_of_others or 0), 0),
            max(milli(metric.requested_by_others or 0), 0),
            max(value(metric.memory_services), 0) if metric.memory_services is not None else 0,
            metric.short_permille / 1000,
            metric.minutes,
        )
    except ValueError:
        return None


_OPS: Final[Mapping[str, Op]] = {op: op for op in get_args(Op)}
_MEASURED: Final = frozenset({"services", "online", "forecast", "estimate"})
"""Lines of other systems' policies that go up and down with use."""


def _policy_row(metric: PolicyMetric) -> PolicyRow | None:
    """All or nothing, as above."""
    try:
        return PolicyRow(metric.policy, _terms(metric.cpu, milli), _terms(metric.memory, value))
    except (ValueError, KeyError):
        return None


def _terms(lines: Sequence[PolicyLine], amount_of: Callable[[Quantity], int]) -> tuple[Term, ...]:
    """Raises KeyError for an operation that there is not."""
    terms = []
    for line in lines:
        amount = max(amount_of(line.amount), 0) if line.amount is not None else 0
        terms.append(Term(_OPS[line.op], line.name, amount, line.why, amount if line.name in _MEASURED else 0))
    return tuple(terms)


def topology_facts(topology: NodeResourceTopology) -> TopologyFacts:
    meta = topology.metadata
    info, fault = None, ""
    try:
        info = CPU_BASIC_INFO.read(meta)
    except AnnotationError as error:
        fault = str(error)
    return TopologyFacts(meta.name, meta.uid, meta.resource_version, topology.zones, info, fault)


def device_facts(device: Device) -> DeviceFacts:
    meta = device.metadata
    return DeviceFacts(meta.name, meta.uid, meta.resource_version, meta.labels, device.spec.devices)


def _numa_nodes(meta: ObjectMeta) -> tuple[int, ...]:
    if names.ANNOTATION_RESOURCE_STATUS not in meta.annotations:
        return ()
    try:
        return tuple(resource.node for resource in RESOURCE_STATUS.read(meta).numa_node_resources)
    except AnnotationError:
        # A pod whose place is not known is taken to be everywhere.
        return ()


def _annotated(meta: ObjectMeta) -> Amounts:
    if names.ANNOTATION_NODE_RESERVATION not in meta.annotations:
        return NOTHING
    try:
        reservation = NODE_RESERVATION.read(meta)
        return Amounts(max(0, reservation.cpu_milli), max(0, value(reservation.resources.get("memory", 0))))
    except ValueError:
        return NOTHING


def _ours(resources: ResourceList) -> Mapping[str, int]:
    ours = {name: value(amount) for name, amount in with_current_names(resources).items() if name in _OUR_NAMES}
    return ours or EMPTY


def _amounts(resources: ResourceList) -> Amounts:
    return Amounts(milli(resources.get("cpu", 0)), value(resources.get("memory", 0)))


def _used(usage: ResourceMap) -> Amounts:
    return _measured(usage.resources)


def _measured(resources: ResourceList) -> Amounts:
    """What a node reports of itself may be anything: a figure below nothing would let it lend more than it has, and one
    that cannot be counted would hide the report."""
    try:
        cpu, memory = milli(resources.get("cpu", 0)), value(resources.get("memory", 0))
    except QuantityError:
        amounts = stored_amounts(resources)
        cpu, memory = amounts.get("cpu", 0), amounts.get("memory", 0)
    return Amounts(max(cpu, 0), max(memory, 0))


def _pod_usage(usage: ResourceMap, priority: str) -> PodUsage:
    used = _measured(usage.resources)
    return PodUsage(used.cpu_milli, used.memory_bytes, priority)


def _seconds(time: str | None) -> float | None:
    if not time:
        return None
    try:
        return parse_timestamp(time)
    except TimestampError:
        return None


def on_nodes(rows: Iterable[PodRow]) -> dict[str, list[PodRow]]:
    """Rows by their node."""
    by_node: dict[str, list[PodRow]] = {}
    for row in rows:
        if row.node:
            by_node.setdefault(row.node, []).append(row)
    return by_node


_OUR_NAMES: Final = frozenset(OURS)
_CLASSES: Final = frozenset(PriorityClass)
