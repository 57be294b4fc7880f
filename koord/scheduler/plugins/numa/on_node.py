"""What the pods of one node hold of its CPUs and NUMA nodes, and what is left."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from koord.scheduler.plugins.numa.accumulator import Exclusive, Free
from koord.scheduler.plugins.numa.allocation import Allocation
from koord.scheduler.plugins.numa.facts import CPU, Facts, amplified, whole_cpus
from koord.scheduler.plugins.numa.hints import Use
from koord.scheduler.plugins.numa.topology import cpus_in

K = TypeVar("K", bound=Hashable)


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

    def count(self, held: Allocation, key: str, sign: int) -> None:
        if held.cpus:
            self._count_cpus(held, key, sign)
        zones = set[int]()
        for zone, name, number in self.amounts(held):
            _add(self.zones, (zone, name), sign * number)
            zones.add(zone)
        if held.alone and len(zones) == 1:
            _add(self.kept, zones.pop(), sign)

    def _count_cpus(self, held: Allocation, key: str, sign: int) -> None:
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

    def amounts(self, held: Allocation) -> Iterable[tuple[int, str, int]]:
        if held.zones:
            return ((zone, name, number) for zone, listed in held.zones for name, number in listed)
        topology = self.facts.topology
        if topology is None or not held.cpus:
            return ()
        return ((zone, CPU, cpus.bit_count() * 1000) for zone, cpus in topology.nodes_of(held.cpus))

    def without(self, others: Mapping[str, Allocation]) -> OnNode:
        """The same node as if some pods were not there: by their keys, what they are counted with."""
        changed = self._copy()
        for key, held in others.items():
            changed.count(held, key, -1)
        return changed

    def with_more(self, key: str, held: Allocation) -> OnNode:
        """The same node with one more pod, by its key."""
        changed = self._copy()
        changed.count(held, key, +1)
        return changed

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

    def limited(self, whole: Allocation, rest: Allocation, resources: Collection[str]) -> OnNode:
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


def rest_of(held: Allocation, inside: Collection[Allocation], state: OnNode) -> Allocation:
    """What is left of CPUs and amounts when others have theirs out of them. An amount that is used up is
    there as 0: CPUs alone would count by their number."""
    if not inside:
        return held
    cpus, had = held.cpus, dict[tuple[int, str], int]()
    for allocation in inside:
        cpus &= ~allocation.cpus
        for zone, name, number in state.amounts(allocation):
            had[zone, name] = had.get((zone, name), 0) + number
    zones: dict[int, dict[str, int]] = {}
    for zone, name, number in state.amounts(held):
        zones.setdefault(zone, {})[name] = max(0, number - had.get((zone, name), 0))
    listed = tuple((zone, tuple(sorted(zones[zone].items()))) for zone in sorted(zones))
    return Allocation(cpus, listed, held.exclusive if cpus else "", held.alone)
