"""CPUs and NUMA nodes: what pods request and got, what nodes have and how it is shared.

Pods ask in `resource-spec`, the scheduler answers in `resource-status`, the node agent makes it so. A node's CPUs are
told in annotations of its NodeResourceTopology; its rules stand on the Node, and some are copied to the topology.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from koord.api.machinery.faults import Fault
from koord.api.machinery.struct import EMPTY, Struct, field
from koord.api.protocol import names
from koord.api.protocol.annotations.forms import SWITCH, json_list, json_object, one_of
from koord.api.protocol.annotations.value import (
    NODE,
    NODE_OR_TOPOLOGY,
    POD_OR_RESERVATION,
    TOPOLOGY,
    Annotation,
    Label,
    Value,
)
from koord.api.protocol.crd.fields import Int32
from koord.api.text.cpuset import CPU_LIMIT, CPUList, CPUSet
from koord.api.text.quantity import QuantityError, ResourceList, milli

CPUBindPolicy: TypeAlias = Literal["", "Default", "FullPCPUs", "SpreadByPCPUs", "ConstrainedBurst"]
CPUExclusivePolicy: TypeAlias = Literal["", "None", "PCPULevel", "NUMANodeLevel"]
NUMATopologyPolicy: TypeAlias = Literal["", "BestEffort", "Restricted", "SingleNUMANode"]


class ResourceSpec(Struct):
    """How to choose a pod's CPUs. The required policy must be met, the preferred ones are wishes."""

    required_cpu_bind_policy: CPUBindPolicy = ""
    preferred_cpu_bind_policy: CPUBindPolicy = ""
    preferred_cpu_exclusive_policy: CPUExclusivePolicy = ""


class NUMANodeResource(Struct):
    node: Int32
    resources: ResourceList = EMPTY


class ResourceStatus(Struct):
    """The CPUs and NUMA nodes that the scheduler gave a pod."""

    cpuset: CPUList = ""
    numa_node_resources: tuple[NUMANodeResource, ...] = ()

    @property
    def cpus(self) -> CPUSet:
        return CPUSet.parse(self.cpuset)


class NUMATopologySpec(Struct):
    """The NUMA policy that a pod asks for by itself."""

    numa_topology_policy: NUMATopologyPolicy = ""
    single_numa_node_exclusive: Literal["", "Preferred", "Required"] = ""


class CPUInfo(Struct):
    """A logical CPU: its number, and those of its physical core, socket and NUMA node."""

    id: Int32
    core: Int32
    socket: Int32
    node: Int32


class CPUTopology(Struct):
    detail: tuple[CPUInfo, ...] = ()


class PodCPUAlloc(Struct):
    """The CPUs that a pod holds by the kubelet's or the agent's doing, not the scheduler's."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    cpuset: CPUList = ""
    managed_by_kubelet: bool = False

    @property
    def cpus(self) -> CPUSet:
        return CPUSet.parse(self.cpuset)


class CPUSharedPool(Struct):
    """The CPUs of one NUMA node that pods without CPUs of their own share."""

    socket: Int32
    node: Int32
    cpuset: CPUList = ""

    @property
    def cpus(self) -> CPUSet:
        return CPUSet.parse(self.cpuset)


class KubeletCPUManagerPolicy(Struct):
    """What the kubelet's CPU manager does on the node."""

    policy: Literal["", "static", "none"] = ""
    options: Mapping[str, str] = EMPTY
    reserved_cpus: CPUList = field(name="reservedCPUs", default="")

    @property
    def cpus(self) -> CPUSet:
        return CPUSet.parse(self.reserved_cpus)

    @property
    def full_pcpus_only(self) -> bool:
        """Whether the kubelet gives out whole physical cores only, which then binds the scheduler too."""
        return self.policy == "static" and self.options.get("full-pcpus-only") == "true"


class CPUBasicInfo(Struct):
    cpu_model: str = ""
    hyper_thread_enabled: bool = False
    turbo_enabled: bool = False
    cat_l3_cbm_mask: str = ""
    vendor_id: str = ""


class SystemQOSResource(Struct):
    """The CPUs for pods of class SYSTEM. Exclusive ones are in no share pool."""

    cpuset: CPUList = ""
    cpuset_exclusive: bool = True

    @property
    def cpus(self) -> CPUSet:
        return CPUSet.parse(self.cpuset)


class NodeReservation(Struct):
    """Resources that pods do not get, and whether that trims allocatable (Default) or only hides the CPUs."""

    resources: ResourceList = EMPTY
    reserved_cpus: CPUList = field(name="reservedCPUs", default="")
    apply_policy: Literal["", "Default", "ReservedCPUsOnly"] = ""

    @property
    def cpus(self) -> CPUSet:
        return CPUSet.parse(self.reserved_cpus)

    @property
    def cpu_milli(self) -> int:
        """Reserved CPU: that of the CPUs named, else the amount given."""
        return len(self.cpus) * 1000 or milli(self.resources.get(names.RESOURCE_CPU, 0))

    @property
    def cores(self) -> int:
        """Reserved CPU in whole cores, rounded up: how many CPUs are kept from being bound."""
        return -(-self.cpu_milli // 1000)

    @property
    def trims_allocatable(self) -> bool:
        return self.apply_policy != "ReservedCPUsOnly"


def _reservation_faults(reservation: NodeReservation) -> Iterator[Fault]:
    try:
        if reservation.cpu_milli < 0:
            yield Fault("resources.cpu", "must not be negative")
    except QuantityError as error:
        yield Fault("resources.cpu", str(error))


def _topology_faults(topology: CPUTopology) -> Iterator[Fault]:
    """No CPU is there twice, and no number is negative."""
    seen: set[int] = set()
    for i, processor in enumerate(topology.detail):
        for name, number in (
            ("id", processor.id),
            ("core", processor.core),
            ("socket", processor.socket),
            ("node", processor.node),
        ):
            if number < 0:
                yield Fault(f"detail[{i}].{name}", f"must not be negative, as {number} is")
        if processor.id >= CPU_LIMIT:
            yield Fault(f"detail[{i}].id", f"must be below {CPU_LIMIT}, not {processor.id}")
        if processor.id in seen:
            yield Fault(f"detail[{i}].id", f"CPU {processor.id} is listed twice")
        seen.add(processor.id)


RESOURCE_SPEC: Final = Annotation(
    names.ANNOTATION_RESOURCE_SPEC, json_object(ResourceSpec), ResourceSpec(), on=POD_OR_RESERVATION
)
RESOURCE_STATUS: Final = Annotation(
    names.ANNOTATION_RESOURCE_STATUS,
    json_object(ResourceStatus, by_program=True),
    ResourceStatus(),
    on=POD_OR_RESERVATION,
)
NUMA_TOPOLOGY_SPEC: Final = Annotation(
    names.ANNOTATION_NUMA_TOPOLOGY_SPEC, json_object(NUMATopologySpec), NUMATopologySpec(), on=POD_OR_RESERVATION
)

NUMA_TOPOLOGY_POLICY: Final = Label(
    names.LABEL_NUMA_TOPOLOGY_POLICY, one_of("", "BestEffort", "Restricted", "SingleNUMANode"), "", on=NODE
)
CPU_BIND_POLICY: Final = Label(
    names.LABEL_CPU_BIND_POLICY, one_of("None", "FullPCPUsOnly", "SpreadByPCPUs"), "None", on=NODE
)
NUMA_ALLOCATE_STRATEGY: Final = Label(
    names.LABEL_NUMA_ALLOCATE_STRATEGY, one_of("MostAllocated", "LeastAllocated", "DistributeEvenly"), None, on=NODE
)
"""None leaves the choice to the scheduler's configuration."""
ENABLE_NUMA_RESERVATION: Final = Label(
    names.LABEL_ENABLE_NUMA_RESERVATION, SWITCH, False, on=NODE_OR_TOPOLOGY, bad=False
)
SYSTEM_QOS_RESOURCE: Final = Annotation(
    names.ANNOTATION_SYSTEM_QOS_RESOURCE, json_object(SystemQOSResource), SystemQOSResource(), on=NODE_OR_TOPOLOGY
)
NODE_RESERVATION: Final = Annotation(
    names.ANNOTATION_NODE_RESERVATION,
    json_object(NodeReservation, _reservation_faults),
    NodeReservation(),
    on=NODE_OR_TOPOLOGY,
)

CPU_TOPOLOGY: Final = Annotation(
    names.ANNOTATION_CPU_TOPOLOGY,
    json_object(CPUTopology, _topology_faults, by_program=True),
    CPUTopology(),
    on=TOPOLOGY,
)
POD_CPU_ALLOCS: Final = Annotation(
    names.ANNOTATION_POD_CPU_ALLOCS, json_list(PodCPUAlloc, by_program=True), (), on=TOPOLOGY
)
CPU_SHARED_POOLS: Final = Annotation(
    names.ANNOTATION_CPU_SHARED_POOLS, json_list(CPUSharedPool, by_program=True), (), on=TOPOLOGY
)
BE_CPU_SHARED_POOLS: Final = Annotation(
    names.ANNOTATION_BE_CPU_SHARED_POOLS, json_list(CPUSharedPool, by_program=True), (), on=TOPOLOGY
)
CPU_MANAGER_POLICY: Final = Annotation(
    names.ANNOTATION_CPU_MANAGER_POLICY,
    json_object(KubeletCPUManagerPolicy, by_program=True),
    KubeletCPUManagerPolicy(),
    on=TOPOLOGY,
)
CPU_BASIC_INFO: Final = Annotation(
    names.ANNOTATION_CPU_BASIC_INFO, json_object(CPUBasicInfo, by_program=True), None, on=TOPOLOGY
)

VALUES: Final[tuple[Value[Any, Any], ...]] = (
    RESOURCE_SPEC,
    RESOURCE_STATUS,
    NUMA_TOPOLOGY_SPEC,
    NUMA_TOPOLOGY_POLICY,
    CPU_BIND_POLICY,
    NUMA_ALLOCATE_STRATEGY,
    ENABLE_NUMA_RESERVATION,
    SYSTEM_QOS_RESOURCE,
    NODE_RESERVATION,
    CPU_TOPOLOGY,
    POD_CPU_ALLOCS,
    CPU_SHARED_POOLS,
    BE_CPU_SHARED_POOLS,
    CPU_MANAGER_POLICY,
    CPU_BASIC_INFO,
)
