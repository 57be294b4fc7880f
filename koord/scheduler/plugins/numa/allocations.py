"""Which CPUs and NUMA amounts the pods on every node hold.

A note is what one pod holds, read from its `resource-status`. What a node has left follows from its facts and from the
notes on it, and is kept in columns, so that rows are judged without a look at single CPUs:

    CPUS, WHOLE, CORES     free CPUs; free CPUs in whole free cores; cores with a free CPU; the same by NUMA node
    HAS, TAKEN             amounts by NUMA node and resource. CPUs of its own charge a pod's node amplified.
    REPORTS                by resource, 1 where some NUMA node reports it, if only that there is nothing of it

A pod with CPUs and without amounts counts on the NUMA nodes of its CPUs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import ClassVar, Final

import numpy as np

from koord.api.kubernetes.pod import Pod
from koord.api.protocol.annotations.cpu import RESOURCE_STATUS
from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology
from koord.scheduler.framework.cells import Overlay
from koord.scheduler.framework.stable import Version
from koord.scheduler.plugins.numa.allocation import NAME, Allocation, held_among, held_by, held_in_words
from koord.scheduler.plugins.numa.facts import CPU, Facts, amplified, facts_of
from koord.scheduler.plugins.numa.on_node import OnNode, rest_of
from koord.scheduler.plugins.numa.topology import Topology
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.insiders import Insiders
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Column, Reason, Row

POLICY: Final = "numa policy"
BIND: Final = "numa bind"
PER_CORE: Final = "numa cpus per core"
ZONES: Final = "numa zones"
RATIO: Final = "numa cpu ratio"
BOUND: Final = "numa bound"
CPUS, WHOLE, CORES = "numa cpus", "numa whole", "numa cores"
HAS, TAKEN, REPORTS = "numa has", "numa taken", "numa reports"

POLICIES: Final = ("", "BestEffort", "Restricted", "SingleNUMANode")
"""By their numbers in the column."""
BIND_POLICIES: Final = ("", "FullPCPUs", "SpreadByPCPUs")


class Allocations(Notes):
    """Of a whole cluster."""

    name: ClassVar[str] = NAME
    heeds: ClassVar[frozenset[str]] = frozenset({RESOURCE_STATUS.key})

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.reports: dict[str, NodeResourceTopology] = {}
        self.on: dict[Row, OnNode] = {}
        self._insiders = Insiders[Allocation](lambda held, inside, row: rest_of(held, inside, self.on[row]))
        self._zones: set[int] = set()
        self._resources: set[tuple[int, str]] = set()
        self.restricts = self.binds = self.amplifies = False
        "Whether some node has a NUMA policy, binds all its pods, or has a ratio; or had since the start."
        self.version = Version(0)
        "If the number changes, judges must be made again."
        declare = cluster.table.declare
        for name in (POLICY, BIND, PER_CORE, ZONES):
            declare(Column(name, np.int16, Reason.EXACT))
        declare(Column(RATIO, np.float64, Reason.EXACT, 1.0))
        for name in (BOUND, CPUS, WHOLE, CORES):
            declare(Column(name, np.int64, Reason.EXACT))
        for row in cluster.nodes:
            self.node_put(row)

    @property
    def zones(self) -> tuple[int, ...]:
        """The numbers of NUMA nodes that some node has."""
        return tuple(sorted(self._zones))

    def resources_of(self, zone: int) -> list[str]:
        """The resources that a NUMA node of this number has on some node."""
        return [name for number, name in self._resources if number == zone]

    def words(self, note: object) -> str:
        return held_in_words(note) if isinstance(note, Allocation) else ""

    def of(self, pod: Pod) -> object | None:
        return held_by(pod)

    def by_name(self, pod: Pod) -> bool:
        return False

    def cells(self, note: object, row: Row) -> Iterable[tuple[Hashable, int]]:
        """Of free CPUs not less than there would be without the pod: which of them make whole cores, or are held by
        others as well, the exact check finds out."""
        state = self.on.get(row)
        if state is None or not isinstance(note, Allocation):
            return
        facts, topology = state.facts, state.facts.topology
        own = {} if topology is None else {zone: 1000 * cpus.bit_count() for zone, cpus in topology.nodes_of(note.cpus)}
        for zone, name, number in state.amounts(note):
            if (zone, name) in self._resources:
                bound = own.get(zone, 0) if name == CPU else 0
                yield (TAKEN, zone, name), number - bound + amplified(bound, facts.ratio)
        if topology is None or not note.cpus:
            return
        for zone, cpus in topology.nodes_of(note.cpus):
            number = cpus.bit_count()
            cores = sum(1 for core in topology.cores_of_node.get(zone, ()) if core & cpus)
            for name, amount in ((CPUS, -number), (WHOLE, -number), (CORES, -cores), (BOUND, number * 1000)):
                yield name, amount
                if zone in self._zones:
                    yield (name, zone), amount

    def counts_as(self, record: PodRecord, row: Row) -> Allocation | None:
        note = record.note(self.name)
        return self._insiders.counted(note, record, row) if isinstance(note, Allocation) else None

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        assert isinstance(note, Allocation)
        state = self.on[row]
        for pod, held, by in self._insiders.moved(note, record, row, sign):
            state.count(held, pod.key, by)
            self._write(row, state, held)

    def put_report(self, report: NodeResourceTopology) -> None:
        self.reports[report.metadata.name] = report
        self._reported(report.metadata.name)

    def remove_report(self, report: NodeResourceTopology) -> None:
        if self.reports.pop(report.metadata.name, None) is not None:
            self._reported(report.metadata.name)

    def _reported(self, name: str) -> None:
        row = self.cluster.table.row_of.get(name)
        if row is not None:
            self.node_put(row)

    def node_put(self, row: Row) -> None:
        node = self.cluster.nodes[row]
        facts = facts_of(node, self.reports.get(node.metadata.name))
        on_node = self.on.get(row)
        if on_node is None or on_node.facts != facts:
            self.put_facts(row, facts)

    def amounts_put(self, row: Row, changed: frozenset[str]) -> None:
        """What the node as a whole gives of extended resources is none of its zones' business."""

    def put_facts(self, row: Row, facts: Facts) -> None:
        """Recount everything on a row."""
        state = self.on[row] = OnNode(facts)
        for record in self.cluster.pods_on[row].values():
            for held in held_among([record]):
                state.count(self._insiders.recount(held, record, row), record.key, +1)
        self.restricts = self.restricts or bool(facts.policy)
        self.binds, self.amplifies = self.binds or bool(facts.bind), self.amplifies or facts.ratio > 1
        for zone, has in facts.zones.items():
            self._declare(zone, has)
        flags = self.restricts + 2 * self.binds + 4 * self.amplifies
        self.version = Version(flags + 8 * (len(self._zones) + 16 * len(self._resources)))
        put, topology = self.cluster.table.set, facts.topology
        put(POLICY, row, POLICIES.index(facts.policy))
        put(BIND, row, BIND_POLICIES.index(facts.bind))
        put(PER_CORE, row, 0 if topology is None else topology.cpus_per_core)
        put(ZONES, row, sum(1 << zone for zone in facts.zones))
        put(RATIO, row, facts.ratio)
        for zone, name in self._resources:
            put((HAS, zone, name), row, facts.zones.get(zone, {}).get(name, 0))
            put((TAKEN, zone, name), row, state.charged(zone, name))
        for name in {name for _, name in self._resources}:
            put((REPORTS, name), row, any(name in has for has in facts.zones.values()))
        self._write_cpus(row, state, self._zones)
        # What a judge said of the row by its single CPUs may be otherwise, though no column is.
        self.cluster.table.touch(row, int(Reason.EXACT))
        self.cluster.recounted(row)

    def node_removed(self, row: Row) -> None:
        del self.on[row]

    def _declare(self, zone: int, resources: Iterable[str]) -> None:
        declare = self.cluster.table.declare
        if zone not in self._zones:
            self._zones.add(zone)
            for name in (CPUS, WHOLE, CORES, BOUND):
                declare(Column((name, zone), np.int64, Reason.EXACT))
        for name in resources:
            if (zone, name) not in self._resources:
                declare(Column((REPORTS, name), np.int16, Reason.EXACT))
                self._resources.add((zone, name))
                declare(Column((HAS, zone, name), np.int64, Reason.EXACT))
                declare(Column((TAKEN, zone, name), np.int64, Reason.EXACT))

    def _write(self, row: Row, state: OnNode, changed: Allocation) -> None:
        """What one pod's coming or going changes."""
        put, touched = self.cluster.table.set, set[int]()
        topology = state.facts.topology
        if changed.cpus and topology is not None:
            touched = {zone for zone, _ in topology.nodes_of(changed.cpus)}
            self._write_cpus(row, state, touched)
        for zone, listed in changed.zones:
            for name, _ in listed:
                if (zone, name) in self._resources:
                    put((TAKEN, zone, name), row, state.charged(zone, name))
        for zone in touched:
            if (zone, CPU) in self._resources:
                put((TAKEN, zone, CPU), row, state.charged(zone, CPU))

    def _write_cpus(self, row: Row, state: OnNode, zones: Iterable[int]) -> None:
        put = self.cluster.table.set
        for column, number in self._of_cpus(state, zones):
            put(column, row, number)

    def _of_cpus(self, state: OnNode, zones: Iterable[int]) -> Iterator[tuple[Hashable, int]]:
        """What columns say of CPUs, those of some NUMA nodes among them."""
        topology = state.facts.topology
        if topology is None:
            yield from ((name, 0) for name in (CPUS, WHOLE, CORES, BOUND))
            return
        free = state.available
        for zone in zones:
            if zone in self._zones:
                for name, number in _free_on(topology, free, zone).items():
                    yield (name, zone), number
                yield (BOUND, zone), (topology.nodes.get(zone, 0) & state.taken).bit_count() * 1000
        yield CPUS, free.bit_count()
        yield WHOLE, topology.whole(free).bit_count()
        yield CORES, sum(1 for core in topology.cores if core.cpus & free)
        yield BOUND, (state.taken & topology.cpus).bit_count() * 1000

    def overlay(self, row: Row, state: OnNode) -> Overlay:
        """What makes the cells of a row look as in another state of it."""
        columns, zones = self.cluster.table.columns, state.facts.zones
        wanted = dict(self._of_cpus(state, self._zones))
        for zone, name in self._resources:
            taken = state.charged(zone, name)
            if state.most is not None:
                taken = zones.get(zone, {}).get(name, 0) - state.left(zone, name)
            wanted[TAKEN, zone, name] = taken
        return {column: {row: number - columns[column].item(row)} for column, number in wanted.items()}


def _free_on(topology: Topology, free: int, zone: int) -> dict[str, int]:
    size, whole, cores = topology.cpus_per_core, 0, 0
    for core in topology.cores_of_node.get(zone, ()):
        mine = (core & free).bit_count()
        if mine:
            cores += 1
            if mine == size:
                whole += size
    return {CPUS: (topology.nodes.get(zone, 0) & free).bit_count(), WHOLE: whole, CORES: cores}
