"""On which CPUs a pod runs: its own, those of its NUMA nodes, or those that all services share.

The first that applies: CPUs that the scheduler gave it; the share pools of the NUMA nodes that it was given; for a
system pod the CPUs for those; for a service all share pools; best effort is left to suppression; beside kubelet's
static policy others are left alone. Who has its own CPUs needs no quota.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from koord.agent.cpu_pools import service_pools
from koord.agent.executor.write import Write
from koord.agent.hooks.hook import Hook
from koord.agent.host.convert import UNLIMITED
from koord.agent.host.knobs import CPU_QUOTA, CPUSET_CPUS
from koord.agent.host_applications import directory_of
from koord.agent.pods import BATCH_CPU, CPU, AgentContainer, AgentPod
from koord.agent.state import NodeState
from koord.api.annotations.cpu import RESOURCE_STATUS, SYSTEM_QOS_RESOURCE, CPUSharedPool
from koord.api.annotations.value import AnnotationError
from koord.api.cgroup import qos_dir
from koord.api.cpuset import NO_CPUS, CPUSet
from koord.api.features import AgentGate
from koord.api.priority import QoSClass
from koord.api.words import KubeQoS

NAME: Final = "cpu_set"


def cpus_of(state: NodeState, pod: AgentPod) -> tuple[CPUSet, str] | None:
    """A pod's CPUs and why; None leaves it alone."""
    try:
        status = RESOURCE_STATUS.read(pod.meta)
    except AnnotationError:
        return None
    if status.cpuset:
        return status.cpus, "the scheduler gave it these CPUs"
    nodes = {each.node for each in status.numa_node_resources if {CPU, BATCH_CPU} & each.resources.keys()}
    if nodes and not pod.is_best_effort:
        return joined(pool for pool in service_pools(state) if pool.node in nodes), f"shared CPUs of NUMA nodes {nodes}"
    if pod.labelled_qos is QoSClass.SYSTEM:
        system = SYSTEM_QOS_RESOURCE.read(state.node.metadata).cpus
        return (system, "the CPUs for system pods") if system else None
    if pod.labelled_qos is QoSClass.LS:
        return joined(service_pools(state)), "the CPUs that services share"
    if pod.is_best_effort or state.kubelet.cpu_policy == "static":
        return None
    return joined(service_pools(state)), "the CPUs that services share"


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


def _is_in_force(state: NodeState) -> bool:
    """Only where somebody has CPUs of his own is there something to keep the others from."""
    return any(pod.is_active and _has_own(pod) for pod in state.pods.values())


def _for_node(state: NodeState) -> Iterator[Write]:
    if state.once(_is_in_force) and state.kubelet.cpu_policy != "static":
        cpus = joined(service_pools(state))
        if cpus:
            for application in state.slo.host_applications if state.slo else ():
                if application.qos == QoSClass.LS:
                    directory = directory_of(application, state.driver)
                    yield Write(CPUSET_CPUS, directory, cpus, NAME, "the CPUs that services share")
            # Pods with CPUs of their own lie there too; those directories follow the pods', and are larger for them.
            directory = qos_dir(KubeQoS.BURSTABLE, state.driver)
            bound = (cpus_of(state, pod) for pod in state.pods.values() if pod.kube_qos is KubeQoS.BURSTABLE)
            for found in bound:
                cpus |= found[0] if found else NO_CPUS
            yield Write(CPUSET_CPUS, directory, cpus, NAME, "the CPUs that services share")


def _writes(state: NodeState, pod: AgentPod, directory: str) -> Iterator[Write]:
    if not state.once(_is_in_force):
        return
    found = cpus_of(state, pod)
    if found is not None and found[0]:
        yield Write(CPUSET_CPUS, directory, found[0], NAME, found[1])
    if _has_own(pod):
        yield Write(CPU_QUOTA, directory, UNLIMITED, NAME, "its CPUs are its limit")


def _for_pod(state: NodeState, pod: AgentPod) -> Iterator[Write]:
    return _writes(state, pod, pod.directory)


def _for_container(state: NodeState, pod: AgentPod, container: AgentContainer) -> Iterator[Write]:
    return _writes(state, pod, container.directory)


HOOK: Final = Hook(NAME, AgentGate.CPU_SET_ALLOCATOR, _for_node, _for_pod, _for_container)
