"""The NodeResourceTopology of this node: its CPUs, what kubelet does with them, which of them are shared.

The scheduler binds CPUs by it. The zones have what each NUMA node has; batch amounts in them are the manager's and are
not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from koord.agent.cpu_pools import best_effort_pools, given_by_kubelet, reserved_cpus, service_pools
from koord.agent.host import proc
from koord.agent.host.files import Files
from koord.agent.report.report import Facts, Report
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate
from koord.api.kinds import NODE_RESOURCE_TOPOLOGIES
from koord.api.kubernetes.meta import OwnerReference
from koord.api.kubernetes.resources import amounts
from koord.api.protocol import names
from koord.api.protocol.annotations import cpu
from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology, Zone, ZoneResource
from koord.api.text.quantity import render

EVERY_S: Final = 10.0


def topology_annotations(state: NodeState) -> dict[str, str]:
    """What the scheduler reads, as annotations."""
    detail = tuple(
        cpu.CPUInfo(id=processor.id, core=processor.core, socket=processor.socket, node=processor.node)
        for processor in state.topology.cpus
    )
    given = tuple(_given(state, uid, str(cpus)) for uid, cpus in given_by_kubelet(state).items())
    policy = cpu.KubeletCPUManagerPolicy(
        policy="static" if state.kubelet.cpu_policy == "static" else "none",
        options=state.kubelet.cpu_options,
        reserved_cpus=str(state.kubelet.reserved_cpus),
    )
    meta = state.node.metadata
    reservation = msgspec.structs.replace(cpu.NODE_RESERVATION.read(meta), reserved_cpus=str(reserved_cpus(state)))
    about = cpu.CPUBasicInfo(
        cpu_model=state.topology.model,
        hyper_thread_enabled=state.topology.hyper_threads,
        turbo_enabled=state.topology.turbo,
        vendor_id=state.topology.vendor,
    )
    return {
        cpu.CPU_TOPOLOGY.key: cpu.CPU_TOPOLOGY.render(cpu.CPUTopology(detail)),
        cpu.POD_CPU_ALLOCS.key: cpu.POD_CPU_ALLOCS.render(given),
        cpu.CPU_SHARED_POOLS.key: cpu.CPU_SHARED_POOLS.render(service_pools(state)),
        cpu.BE_CPU_SHARED_POOLS.key: cpu.BE_CPU_SHARED_POOLS.render(best_effort_pools(state)),
        cpu.CPU_MANAGER_POLICY.key: cpu.CPU_MANAGER_POLICY.render(policy),
        cpu.CPU_BASIC_INFO.key: cpu.CPU_BASIC_INFO.render(about),
        cpu.NODE_RESERVATION.key: cpu.NODE_RESERVATION.render(reservation),
        cpu.SYSTEM_QOS_RESOURCE.key: cpu.SYSTEM_QOS_RESOURCE.render(cpu.SYSTEM_QOS_RESOURCE.read(meta)),
    }


def _given(state: NodeState, uid: str, cpus: str) -> cpu.PodCPUAlloc:
    """A pod that is not known by name holds its CPUs all the same."""
    pod = state.pods.get(uid)
    if pod is None:
        return cpu.PodCPUAlloc(uid=uid, cpuset=cpus, managed_by_kubelet=True)
    return cpu.PodCPUAlloc(pod.meta.namespace, pod.meta.name, uid, cpus, True)


def topology_labels(state: NodeState, stored: NodeResourceTopology | None) -> dict[str, str | None]:
    """The node's own label, for readers that only look at its zones; None removes what the node no longer says."""
    key = cpu.ENABLE_NUMA_RESERVATION.key
    label = state.node.metadata.labels.get(key)
    has = stored.metadata.labels.get(key) if stored else None
    return {} if label == has else {key: label}


def zones(state: NodeState, files: Files, stored: NodeResourceTopology | None) -> tuple[Zone, ...]:
    """One for each NUMA node. What others have written into a zone stays there.

    Where the node's label says so, what kubelet keeps back is shared out among them.
    """
    before = {zone.name: zone for zone in stored.zones} if stored else {}
    kept = _kept_in_each_zone(state)
    zones_now = []
    for node, cpus in state.topology.nodes.items():
        name = f"node-{node}"
        memory = state.capacity_memory_bytes
        if len(state.topology.nodes) > 1:
            memory = proc.memory_of_numa_node(files, node).total
        own = {"cpu": len(cpus) * 1000, "memory": memory}
        zone = before.get(name, Zone(name=name, type="Node"))
        others = [resource for resource in zone.resources if resource.name not in own]
        resources = [
            _resource(resource, amount, max(amount - kept.get(resource, 0), 0)) for resource, amount in own.items()
        ]
        zones_now.append(msgspec.structs.replace(zone, type="Node", resources=(*resources, *others)))
    return tuple(zones_now)


def _resource(name: str, amount: int, for_pods: int) -> ZoneResource:
    text = render(name, for_pods)
    return ZoneResource(name=name, capacity=render(name, amount), allocatable=text, available=text)


def _kept_in_each_zone(state: NodeState) -> dict[str, int]:
    """Rounded up, so that the zones keep back no less than the node."""
    if not cpu.ENABLE_NUMA_RESERVATION.read(state.node.metadata):
        return {}
    capacity, count = amounts(state.node.status.capacity), len(state.topology.nodes)
    return {
        resource: -(-max(capacity[resource] - state.allocatable[resource], 0) // count)
        for resource in (names.RESOURCE_CPU, names.RESOURCE_MEMORY)
        if resource in capacity and resource in state.allocatable
    }


def change(state: NodeState, files: Files, stored: NodeResourceTopology | None) -> Mapping[str, Any] | None:
    """The merge patch that makes it so, or the whole object; None where it is so already."""
    annotations, labels = topology_annotations(state), topology_labels(state, stored)
    wanted = zones(state, files, stored)
    policies = (state.kubelet.topology_policy,)
    body: dict[str, Any] = {"topologyPolicies": list(policies), "zones": msgspec.to_builtins(wanted)}
    if stored is None:
        labels[names.LABEL_MANAGED_BY] = names.MANAGED_BY_KOORDINATOR
        owner = state.node.metadata
        # The Node owns the object, so it is deleted with its node.
        owners = [OwnerReference("v1", "Node", owner.name, owner.uid, controller=True, block_owner_deletion=True)]
        meta = {"labels": labels, "annotations": annotations, "ownerReferences": msgspec.to_builtins(owners)}
        return {"metadata": meta, **body}
    has = stored.metadata.annotations
    is_told = all(has.get(key) == text for key, text in annotations.items())
    if is_told and not labels and stored.zones == wanted and stored.topology_policies == policies:
        return None
    return {"metadata": {"labels": labels, "annotations": annotations}, **body}


def _change(facts: Facts, stored: NodeResourceTopology | None) -> Mapping[str, Any] | None:
    return change(facts.state, facts.files, stored)


REPORT: Final = Report(
    "topology",
    NODE_RESOURCE_TOPOLOGIES,
    _change,
    every_s=lambda stored: EVERY_S,
    idle_s=EVERY_S,
    gates=(AgentGate.NODE_TOPOLOGY_REPORT,),
)
