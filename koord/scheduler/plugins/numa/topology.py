"""The CPUs of one machine: which share a physical core, a NUMA node and a socket.

Made from the list that the node agent reports. Sets of CPUs are masks (bit n stands for CPU n), so that machines with
the same list share one `Topology` and questions about free CPUs are a few operations on whole numbers. A core with
fewer CPUs than others, whose siblings are offline, is never a whole core.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from koord.api.protocol.annotations.cpu import CPUInfo


class Core(NamedTuple):
    """A physical core. Cores are ordered by socket, number and NUMA node."""

    cpus: int
    node: int
    socket: int


@dataclass(frozen=True, eq=False)
class Topology:
    """Known by its identity: `topology_of` gives the same one for the same CPUs."""

    details: tuple[CPUInfo, ...]
    cpus: int
    cores: tuple[Core, ...]
    core_of: dict[int, int]
    "By CPU, the place of its core among `cores`."
    nodes: dict[int, int]
    "By number of a NUMA node, its CPUs."
    sockets: dict[int, int]
    socket_of_node: dict[int, int]
    whole_cores: tuple[int, ...]
    "The CPUs of every core that has all its CPUs."
    cores_of_node: dict[int, tuple[int, ...]]
    "By number of a NUMA node, the CPUs of each of its cores."
    cpus_per_core: int
    cpus_per_node: int
    cpus_per_socket: int

    def is_whole(self, cpus: int) -> bool:
        """Whether a set is of whole cores."""
        return self.whole(cpus) == cpus

    def whole(self, cpus: int) -> int:
        """The CPUs of cores that are in a set with all their CPUs."""
        chosen = 0
        for core in self.whole_cores:
            if cpus & core == core:
                chosen |= core
        return chosen

    def one_per_core(self, cpus: int) -> int:
        """The lowest CPU of each core, of those in a set."""
        chosen = 0
        for core in self.cores:
            mine = cpus & core.cpus
            chosen |= mine & -mine
        return chosen

    def same_cores(self, cpus: int) -> int:
        """All CPUs of the cores that have one of these."""
        return sum(core.cpus for core in self.cores if core.cpus & cpus)

    def same_nodes(self, cpus: int) -> int:
        """All CPUs of the NUMA nodes that have one of these."""
        return sum(node for node in self.nodes.values() if node & cpus)

    def nodes_of(self, cpus: int) -> Iterator[tuple[int, int]]:
        """The NUMA nodes that a set is on, with its CPUs there."""
        return ((number, mine) for number, node in self.nodes.items() if (mine := node & cpus))


@lru_cache(maxsize=256)
def topology_of(details: tuple[CPUInfo, ...]) -> Topology | None:
    """None where there are no CPUs. The list is in order: nothing twice, nothing negative."""
    if not details:
        return None
    cores: dict[tuple[int, int, int], int] = {}
    for info in details:
        place = info.socket, info.core, info.node
        cores[place] = cores.get(place, 0) | 1 << info.id
    listed = tuple(Core(cores[place], place[2], place[0]) for place in sorted(cores))
    nodes = _grouped((core.node, core.cpus) for core in listed)
    sockets = _grouped((core.socket, core.cpus) for core in listed)
    most = max(core.cpus.bit_count() for core in listed)
    return Topology(
        details=details,
        cpus=sum(cores.values()),
        cores=listed,
        core_of={cpu: i for i, core in enumerate(listed) for cpu in cpus_in(core.cpus)},
        nodes=nodes,
        sockets=sockets,
        socket_of_node={number: _socket(cpus, sockets) for number, cpus in nodes.items()},
        whole_cores=tuple(core.cpus for core in listed if core.cpus.bit_count() == most),
        cores_of_node={number: tuple(core.cpus for core in listed if core.node == number) for number in nodes},
        cpus_per_core=most,
        cpus_per_node=max(cpus.bit_count() for cpus in nodes.values()),
        cpus_per_socket=max(cpus.bit_count() for cpus in sockets.values()),
    )


def cpus_in(mask: int) -> list[int]:
    """The numbers of the CPUs in a set, ascending."""
    cpus = []
    while mask:
        low = mask & -mask
        cpus.append(low.bit_length() - 1)
        mask ^= low
    return cpus


def _grouped(parts: Iterable[tuple[int, int]]) -> dict[int, int]:
    by_number: dict[int, int] = {}
    for number, cpus in parts:
        by_number[number] = by_number.get(number, 0) | cpus
    return dict(sorted(by_number.items()))


def _socket(cpus: int, sockets: dict[int, int]) -> int:
    lowest = cpus & -cpus
    return next(number for number, mine in sockets.items() if mine & lowest)
