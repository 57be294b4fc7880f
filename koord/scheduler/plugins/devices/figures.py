"""Every device of some nodes with what pods use of it, from objects alone: for people and programs.

A device that pods use and no Device object lists is shown as missing; a device of a deleted node is shown as that.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import msgspec
from msgspec.structs import replace

from koord.api.kubernetes.pod import Pod
from koord.api.protocol.crd.device import Device
from koord.scheduler.plugins.devices.grants import held_by
from koord.scheduler.plugins.devices.inventory import Machine, Unit, machine_of
from koord.scheduler.plugins.devices.requests import CORE, GPU, MEMORY, OTHERS, RATIO
from koord.scheduler.state.stand_ins import told_name


class Holder(msgspec.Struct, frozen=True, rename="camel"):
    """A pod on a device."""

    pod: str
    percent: int
    "Of the device: the largest part of any of its resources."


class DeviceFigures(msgspec.Struct, frozen=True, rename="camel"):
    node: str
    type: str
    minor: int
    state: str
    "healthy, unhealthy, missing, or no node."
    id: str = ""
    numa_node: int | None = None
    pcie: str = ""
    core_percent: int | None = None
    "Taken of it; of GPUs alone."
    percent: int = 0
    "Taken of it: of a GPU's memory, or of a card."
    memory_bytes: int | None = None
    "Taken of it."
    memory_total_bytes: int | None = None
    pods: tuple[Holder, ...] = ()
    linked_with: tuple[int, ...] = ()
    "Minors of GPUs that it is linked with most closely, by the node's table of partitions."


def figures(
    devices: Iterable[Device], pods: Iterable[Pod], nodes: Container[str] | None = None
) -> tuple[DeviceFigures, ...]:
    """By node, type and minor. `nodes`: the names of the existing nodes; None: all exist."""
    taken: dict[tuple[str, str, int], list[tuple[str, dict[str, int]]]] = {}
    for pod in pods:
        granted = None if pod.is_finished or not pod.spec.node_name else held_by(pod)
        for type_, grants in granted.by_type if granted else ():
            for grant in grants:
                key = (pod.spec.node_name, type_, grant.minor)
                taken.setdefault(key, []).append((told_name(pod.metadata.key), dict(grant.amounts)))
    figures_here = []
    for device in sorted(devices, key=lambda device: device.metadata.name):
        node, machine = device.metadata.name, machine_of(device)
        state = "" if nodes is None or node in nodes else "no node"
        for units in machine.units.values():
            here = [_of(node, unit, taken.pop((node, *unit.key), []), _linked(machine, unit)) for unit in units]
            figures_here += [replace(figure, state=state or figure.state) for figure in here]
    missing = [
        DeviceFigures(node, type_, minor, "missing", pods=tuple(Holder(pod, _largest(has)) for pod, has in holders))
        for (node, type_, minor), holders in taken.items()
    ]
    return tuple(sorted([*figures_here, *missing], key=lambda figure: (figure.node, _order(figure.type), figure.minor)))


def _of(
    node: str, unit: Unit, holders: list[tuple[str, dict[str, int]]], linked_with: tuple[int, ...]
) -> DeviceFigures:
    def of(name: str) -> int:
        return sum(has.get(name, 0) for _, has in holders)

    is_gpu = unit.type == GPU
    return DeviceFigures(
        node,
        unit.type,
        unit.minor,
        "healthy" if unit.total else "unhealthy",
        unit.id,
        None if unit.place is None else unit.place.numa,
        "" if unit.place is None else unit.place.pcie,
        of(CORE) if is_gpu else None,
        of(RATIO if is_gpu else OTHERS.get(unit.type, "")),
        of(MEMORY) if is_gpu else None,
        unit.total.get(MEMORY) if is_gpu else None,
        tuple(Holder(pod, _largest(has)) for pod, has in sorted(holders, key=lambda holder: holder[0])),
        linked_with,
    )


def _linked(machine: Machine, unit: Unit) -> tuple[int, ...]:
    """The others of the smallest partitions of several GPUs that have this one."""
    if unit.type != GPU or not machine.partitions:
        return ()
    for size in sorted(size for size in machine.partitions if size > 1):
        sets = [set(partition.minors) for partition in machine.partitions[size] if unit.minor in partition.minors]
        if sets:
            return tuple(sorted(set().union(*sets) - {unit.minor}))
    return ()


def _largest(has: dict[str, int]) -> int:
    return max((amount for name, amount in has.items() if name != MEMORY), default=0)


def _order(type_: str) -> tuple[int, str]:
    return (0 if type_ == GPU else 1), type_
