"""Devices for one class of pods: which nodes have enough of them, by columns; and which ones, on the node that won.

Columns count the devices of which enough is left. What they cannot say (selectors, links, switches, virtual functions,
NUMA nodes) is checked on the winner alone, and what the check finds is what the pod gets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from koord.api.configuration.scheduler_args import DeviceShareArgs
from koord.api.machinery.struct import EMPTY
from koord.api.protocol import names
from koord.api.text.quantity import render
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Many, Numbers, OfRow, One
from koord.scheduler.framework.change import Change, listed
from koord.scheduler.framework.judge import Door, Judge, Objection
from koord.scheduler.plugins.devices import alignment
from koord.scheduler.plugins.devices.adapters import cannot_tell
from koord.scheduler.plugins.devices.allocate import Score, allocate, insufficient
from koord.scheduler.plugins.devices.changes import changes
from koord.scheduler.plugins.devices.grants import Grant, Granted, alone_on_pcie, granted
from koord.scheduler.plugins.devices.growing import allocate_more
from koord.scheduler.plugins.devices.inventory import UNTOLD, Machine, Unit
from koord.scheduler.plugins.devices.ledger import COUNTED, MOST_LEFT, WHOLE_LEFT, Devices, Usage, left, number
from koord.scheduler.plugins.devices.locks import LOCKED, Locks, lock_of
from koord.scheduler.plugins.devices.partitions import NO_FREE_SET, NO_SUCH_SET, table_of
from koord.scheduler.plugins.devices.requests import CORE, DEVICE_NAMES, GPU, NAMES_OF, RATIO, WHOLE, Request, Wanted
from koord.scheduler.plugins.devices.room import Room, filled, has_left
from koord.scheduler.plugins.devices.scoring import Policy
from koord.scheduler.plugins.gangs import Gangs
from koord.scheduler.plugins.numa.hints import NUMA, Agreed, Hints, Offer, keeping
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Array, Reason, Row
from koord.scheduler.state.view import View

_ISOLATION: Final = 1
_UNSUPPORTED: Final = 2
_FIRST: Final = 4
"""The bits of a request: missing, then short; those of the next one are two further."""
_SHORT: Final = _FIRST << 1


class Least(NamedTuple):
    """What must be left of GPUs, where that says all: of one, in percent; and how many whole ones."""

    part: int
    whole: int


class _Counting(NamedTuple):
    """A request, in columns."""

    number: Hashable
    needed: int
    "Devices."
    slots: tuple[tuple[tuple[Hashable, ...], int], ...]
    "By resource, the columns of all slots, and what must be left."
    of_slot: tuple[tuple[tuple[Hashable, int], ...], ...]
    "The same by slot."
    at_once: Least | None
    "Where columns that sum devices up say all."


class DeviceJudge(Judge):
    """See the module's text."""

    filters_on = Reason.NODE | Reason.LABELS | Reason.EXACT
    exact = True
    eased = True

    def __init__(
        self,
        wanted: Wanted,
        policy: Policy,
        args: DeviceShareArgs,
        cluster: Cluster,
        view: View | None = None,
        *,
        adapts: bool = False,
    ) -> None:
        """`adapts`: whether vendors' device plugins are told what pods get."""
        self.wanted, self._policy, self._cluster = wanted, policy, cluster
        self._locks = cluster.index(Locks) if adapts else None
        self._devices = cluster.notes(Devices)
        self._counting = [_counting(each, self._devices.slots[each.type], view) for each in wanted.requests]
        self.facets, self._rows = policy.facets, policy.rows
        self.scores_on = Reason(0) if policy.rows is None else policy.rows.scores_on
        self.view = view
        if not args.disable_device_numa_topology_alignment:
            self.joint = NUMA
        self._unsupported = args.gpu_share_unsupported_models if wanted.shares_gpu else ()
        self._isolation = wanted.isolation if wanted.shares_gpu else ""
        for label in (names.LABEL_GPU_ISOLATION_PROVIDER, names.LABEL_GPU_VENDOR, names.LABEL_GPU_MODEL):
            if self._isolation or self._unsupported:
                cluster.labels.keep(label)

    def quickest(self) -> Judge:
        """The judge that says the same in the least time."""
        at_once = self._counting[0].at_once
        if len(self._counting) > 1 or at_once is None or self._isolation or self._unsupported:
            return self
        return ShareJudge(self, at_once)

    def feasible(self, cells: Cells) -> Numbers:
        mask: Numbers = 0
        if self._isolation:
            found = self._cluster.labels.values(names.LABEL_GPU_ISOLATION_PROVIDER).get(self._isolation)
            mask = mask | (cells["label", names.LABEL_GPU_ISOLATION_PROVIDER] != found) * _ISOLATION
        for each in self._unsupported:
            vendor = self._cluster.labels.values(names.LABEL_GPU_VENDOR).get(each.vendor)
            model = self._cluster.labels.values(names.LABEL_GPU_MODEL).get(each.model)
            listed = (cells["label", names.LABEL_GPU_VENDOR] == vendor) & (
                cells["label", names.LABEL_GPU_MODEL] == model
            )
            mask = mask | (listed if vendor is not None and model is not None else 0) * _UNSUPPORTED
        bit = _FIRST
        for counting in self._counting:
            there = cells[counting.number]
            if counting.at_once is not None:
                short = (there > 0) & (_short(cells, *counting.at_once) > 0)
            else:
                short = (there > 0) & (_fitting(cells, counting) < counting.needed)
            mask = mask | (there == 0) * bit | short * (bit << 1)
            bit <<= 2
        return mask

    def score(self, cells: Cells) -> Numbers:
        return 0 if self._rows is None else self._rows.score(cells)

    def remarks(self) -> Sequence[str]:
        return self._policy.remarks()

    def reasons(self, mask: int) -> list[str]:
        found = []
        if mask & _ISOLATION:
            found.append(f"node(s) do not isolate pods on shared GPUs by {self._isolation}")
        if mask & _UNSUPPORTED:
            found.append("node(s) have GPUs of a model that cannot be shared")
        bits = mask // _FIRST
        found += [
            f"Insufficient {request.type} devices"
            for i, request in enumerate(self.wanted.requests)
            if bits >> 2 * i & 3
        ]
        return found

    def unresolvable(self, mask: int, row: Row) -> bool:
        if mask & (_ISOLATION | _UNSUPPORTED):
            return True
        bits = mask // _FIRST
        return any(bits >> 2 * i & 1 for i in range(len(self.wanted.requests)))

    def offer(self, ask: Ask, row: Row, door: Door | None = None) -> object:
        if self._devices.machine(row) is None:
            return None
        return Offer(alignment.LazyHints(lambda: self._hints(ask, row, door)))

    def _hints(self, ask: Ask, row: Row, door: Door | None) -> Mapping[str, Hints]:
        room = self.room(ask, row, None, door)
        return {} if room is None else alignment.hints(room, self.wanted, self.score_in(room))

    def check(self, ask: Ask, row: Row, agreed: object = None, door: Door | None = None) -> Granted | Objection | None:
        room = self.room(ask, row, agreed.nodes if isinstance(agreed, Agreed) else None, door)
        if room is None:
            return None
        found = allocate(room, self.wanted, self.score_in(room))
        if isinstance(found, Objection):
            return found
        if self._locks is not None:
            why = cannot_tell(found.get(GPU, ()), room.machine)
            if why is None and lock_of(room.machine) is not None:
                holder = self._locks.holder(row, ask.key)
                why = None if holder is None else Objection(LOCKED)
            if why is not None:
                return why
        return granted(found.items(), alone_on_pcie(ask.meta))

    def offer_more(self, ask: Ask, row: Row, having: object) -> object:
        if self._devices.machine(row) is None:
            return None
        kept = having if isinstance(having, Granted) else None
        return Offer(alignment.LazyHints(lambda: self._hints_for_more(ask, row, kept)))

    def _hints_for_more(self, ask: Ask, row: Row, kept: Granted | None) -> Mapping[str, Hints]:
        room = self.room(ask, row)
        if room is None:
            return {}
        found = alignment.hints(room, self.wanted, self.score_in(room))
        nodes = 0 if kept is None else alignment.numa_nodes_of(room.machine, kept)
        return {name: keeping(each, nodes) for name, each in found.items()}

    def check_more(self, ask: Ask, row: Row, agreed: object, having: object) -> Granted | Objection | None:
        room = self.room(ask, row, agreed.nodes if isinstance(agreed, Agreed) else None)
        if room is None or not isinstance(having, Granted):
            return self.check(ask, row, agreed)
        found = allocate_more(room, self.wanted, self.score_in, having, ask.key)
        return found if isinstance(found, Objection) else granted(found.items(), alone_on_pcie(ask.meta))

    def room(self, ask: Ask, row: Row, numa_nodes: int | None = None, door: Door | None = None) -> Room | None:
        """The devices of a row as a pod sees them; None where nobody tells of any. With a door, it sees what is left
        of that reservation, and of no other."""
        machine = self._devices.machine(row)
        if machine is None:
            return None
        hidden = self._given_up(row, door)
        usage = self._devices.usage(row, hidden)
        labels = self._cluster.nodes[row].metadata.labels
        rests = [rest for each in hidden if (rest := self._devices.counts_as(each, row)) is not None]
        preferred = frozenset((type_, grant.minor) for rest in rests for type_, of in rest.by_type for grant in of)
        most = EMPTY if door is None or not door.limited or not rests else _limits(hidden[0], rests[0], door.limited)
        mates = frozenset[int]() if usage is None else self._mates(ask, row)
        return Room(machine, usage or Usage(), labels, numa_nodes, preferred, mates, row, most)

    def _given_up(self, row: Row, door: Door | None) -> list[PodRecord]:
        """Pods whose devices are the pod's to have."""
        if door is not None:
            return list(door.holders)
        return [] if self.view is None else list(self.view.hidden(row))

    def score_in(self, room: Room) -> Score:
        def score(request: Request, unit: Unit) -> float:
            return self._policy.device(room, request, unit)

        return score

    def _mates(self, ask: Ask, row: Row) -> frozenset[int]:
        """GPUs on the row that pods of the same gang have."""
        gangs = self._cluster.noting.get(Gangs.name)
        gang = gangs.of_pod.get(ask.key) if isinstance(gangs, Gangs) else None
        if gang is None or not gang.placed:
            return frozenset()
        here = self._cluster.pods_on[row]
        mates = [here[key] for key in gang.placed if key in here]
        return frozenset(minor for type_, minor in _held(mates) if type_ == GPU)

    def mend(self, ask: Ask, row: Row) -> Sequence[Change]:
        room = self.room(ask, row)
        if room is None:
            return ()
        asked = tuple([each for each in ask.requests if each[0] in DEVICE_NAMES])
        return list(changes(room, self.wanted, ask.pod, asked))

    def detail(self, reason: str, rows: Sequence[Row]) -> str:
        """How much is left, and how much it takes."""
        columns = self._cluster.table.columns if self.view is None else self.view.columns
        cells = Many(columns, np.array(rows, np.intp))
        for request, counting in zip(self.wanted.requests, self._counting, strict=True):
            if reason == insufficient(request).reason:
                return self._shortage(request, counting, cells, rows)
        gpu = self.wanted.of(GPU)
        if gpu is not None and reason in (NO_SUCH_SET, NO_FREE_SET):
            tables = [table_of(*told)[0] for row in rows if (told := self._told(row)) is not None]
            sizes = listed(map(str, sorted({size for table in tables for size in table or ()})))
            return f"sets are of {sizes} GPUs, {gpu.count} needed" if reason == NO_SUCH_SET else _no_set(gpu.count)
        return ""

    def _shortage(self, request: Request, counting: _Counting, cells: Many, rows: Sequence[Row]) -> str:
        machines = [machine for row in rows if (machine := self._devices.machine(row)) is not None]
        if all(machine is UNTOLD for machine in machines):
            return "no Device object tells of them yet"
        units = [unit for machine in machines for unit in machine.units.get(request.type, ())]
        if units and not any(unit.total for unit in units):
            return f"none of {len(units)} is healthy"
        if units and not any(request.selector.matches(unit.labels) for unit in units):
            return "the selector of device-allocate-hint matches none"
        if not counting.of_slot:
            return ""
        number = int(np.max(_fitting(cells, counting)))
        if number >= counting.needed and request.vf_selector is not None:
            return "no virtual function is free that the vfSelector of device-allocate-hint matches"
        if number >= counting.needed:
            return "not where they must lie"
        if counting.needed > 1:
            return f"{number} on one node with enough left, {counting.needed} needed"
        return _most_left(cells, counting, [name for name, _ in request.each if name in COUNTED[request.type]])

    def _told(self, row: Row) -> tuple[Machine, Mapping[str, str]] | None:
        """The devices of a row, and the labels of its node."""
        machine = self._devices.machine(row)
        return None if machine is None else (machine, self._cluster.nodes[row].metadata.labels)

    def lack(self, cells: Cells) -> Numbers:
        missing: Numbers = 0.0
        for counting in self._counting:
            short = counting.needed - _fitting(cells, counting)
            missing = missing + short * (short > 0) / counting.needed
        return missing


class ShareJudge(DeviceJudge):
    """The same for GPU requests that two columns decide: judges of many classes are asked together."""

    def __init__(self, of: DeviceJudge, least: Least) -> None:
        self.__dict__.update(of.__dict__)
        self._least = least
        self.alike, self.numbers = (GPU, None), (least, None)
        if self._rows is not None:
            self.alike, self.numbers = (GPU, self._rows.joins), (least, self._rows.numbers)
        (request,) = self.wanted.requests
        self._is_plain = (
            not (request.selector.requirements or request.scope or request.exclusive)
            and request.vf_selector is None
            and request.templates is None
            and self.wanted.partition is None
            and self._locks is None
        )

    def feasible(self, cells: Cells) -> Numbers:
        return _short(cells, *self._least)

    def check(self, ask: Ask, row: Row, agreed: object = None, door: Door | None = None) -> Granted | Objection | None:
        if self._is_plain and door is None and not isinstance(agreed, Agreed):
            found = self._whole_at_once(row) if self.wanted.requests[0].is_whole else self._at_once(row)
            if found is not None:
                return found
        return super().check(ask, row, agreed, door)

    def _at_once(self, row: Row) -> Granted | None:
        """The device of a share where nothing but the policy tells devices apart; None: they are to be compared."""
        slot, machine, usage = self._policy.slot(row), self._devices.machine(row), self._devices.usage(row)
        if slot is None or machine is None or machine.gpus is not None or (usage is not None and usage.alone):
            return None
        unit = machine.gpu_at.get(slot)
        if unit is None or not unit.total:
            return None
        asked = filled(self.wanted.requests[0].each, unit)
        if not has_left(unit, asked, _used(usage, unit)):
            return None
        return Granted(((GPU, (Grant(unit.minor, asked, unit.id),)),))

    def _whole_at_once(self, row: Row) -> Granted | None:
        """Whole GPUs where nothing tells devices apart but whether they are free: the first ones."""
        machine, usage = self._devices.machine(row), self._devices.usage(row)
        if self._rows is None or machine is None or machine.gpus is not None or (usage is not None and usage.alone):
            return None
        if table_of(machine, self._cluster.nodes[row].metadata.labels) != (None, False):
            return None
        request, grants = self.wanted.requests[0], list[Grant]()
        for unit in machine.units[GPU]:
            asked = filled(request.each, unit)
            if unit.total and has_left(unit, asked, _used(usage, unit)):
                grants.append(Grant(unit.minor, asked, unit.id))
                if len(grants) == request.count:
                    return Granted(((GPU, tuple(grants)),))
        return None

    def of_row(self, columns: dict[Hashable, Array]) -> tuple[OfRow, OfRow]:
        most, whole = columns[MOST_LEFT].data, columns[WHOLE_LEFT].data

        def feasible(row: Row, numbers: tuple[Least, Hashable]) -> int:
            least = numbers[0]
            return _SHORT if most[row] < least.part or whole[row] < least.whole else 0

        if self._rows is None:
            return feasible, _no_score
        scored = self._rows.of_row
        return feasible, lambda row, numbers: scored(row, numbers[1])

    def together(self, judges: Sequence[ShareJudge]) -> Judge:
        numbers = [each._rows.numbers for each in judges if each._rows is not None]
        scores = None if self._rows is None else self._rows.together(numbers)
        return _Together([each._least for each in judges], scores)

    def unresolvable(self, mask: int, row: Row) -> bool:
        return bool(mask) and self._cluster.table.columns[self._counting[0].number].item(row) == 0


class _Together(Judge):
    def __init__(self, least: Sequence[Least], scores: Callable[[Many], Array] | None) -> None:
        self._part, self._whole = (np.array(each, np.int64) for each in zip(*least, strict=True))
        self._scores = scores

    def feasible(self, cells: Cells) -> Numbers:
        return _short(cells, self._part, self._whole)

    def score(self, cells: Cells) -> Numbers:
        assert self._scores is not None
        return self._scores(cells)


def _short(cells: Cells, part: Numbers, whole: Numbers) -> Numbers:
    return ((cells[MOST_LEFT] < part) | (cells[WHOLE_LEFT] < whole)) * _SHORT


def _used(usage: Usage | None, unit: Unit) -> Mapping[str, int]:
    return EMPTY if usage is None else usage.amounts.get(unit.key, EMPTY)


def _limits(holder: PodRecord, rest: Granted, limited: frozenset[str]) -> Mapping[str, Mapping[int, Grant]]:
    """What is left of a reservation's devices, of the types that it limits its owners in."""
    whole = holder.note(Devices.name)
    assert isinstance(whole, Granted)
    return {
        type_: {grant.minor: grant for grant in rest.of(type_)}
        for type_, _ in whole.by_type
        if not limited.isdisjoint(NAMES_OF.get(type_, ()))
    }


def _no_score(row: Row, numbers: object) -> int:
    return 0


def _counting(request: Request, slots: int, view: View | None) -> _Counting:
    asked = [(name, amount) for name, amount in request.each if name in COUNTED[request.type]]
    by_resource = tuple(
        (tuple(left(request.type, name, slot) for slot in range(slots)), amount) for name, amount in asked
    )
    by_slot = tuple(tuple((left(request.type, name, slot), amount) for name, amount in asked) for slot in range(slots))
    at_once = _at_once(request) if view is None else None
    return _Counting(number(request.type), max(1, request.count), by_resource, by_slot, at_once)


def _at_once(request: Request) -> Least | None:
    """For as much of the cores as of the memory of GPUs: one of them, or whole ones."""
    asked = request.amounts
    if request.type != GPU or asked.keys() != {CORE, RATIO} or asked[CORE] != asked[RATIO]:
        return None
    if request.count == 1:
        return Least(asked[CORE], 0)
    return Least(0, request.count) if asked[CORE] == WHOLE else None


def _fitting(cells: Cells, counting: _Counting) -> Numbers:
    """Of how many devices enough is left."""
    if type(cells) is One:
        columns, row = cells.columns, cells.rows
        found = 0
        for slot in counting.of_slot:
            for column, amount in slot:
                if columns[column].item(row) < amount:
                    break
            else:
                found += 1
        return found
    enough = None
    for names_, amount in counting.slots:
        if not names_:
            return 0
        of_resource = cells.block(names_) >= amount
        enough = of_resource if enough is None else enough & of_resource
    return 0 if enough is None else np.count_nonzero(enough, axis=0)


def _most_left(cells: Many, counting: _Counting, resources: Sequence[str]) -> str:
    left, needed = [], []
    for (columns, amount), name in zip(counting.slots, resources, strict=True):
        most = max(0, int(np.max(cells.block(columns))))
        if most < amount:
            left.append(f"{render(name, most)} {name.partition('/')[2]}")
            needed.append(render(name, amount))
    return f"at most {listed(left)} free on one device, {listed(needed)} needed" if left else "no device has all of it"


def _no_set(gpus: int) -> str:
    return f"no linked set of {gpus} is free"


def _held(records: Collection[PodRecord]) -> frozenset[tuple[str, int]]:
    """The devices of some pods."""
    found = set()
    for record in records:
        for name, note in record.notes:
            if name == Devices.name and isinstance(note, Granted):
                found |= {(type_, grant.minor) for type_, grants in note.by_type for grant in grants}
    return frozenset(found)
