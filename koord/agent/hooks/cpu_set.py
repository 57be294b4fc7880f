"""On which CPUs a pod runs: its own, those of its NUMA nodes, or those that all services share.

The first that applies: CPUs that the scheduler gave it; the share pools of the NUMA nodes that it was given (with the
BECPUManager gate also of a best-effort pod that lies below burstable, best effort's pools); for a system pod the CPUs
for those; for a service all share pools; what lies below best effort is left to suppression; beside kubelet's static
policy others are left alone. A pod with its own CPUs needs no quota.

Where all CPUs are shared by all pods, services are not restricted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from koord.agent import wish
from koord.agent.cpu_pools import best_effort_pools, numa_nodes_with_cpu, service_pools
from koord.agent.hooks.hook import Hook
from koord.agent.host.convert import UNLIMITED
from koord.agent.host.knobs import CPU_QUOTA, CPUSET_CPUS
from koord.agent.host_applications import host_applications
from koord.agent.pods import AgentContainer, AgentPod
from koord.agent.state import NodeState
from koord.agent.wish import Target, Wish
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.annotations.cpu import RESOURCE_STATUS, SYSTEM_QOS_RESOURCE, CPUSharedPool
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.priority import QoSClass
from koord.api.text.cpuset import NO_CPUS, CPUSet

NAME: Final = "cpu_set"


def cpus_of(state: NodeState, pod: AgentPod) -> tuple[CPUSet, str] | None:
    """A pod's CPUs and why; None leaves it alone."""
    try:
        status = RESOURCE_STATUS.read(pod.meta)
    except AnnotationError:
        return None
    if status.cpuset:
        return status.cpus, "the scheduler gave it these CPUs"
    nodes = numa_nodes_with_cpu(status)
    if nodes and pod.labelled_qos is not QoSClass.BE:
        return joined(pool for pool in service_pools(state) if pool.node in nodes), f"shared CPUs of NUMA nodes {nodes}"
    if nodes and state.gates[AgentGate.BE_CPU_MANAGER] and pod.kube_qos is not KubeQoS.BEST_EFFORT:
        own = joined(pool for pool in best_effort_pools(state) if pool.node in nodes)
        return own, f"CPUs of best effort on NUMA nodes {nodes}"
    if pod.labelled_qos is QoSClass.SYSTEM:
        system = SYSTEM_QOS_RESOURCE.read(state.node.metadata).cpus
        if system:
            return system, "the CPUs for system pods"
    is_left = pod.kube_qos is KubeQoS.BEST_EFFORT or state.kubelet.cpu_policy == "static"
    if is_left and pod.labelled_qos is not QoSClass.LS:
        return None
    shared = state.once(_shared)
    return (shared, "the CPUs that services share") if shared else None


def _shared(state: NodeState) -> CPUSet:
    """What services share; none where that is all CPUs, or where none are left."""
    cpus = joined(service_pools(state))
    return NO_CPUS if cpus == state.topology.all else cpus


def joined(pools: Iterator[CPUSharedPool] | Sequence[CPUSharedPool]) -> CPUSet:
    cpus = NO_CPUS
    for pool in pools:
        cpus |= pool.cpus
    return cpus


def _has_own(pod: AgentPod) -> bool:
    try:
        return bool(RESOURCE_STATUS.read(pod.meta).cpuset)
    except AnnotationError:
        return False


def _for_node(state: NodeState) -> Iterator[Wish]:
    cpus = state.once(_shared)
    if not cpus:
        return
    for application in host_applications(state.slo):
        if application.qos == QoSClass.LS:
            target = wish.application(application.name)
            yield Wish(target, CPUSET_CPUS, cpus, NAME, "the CPUs that services share")
    if state.kubelet.cpu_policy == "static":
        return
    # Pods with CPUs of their own lie there too, and ones that are left alone: the directory has room for all of them.
    for pod in state.pods.values():
        if pod.kube_qos is KubeQoS.BURSTABLE and pod.is_present:
            cpus_given = cpus_of(state, pod)
            cpus |= cpus_given[0] if cpus_given else state.topology.all
    yield Wish(wish.band(KubeQoS.BURSTABLE), CPUSET_CPUS, cpus, NAME, "the CPUs that services share")


def _wishes(state: NodeState, pod: AgentPod, target: Target) -> Iterator[Wish]:
    cpus_given = cpus_of(state, pod)
    if cpus_given is not None and cpus_given[0]:
        yield Wish(target, CPUSET_CPUS, cpus_given[0], NAME, cpus_given[1])
    if _has_own(pod):
        yield Wish(target, CPU_QUOTA, UNLIMITED, NAME, "its CPUs are its limit")


def _for_pod(state: NodeState, pod: AgentPod) -> Iterator[Wish]:
    return _wishes(state, pod, wish.pod(pod.uid))


def _for_container(state: NodeState, pod: AgentPod, container: AgentContainer) -> Iterator[Wish]:
    return _wishes(state, pod, wish.container(pod.uid, container.name))


HOOK: Final = Hook(NAME, AgentGate.CPU_SET_ALLOCATOR, _for_node, _for_pod, _for_container)
