"""GPUs that are linked with each other: which sets of them may be given out together, by the node's table.

The table is the Device object's annotation; for H100, H800 and H20 there is a built-in one. Partitions with the highest
allocationScore are tried first; among equally scored ones the one wins that leaves most larger partitions whole:

    sum over partitions that stay whole of 10000 (8 GPUs), 100 (4) or 1 (2) * allocationScore, of sizes >= the request
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from koord.api.protocol.annotations.device import GPUPartition
from koord.api.protocol.names import LABEL_GPU_MODEL, LABEL_GPU_PARTITION_POLICY, LABEL_GPU_VENDOR
from koord.api.text.quantity import value
from koord.scheduler.framework.exact_check import Objection
from koord.scheduler.plugins.devices.inventory import Machine, Partitions, Unit
from koord.scheduler.plugins.devices.requests import GPU, Request, Wanted, bandwidth_of
from koord.scheduler.plugins.devices.room import Room

_LINKED_MODELS: Final = frozenset({"H100", "H800", "H20"})
_NVIDIA: Final = frozenset({"", "nvidia"})
NO_SUCH_SET: Final = "node(s) Unsupported number of GPU requests"
NO_FREE_SET: Final = "Insufficient Partitioned GPU Devices"
_WEIGHTS: Final = ((8, 10000), (4, 100), (2, 1))


def _of(*sets: Sequence[int]) -> tuple[GPUPartition, ...]:
    return tuple(GPUPartition(tuple(minors), "NVLink", None, 1) for minors in sets)


BUILT_IN: Final[Partitions] = {
    1: _of(*((minor,) for minor in range(8))),
    2: _of((0, 1), (2, 3), (4, 5), (6, 7)),
    4: _of((0, 1, 2, 3), (4, 5, 6, 7)),
    8: _of(tuple(range(8))),
}


def table_of(machine: Machine, labels: Mapping[str, str]) -> tuple[Partitions | None, bool]:
    """The table of a node with these labels, and whether it must be honoured: the Device object says so for its own
    table, else the node."""
    if machine.partitions is not None:
        return machine.partitions, machine.honours_partitions
    is_linked = labels.get(LABEL_GPU_MODEL) in _LINKED_MODELS and labels.get(LABEL_GPU_VENDOR, "") in _NVIDIA
    return BUILT_IN if is_linked else None, labels.get(LABEL_GPU_PARTITION_POLICY) == "Honor"


def partitioned(room: Room, wanted: Wanted, request: Request) -> tuple[Unit, ...] | Objection | None:
    """The linked GPUs for a request of whole ones; why there are none; or None if links need not be respected."""
    table, must = table_of(room.machine, room.labels)
    must = must or wanted.partition is not None
    if table is None:
        return Objection("node(s) missing GPU Partition Table", resolvable=False) if must else None
    of_size = table.get(request.count)
    if not of_size:
        return Objection(NO_SUCH_SET, resolvable=False) if must else None
    units = _best(room, wanted, request, table, of_size)
    if units is None:
        return Objection(NO_FREE_SET) if must else None
    return units


def _best(
    room: Room, wanted: Wanted, request: Request, table: Partitions, of_size: Sequence[GPUPartition]
) -> tuple[Unit, ...] | None:
    free = {unit.minor: unit for unit in room.units(request) if not room.is_used(unit) and room.fits(unit, request)}
    bandwidth = bandwidth_of(wanted.partition)
    for group in _by_score(of_size):
        feasible = [
            partition
            for partition in group
            if free.keys() >= set(partition.minors) and _has_bandwidth(partition, bandwidth)
        ]
        if feasible:
            unused = {unit.minor for unit in room.machine.units[GPU] if unit.total and not room.is_used(unit)}
            best = max(feasible, key=lambda partition: _value(partition, table, request.count, unused, room.mates))
            return tuple(free[minor] for minor in sorted(best.minors))
        if wanted.partition is not None and wanted.partition.is_restricted:
            break
    return None


def _by_score(partitions: Sequence[GPUPartition]) -> Iterator[list[GPUPartition]]:
    """Groups of equal scores, the highest first, each in the order of the table."""
    ordered = sorted(partitions, key=lambda partition: -partition.allocation_score)
    return (list(group) for _, group in groupby(ordered, key=lambda partition: partition.allocation_score))


def _value(
    taken: GPUPartition, table: Partitions, count: int, unused: Collection[int], mates: Collection[int]
) -> tuple[int, int]:
    """What stays whole, and before that: whether the gang's GPUs stay in one larger partition."""
    left = set(unused) - set(taken.minors)
    whole = 0
    for size, weight in _WEIGHTS:
        if size >= count and table.get(size):
            first = next(_by_score(table[size]))
            whole += sum(weight * partition.allocation_score for partition in first if left >= set(partition.minors))
    return _linked(taken, table, mates), whole


def _linked(taken: GPUPartition, table: Mapping[int, Sequence[GPUPartition]], mates: Collection[int]) -> int:
    """How well a partition is linked with GPUs of the same gang: the smaller the set that has both, the better."""
    if not mates:
        return 0
    together = {*taken.minors, *mates}
    sizes = [size for size, of_size in table.items() if any(set(partition.minors) >= together for partition in of_size)]
    return -min(sizes, default=1 << 16)


def _has_bandwidth(partition: GPUPartition, wanted: int) -> bool:
    return not wanted or (partition.ring_bus_bandwidth is not None and value(partition.ring_bus_bandwidth) >= wanted)
