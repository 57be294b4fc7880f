"""On which NUMA nodes the devices of a pod could be: hints for the NUMA plugin, which merges hints of all plugins.

A set of NUMA nodes is feasible if it can give all of the pod's devices. The smallest feasible sets are preferred; a set
that gives the pod the same GPUs as all NUMA nodes together scores higher. All types get the same hints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from koord.scheduler.framework.exact_check import Objection
from koord.scheduler.plugins.devices.allocate import Grants, Score, allocate
from koord.scheduler.plugins.devices.grants import Granted
from koord.scheduler.plugins.devices.inventory import ANY_NUMA, Machine
from koord.scheduler.plugins.devices.requests import GPU, Wanted
from koord.scheduler.plugins.devices.room import Room
from koord.scheduler.plugins.numa.hints import Hint, Hints

SAME_GPUS: Final = 500
MOST_COMBINED: Final = 8


class LazyHints(Mapping[str, Hints]):
    """Worked out on first use: without a NUMA policy, hints are never used."""

    def __init__(self, work: Callable[[], Mapping[str, Hints]]) -> None:
        self._work = work
        self._found: Mapping[str, Hints] | None = None

    @property
    def _hints(self) -> Mapping[str, Hints]:
        if self._found is None:
            self._found = self._work()
        return self._found

    def __getitem__(self, name: str) -> Hints:
        return self._hints[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._hints)

    def __len__(self) -> int:
        return len(self._hints)


def hints(room: Room, wanted: Wanted, score: Score) -> Mapping[str, Hints]:
    """By type. Nothing where devices have no NUMA nodes, or the pod's cannot be had from all nodes together: then the
    check says why."""
    nodes = 0
    for request in wanted.requests:
        for unit in room.machine.units.get(request.type, ()):
            if unit.place is not None and unit.place.numa != ANY_NUMA:
                nodes |= 1 << unit.place.numa
    if not nodes:
        return {}
    most = allocate(replace(room, numa_nodes=nodes), wanted, score)
    if isinstance(most, Objection):
        return {}
    feasible: list[tuple[int, int]] = []
    for mask in sorted(_subsets(nodes), key=lambda mask: (mask.bit_count(), mask)):
        grants = most if mask == nodes else allocate(replace(room, numa_nodes=mask), wanted, score)
        if not isinstance(grants, Objection):
            feasible.append((mask, SAME_GPUS if _gpus(grants) == _gpus(most) else 0))
    smallest = min(mask.bit_count() for mask, _ in feasible)
    offered = tuple(Hint(mask, mask.bit_count() == smallest, points) for mask, points in feasible)
    return {request.type: offered for request in wanted.requests}


def numa_nodes_of(machine: Machine, granted: Granted) -> int:
    """The NUMA nodes that some devices are on."""
    mask = 0
    for type_, grants in granted.by_type:
        for grant in grants:
            unit = machine.unit(type_, grant.minor)
            if unit is not None and unit.place is not None and unit.place.numa != ANY_NUMA:
                mask |= 1 << unit.place.numa
    return mask


def _subsets(nodes: int) -> Iterator[int]:
    """All of them; of more nodes than any machine has, each alone and all together."""
    if nodes.bit_count() > MOST_COMBINED:
        yield nodes
        yield from (1 << i for i in range(nodes.bit_length()) if nodes >> i & 1)
        return
    mask = nodes
    while mask:
        yield mask
        mask = (mask - 1) & nodes


def _gpus(grants: Grants) -> tuple[int, ...]:
    return tuple(grant.minor for grant in grants.get(GPU, ()))
