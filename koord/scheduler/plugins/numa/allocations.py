"""Which CPUs and NUMA amounts the pods on every node hold.

A note is what one pod holds, read from its `resource-status`. What a node has left follows from its facts and from the
notes on it, and is kept in columns, so that rows are judged without a look at single CPUs:

    CPUS, WHOLE, CORES     free CPUs; free CPUs in whole free cores; cores with a free CPU; the same by NUMA node
    HAS, TAKEN             amounts by NUMA node and resource. CPUs of its own charge a pod's node amplified.
    REPORTS                by resource, 1 where some NUMA node reports it, if only that there is nothing of it

A pod with CPUs and without amounts counts on the NUMA nodes of its CPUs.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, NamedTuple, TypeVar

import numpy as np

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests, stored_amounts
from koord.api.machinery.faults import BadInput
from koord.api.protocol.annotations.cpu import NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC, RESOURCE_STATUS, ResourceSpec
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology
from koord.api.protocol.priority import QoSClass, raw_qos_class
from koord.api.text.stored import stored_amount
from koord.scheduler.framework.cells import Overlay
from koord.scheduler.framework.stable import Version
from koord.scheduler.plugins.numa.accumulator import Exclusive, Free
from koord.scheduler.plugins.numa.facts import CPU, Facts, amplified, facts_of, whole_cpus
from koord.scheduler.plugins.numa.hints import Use
from koord.scheduler.plugins.numa.topology import Topology, cpus_in
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.insiders import Insiders
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.stand_ins import is_stand_in
from koord.scheduler.state.table import Column, Reason, Row

Amounts = tuple[tuple[str, int], ...]
K = TypeVar("K", bound=Hashable)

NAME: Final = "NodeNUMAResource"
OWN_CPUS: Final = (QoSClass.LSE, QoSClass.LSR)
"""Classes of pods that get CPUs of their own."""
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


class Held(NamedTuple):
    """The note of a pod."""

    cpus: int = 0
    zones: tuple[tuple[int, Amounts], ...] = ()
    "By number of a NUMA node, ascending."
    exclusive: Exclusive = ""
    alone: bool = False
    "Whether it keeps its NUMA node from pods whose CPUs span several."


def held_by(pod: Pod) -> Held | None:
    """What counts of what a pod says that it holds: CPUs where it asks for some of its own, and resources that it
    requests. That nobody but a scheduler writes it is seen to by admission. What cannot be read is not there."""
    meta = pod.metadata
    if RESOURCE_STATUS.key not in meta.annotations:
        return None
    try:
        status = RESOURCE_STATUS.read(meta)
        zones = tuple((each.node, counted(stored_amounts(each.resources))) for each in status.numa_node_resources)
    except BadInput:
        return None
    held = Held(status.cpus.mask, tuple(sorted(zones)))
    if not is_stand_in(meta.name):
        held = _asked_for(held, pod)
    if not held.cpus and not held.zones:
        return None
    return held._replace(exclusive=exclusive_of(meta_spec(pod)) if held.cpus else "", alone=wants_it_alone(meta))


def _asked_for(held: Held, pod: Pod) -> Held:
    """As it is, of what a pod asks for: one that asks for less since then still has what it got."""
    requests = pod_requests(pod, capped=True)
    zones = [(zone, tuple(each for each in listed if requests.get(each[0]))) for zone, listed in held.zones]
    cpus = held.cpus if requests.get(CPU) and _asks_for_cpus(pod) else 0
    return Held(cpus, tuple(each for each in zones if each[1]))


def _asks_for_cpus(pod: Pod) -> bool:
    """A pod that got CPUs because its node binds all pods says afterwards by which policy."""
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


def rest_of(held: Held, inside: Collection[Held], state: OnNode) -> Held:
    """What is left of CPUs and amounts when others have theirs out of them. An amount of which nothing is left is there
    as 0: CPUs alone would count by their number."""
    if not inside:
        return held
    cpus, had = held.cpus, dict[tuple[int, str], int]()
    for each in inside:
        cpus &= ~each.cpus
        for zone, name, number in state.amounts(each):
            had[zone, name] = had.get((zone, name), 0) + number
    zones: dict[int, dict[str, int]] = {}
    for zone, name, number in state.amounts(held):
        zones.setdefault(zone, {})[name] = max(0, number - had.get((zone, name), 0))
    listed = tuple((zone, tuple(sorted(zones[zone].items()))) for zone in sorted(zones))
    return Held(cpus, listed, held.exclusive if cpus else "", held.alone)


def held_among(records: Iterable[PodRecord]) -> tuple[Held, ...]:
    """What some pods hold."""
    return tuple(note for record in records for name, note in record.notes if name == NAME and isinstance(note, Held))


class Limit(NamedTuple):
    """What is left of a room, of the resources that it limits its owners in."""

    cpus: int | None
    "None: any CPUs."
    zones: Mapping[tuple[int, str], int]
    names: frozenset[str]
    "The resources in it: of NUMA nodes that are not, there is nothing."


@dataclass(slots=True)
class OnNode:
    """What the pods of one node hold."""

    facts: Facts = field(default_factory=Facts)
    taken: int = 0
    more: dict[int, int] = field(default_factory=dict)
    "By CPU, how many pods hold it beside the first."
    exclusive: dict[str, tuple[Exclusive, int]] = field(default_factory=dict)
    "Pods that want cores or NUMA nodes for themselves, and their CPUs."
    zones: dict[tuple[int, str], int] = field(default_factory=dict)
    "By NUMA node and resource, what pods hold."
    single: dict[int, int] = field(default_factory=dict)
    spanning: dict[int, int] = field(default_factory=dict)
    "By NUMA node, how many pods have CPUs there alone, or there and elsewhere."
    kept: dict[int, int] = field(default_factory=dict)
    "By NUMA node, how many pods keep it from pods whose CPUs span several."
    most: Limit | None = None
    "What a pod may have at most, where it is limited to what is left of a room."

    def count(self, held: Held, key: str, sign: int) -> None:
        if held.cpus:
            self._count_cpus(held, key, sign)
        zones = set[int]()
        for zone, name, number in self.amounts(held):
            _add(self.zones, (zone, name), sign * number)
            zones.add(zone)
        if held.alone and len(zones) == 1:
            _add(self.kept, zones.pop(), sign)

    def _count_cpus(self, held: Held, key: str, sign: int) -> None:
        cpus, more = held.cpus, self.more
        if sign > 0:
            for cpu in cpus_in(cpus & self.taken):
                _add(more, cpu, 1)
            self.taken |= cpus
        else:
            for cpu in [cpu for cpu in more if cpus >> cpu & 1]:
                cpus &= ~(1 << cpu)
                _add(more, cpu, -1)
            self.taken &= ~cpus
        if held.exclusive:
            if sign > 0:
                self.exclusive[key] = held.exclusive, held.cpus
            else:
                self.exclusive.pop(key, None)
        topology = self.facts.topology
        if topology is not None:
            nodes = [number for number, _ in topology.nodes_of(held.cpus)]
            uses = self.spanning if len(nodes) > 1 else self.single
            for number in nodes:
                _add(uses, number, sign)

    def amounts(self, held: Held) -> Iterable[tuple[int, str, int]]:
        if held.zones:
            return ((zone, name, number) for zone, listed in held.zones for name, number in listed)
        topology = self.facts.topology
        if topology is None or not held.cpus:
            return ()
        return ((zone, CPU, cpus.bit_count() * 1000) for zone, cpus in topology.nodes_of(held.cpus))

    def without(self, others: Mapping[str, Held]) -> OnNode:
        """The same node as if some pods were not there: by their keys, what they are counted with."""
        found = self._copy()
        for key, held in others.items():
            found.count(held, key, -1)
        return found

    def with_more(self, key: str, held: Held) -> OnNode:
        """The same node with one more pod, by its key."""
        found = self._copy()
        found.count(held, key, +1)
        return found

    def _copy(self) -> OnNode:
        return replace(
            self,
            more=dict(self.more),
            exclusive=dict(self.exclusive),
            zones=dict(self.zones),
            single=dict(self.single),
            spanning=dict(self.spanning),
            kept=dict(self.kept),
        )

    def limited(self, whole: Held, rest: Held, resources: Collection[str]) -> OnNode:
        """The same node for a pod that gets no more of some resources than is left of a room."""
        topology, zones = self.facts.topology, dict[tuple[int, str], int]()
        for zone, name, number in self.amounts(rest):
            if name in resources:
                cpus = 0 if name != CPU or topology is None else topology.nodes.get(zone, 0) & rest.cpus
                bound = cpus.bit_count() * 1000
                zones[zone, name] = number - bound + amplified(bound, self.facts.ratio)
        most = Limit(
            rest.cpus if whole.cpus and CPU in resources else None, zones, frozenset(name for _, name in zones)
        )
        return replace(self, most=most)

    @property
    def available(self) -> int:
        """CPUs that a pod may get."""
        facts = self.facts
        open_ = facts.open_cpus
        if self.most is not None and self.most.cpus is not None:
            open_ &= self.most.cpus
        if facts.max_refs == 1:
            return open_ & ~self.taken
        full = sum(1 << cpu for cpu in cpus_in(self.taken) if self.more.get(cpu, 0) + 1 >= facts.max_refs)
        return open_ & ~full

    def free(self, exclusive: Exclusive) -> Free:
        assert self.facts.topology is not None
        marked = 0
        if exclusive:
            for policy, cpus in self.exclusive.values():
                if policy == exclusive:
                    marked |= cpus
        refs = None
        if self.facts.max_refs > 1:
            refs = {cpu: 1 + self.more.get(cpu, 0) for cpu in cpus_in(self.taken)}
        return Free(self.facts.topology, self.available, marked, refs)

    def uses(self, *, alone: bool = True, binds: bool = True) -> tuple[Use, ...]:
        """How every NUMA node is used, by its number, as far as a pod minds: one that wants NUMA nodes for itself, or
        one that gets CPUs of its own."""

        def use(zone: int) -> Use:
            if alone and self.spanning.get(zone):
                return "shared"
            return "single" if (alone and self.single.get(zone)) or (binds and self.kept.get(zone)) else "idle"

        return tuple(use(zone) for zone in range(max(self.facts.zones, default=-1) + 1))

    def bindable(self, zone: int) -> int | None:
        """How many CPUs of a NUMA node pods may still get as their own, where it has promised CPUs to pods that share
        them; None: all that are free."""
        promised = self.zones.get((zone, CPU), 0) - self.bound_on(zone) * 1000
        if promised <= 0 or CPU not in self.facts.zones.get(zone, {}):
            return None
        return whole_cpus(self.left(zone, CPU), self.facts.ratio)

    def bound_on(self, zone: int) -> int:
        """How many CPUs of a NUMA node pods hold."""
        topology = self.facts.topology
        return 0 if topology is None else (topology.nodes.get(zone, 0) & self.taken).bit_count()

    def charged(self, zone: int, name: str) -> int:
        """What is taken of a resource of a NUMA node."""
        number = self.zones.get((zone, name), 0)
        if name != CPU or self.facts.ratio <= 1:
            return number
        bound = self.bound_on(zone) * 1000
        return max(0, number - bound) + amplified(bound, self.facts.ratio)

    def left(self, zone: int, name: str) -> int:
        """What a pod may get of a resource of a NUMA node."""
        left = max(0, self.facts.zones.get(zone, {}).get(name, 0) - self.charged(zone, name))
        if self.most is None or name not in self.most.names:
            return left
        return min(left, self.most.zones.get((zone, name), 0))


def _add(counts: dict[K, int], key: K, number: int) -> None:
    """What comes to nothing is not there."""
    now = counts.get(key, 0) + number
    if now:
        counts[key] = now
    else:
        counts.pop(key, None)


class Allocations(Notes):
    """Of a whole cluster."""

    name: ClassVar[str] = NAME
    heeds: ClassVar[frozenset[str]] = frozenset({RESOURCE_STATUS.key})

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.reports: dict[str, NodeResourceTopology] = {}
        self.on: dict[Row, OnNode] = {}
        self._insiders = Insiders[Held](lambda held, inside, row: rest_of(held, inside, self.on[row]))
        self._zones: set[int] = set()
        self._resources: set[tuple[int, str]] = set()
        self.restricts = self.binds = self.amplifies = False
        "Whether some node has a NUMA policy, binds all its pods, or has a ratio; or had since the start."
        self.version = Version(0)
        "Another number means that judges must be made anew."
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

    def of(self, pod: Pod) -> object | None:
        return held_by(pod)

    def by_name(self, pod: Pod) -> bool:
        return False

    def cells(self, note: object, row: Row) -> Iterable[tuple[Hashable, int]]:
        """Of free CPUs not less than there would be without the pod: which of them make whole cores, or are held by
        others as well, the exact check finds out."""
        state = self.on.get(row)
        if state is None or not isinstance(note, Held):
            return
        facts, topology = state.facts, state.facts.topology
        own = {} if topology is None else {zone: 1000 * each.bit_count() for zone, each in topology.nodes_of(note.cpus)}
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

    def counts_as(self, record: PodRecord, row: Row) -> Held | None:
        note = record.note(self.name)
        return self._insiders.counted(note, record, row) if isinstance(note, Held) else None

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        assert isinstance(note, Held)
        state = self.on[row]
        for each, held, by in self._insiders.moved(note, record, row, sign):
            state.count(held, each.key, by)
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
        known = self.on.get(row)
        if known is None or known.facts != facts:
            self.put_facts(row, facts)

    def put_facts(self, row: Row, facts: Facts) -> None:
        """Count everything on a row anew."""
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

    def _write(self, row: Row, state: OnNode, changed: Held) -> None:
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
