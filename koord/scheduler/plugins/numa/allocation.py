"""What one pod holds of CPUs and NUMA amounts: the note of a pod, read from its `resource-status`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests, stored_amounts
from koord.api.machinery.faults import BadInput
from koord.api.protocol.annotations.cpu import (
    NUMA_TOPOLOGY_SPEC,
    RESOURCE_SPEC,
    RESOURCE_STATUS,
    NUMANodeResource,
    ResourceSpec,
    ResourceStatus,
)
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.priority import QoSClass, raw_qos_class
from koord.api.text.cpuset import CPUSet
from koord.api.text.quantity import render
from koord.api.text.stored import stored_amount
from koord.scheduler.plugins.numa.accumulator import Exclusive
from koord.scheduler.plugins.numa.facts import CPU
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.stand_ins import is_stand_in

Amounts = tuple[tuple[str, int], ...]

NAME: Final = "NodeNUMAResource"
OWN_CPUS: Final = (QoSClass.LSE, QoSClass.LSR)
"""Classes of pods that get CPUs of their own."""


class Allocation(NamedTuple):
    """The note of a pod."""

    cpus: int = 0
    zones: tuple[tuple[int, Amounts], ...] = ()
    "By number of a NUMA node, ascending."
    exclusive: Exclusive = ""
    alone: bool = False
    "Whether it keeps its NUMA node from pods whose CPUs span several."


def held_by(pod: Pod) -> Allocation | None:
    """What counts of what a pod says that it holds: CPUs where it asks for some of its own, and resources that it
    requests. Admission lets only schedulers write it. An annotation that cannot be read counts as absent."""
    meta = pod.metadata
    if RESOURCE_STATUS.key not in meta.annotations:
        return None
    try:
        status = RESOURCE_STATUS.read(meta)
        zones = tuple((zone.node, counted(stored_amounts(zone.resources))) for zone in status.numa_node_resources)
    except BadInput:
        return None
    held = Allocation(status.cpus.mask, tuple(sorted(zones)))
    if not is_stand_in(meta.name):
        # Adding up requests takes longer than all else, and most pods hold nothing.
        holds_any = held.cpus or any(listed for _, listed in held.zones)
        held = _asked_for(held, pod) if holds_any else Allocation()
    if not held.cpus and not held.zones:
        return None
    return held._replace(exclusive=exclusive_of(meta_spec(pod)) if held.cpus else "", alone=wants_it_alone(meta))


def _asked_for(held: Allocation, pod: Pod) -> Allocation:
    """As it is, of what a pod asks for: one that asks for less since then still has what it got."""
    requests = pod_requests(pod, capped=True)
    zones = [(zone, tuple(quantity for quantity in listed if requests.get(quantity[0]))) for zone, listed in held.zones]
    cpus = held.cpus if requests.get(CPU) and _asks_for_cpus(pod) else 0
    return Allocation(cpus, tuple(zone for zone in zones if zone[1]))


def _asks_for_cpus(pod: Pod) -> bool:
    """A pod that got CPUs because its node binds all pods gets the policy written on it."""
    if raw_qos_class(pod.metadata.labels) in OWN_CPUS:
        return True
    return meta_spec(pod).required_cpu_bind_policy not in ("", "Default")


def wants_it_alone(meta: ObjectMeta) -> bool:
    """Whether a pod wants no pod on its NUMA node whose CPUs span several. A node's policy alone does not mean that; a
    pod's own does, unless it says otherwise."""
    if NUMA_TOPOLOGY_SPEC.key not in meta.annotations:
        return False
    try:
        spec = NUMA_TOPOLOGY_SPEC.read(meta)
    except AnnotationError:
        return False
    exclusive = spec.single_numa_node_exclusive
    return exclusive == "Required" or (not exclusive and bool(spec.numa_topology_policy))


def meta_spec(pod: Pod) -> ResourceSpec:
    """How a pod wants its CPUs; nothing where that cannot be read."""
    try:
        return RESOURCE_SPEC.read(pod.metadata)
    except AnnotationError:
        return ResourceSpec()


def exclusive_of(spec: ResourceSpec) -> Exclusive:
    wanted = spec.preferred_cpu_exclusive_policy
    return wanted if wanted == "PCPULevel" or wanted == "NUMANodeLevel" else ""


def counted(resources: Mapping[str, int]) -> Amounts:
    return tuple(sorted((name, stored_amount(number)) for name, number in resources.items() if number > 0))


def held_among(records: Iterable[PodRecord]) -> tuple[Allocation, ...]:
    """What some pods hold."""
    return tuple(
        note for record in records for name, note in record.notes if name == NAME and isinstance(note, Allocation)
    )


def status_of(held: Allocation) -> ResourceStatus:
    return ResourceStatus(
        str(CPUSet.from_mask(held.cpus)),
        tuple(
            NUMANodeResource(zone, {name: render(name, number) for name, number in listed})
            for zone, listed in held.zones
        ),
    )


def held_in_words(held: Allocation) -> str:
    """`CPUs 0-3 of NUMA node 0`, `2 cpu and 1Gi memory of NUMA node 1`."""
    status = status_of(held)
    nodes = [str(zone.node) for zone in status.numa_node_resources]
    of = f" of NUMA node{'s' if len(nodes) > 1 else ''} {' and '.join(nodes)}" if nodes else ""
    if status.cpuset:
        return f"CPU{'s' if held.cpus.bit_count() > 1 else ''} {status.cpuset}{of}"
    return "; ".join(
        f"{' and '.join(f'{amount} {name}' for name, amount in zone.resources.items())} of NUMA node {zone.node}"
        for zone in status.numa_node_resources
    )
