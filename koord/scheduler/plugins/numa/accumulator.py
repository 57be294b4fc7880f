"""Which CPUs a pod gets of those that are free: the accumulator.

    FullPCPUs       whole cores of one NUMA node, else of one socket, else of as few sockets as possible
    SpreadByPCPUs   one CPU of each core, in one NUMA node, else in one socket
    what is left    CPU by CPU, near those that it has

The fullest NUMA node goes first under MostAllocated (`most`), else the emptiest. A pod that wants cores or NUMA nodes
for itself shuns those that hold CPUs of others with the same wish, where that is possible. Everything here is a
function of its arguments; sets of CPUs are masks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from koord.scheduler.plugins.numa.topology import Topology, cpus_in

BindPolicy: TypeAlias = Literal["FullPCPUs", "SpreadByPCPUs"]
Exclusive: TypeAlias = Literal["", "PCPULevel", "NUMANodeLevel"]

NOT_ENOUGH: Final = "not enough cpus available to satisfy request"
_NO_REFS: Final[Mapping[int, int]] = {}


@dataclass(frozen=True, slots=True)
class BindRule:
    """How to choose a pod's CPUs."""

    policy: BindPolicy
    required: bool = False
    "Whether nothing but what the policy says will do."
    exclusive: Exclusive = ""
    most: bool = False


@dataclass(frozen=True, slots=True)
class Free:
    """The CPUs available to a pod."""

    topology: Topology
    cpus: int
    marked: int = 0
    "CPUs of pods with the same wish to be exclusive."
    refs: Mapping[int, int] | None = None
    "How many pods use a CPU, where a CPU may have several."


def take(free: Free, number: int, wish: BindRule, preferred: int = 0) -> int | None:
    """The CPUs for a pod, those of `preferred` first; None where there are not enough."""
    chosen = 0
    for cpus in _in_order(free, wish, free.cpus & preferred):
        left = cpus & ~chosen
        most = min(number - chosen.bit_count(), left.bit_count())
        if most <= 0:
            continue
        taken = _take(replace(free, cpus=left), most, wish)
        if taken is None:
            return None
        chosen |= taken
        if wish.exclusive == "PCPULevel":
            # A core that it has a CPU of is shunned like any other; on its NUMA node is where the rest belongs.
            free = replace(free, marked=free.marked | taken)
    if chosen.bit_count() < number or (wish.required and not _is_kept(free.topology, chosen, wish)):
        return None
    return chosen


def _in_order(free: Free, wish: BindRule, preferred: int) -> tuple[int, ...]:
    """Sets of CPUs, in the order in which CPUs are taken from them. A required policy can use all of them."""
    topology = free.topology
    if not wish.required:
        return preferred, free.cpus
    if wish.policy == "FullPCPUs":
        whole = topology.whole(free.cpus)
        if not preferred:
            return (whole,)
        return topology.whole(preferred), whole & topology.same_cores(preferred), whole
    apart = topology.one_per_core(free.cpus)
    return apart & preferred, apart


def trimmed(topology: Topology, cpus: int, wish: BindRule) -> int:
    """Of free CPUs, those that a required policy can use."""
    if not wish.required:
        return cpus
    return topology.whole(cpus) if wish.policy == "FullPCPUs" else topology.one_per_core(cpus)


def _is_kept(topology: Topology, cpus: int, wish: BindRule) -> bool:
    if wish.policy == "FullPCPUs":
        return topology.is_whole(cpus)
    return topology.one_per_core(cpus) == cpus


def _take(free: Free, number: int, wish: BindRule) -> int | None:
    if number <= 0:
        return 0
    if number > free.cpus.bit_count():
        return None
    taking = _Selection(free, number, wish)
    is_full = wish.policy == "FullPCPUs"
    if is_full or free.topology.cpus_per_core == 1:
        taking.whole_cores()
    if not is_full and taking.needed:
        taking.spread()
    if taking.needed:
        taking.singly()
    return taking.taken


class _Selection:
    """One call: what was taken so far, and what is still free."""

    def __init__(self, free: Free, needed: int, wish: BindRule) -> None:
        self._topology, self._free, self._wish = free.topology, free.cpus, wish
        self._refs = free.refs or _NO_REFS
        self._direction = 1 if wish.most else -1
        self._marked = free.marked if wish.exclusive else 0
        self.needed, self.taken = needed, 0

    def whole_cores(self) -> None:
        topology = self._topology
        if self.needed <= topology.cpus_per_node:
            for free in self._passes("NUMANodeLevel"):
                for cores in self._cores_by_node(free):
                    if self._take_first(cores):
                        return
        by_socket = self._cores_by_socket()
        if self.needed <= topology.cpus_per_socket:
            for cores in by_socket:
                if self._take_first(cores):
                    return
        size, rest = topology.cpus_per_core, []
        for cores in sorted(by_socket, key=len, reverse=True):
            if self.needed >= len(cores) * size:
                self._take(sum(cores))
            else:
                rest.append(cores)
        for cores in sorted(rest, key=len):
            for core in cores:
                if self.needed < size:
                    return
                self._take(core)

    def spread(self) -> None:
        topology = self._topology
        for most, by_socket in ((topology.cpus_per_node, False), (topology.cpus_per_socket, True)):
            if self.needed > most:
                continue
            for shuns in (True, False):
                for cpus in self._cpus_by_socket(shuns) if by_socket else self._cpus_by_node(shuns):
                    if len(cpus) >= self.needed:
                        self._take_all(self._swept(cpus)[: self.needed])
                        return

    def singly(self) -> None:
        """CPU by CPU, in the sockets first that have some already. Not after a core or NUMA node is known to be taken
        by its like, as long as there is another."""
        for shuns in (True, False):
            self._take_all(self._swept(self._near(self._open(("PCPULevel", "NUMANodeLevel"), shuns)))[: self.needed])
            if not self.needed:
                return

    def _take(self, cpus: int) -> None:
        self.taken |= cpus
        self._free &= ~cpus
        self.needed -= cpus.bit_count()
        if self._wish.exclusive:
            self._marked |= cpus

    def _take_all(self, cpus: Iterable[int]) -> None:
        self._take(sum(1 << cpu for cpu in cpus))

    def _take_first(self, cores: Sequence[int]) -> bool:
        """As many as needed of some whole cores, in their order, where they are enough."""
        size = self._topology.cpus_per_core
        if len(cores) * size < self.needed:
            return False
        whole, rest = divmod(self.needed, size)
        cpus = sum(cores[:whole])
        self._take_all([*cpus_in(cpus), *cpus_in(cores[whole])[:rest]] if rest else cpus_in(cpus))
        return True

    def _open(self, levels: Iterable[Exclusive], shuns: bool) -> int:
        """Free CPUs without those that a pod with this exclusive policy shuns."""
        exclusive = self._wish.exclusive
        if not shuns or not self._marked or exclusive not in levels:
            return self._free
        same = self._topology.same_cores if exclusive == "PCPULevel" else self._topology.same_nodes
        return self._free & ~same(self._marked)

    def _passes(self, level: Exclusive) -> list[int]:
        """The CPUs free to a pod that shuns others, then all free CPUs."""
        shunning = self._open((level,), True)
        return [shunning] if shunning == self._free else [shunning, self._free]

    def _full(self, cores: Iterable[int], free: int) -> list[int]:
        """The cores that are free as a whole, the least used first, then by their numbers."""
        size = self._topology.cpus_per_core
        whole = [core for core in cores if core & free == core and core.bit_count() == size]
        if self._refs:
            whole.sort(key=self._uses)
        return whole

    def _uses(self, cpus: int) -> int:
        return sum(self._refs.get(cpu, 0) for cpu in cpus_in(cpus))

    def _cores_by_node(self, free: int) -> list[list[int]]:
        topology, sign = self._topology, self._direction
        in_socket = {number: (cpus & free).bit_count() for number, cpus in topology.sockets.items()}
        listed = [
            (sign * len(cores), sign * in_socket[topology.socket_of_node[number]], number, cores)
            for number, all_cores in topology.cores_of_node.items()
            if (cores := self._full(all_cores, free))
        ]
        return [cores for _, _, _, cores in sorted(listed)]

    def _cores_by_socket(self) -> list[list[int]]:
        listed = []
        for number in self._topology.sockets:
            cores = self._full((core.cpus for core in self._topology.cores if core.socket == number), self._free)
            if cores:
                listed.append((self._direction * len(cores), number, cores))
        return [cores for _, _, cores in sorted(listed)]

    def _cpus_by_node(self, shuns: bool) -> list[list[int]]:
        topology, sign = self._topology, self._direction
        free = self._open(("PCPULevel", "NUMANodeLevel"), shuns)
        in_socket = {number: (cpus & free).bit_count() for number, cpus in topology.sockets.items()}
        listed = [
            (sign * mine.bit_count(), sign * in_socket[topology.socket_of_node[number]], number, mine)
            for number, cpus in topology.nodes.items()
            if (mine := cpus & free)
        ]
        return [self._listed(mine, shuns) for _, _, _, mine in sorted(listed)]

    def _cpus_by_socket(self, shuns: bool) -> list[list[int]]:
        free = self._open(("PCPULevel",), shuns)
        lists = [(number, self._listed(cpus & free, shuns)) for number, cpus in self._topology.sockets.items()]
        return [
            cpus for _, cpus in sorted(lists, key=lambda socket: (self._direction * len(socket[1]), socket[0])) if cpus
        ]

    def _listed(self, cpus: int, one_per_core: bool) -> list[int]:
        """CPUs in order, the least used first."""
        listed_cpus = cpus_in(cpus)
        if self._refs:
            listed_cpus.sort(key=lambda cpu: (self._refs.get(cpu, 0), cpu))
        return self._sweeps(listed_cpus)[0] if one_per_core and listed_cpus else listed_cpus

    def _near(self, free: int) -> list[int]:
        """CPUs core by core, in the order in which they are taken singly."""
        topology, sign = self._topology, self._direction
        in_socket = {number: (cpus & free).bit_count() for number, cpus in topology.sockets.items()}
        in_node = {number: (cpus & free).bit_count() for number, cpus in topology.nodes.items()}
        had = {number: (cpus & self.taken).bit_count() for number, cpus in topology.sockets.items()}
        listed = [
            (
                -had[core.socket],
                sign * in_socket[core.socket],
                sign * in_node[core.node],
                mine.bit_count(),
                core.socket,
                self._uses(mine) if self._refs else 0,
                i,
                mine,
            )
            for i, core in enumerate(topology.cores)
            if (mine := core.cpus & free)
        ]
        return [cpu for key in sorted(listed) for cpu in self._listed(key[-1], False)]

    def _swept(self, cpus: list[int]) -> list[int]:
        """One CPU of each core, then another one of each, until all are there."""
        return [cpu for sweep in self._sweeps(cpus) for cpu in sweep]

    def _sweeps(self, cpus: list[int]) -> list[list[int]]:
        core_of, used, sweeps = self._topology.core_of, dict[int, int](), list[list[int]]()
        for cpu in cpus:
            core = core_of[cpu]
            sweep = used.get(core, 0)
            used[core] = sweep + 1
            if sweep == len(sweeps):
                sweeps.append([])
            sweeps[sweep].append(cpu)
        return sweeps
