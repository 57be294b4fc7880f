"""What is known of one node's CPUs and NUMA nodes: from the Node, and from its NodeResourceTopology.

    CPUs never given to a pod   those that kubelet reserves or gave to its own pods, the node's reservation, and the
                                system's exclusive CPUs
    amounts of a NUMA node      what its zone has for pods, one CPU less for each such CPU, times the amplification
    NUMA policy                 kubelet's, else the label's; kubelet would refuse what its own policy does not allow

A value that cannot be read counts as absent. Whoever watches the objects reports it there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, TypeVar

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.node import Node
from koord.api.protocol.annotations import cpu
from koord.api.protocol.annotations.colocation import RESOURCE_AMPLIFICATION_RATIO
from koord.api.protocol.annotations.value import AnnotationError, Value
from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology, Zone
from koord.api.text.quantity import QuantityError, amount
from koord.api.text.stored import stored_amount
from koord.scheduler.plugins.numa.accumulator import BindPolicy
from koord.scheduler.plugins.numa.hints import Policy
from koord.scheduler.plugins.numa.topology import Topology, topology_of

T = TypeVar("T")
D = TypeVar("D")

CPU: Final = "cpu"
MOST_ZONES: Final = 8
"""NUMA nodes with higher numbers have no amounts: no pod is placed by them."""
ROUNDING: Final = 1e-6
"""Far more than a division is off by, far less than a thousandth of a CPU."""
_NUMBERS: Final = frozenset(str(zone) for zone in range(MOST_ZONES))
_ZONE_PREFIX: Final = "node-"
_KUBELET_POLICIES: Final[tuple[tuple[str, Policy], ...]] = (
    ("SingleNUMANode", "SingleNUMANode"),
    ("single-numa-node", "SingleNUMANode"),
    ("Restricted", "Restricted"),
    ("restricted", "Restricted"),
    ("BestEffort", "BestEffort"),
    ("best-effort", "BestEffort"),
)
"""How kubelet's policies begin, in either spelling; after that they name the scope, pod or container."""
_POLICY_ATTRIBUTE: Final = "topologyManagerPolicy"
_BIND_POLICIES: Final[Mapping[str, BindPolicy | Literal[""]]] = {
    "FullPCPUsOnly": "FullPCPUs",
    "SpreadByPCPUs": "SpreadByPCPUs",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one node."""

    topology: Topology | None = None
    "None where it is not known, or not valid."
    reserved: int = 0
    "CPUs that no pod gets."
    policy: Policy | Literal[""] = ""
    bind: BindPolicy | Literal[""] = ""
    "Every pod on the node is bound like this."
    most: bool | None = None
    "Whether CPUs are taken from the fullest NUMA node; None: as the scheduler's configuration says."
    ratio: float = 1.0
    "How many CPUs a real one stands for."
    zones: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    "By number of a NUMA node, what it has for pods."
    max_refs: int = 1
    "How many pods may have the same CPU."

    @property
    def open_cpus(self) -> int:
        """The CPUs that pods may get."""
        return 0 if self.topology is None else self.topology.cpus & ~self.reserved


def amplified(number: int, ratio: float) -> int:
    return math.ceil(number * ratio) if ratio > 1 else number


def whole_cpus(milli: int, ratio: float) -> int:
    """The real CPUs in an amplified amount of thousandths."""
    return int(milli / ratio + ROUNDING) // 1000


def facts_of(node: Node, report: NodeResourceTopology | None) -> Facts:
    meta = node.metadata
    ratios = _read(RESOURCE_AMPLIFICATION_RATIO, meta, {})
    ratio = max(1.0, ratios.get(CPU, 1.0))
    strategy = _read(cpu.NUMA_ALLOCATE_STRATEGY, meta, None)
    most = None if strategy is None else strategy == "MostAllocated"
    bind: BindPolicy | Literal[""] = _BIND_POLICIES.get(_read(cpu.CPU_BIND_POLICY, meta, ""), "")
    wanted = _policy_named(_read(cpu.NUMA_TOPOLOGY_POLICY, meta, ""))
    if report is None:
        return Facts(policy=wanted, bind=bind, most=most, ratio=ratio)
    report_meta = report.metadata
    kubelet = _read(cpu.CPU_MANAGER_POLICY, report_meta, cpu.KubeletCPUManagerPolicy())
    topology = cpus_of(report)
    reserved = _reserved(meta) | _reserved(report_meta) | kubelet.cpus.mask
    for alloc in _read(cpu.POD_CPU_ALLOCS, report_meta, ()):
        if alloc.managed_by_kubelet:
            reserved |= alloc.cpus.mask
    return Facts(
        topology=topology,
        reserved=reserved,
        policy=_kubelets_policy(report) or wanted,
        bind="FullPCPUs" if kubelet.full_pcpus_only else bind,
        most=most,
        ratio=ratio,
        zones=_zones(report, topology, reserved, {} if is_amplified(report) else ratios),
    )


def cpus_of(report: NodeResourceTopology) -> Topology | None:
    return _topology(report.metadata.annotations.get(cpu.CPU_TOPOLOGY.key, ""))


def is_amplified(report: NodeResourceTopology) -> bool:
    """Whether the amounts of its zones are amplified already."""
    return RESOURCE_AMPLIFICATION_RATIO.is_on(report.metadata)


def number_of(zone: Zone) -> int | None:
    """Of a NUMA node that pods are placed by."""
    number = zone.name.removeprefix(_ZONE_PREFIX)
    is_known = zone.type == "Node" and zone.name.startswith(_ZONE_PREFIX) and number in _NUMBERS
    return int(number) if is_known else None


@lru_cache(maxsize=256)
def _topology(text: str) -> Topology | None:
    """From the annotation's text: reading thousands of CPUs takes long, and machines of a kind say the same."""
    meta = ObjectMeta(annotations={cpu.CPU_TOPOLOGY.key: text})
    return topology_of(_read(cpu.CPU_TOPOLOGY, meta, cpu.CPUTopology()).detail)


def _read(value: Value[T, D], meta: ObjectMeta, otherwise: T | D) -> T | D:
    try:
        return value.read(meta)
    except AnnotationError:
        return otherwise


def _reserved(meta: ObjectMeta) -> int:
    """CPUs that the node's reservation or the system's exclusive CPU set takes."""
    system = _read(cpu.SYSTEM_QOS_RESOURCE, meta, cpu.SystemQOSResource())
    kept = _read(cpu.NODE_RESERVATION, meta, cpu.NodeReservation()).cpus.mask
    return kept | system.cpus.mask if system.cpuset_exclusive else kept


def _policy_named(name: str) -> Policy | Literal[""]:
    return next((policy for prefix, policy in _KUBELET_POLICIES if name and name.startswith(prefix)), "")


def _kubelets_policy(report: NodeResourceTopology) -> Policy | Literal[""]:
    policies = [
        *report.topology_policies,
        *(attribute.value for attribute in report.attributes if attribute.name == _POLICY_ATTRIBUTE),
    ]
    return next((policy for name in policies if (policy := _policy_named(name))), "")


def _zones(
    report: NodeResourceTopology, topology: Topology | None, reserved: int, ratios: Mapping[str, float]
) -> dict[int, dict[str, int]]:
    amounts_by_zone = {}
    for zone in report.zones:
        number = number_of(zone)
        if number is None:
            continue
        has = _amounts(zone)
        if CPU in has and topology is not None:
            taken_off = (topology.nodes.get(number, 0) & reserved).bit_count() * 1000
            has[CPU] = max(0, has[CPU] - taken_off)
        amounts_by_zone[number] = {
            name: stored_amount(amplified(quantity, ratios.get(name, 1.0))) for name, quantity in has.items()
        }
    return dict(sorted(amounts_by_zone.items()))


def _amounts(zone: Zone) -> dict[str, int]:
    amounts = {}
    for resource in zone.resources:
        try:
            amounts[resource.name] = max(0, amount(resource.name, resource.allocatable))
        except QuantityError:
            continue
    return amounts
