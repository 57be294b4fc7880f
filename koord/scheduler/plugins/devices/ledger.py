"""What is left of every device of every node, counted from what pods say that they have.

A device's column says what is left of one resource of it: what it offers, less what pods have. So a pod that comes or
leaves moves a few cells by its own amounts, and a view can give amounts back. Columns are by slot: slot 0 is the device
with the lowest minor of its type when the node was first seen.

    left("gpu", RATIO, 3)       what is left of the fourth GPU, in percent; far below 0 where there is none
    total("gpu", RATIO)         of all healthy devices of the type together
    taken("gpu", RATIO)         what pods have of these
    MOST_LEFT, WHOLE_LEFT       of GPUs: the largest part of one that is left, and how many are left whole
    number("gpu")               how many there are, healthy or not; -1 where no Device object tells

A node that offers device resources has them from a Device object. Until that object is received, the node has nothing
to give: a pod that went there would have no device.

Devices that disappear with pods on them keep their pods: should they come back, nothing of them is given twice.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

import numpy as np

from koord.api.kubernetes.pod import Pod
from koord.api.protocol import names
from koord.api.protocol.crd.device import Device
from koord.scheduler.plugins.devices.grants import Granted, held_by, rest_of, words_of
from koord.scheduler.plugins.devices.inventory import UNTOLD, Machine, lost, machine_of
from koord.scheduler.plugins.devices.requests import CORE, FPGA, GPU, MEMORY, OTHERS, RATIO, RDMA, WHOLE
from koord.scheduler.state.cluster import Cluster, allocatable
from koord.scheduler.state.insiders import Insiders
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import Amounts, PodRecord
from koord.scheduler.state.table import Array, Column, Gains, Reason, Row

COUNTED: Final[Mapping[str, tuple[str, ...]]] = {
    GPU: (CORE, RATIO, MEMORY),
    RDMA: (OTHERS[RDMA],),
    FPGA: (OTHERS[FPGA],),
}
"""By type, the resources that have columns."""
_OFFERED: Final = (names.RESOURCE_GPU, *(resource for resources in COUNTED.values() for resource in resources))
NOTHING: Final = -(1 << 60)
"""Left of a device that is not there, or not healthy."""
UNLIMITED: Final = 1 << 60
"""Left of a resource that a device does not name."""
CELLS_KEPT: Final = 1 << 11
MOST_LEFT: Final = "most left of a GPU"
WHOLE_LEFT: Final = "GPUs left whole"
"""Of GPUs, in percent of cores and memory both: what most pods ask for, in one column each; without limit where no
Device object tells. No view changes these."""
_EXACT: Final = int(Reason.EXACT)

DeviceKey = tuple[str, int]
"""Type and minor."""


def left(type_: str, resource: str, slot: int) -> Hashable:
    return ("device left", type_, resource, slot)


def total(type_: str, resource: str) -> Hashable:
    return ("device total", type_, resource)


def taken(type_: str, resource: str) -> Hashable:
    return ("device taken", type_, resource)


def number(type_: str) -> Hashable:
    return ("devices", type_)


class Usage:
    """What pods have of one node's devices, by device. What is nothing is not there: equal usages compare equal."""

    __slots__ = ("alone", "amounts", "holders", "vfs")

    def __init__(self) -> None:
        self.amounts: dict[DeviceKey, dict[str, int]] = {}
        self.holders: dict[DeviceKey, dict[str, int]] = {}
        "Pods, by how many grants of the device they have."
        self.vfs: dict[DeviceKey, dict[str, int]] = {}
        "Virtual functions, by bus id."
        self.alone: dict[DeviceKey, int] = {}
        "How many pods want the device's PCIe switch to themselves."

    def count(self, granted: Granted, pod: str, sign: int) -> None:
        for type_, grants in granted.by_type:
            for grant in grants:
                key = type_, grant.minor
                for name, amount in grant.amounts:
                    _add(self.amounts, key, name, sign * amount)
                _add(self.holders, key, pod, sign)
                for vf in grant.vfs:
                    _add(self.vfs, key, vf.bus_id, sign)
                if type_ in granted.alone_on_pcie:
                    now = self.alone.pop(key, 0) + sign
                    if now:
                        self.alone[key] = now

    @property
    def is_empty(self) -> bool:
        return not self.holders


def _add(table: dict[DeviceKey, dict[str, int]], key: DeviceKey, name: str, amount: int) -> None:
    of_device = table.get(key)
    if of_device is None:
        of_device = table[key] = {}
    now = of_device.get(name, 0) + amount
    if now:
        of_device[name] = now
        return
    of_device.pop(name, None)
    if not of_device:
        del table[key]


class Devices(Notes):
    """All devices of a cluster, and what pods have of them."""

    name: ClassVar[str] = "DeviceShare"
    heeds: ClassVar[frozenset[str]] = frozenset({names.ANNOTATION_DEVICE_ALLOCATED})

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.machines: dict[str, Machine] = {}
        self._lost: set[str] = set()
        "Existing nodes whose Device object is gone."
        "By node."
        self.slots: dict[str, int] = dict.fromkeys(COUNTED, 0)
        "By type, how many devices have columns: as many as any node has."
        self._usage: dict[Row, Usage] = {}
        self._insiders = Insiders[Granted](lambda held, inside, row: rest_of(held, inside))
        self._written: dict[Row, Machine] = {}
        "What the columns of a row were written from."
        self._cells: dict[Hashable, Gains] = {}
        self._cells_of_gpus: tuple[Array | None, list[tuple[memoryview, memoryview]]] = None, []
        "What is left of each GPU, cell by cell, for as long as that column is this array."
        cluster.table.declare(Column(MOST_LEFT, np.int64, Reason.EXACT, UNLIMITED))
        cluster.table.declare(Column(WHOLE_LEFT, np.int64, Reason.EXACT, UNLIMITED))
        for type_, resources in COUNTED.items():
            cluster.table.declare(Column(number(type_), np.int64, Reason.EXACT, -1))
            for resource in resources:
                cluster.table.declare(Column(total(type_, resource), np.int64, Reason.EXACT))
                cluster.table.declare(Column(taken(type_, resource), np.int64, Reason.EXACT))

    def words(self, note: object) -> str:
        return words_of(note) if isinstance(note, Granted) else ""

    def of(self, pod: Pod) -> Granted | None:
        # What a pod that waits says is of an attempt that came to nothing.
        return held_by(pod) if pod.spec.node_name else None

    def by_name(self, pod: Pod) -> bool:
        return False

    def cells(self, note: object, row: Row) -> Iterable[tuple[Hashable, int]]:
        machine = self._written.get(row)
        return () if machine is None or not isinstance(note, Granted) else cells_of(note, machine)

    def counts_as(self, record: PodRecord, row: Row) -> Granted | None:
        note = record.note(self.name)
        return self._insiders.counted(note, record, row) if isinstance(note, Granted) else None

    def moved(self, note: Any, record: PodRecord, row: Row, sign: int) -> None:
        for pod, counted, by in self._insiders.moved(note, record, row, sign):
            self._count(counted, pod.key, row, by)

    def _count(self, note: Granted, key: str, row: Row, sign: int) -> None:
        usage = self._usage.get(row)
        if usage is None:
            usage = self._usage[row] = Usage()
        usage.count(note, key, sign)
        if usage.is_empty:
            del self._usage[row]
        machine = self._written.get(row)
        if machine is None:
            return
        gain = self.cluster.table.gain
        for type_, grants in note.by_type:
            for grant in grants:
                slot = machine.slots.get((type_, grant.minor))
                if slot is not None:
                    offered = _offered(machine, type_, grant.minor)
                    gain(row, self._gains(type_, slot, grant.amounts, offered), sign, _EXACT)
            if type_ == GPU:
                self._sum_up(row)

    def _sum_up(self, row: Row) -> None:
        """Write the columns that are of all GPUs of a row, from those of each."""
        columns, slots = self.cluster.table.columns, self.slots[GPU]
        if self._cells_of_gpus[0] is not columns[MOST_LEFT] or len(self._cells_of_gpus[1]) != slots:
            both = [
                (columns[left(GPU, CORE, slot)].data, columns[left(GPU, RATIO, slot)].data) for slot in range(slots)
            ]
            self._cells_of_gpus = columns[MOST_LEFT], both
        most = whole = 0
        for cores, ratios in self._cells_of_gpus[1]:
            here, ratio = cores[row], ratios[row]
            if ratio < here:
                here = ratio
            if here > most:
                most = here
            if here >= WHOLE:
                whole += 1
        self.cluster.table.set(MOST_LEFT, row, most)
        self.cluster.table.set(WHOLE_LEFT, row, whole)

    def _gains(self, type_: str, slot: int, amounts: Amounts, offered: Collection[str]) -> Gains:
        """The cells that a grant changes. Few kinds of grants are given out again and again."""
        key = (type_, slot, amounts, tuple(offered))
        cells = self._cells.get(key)
        if cells is None:
            if len(self._cells) >= CELLS_KEPT:
                self._cells.clear()
            cells = self._cells[key] = tuple(_cells(type_, slot, amounts, offered))
        return cells

    def machine(self, row: Row) -> Machine | None:
        machine = self.machines.get(self.cluster.table.names[row])
        return UNTOLD if machine is None and self._offers(row) else machine

    def _offers(self, row: Row) -> bool:
        """Whether a node says that it has devices to share."""
        columns = (self.cluster.table.columns.get(allocatable(name).name) for name in _OFFERED)
        return any(column is not None and column.item(row) > 0 for column in columns)

    def usage(self, row: Row, without: Iterable[PodRecord] = ()) -> Usage | None:
        """What pods have of a row's devices; `without`: some of them not counted. None: nothing."""
        usage = self._usage.get(row)
        if usage is None or not without:
            return usage
        gone = {record.key for record in without if record.note(self.name) is not None}
        if not gone:
            return usage
        rest = Usage()
        here = self.cluster.pods_on[row]
        for key in {pod for pods in usage.holders.values() for pod in pods} - gone:
            counted = self.counts_as(here[key], row)
            assert counted is not None
            rest.count(counted, key, +1)
        return rest

    def put_device(self, device: Device) -> None:
        """A node's devices were added or have changed."""
        self._lost.discard(device.metadata.name)
        self.put_machine(device.metadata.name, machine_of(device))

    def remove_device(self, device: Device) -> None:
        """A node no longer has a Device object: its devices are no longer allocated."""
        name = device.metadata.name
        machine = self.machines.get(name)
        if name not in self.cluster.table.row_of:
            self.machines.pop(name, None)
        elif machine is not None:
            self.put_machine(name, lost(machine))
            self._lost.add(name)

    def put_machine(self, node: str, machine: Machine) -> None:
        before = self.machines.get(node)
        if before == machine:
            return
        if before is not None:
            machine = machine.keeping_slots(before)
        self.machines[node] = machine
        row = self.cluster.table.row_of.get(node)
        if row is not None and row in self.cluster.nodes:
            self._write(row, machine)

    def node_put(self, row: Row) -> None:
        machine = self.machine(row)
        if machine is None and row in self._written:
            self._forget(row)
        elif machine is not None and self._written.get(row) is not machine:
            self._write(row, machine)

    def amounts_put(self, row: Row, changed: frozenset[str]) -> None:
        if not changed.isdisjoint(_OFFERED):
            self.node_put(row)

    def _forget(self, row: Row) -> None:
        """There is no Device object, and the node offers no devices: its columns are like those of other nodes."""
        del self._written[row]
        put = self.cluster.table.set
        put(MOST_LEFT, row, UNLIMITED)
        put(WHOLE_LEFT, row, UNLIMITED)
        for type_ in COUNTED:
            put(number(type_), row, -1)
        self.cluster.table.touch(row, _EXACT)

    def node_removed(self, row: Row) -> None:
        self._written.pop(row, None)
        if (name := self.cluster.table.names[row]) in self._lost:
            self._lost.remove(name)
            del self.machines[name]

    def _write(self, row: Row, machine: Machine) -> None:
        table, put = self.cluster.table, self.cluster.table.set
        usage = self._usage.get(row) or Usage()
        self._declare(machine)
        self._written[row] = machine
        for type_, resources in COUNTED.items():
            units = {machine.slots[unit.key]: unit for unit in machine.units.get(type_, ())}
            gone = {slot: key for key, slot in machine.slots.items() if key[0] == type_ and slot not in units}
            put(number(type_), row, len(units))
            for resource in resources:
                whole = used = 0
                for slot in range(self.slots[type_]):
                    unit, there = units.get(slot), NOTHING
                    key = gone.get(slot) if unit is None else unit.key
                    used_here = 0 if key is None else usage.amounts.get(key, {}).get(resource, 0)
                    if unit is not None and unit.total:
                        there = unit.total.get(resource, UNLIMITED)
                        whole += unit.total.get(resource, 0)
                        used += used_here if resource in unit.total else 0
                    there -= used_here
                    put(left(type_, resource, slot), row, there)
                put(total(type_, resource), row, whole)
                put(taken(type_, resource), row, used)
        self._sum_up(row)
        # What no column says may have changed as well: links, labels, virtual functions.
        table.touch(row, _EXACT)
        self.cluster.recounted(row)

    def _declare(self, machine: Machine) -> None:
        for type_, resources in COUNTED.items():
            most = max((slot for (of, _), slot in machine.slots.items() if of == type_), default=-1)
            while self.slots[type_] <= most:
                for resource in resources:
                    name = left(type_, resource, self.slots[type_])
                    self.cluster.table.declare(Column(name, np.int64, Reason.EXACT, NOTHING))
                self.slots[type_] += 1


def cells_of(granted: Granted, machine: Machine) -> Iterator[tuple[Hashable, int]]:
    """What a pod's devices change of its row's columns, when it comes: column and amount. Views may take it back."""
    for type_, grants in granted.by_type:
        for grant in grants:
            slot = machine.slots.get((type_, grant.minor))
            if slot is not None:
                yield from _cells(type_, slot, grant.amounts, _offered(machine, type_, grant.minor))


def _offered(machine: Machine, type_: str, minor: int) -> Collection[str]:
    unit = machine.unit(type_, minor)
    return () if unit is None else unit.total


def _cells(type_: str, slot: int, amounts: Amounts, offered: Collection[str]) -> Iterator[tuple[Hashable, int]]:
    resources = COUNTED.get(type_, ())
    for name, amount in amounts:
        if name in resources:
            yield left(type_, name, slot), -amount
            if name in offered:
                yield taken(type_, name), amount
