"""The exact check of DeviceShare: which devices a pod gets on the row that won."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from koord.api.machinery.struct import EMPTY
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.exact_check import Door, ExactCheck, Objection
from koord.scheduler.plugins.devices import alignment
from koord.scheduler.plugins.devices.adapters import cannot_tell
from koord.scheduler.plugins.devices.allocate import Score, allocate
from koord.scheduler.plugins.devices.grants import Grant, Granted, alone_on_pcie, granted
from koord.scheduler.plugins.devices.growing import allocate_more
from koord.scheduler.plugins.devices.inventory import Unit
from koord.scheduler.plugins.devices.ledger import Devices, Usage
from koord.scheduler.plugins.devices.locks import LOCKED, Locks, lock_of
from koord.scheduler.plugins.devices.partitions import table_of
from koord.scheduler.plugins.devices.requests import GPU, NAMES_OF, Request, Wanted
from koord.scheduler.plugins.devices.room import Room, filled, has_left
from koord.scheduler.plugins.devices.scoring import Policy
from koord.scheduler.plugins.gangs import Gangs
from koord.scheduler.plugins.numa.hints import NUMA, Agreed, Hints, Offer, keeping
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Row
from koord.scheduler.state.view import View


class DeviceCheck(ExactCheck):
    """`adapts`: whether vendors' device plugins are told what pods get. `aligns`: whether devices and CPUs of a pod
    agree on NUMA nodes."""

    def __init__(
        self, wanted: Wanted, policy: Policy, cluster: Cluster, view: View | None, *, adapts: bool, aligns: bool
    ) -> None:
        self._wanted, self._policy, self._cluster, self._view = wanted, policy, cluster, view
        self._devices = cluster.notes(Devices)
        self._locks = cluster.index(Locks) if adapts else None
        self.joint = NUMA if aligns else None

    def offer(self, ask: Ask, row: Row, door: Door | None = None) -> object:
        if self._devices.machine(row) is None:
            return None
        return Offer(alignment.LazyHints(lambda: self._hints(ask, row, door)))

    def _hints(self, ask: Ask, row: Row, door: Door | None) -> Mapping[str, Hints]:
        room = self.room(ask, row, None, door)
        return {} if room is None else alignment.hints(room, self._wanted, self.score_in(room))

    def check(self, ask: Ask, row: Row, agreed: object = None, door: Door | None = None) -> Granted | Objection | None:
        room = self.room(ask, row, agreed.nodes if isinstance(agreed, Agreed) else None, door)
        if room is None:
            return None
        grants = allocate(room, self._wanted, self.score_in(room))
        if isinstance(grants, Objection):
            return grants
        if self._locks is not None:
            why = cannot_tell(grants.get(GPU, ()), room.machine)
            if why is None and lock_of(room.machine) is not None:
                holder = self._locks.holder(row, ask.key)
                why = None if holder is None else Objection(LOCKED)
            if why is not None:
                return why
        return granted(grants.items(), alone_on_pcie(ask.meta))

    def offer_more(self, ask: Ask, row: Row, having: object) -> object:
        if self._devices.machine(row) is None:
            return None
        kept = having if isinstance(having, Granted) else None
        return Offer(alignment.LazyHints(lambda: self._hints_for_more(ask, row, kept)))

    def _hints_for_more(self, ask: Ask, row: Row, kept: Granted | None) -> Mapping[str, Hints]:
        room = self.room(ask, row)
        if room is None:
            return {}
        hints = alignment.hints(room, self._wanted, self.score_in(room))
        nodes = 0 if kept is None else alignment.numa_nodes_of(room.machine, kept)
        return {name: keeping(of_type, nodes) for name, of_type in hints.items()}

    def check_more(self, ask: Ask, row: Row, agreed: object, having: object) -> Granted | Objection | None:
        room = self.room(ask, row, agreed.nodes if isinstance(agreed, Agreed) else None)
        if room is None or not isinstance(having, Granted):
            return self.check(ask, row, agreed)
        grants = allocate_more(room, self._wanted, self.score_in, having, ask.key)
        return grants if isinstance(grants, Objection) else granted(grants.items(), alone_on_pcie(ask.meta))

    def room(self, ask: Ask, row: Row, numa_nodes: int | None = None, door: Door | None = None) -> Room | None:
        """The devices of a row as a pod sees them; None where no Device object is known. With a door, it sees what is
        left of that reservation, and of no other."""
        machine = self._devices.machine(row)
        if machine is None:
            return None
        hidden = self._given_up(row, door)
        usage = self._devices.usage(row, hidden)
        labels = self._cluster.nodes[row].metadata.labels
        rests = [rest for record in hidden if (rest := self._devices.counts_as(record, row)) is not None]
        preferred = frozenset((type_, grant.minor) for rest in rests for type_, of in rest.by_type for grant in of)
        most = EMPTY if door is None or not door.limited or not rests else _limits(hidden[0], rests[0], door.limited)
        mates = frozenset[int]() if usage is None else self._mates(ask, row)
        return Room(machine, usage or Usage(), labels, numa_nodes, preferred, mates, row, most)

    def _given_up(self, row: Row, door: Door | None) -> list[PodRecord]:
        """Pods whose devices are the pod's to have."""
        if door is not None:
            return list(door.holders)
        return [] if self._view is None else list(self._view.hidden(row))

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


class ShareCheck(DeviceCheck):
    """The same for GPU requests that two columns decide: as a rule, nothing but the policy tells devices apart."""

    def __init__(self, of: DeviceCheck) -> None:
        self.__dict__.update(of.__dict__)
        (request,) = self._wanted.requests
        self._is_plain = (
            not (request.selector.requirements or request.scope or request.exclusive)
            and request.vf_selector is None
            and request.templates is None
            and self._wanted.partition is None
            and self._locks is None
        )

    def check(self, ask: Ask, row: Row, agreed: object = None, door: Door | None = None) -> Granted | Objection | None:
        if self._is_plain and door is None and not isinstance(agreed, Agreed):
            share = self._whole_at_once(row) if self._wanted.requests[0].is_whole else self._at_once(row)
            if share is not None:
                return share
        return super().check(ask, row, agreed, door)

    def _at_once(self, row: Row) -> Granted | None:
        """The device of a share where nothing but the policy tells devices apart; None: they must be compared."""
        slot, machine, usage = self._policy.slot(row), self._devices.machine(row), self._devices.usage(row)
        if slot is None or machine is None or machine.gpus is not None or (usage is not None and usage.alone):
            return None
        unit = machine.gpu_at.get(slot)
        if unit is None or not unit.total:
            return None
        asked = filled(self._wanted.requests[0].per_device, unit)
        if not has_left(unit, asked, _used(usage, unit)):
            return None
        return Granted(((GPU, (Grant(unit.minor, asked, unit.id),)),))

    def _whole_at_once(self, row: Row) -> Granted | None:
        """Whole GPUs where nothing tells devices apart but whether they are free: the first ones."""
        machine, usage = self._devices.machine(row), self._devices.usage(row)
        if (
            self._policy.rows is None
            or machine is None
            or machine.gpus is not None
            or (usage is not None and usage.alone)
        ):
            return None
        if table_of(machine, self._cluster.nodes[row].metadata.labels) != (None, False):
            return None
        request, grants = self._wanted.requests[0], list[Grant]()
        for unit in machine.units[GPU]:
            asked = filled(request.per_device, unit)
            if unit.total and has_left(unit, asked, _used(usage, unit)):
                grants.append(Grant(unit.minor, asked, unit.id))
                if len(grants) == request.count:
                    return Granted(((GPU, tuple(grants)),))
        return None


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


def _held(records: Collection[PodRecord]) -> frozenset[tuple[str, int]]:
    """The devices of some pods."""
    devices = set()
    for record in records:
        for name, note in record.notes:
            if name == Devices.name and isinstance(note, Granted):
                devices |= {(type_, grant.minor) for type_, grants in note.by_type for grant in grants}
    return frozenset(devices)
