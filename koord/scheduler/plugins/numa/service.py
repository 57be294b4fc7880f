"""What NodeNUMAResource knows of a node, for people who look into a running scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from koord.api.text.cpuset import CPUSet
from koord.api.text.quantity import render
from koord.scheduler.plugins.numa.allocation import held_among
from koord.scheduler.plugins.numa.allocations import Allocations
from koord.scheduler.plugins.numa.on_node import OnNode
from koord.scheduler.plugins.numa.topology import Topology, cpus_in


def services_of(allocations: Allocations) -> Mapping[str, Callable[[str], object]]:
    """What the plugin answers, by path."""
    return {
        "nodes/:nodeName": lambda name: node_told(allocations, name),
        "cpuTopologyOptions/:nodeName": lambda name: cpu_topology_options(allocations, name),
        "availableCPUs/:nodeName": lambda name: available_cpus(allocations, name),
    }


def cpu_topology_options(allocations: Allocations, node: str) -> object | None:
    """The node's CPUs and what rules them; None where the node is not known."""
    on_node = _on(allocations, node)
    return None if on_node is None else _options(on_node)


def available_cpus(allocations: Allocations, node: str) -> object | None:
    """The CPUs that a pod could get, and those that pods hold."""
    on_node = _on(allocations, node)
    if on_node is None:
        return None
    return {"availableCPUs": _list(on_node.available), "allocated": _allocated(on_node)}


def node_told(allocations: Allocations, node: str) -> object | None:
    """Everything about a node: rules, what is left and what each pod holds."""
    on_node = _on(allocations, node)
    if on_node is None:
        return None
    cluster = allocations.cluster
    records = cluster.pods_on[cluster.table.row_of[node]]
    facts = on_node.facts
    taken = {zone: {name: on_node.charged(zone, name) for name in has} for zone, has in facts.zones.items()}
    left = {
        zone: {name: max(0, number - taken[zone][name]) for name, number in has.items()}
        for zone, has in facts.zones.items()
    }
    pods = [
        {
            "uid": record.uid,
            "namespace": record.namespace,
            "name": record.key.rpartition("/")[2],
            "cpuset": _list(held.cpus),
            "cpuExclusivePolicy": held.exclusive,
            "numaNodeResources": _by_zone({zone: dict(listed) for zone, listed in held.zones}),
        }
        for record in sorted(records.values(), key=lambda record: record.key)
        for held in held_among([record])
    ]
    return {
        "name": node,
        **_options(on_node),
        "remainingNUMANodeResources": _by_zone(left),
        "allocatedNUMANodeResources": _by_zone(taken),
        "availableCPUs": _list(on_node.available),
        "allocatedCPUs": _allocated(on_node),
        "allocatedPods": pods,
    }


def _on(allocations: Allocations, node: str) -> OnNode | None:
    row = allocations.cluster.table.row_of.get(node)
    return None if row is None else allocations.on.get(row)


def _options(on_node: OnNode) -> dict[str, object]:
    facts = on_node.facts
    return {
        "cpuTopology": None if facts.topology is None else _topology(facts.topology),
        "reservedCPUs": _list(facts.reserved),
        "maxRefCount": facts.max_refs,
        "cpuBindPolicy": facts.bind,
        "numaTopologyPolicy": facts.policy,
        "numaNodeResources": _by_zone(facts.zones),
        "amplificationRatios": {"cpu": facts.ratio} if facts.ratio > 1 else {},
    }


def _topology(topology: Topology) -> dict[str, object]:
    return {
        "numCPUs": topology.cpus.bit_count(),
        "numCores": len(topology.cores),
        "numNodes": len(topology.nodes),
        "numSockets": len(topology.sockets),
        "cpuDetails": {str(info.id): _detail(topology, info.id) for info in topology.details},
    }


def _detail(topology: Topology, cpu: int) -> dict[str, object]:
    core = topology.cores[topology.core_of[cpu]]
    return {"cpuID": cpu, "coreID": topology.core_of[cpu], "nodeID": core.node, "socketID": core.socket}


def _allocated(on_node: OnNode) -> dict[str, object]:
    topology = on_node.facts.topology
    if topology is None:
        return {}
    marks: dict[int, str] = {}
    for policy, cpus in on_node.exclusive.values():
        marks |= dict.fromkeys(cpus_in(cpus), policy)
    return {
        str(cpu): {
            **_detail(topology, cpu),
            "refCount": 1 + on_node.more.get(cpu, 0),
            **({"exclusivePolicy": marks[cpu]} if cpu in marks else {}),
        }
        for cpu in cpus_in(on_node.taken & topology.cpus)
    }


def _by_zone(zones: Mapping[int, Mapping[str, int]]) -> list[dict[str, object]]:
    return [{"node": zone, "resources": _rendered(of.items())} for zone, of in sorted(zones.items())]


def _rendered(amounts: Iterable[tuple[str, int]]) -> dict[str, str]:
    return {name: render(name, number) for name, number in amounts}


def _list(cpus: int) -> str:
    return str(CPUSet.from_mask(cpus))
