"""What a node has of devices, as its Device object says.

A device without a minor, or with one below 0, or one of several that claim the same minor, is not used: it would be
unclear which one a pod got. Nor is one with amounts below 0, nor a virtual function that several devices claim. The
object's other devices are used. `faults` reports this in the object's events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from koord.api.kubernetes.resources import amounts
from koord.api.machinery.faults import BadInput, Fault
from koord.api.protocol.annotations.device import GPU_PARTITIONS, TYPES, GPUPartition
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.device import Device, DeviceInfo, VirtualFunctionGroup
from koord.api.protocol.names import LABEL_GPU_PARTITION_POLICY
from koord.api.text.quantity import ResourceList
from koord.api.text.stored import stored_amount
from koord.scheduler.plugins.devices.requests import GPU

ANY_NUMA: Final = -1
MOST_DEVICES: Final = 64
"""Of one type on one node. Every one has columns, so that there is a bound to them."""
MOST_NUMA_NODES: Final = 64
MOST_GONE: Final = 32
"""A machine keeps the slots of at most this many devices that are gone."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a device is attached."""

    numa: int
    "-1: unknown."
    pcie: str


@dataclass(frozen=True, slots=True)
class Unit:
    """One device of a node."""

    type: str
    minor: int
    id: str
    total: Mapping[str, int]
    "What it offers; nothing where it is not healthy, or cannot be told from another."
    place: Place | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    vf_groups: tuple[VirtualFunctionGroup, ...] = ()
    key: tuple[str, int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (self.type, self.minor))


@dataclass(frozen=True, slots=True)
class Scope:
    """Devices that lie together: on the node, on a NUMA node, on a PCIe switch."""

    depth: int
    "0, 1 and 2."
    units: tuple[Unit, ...]
    "Sorted by minor."
    minors: frozenset[int]
    children: tuple[Scope, ...] = ()


Partitions = Mapping[int, tuple[GPUPartition, ...]]
"""By number of GPUs."""


@dataclass(frozen=True, slots=True)
class Machine:
    """All devices of a node."""

    units: Mapping[str, tuple[Unit, ...]]
    "By type, sorted by minor."
    labels: Mapping[str, str] = field(default_factory=dict)
    partitions: Partitions | None = None
    slots: Mapping[tuple[str, int], int] = field(default_factory=dict, compare=False)
    "The number of each device among those of its type, which selects its columns. May include devices that are gone."
    by_key: Mapping[tuple[str, int], Unit] = field(default_factory=dict, compare=False)
    gpus: Scope | None = field(default=None, compare=False)
    "The healthy GPUs that say where they are attached."
    gpu_at: Mapping[int, Unit] = field(init=False, compare=False, repr=False)
    "By slot."

    def __post_init__(self) -> None:
        gpu_at = {self.slots[unit.key]: unit for unit in self.units.get(GPU, ()) if unit.key in self.slots}
        object.__setattr__(self, "gpu_at", gpu_at)

    @property
    def honours_partitions(self) -> bool:
        return self.labels.get(LABEL_GPU_PARTITION_POLICY) == "Honor"

    def unit(self, type_: str, minor: int) -> Unit | None:
        return self.by_key.get((type_, minor))

    def keeping_slots(self, before: Machine) -> Machine:
        """The same with the slots that devices had: what others remember of their columns stays true."""
        slots = dict(before.slots)
        for key in sorted(self.by_key.keys() - slots.keys()):
            slots[key] = 1 + max((slot for (type_, _), slot in slots.items() if type_ == key[0]), default=-1)
        if len(slots) > MOST_GONE + len(self.by_key):
            return self
        return replace(self, slots=slots)


UNTOLD: Final = Machine({})
"""A node with device capacity whose Device object has not been received yet: nothing to allocate."""


def machine_of(device: Device) -> Machine:
    """What a Device object says."""
    claimed = _claims(device)
    units: dict[tuple[str, int], Unit] = {}
    elsewhere = _on_several(device)
    for info in device.spec.devices:
        if info.minor is not None and info.minor >= 0:
            usable = info.health and claimed[info.type, info.minor] == 1
            units[info.type, info.minor] = _unit(info, info.minor, usable, elsewhere)
    for key in _beyond(units):
        del units[key]
    try:
        partitions = GPU_PARTITIONS.read(device.metadata, "Device")
    except AnnotationError:
        partitions = None
    return _machine(units.values(), device.metadata.labels, partitions)


def lost(machine: Machine) -> Machine:
    """The same after its Device object is gone: nothing of it is given out any more, and what pods have stays known."""
    units = (
        Unit(unit.type, unit.minor, unit.id, {}, unit.place, unit.labels)
        for of in machine.units.values()
        for unit in of
    )
    return _machine(units, machine.labels, machine.partitions)


def faults(device: Device) -> Iterator[Fault]:
    """What is wrong with a Device object."""
    claimed = _claims(device)
    reported = set[tuple[str, int]]()
    beyond = set(_beyond(claimed))
    elsewhere = _on_several(device)
    for i, info in enumerate(device.spec.devices):
        where = f"spec.devices[{i}]"
        if info.minor is None:
            yield Fault(f"{where}.minor", "is missing: the device is not used")
        elif info.minor < 0:
            yield Fault(f"{where}.minor", f"{info.minor} must be 0 or more: the device is not used")
        elif claimed[info.type, info.minor] > 1 and (info.type, info.minor) not in reported:
            reported.add((info.type, info.minor))
            number = claimed[info.type, info.minor]
            yield Fault(
                f"{where}.minor", f"{info.minor} is the minor of {number} {info.type} devices: none of them is used"
            )
        elif (info.type, info.minor) in beyond:
            yield Fault(
                f"{where}.minor",
                f"{info.minor} is beyond the {MOST_DEVICES} {info.type} devices that a node may have: it is not used",
            )
        if info.type not in TYPES:
            yield Fault(
                f"{where}.type", f"must be one of {', '.join(TYPES)}, not {info.type[:60]!r}: no pod can request it"
            )
        at = info.topology
        if at is not None and not ANY_NUMA <= at.node_id < MOST_NUMA_NODES:
            valid = f"from 0 to {MOST_NUMA_NODES - 1}, or {ANY_NUMA} if unknown"
            yield Fault(f"{where}.topology.nodeID", f"must be {valid}, not {at.node_id}: it counts as unknown")
        yield from _function_faults(where, info, elsewhere)
        try:
            below = {name: amount for name, amount in amounts(info.resources).items() if amount < 0}
        except BadInput as error:
            yield Fault(f"{where}.resources", f"{error}: the device is not used")
        else:
            for name in below:
                said = f"{info.resources[name]} must be 0 or more: the device is not used"
                yield Fault(f"{where}.resources[{name}]", said)


def _function_faults(where: str, info: DeviceInfo, elsewhere: Set[str]) -> Iterator[Fault]:
    for g, group in enumerate(info.vf_groups):
        for v, function in enumerate(group.vfs):
            if function.bus_id in elsewhere:
                said = f"{function.bus_id[:60]} is a virtual function of several devices: it is not used"
                yield Fault(f"{where}.vfGroups[{g}].vfs[{v}].busID", said)


def _on_several(device: Device) -> frozenset[str]:
    """Virtual functions that more than one device claims: given to two pods, they would be one."""
    claimed: dict[str, int] = {}
    repeated = set[str]()
    for i, info in enumerate(device.spec.devices):
        for bus_id in {function.bus_id for group in info.vf_groups for function in group.vfs if function.bus_id}:
            if claimed.setdefault(bus_id, i) != i:
                repeated.add(bus_id)
    return frozenset(repeated)


def _without(groups: tuple[VirtualFunctionGroup, ...], unusable: Set[str]) -> tuple[VirtualFunctionGroup, ...]:
    return tuple(
        msgspec.structs.replace(group, vfs=tuple(vf for vf in group.vfs if vf.bus_id not in unusable))
        for group in groups
    )


def _beyond(keys: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Devices that are too many, the highest minors."""
    by_type: dict[str, list[tuple[str, int]]] = {}
    for key in sorted(keys):
        by_type.setdefault(key[0], []).append(key)
    return [key for of in by_type.values() for key in of[MOST_DEVICES:]]


def _claims(device: Device) -> Counter[tuple[str, int]]:
    listed = ((info.type, info.minor) for info in device.spec.devices)
    return Counter((type_, minor) for type_, minor in listed if minor is not None and minor >= 0)


def _machine(units: Iterable[Unit], labels: Mapping[str, str], partitions: Partitions | None) -> Machine:
    by_type: dict[str, list[Unit]] = {}
    for unit in sorted(units, key=lambda unit: unit.key):
        by_type.setdefault(unit.type, []).append(unit)
    slots = {unit.key: i for of in by_type.values() for i, unit in enumerate(of)}
    gpus = [unit for unit in by_type.get(GPU, ()) if unit.total and unit.place is not None]
    by_key = {unit.key: unit for of in by_type.values() for unit in of}
    tree = _scopes(gpus) if gpus else None
    return Machine({type_: tuple(of) for type_, of in by_type.items()}, labels, partitions, slots, by_key, tree)


def _scopes(units: Sequence[Unit]) -> Scope:
    """The tree of some devices, scopes in the order of their numbers."""
    numa: dict[int, dict[str, list[Unit]]] = {}
    for unit in units:
        assert unit.place is not None
        numa.setdefault(unit.place.numa, {}).setdefault(unit.place.pcie, []).append(unit)
    children = []
    for _, switches in sorted(numa.items()):
        below = tuple(_scope(2, units) for _, units in sorted(switches.items()))
        children.append(_scope(1, [unit for scope in below for unit in scope.units], below))
    return _scope(0, units, tuple(children))


def _scope(depth: int, units: Iterable[Unit], children: tuple[Scope, ...] = ()) -> Scope:
    ordered = tuple(sorted(units, key=lambda unit: unit.minor))
    return Scope(depth, ordered, frozenset(unit.minor for unit in ordered), children)


def _unit(info: DeviceInfo, minor: int, usable: bool, elsewhere: Set[str]) -> Unit:
    at = info.topology
    place = None if at is None else Place(at.node_id if 0 <= at.node_id < MOST_NUMA_NODES else ANY_NUMA, at.pcie_id)
    total = _total(info.resources) if usable else {}
    groups = _without(info.vf_groups, elsewhere) if elsewhere else info.vf_groups
    return Unit(info.type, minor, info.id, total, place, info.labels, groups)


def _total(resources: ResourceList) -> Mapping[str, int]:
    """Empty if one of the amounts is invalid: without it, the size of the device is unknown."""
    try:
        total = amounts(resources)
    except BadInput:
        return {}
    if any(amount < 0 for amount in total.values()):
        return {}
    return {name: stored_amount(amount) for name, amount in total.items() if amount}
