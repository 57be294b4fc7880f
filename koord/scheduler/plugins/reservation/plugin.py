"""Reservation: places reservations like pods, and lets their owners into the room that they hold."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from koord.api.configuration.features import SchedulerGate
from koord.api.configuration.scheduler_args import ReservationArgs, is_extended_resource
from koord.api.kinds import PODS, RESERVATIONS, Kind
from koord.api.protocol import names
from koord.api.protocol.annotations.reservation import RESERVATION_ALLOCATED, ReservationAllocated
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.controller import Controller, Measure
from koord.scheduler.framework.exact_check import Door
from koord.scheduler.framework.judge import Judge, Refused
from koord.scheduler.framework.plugin import KeyedBy, Plugin, Taking
from koord.scheduler.framework.remedy import Remedy
from koord.scheduler.framework.stand_ins import StandIns
from koord.scheduler.framework.writes import Patch, PreBind, Step, Tell, Write
from koord.scheduler.plugins.reservation import lifecycle, service
from koord.scheduler.plugins.reservation.diagnosis import diagnosis
from koord.scheduler.plugins.reservation.judges import HolderJudge, OwnerJudge, Rooming
from koord.scheduler.plugins.reservation.keeper import Keeper
from koord.scheduler.plugins.reservation.kept_nodes import KeptNodes
from koord.scheduler.plugins.reservation.matching import RoomRequest
from koord.scheduler.plugins.reservation.pre_allocation import PreAllocation, PreAllocationJudge, why_not
from koord.scheduler.plugins.reservation.reserve_pod import reserve_pod
from koord.scheduler.plugins.reservation.room import Room
from koord.scheduler.plugins.reservation.rooms import Rooms
from koord.scheduler.plugins.reservation.selector_index import SelectorIndex
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.insiders import CameOutOf, StandsFor
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import Amounts
from koord.scheduler.state.stand_ins import is_stand_in
from koord.scheduler.state.table import Reason, Row
from koord.scheduler.state.view import View

if TYPE_CHECKING:
    from koord.scheduler.framework.engine import Engine

_OMITS_NODE_LABELS: Final = SchedulerGate.OMIT_NODE_LABELS_FOR_RESERVATION
_CLEANS: Final = SchedulerGate.CLEAN_EXPIRED_RESERVATION_ALLOCATED
_KEEPS_NODES: Final = SchedulerGate.RESERVATIONS_KEEP_NODES
NO_PREEMPTION: Final = "preemption: reservations evict no pods unless enablePreemption is set."


class Reservation(Plugin):
    name = "Reservation"
    notes: type[Notes] | None = Rooms
    controller: Controller
    wakes_on = Reason.NODE | Reason.ALLOCATABLE | Reason.LABELS | Reason.FREED | Reason.EXACT

    def __init__(self, args: ReservationArgs | None = None, gates: Mapping[SchedulerGate, bool] | None = None) -> None:
        self._args = args or ReservationArgs()
        self._gates = {
            gate: (gates or {}).get(gate, gate.default) for gate in (_OMITS_NODE_LABELS, _CLEANS, _KEEPS_NODES)
        }
        self._kept_nodes = KeptNodes()
        self._is_first = False
        self._roomings: WeakValueDictionary[tuple[RoomRequest, Amounts], Rooming] = WeakValueDictionary()
        "By wish and requests; kept by the judges of classes."
        self._taking_over: dict[str, tuple[int, object, PreAllocation, int]] = {}
        "Of the reservation that was asked about last: at which version of the table, and what it may take over."
        self._numbers = count()
        "No two answers have the same number: it is part of classes' keys, and so would they."

    def attach(self, cluster: Cluster) -> None:
        self._is_first = self._is_first or Rooms.name not in cluster.noting
        self.rooms = cluster.notes(Rooms)
        self._roomings.clear()
        self.keeper = Keeper(self.rooms, self._args, cleans=self._gates[_CLEANS])
        if self._is_first and not self.rooms.index.is_on:
            self.rooms.has_node_labels = not self._gates[_OMITS_NODE_LABELS]
            self.rooms.index = SelectorIndex(self._args.reservation_selector_index)
        self.stand_ins = ReservePods(self.rooms, self.keeper, lambda ask: self._pre_allocation(ask, cluster))
        self.controller = Controller(
            partial(self._writes, cluster), self._measures, service.services_of(self.rooms), decides=True
        )

    def takes(self) -> Iterable[Taking]:
        if not self._is_first:
            return ()
        rooms, keeper = self.rooms, self.keeper
        return (
            Taking(
                RESERVATIONS,
                rooms.put,
                rooms.remove,
                stand_in=lambda reservation: reserve_pod(keeper.as_held(reservation)),
            ),
            Taking(PODS, keeper.put_pod, keeper.remove_pod),
        )

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        """Owners may be named."""
        return KeyedBy.POD if self.rooms.lists else KeyedBy.LABELS

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        if is_stand_in(ask.meta.name):
            wanted = self._pre_allocation(ask, cluster)
            return self._of_stand_in(ask) if wanted is None else (self._of_stand_in(ask), wanted[1])
        wish = self.rooms.wish(ask)
        return None if wish is None else (wish, ask.requests)

    def _pre_allocation(self, ask: Ask, cluster: Cluster) -> tuple[PreAllocation, int] | None:
        """What a reservation may take over, as things are now, and a number for that."""
        reservation = self.rooms.of_stand_in(ask.meta)
        if reservation is None or not reservation.spec.pre_allocation or why_not(reservation):
            return None
        former = self._taking_over.get(ask.key)
        if former is None or former[0] != cluster.table.version or former[1] is not reservation:
            policy, args = reservation.spec.pre_allocation_policy, self._args.pre_allocation_config
            everywhere = policy is not None and policy.mode == "Cluster" and args.enable_cluster_mode
            marked = self.rooms.marked if everywhere else None
            for name, _ in ask.requests:
                cluster.resource(name)
            spares = args.prefer_no_pre_allocated_pods
            wanted = PreAllocation(reservation, ask.requests, cluster, marked, self.rooms.is_free, spares=spares)
            former = cluster.table.version, reservation, wanted, next(self._numbers)
            self._taking_over = {ask.key: former}
        return former[2], former[3]

    def _of_stand_in(self, ask: Ask) -> tuple[str, str, bool]:
        reservation = self.rooms.of_stand_in(ask.meta)
        policy = "" if reservation is None else reservation.spec.allocate_policy or ""
        takes = reservation is not None and reservation.spec.pre_allocation
        return policy, ask.meta.annotations.get(names.ANNOTATION_RESERVATION_NODE, ""), takes

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        if is_stand_in(ask.meta.name):
            reservation, wanted = self.rooms.of_stand_in(ask.meta), self._pre_allocation(ask, cluster)
            if reservation is not None and reservation.spec.pre_allocation and wanted is None:
                return Refused(why_not(reservation))
            policy, node = self._of_stand_in(ask)[:2]
            if wanted is None:
                return HolderJudge(policy, node, cluster)
            return PreAllocationJudge(wanted[0], policy, node, cluster)
        wish = self.rooms.wish(ask)
        if wish is None or wish.ignores:
            return None
        return OwnerJudge(self._rooming(ask, wish, cluster), cluster)

    def _rooming(self, ask: Ask, wish: RoomRequest, cluster: Cluster) -> Rooming:
        rooming = self._roomings.get((wish, ask.requests))
        if rooming is None:
            args = self._args
            ignored = frozenset(
                name
                for name, _ in ask.requests
                if is_extended_resource(name)
                and (name in args.ignored_resources or name.partition("/")[0] in args.ignored_resource_groups)
            )
            # Over how many cards a request is spread is no amount: nodes have none of it, nor do reservations.
            requests = tuple(request for request in ask.requests if request[0] != names.RESOURCE_GPU_SHARED)
            rooming = Rooming(cluster, self.rooms.matching(wish, ask.meta), requests, ignored)
            self._roomings[wish, ask.requests] = rooming
        return rooming

    def reserve(self, ask: Ask, row: Row, cluster: Cluster, checked: object) -> object:
        if is_stand_in(ask.meta.name):
            note, wanted = self.rooms.of(ask.pod), self._pre_allocation(ask, cluster)
            if wanted is None or not isinstance(note, StandsFor):
                return note
            pods = checked.holders if isinstance(checked, Door) else wanted[0].taken(row).pods
            return note._replace(takes=tuple((record.key, record.uid) for record in pods))
        wish = self.rooms.wish(ask)
        if wish is None or wish.ignores:
            return None
        if isinstance(checked, Door):
            room = self.rooms.of_holder(checked.holders[0]) if checked.holders else None
        else:
            room = self._rooming(ask, wish, cluster).chosen(row)
        return None if room is None else CameOutOf(room.terms.uid, room.name)

    def pre_bind(self, ask: Ask, row: Row, cluster: Cluster, note: object) -> Mapping[str, Any] | PreBind | None:
        key = RESERVATION_ALLOCATED.key
        if isinstance(note, CameOutOf):
            reservation = self.rooms.objects.get(note.uid)
            # Objects of manifests need not have a uid.
            uid = note.uid if reservation is None else reservation.metadata.uid
            allocated = RESERVATION_ALLOCATED.form.render(ReservationAllocated(note.name, uid))
            return {"metadata": {"annotations": {key: allocated}}}
        if isinstance(note, StandsFor):
            return PreBind(steps=self._steps(ask, note))
        # An attempt that came to nothing may have said something else.
        return {"metadata": {"annotations": {key: None}}} if key in ask.meta.annotations else None

    def _steps(self, ask: Ask, note: StandsFor) -> tuple[Step, ...]:
        """Pods that a reservation takes over say so."""
        reservation = self.rooms.of_stand_in(ask.meta)
        if reservation is None or not note.takes:
            return ()
        allocated = ReservationAllocated(reservation.metadata.name, reservation.metadata.uid)
        said = {RESERVATION_ALLOCATED.key: RESERVATION_ALLOCATED.form.render(allocated)}
        writes = []
        for key, uid in note.takes:
            namespace, _, name = key.partition("/")
            writes.append(Patch(PODS, name, {"metadata": {"uid": uid, "annotations": said}}, namespace))
        return (Step(self.name, lambda: tuple(writes)),)

    def post_filter(self, ask: Ask, engine: Engine) -> Remedy | None:
        if is_stand_in(ask.meta.name):
            # Its priority is the highest there is: it would have whole nodes emptied.
            return None if self._args.enable_preemption else Remedy(message=NO_PREEMPTION, clears=True, final=True)
        wish = self.rooms.wish(ask)
        if wish is None or wish.ignores:
            return None
        rules = self.rooms.matching(wish, ask.meta).rules

        def against(room: Room) -> Sequence[str]:
            return engine.words_against(ask, room.row)

        diagnosed = diagnosis(rules, self.rooms.usable(wish), self.rooms.node_labels, against)
        return Remedy(message=diagnosed.message, event=diagnosed.event) if diagnosed.message else None

    def _writes(self, cluster: Cluster) -> Iterable[Write | Tell]:
        """What Reservations are to say, of all profiles once."""
        if not self._is_first:
            return
        if self._gates[_KEEPS_NODES]:
            rooms = self.rooms
            yield from self._kept_nodes.writes(cluster, rooms.objects.values(), touched=bool(rooms.touched))
        yield from self.keeper.writes(cluster)

    def _measures(self) -> Iterable[Measure]:
        return chain(service.measures(self.rooms), self.rooms.index.measures()) if self._is_first else ()


class ReservePods(StandIns):
    """Pods that stand for reservations, and the views of owners. `pre_allocation`: what a reservation may take over."""

    def __init__(
        self, rooms: Rooms, keeper: Keeper, pre_allocation: Callable[[Ask], tuple[PreAllocation, int] | None]
    ) -> None:
        self._rooms, self._keeper, self._pre_allocation = rooms, keeper, pre_allocation

    def view(self, ask: Ask) -> View | None:
        wanted = self._pre_allocation(ask) if is_stand_in(ask.meta.name) else None
        if wanted is not None:
            return wanted[0].view
        wish = self._rooms.wish(ask)
        return None if wish is None else self._rooms.matching(wish, ask.meta).view

    def bind(self, ask: Ask, row: Row) -> Write | None:
        reservation, cluster = self._rooms.of_stand_in(ask.meta), self._rooms.cluster
        if reservation is None:
            return None
        return lifecycle.made_available(reservation, cluster.table.names[row], cluster.now_s)

    def object_of(self, ask: Ask) -> tuple[Kind[Any], Any] | None:
        reservation = self._rooms.of_stand_in(ask.meta)
        return None if reservation is None else (RESERVATIONS, reservation)

    def use_engines(self, engine_of: Callable[[Ask], Engine | None]) -> None:
        self._keeper.engine_of = engine_of
