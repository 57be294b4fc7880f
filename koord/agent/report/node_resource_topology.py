"""The NodeResourceTopology of this node: its CPUs, what kubelet does with them, which of them are shared.

The scheduler binds CPUs by it. The zones have what each NUMA node has; batch amounts in them are the manager's and are
left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from koord.agent.cpu_pools import best_effort_pools, service_pools
from koord.agent.host import proc
from koord.agent.host.files import Files
from koord.agent.state import NodeState
from koord.api.annotations import cpu
from koord.api.crd.node_resource_topology import NodeResourceTopology, Zone, ZoneResource
from koord.api.quantity import render


def topology_annotations(state: NodeState) -> dict[str, str]:
    """What the scheduler reads, as annotations."""
    detail = tuple(
        cpu.CPUInfo(id=each.id, core=each.core, socket=each.socket, node=each.node) for each in state.topology.cpus
    )
    given = tuple(
        cpu.PodCPUAlloc(
            namespace=pod.meta.namespace, name=pod.meta.name, uid=uid, cpuset=str(cpus), managed_by_kubelet=True
        )
        for uid, cpus in state.kubelet.static_cpus.items()
        if (pod := state.pods.get(uid)) is not None and not cpu.RESOURCE_STATUS.is_on(pod.meta)
    )
    policy = cpu.KubeletCPUManagerPolicy(
        policy="static" if state.kubelet.cpu_policy == "static" else "none",
        reserved_cpus=str(state.kubelet.reserved_cpus),
    )
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
    }


def zones(state: NodeState, files: Files, known: NodeResourceTopology | None) -> tuple[Zone, ...]:
    """One for each NUMA node. What others have written into a zone stays there."""
    before = {zone.name: zone for zone in known.zones} if known else {}
    found = []
    for node, cpus in state.topology.nodes.items():
        name = f"node-{node}"
        memory = state.capacity_memory_bytes
        if len(state.topology.nodes) > 1:
            memory = proc.memory_of_numa_node(files, node).total
        own = {"cpu": len(cpus) * 1000, "memory": memory}
        others = [each for each in before[name].resources if each.name not in own] if name in before else []
        resources = [
            ZoneResource(name=resource, capacity=(text := render(resource, amount)), allocatable=text, available=text)
            for resource, amount in own.items()
        ]
        found.append(Zone(name=name, type="Node", resources=(*resources, *others)))
    return tuple(found)


def change(state: NodeState, files: Files, known: NodeResourceTopology | None) -> Mapping[str, Any] | None:
    """The merge patch that makes it so, or the whole object; None where it is so already."""
    annotations = topology_annotations(state)
    wanted = zones(state, files, known)
    if known is not None:
        has = known.metadata.annotations
        if known.zones == wanted and all(has.get(key) == text for key, text in annotations.items()):
            return None
    return {
        "metadata": {"annotations": annotations},
        "topologyPolicies": list(known.topology_policies) if known else ["None"],
        "zones": msgspec.to_builtins(wanted),
    }
