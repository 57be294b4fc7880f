"""Every node's CPUs with who holds them, from objects alone: for people and programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology
from koord.api.text.cpuset import CPUSet
from koord.scheduler.plugins.numa.allocation import Allocation, held_by
from koord.scheduler.plugins.numa.facts import facts_of
from koord.scheduler.plugins.numa.on_node import OnNode
from koord.scheduler.plugins.numa.topology import Topology, cpus_in
from koord.scheduler.state.stand_ins import told_name


class CPUHolder(msgspec.Struct, frozen=True, rename="camel"):
    """A pod with CPUs of its own, or with a part of NUMA nodes."""

    pod: str
    cpuset: str
    numa_nodes: tuple[int, ...]


class ZoneAmount(msgspec.Struct, frozen=True, rename="camel"):
    """A resource of a NUMA node: milli-cores of cpu, units of everything else."""

    allocatable: int
    taken: int


class NUMAFigures(msgspec.Struct, frozen=True, rename="camel"):
    number: int
    socket: int
    cpuset: str
    free: str
    reserved: str
    "CPUs that no pod gets."
    free_cpus: int
    free_in_whole_cores: int
    cores: tuple[tuple[int, ...], ...]
    "The CPUs of each core."
    amounts: dict[str, ZoneAmount]


class CPUFigures(msgspec.Struct, frozen=True, rename="camel"):
    node: str
    numa_policy: str
    cpu_bind_policy: str
    numa_nodes: tuple[NUMAFigures, ...]
    "None where the node's CPUs are not known."
    pods: tuple[CPUHolder, ...]


def figures(
    nodes: Iterable[Node], reports: Iterable[NodeResourceTopology], pods: Iterable[Pod]
) -> tuple[CPUFigures, ...]:
    """By the names of nodes."""
    by_name = {report.metadata.name: report for report in reports}
    holding: dict[str, dict[str, Allocation]] = {}
    for pod in pods:
        held = None if pod.is_finished or not pod.spec.node_name else held_by(pod)
        if held is not None:
            holding.setdefault(pod.spec.node_name, {})[told_name(pod.metadata.key)] = held
    ordered = sorted(nodes, key=lambda node: node.metadata.name)
    return tuple(_of(node, by_name.get(node.metadata.name), holding.get(node.metadata.name, {})) for node in ordered)


def _of(node: Node, report: NodeResourceTopology | None, holding: Mapping[str, Allocation]) -> CPUFigures:
    facts = facts_of(node, report)
    state = OnNode(facts)
    for key, held in holding.items():
        state.count(held, key, +1)
    topology = facts.topology
    return CPUFigures(
        node.metadata.name,
        facts.policy,
        facts.bind,
        () if topology is None else tuple(_numa(number, topology, state) for number in topology.nodes),
        tuple(CPUHolder(key, _list(held.cpus), _nodes(held, topology)) for key, held in sorted(holding.items())),
    )


def _numa(number: int, topology: Topology, state: OnNode) -> NUMAFigures:
    cpus, facts = topology.nodes[number], state.facts
    free = state.available & cpus
    return NUMAFigures(
        number,
        topology.socket_of_node[number],
        _list(cpus),
        _list(free),
        _list(facts.reserved & cpus),
        free.bit_count(),
        topology.whole(free).bit_count(),
        tuple(tuple(cpus_in(core)) for core in topology.cores_of_node[number]),
        {name: ZoneAmount(has, state.charged(number, name)) for name, has in facts.zones.get(number, {}).items()},
    )


def _nodes(held: Allocation, topology: Topology | None) -> tuple[int, ...]:
    if held.zones:
        return tuple(zone for zone, _ in held.zones)
    return () if topology is None else tuple(number for number, _ in topology.nodes_of(held.cpus))


def _list(cpus: int) -> str:
    return str(CPUSet.from_mask(cpus))
