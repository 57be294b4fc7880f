"""The CPUs that pods share: those of services without CPUs of their own, and those of best effort.

By NUMA node. Services share the CPUs that no pod owns; best effort may also run on the CPUs of LSR pods, never on
those of LSE pods. Neither gets CPUs that the node's annotation reserves or that are exclusive for system pods. Those
that kubelet reserves services share, as they do under kubelet alone; best effort does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from koord.agent.host.topology import Topology
from koord.agent.pods import BATCH_CPU, CPU, AgentPod
from koord.agent.state import NodeState
from koord.api.kubernetes.resources import amounts
from koord.api.protocol.annotations.cpu import (
    NODE_RESERVATION,
    RESOURCE_STATUS,
    SYSTEM_QOS_RESOURCE,
    CPUSharedPool,
    ResourceStatus,
)
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.priority import QoSClass
from koord.api.text.cpuset import NO_CPUS, CPUSet


@dataclass(frozen=True, slots=True)
class Owned:
    """CPUs that are not for everybody."""

    never: CPUSet
    "For best effort: reserved, or exclusive for system pods."
    system: CPUSet
    "Of those, what services may not have either."
    lse: CPUSet
    bound: CPUSet
    "Of all pods with CPUs of their own, by the scheduler's or kubelet's word."
    lsr: CPUSet


def own_cpus(pod: AgentPod) -> CPUSet:
    """The CPUs that the scheduler gave a pod; an annotation that cannot be read gives none."""
    try:
        return RESOURCE_STATUS.read(pod.meta).cpus
    except AnnotationError:
        return NO_CPUS


def numa_nodes_with_cpu(status: ResourceStatus) -> set[int]:
    """Where the scheduler gave a pod CPU, not only memory or huge pages."""
    given = ((zone.node, amounts(zone.resources)) for zone in status.numa_node_resources)
    return {node for node, has in given if has.get(CPU, 0) > 0 or has.get(BATCH_CPU, 0) > 0}


def owned_cpus(state: NodeState) -> Owned:
    return state.once(_owned_cpus)


def _owned_cpus(state: NodeState) -> Owned:
    kept = reserved_cpus(state)
    for_system_pods = SYSTEM_QOS_RESOURCE.read(state.node.metadata)
    if for_system_pods.cpuset_exclusive:
        kept |= for_system_pods.cpus
    never = kept | state.kubelet.reserved_cpus
    lse = lsr = bound = NO_CPUS
    for pod in state.pods.values():
        if not pod.is_present:
            continue
        cpus = own_cpus(pod)
        bound |= cpus
        if pod.qos is QoSClass.LSE:
            lse |= cpus
        elif pod.qos is QoSClass.LSR:
            lsr |= cpus
    for cpus in given_by_kubelet(state).values():
        bound |= cpus
    return Owned(never, kept if state.kubelet.shares_reserved else never, lse, bound, lsr)


def reserved_cpus(state: NodeState) -> CPUSet:
    """By the node's annotation: the CPUs that it names, else as many as its amount comes to."""
    reservation = NODE_RESERVATION.read(state.node.metadata)
    return reservation.cpus or state.topology.first(reservation.cores)


def given_by_kubelet(state: NodeState) -> dict[str, CPUSet]:
    """By pod uid, whether the pod is known or not. Of pods whose CPUs are set here, kubelet's word does not count."""
    return {
        uid: cpus
        for uid, cpus in sorted(state.kubelet.static_cpus.items())
        if cpus and not ((pod := state.pods.get(uid)) and _is_set_here(pod))
    }


def _is_set_here(pod: AgentPod) -> bool:
    return pod.labelled_qos in (QoSClass.LS, QoSClass.BE) or bool(own_cpus(pod))


def service_pools(state: NodeState) -> tuple[CPUSharedPool, ...]:
    return state.once(_service_pools)


def _service_pools(state: NodeState) -> tuple[CPUSharedPool, ...]:
    owned = owned_cpus(state)
    return _by_node(state.topology, owned.system | owned.bound)


def best_effort_pools(state: NodeState) -> tuple[CPUSharedPool, ...]:
    owned = owned_cpus(state)
    return _by_node(state.topology, owned.never | owned.lse)


def _by_node(topology: Topology, taken: CPUSet) -> tuple[CPUSharedPool, ...]:
    pools = []
    for node, cpus in topology.nodes.items():
        socket = min(topology.by_id[cpu].socket for cpu in cpus)
        pools.append(CPUSharedPool(socket=socket, node=node, cpuset=str(cpus - taken)))
    return tuple(pools)
