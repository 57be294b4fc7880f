"""All rooms of a cluster, and who may use them: made from Reservations and pods alone, in whatever order they come.

A note says either that a pod stands for a reservation, or which reservation a pod came out of. What an owner uses of a
room is counted with the owner, and subtracted from the room: so nothing counts twice, and the unused part stays held.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import ClassVar, Final
from weakref import WeakValueDictionary

import numpy as np

from koord.api.configuration.scheduler_args import ReservationSelectorIndex
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.protocol.annotations.reservation import (
    RESERVATION_AFFINITY,
    RESERVATION_ALLOCATED,
    RESERVATION_OWNERS,
)
from koord.api.protocol.crd.reservation import Reservation
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.reservation.matching import Matching, RoomRequest, Rules, wish_of
from koord.scheduler.plugins.reservation.operating import is_operating, operating_terms
from koord.scheduler.plugins.reservation.owners import OwnerLists, Owners, OwnersId, faults
from koord.scheduler.plugins.reservation.room import UNKNOWN, Room, Terms, terms_of
from koord.scheduler.plugins.reservation.selector_index import SelectorIndex
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.insiders import NAME, CameOutOf, StandsFor, room_note
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.stand_ins import is_stand_in
from koord.scheduler.state.table import Column, Reason, Row

PLAIN: Final = ("reservations", "Default")
STRICTER: Final = ("reservations", "other policies")
"""Columns: how many rooms of a policy a node has that can be used."""


class Rooms(Notes):
    name: ClassVar[str] = NAME

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.all: dict[str, Room] = {}
        "By uid."
        self.objects: dict[str, Reservation] = {}
        "By uid; those of all rooms but of pods that are rooms themselves."
        self.lists = OwnerLists()
        self.touched: set[str] = set()
        "Reservations that changed since this set was last read: their status may have to say so."
        self.unmeasured: dict[str, str] = {}
        "By uid, the names of reservations that changed since the last measurement."
        self.measured: dict[str, tuple[str, ...]] = {}
        self.index = SelectorIndex(ReservationSelectorIndex())
        self.has_node_labels = True
        "Whether the labels of a node are those of its rooms, too."
        self.opened: set[str] = set()
        "Uids of rooms whose terms or owners changed, and that can be used, since this set was last read."
        self.removed: list[str] = []
        "Uids of reservations that were deleted since this list was last read."
        self.marked: dict[str, int] = {}
        "Pods that any reservation may take over, by key, with their priorities for that."
        self._operating: set[str] = set()
        "Uids of pods that are rooms themselves."
        self._by_name: dict[str, str] = {}
        self._on: dict[Row, dict[str, Room]] = {}
        self._users: dict[str, dict[str, tuple[PodRecord, Row]]] = {}
        "By uid, the pods that came out of it, whether it exists or not."
        self._rooms_of: dict[OwnersId, dict[str, Room]] = {}
        "By list of owners."
        self._last: tuple[Ask | None, int, RoomRequest | None] = None, -1, None
        "The pod whose request was computed last, when, and the request."
        self._matchings: WeakValueDictionary[RoomRequest, Matching] = WeakValueDictionary()
        for column in (PLAIN, STRICTER):
            cluster.table.declare(Column(column, np.int64, Reason.EXACT))

    # Reservations, as the API server has them.

    def put(self, reservation: Reservation) -> None:
        uid = reservation.metadata.uid or reservation.metadata.name
        before = self._by_name.get(reservation.metadata.name)
        if before is not None and before != uid:
            self._forget(before)
        self._by_name[reservation.metadata.name] = uid
        self.objects[uid] = reservation
        self._touch(uid, reservation.metadata.name)
        self._says(uid, terms_of(reservation), reservation.spec.owners)

    def _says(self, uid: str, terms: Terms, owners: Owners) -> None:
        """What is said of a room, and whose it is."""
        room = self._room(uid)
        is_same = room.owners_id is not None and self.lists.is_list(room.owners_id, owners)
        if room.terms == terms and is_same:
            return
        self._close(room)
        room.terms = terms
        room.look_inside()
        self._list(room, None if terms.fault else self.lists.put(owners))
        self._open(room)
        if room.can_be_used:
            self.opened.add(uid)
            self.cluster.may_ease = True

    def put_pod(self, pod: Pod) -> None:
        """A pod may be a room itself, for the pod that takes its place."""
        meta = pod.metadata
        uid = meta.uid or meta.key
        if not is_operating(pod):
            self._operates_no_more(uid)
            return
        self._operating.add(uid)
        try:
            owners, fault = RESERVATION_OWNERS.read(meta), ""
        except BadInput as error:
            owners, fault = (), str(error)
        self._says(uid, operating_terms(pod, fault or faults(owners)), owners)

    def is_free(self, record: PodRecord) -> bool:
        """Whether a pod neither uses a reservation nor is one."""
        return not is_stand_in(record.key) and all(name != self.name for name, _ in record.notes)

    def remove_pod(self, pod: Pod) -> None:
        self._operates_no_more(pod.metadata.uid or pod.metadata.key)

    def _operates_no_more(self, uid: str) -> None:
        if uid in self._operating:
            self._operating.discard(uid)
            self._unsaid(uid)

    def remove(self, reservation: Reservation) -> None:
        uid = reservation.metadata.uid or reservation.metadata.name
        if uid in self.objects:
            self._forget(uid)

    def on(self, row: Row) -> list[Room]:
        """The rooms of a node."""
        return list(self._on.get(row, {}).values())

    def _touch(self, uid: str, name: str) -> None:
        if uid in self.objects:
            self.touched.add(uid)
            self.unmeasured[uid] = name

    def named(self, name: str) -> Room | None:
        uid = self._by_name.get(name)
        return None if uid is None else self.all.get(uid)

    def of_holder(self, record: PodRecord) -> Room | None:
        """The room that a pod holds."""
        about = room_note(record)
        return self.all.get(about.uid) if isinstance(about, StandsFor) else None

    def of_stand_in(self, meta: ObjectMeta) -> Reservation | None:
        """The reservation that a pod stands for."""
        if not is_stand_in(meta.name):
            return None
        return self.objects.get(meta.uid or meta.annotations.get(names.ANNOTATION_RESERVATION_NAME, ""))

    # Pods, and what stands for reservations.

    def by_name(self, pod: Pod) -> bool:
        return is_stand_in(pod.metadata.name) or is_operating(pod)

    def of(self, pod: Pod) -> object | None:
        meta = pod.metadata
        if is_stand_in(meta.name):
            return StandsFor(meta.uid or meta.annotations.get(names.ANNOTATION_RESERVATION_NAME, ""))
        if is_operating(pod):
            return StandsFor(meta.uid or meta.key)
        # What a pod that waits says is of an attempt that came to nothing.
        if not pod.spec.node_name or RESERVATION_ALLOCATED.key not in meta.annotations:
            return None
        try:
            allocated = RESERVATION_ALLOCATED.read(meta)
        except BadInput:
            return None
        if allocated is None or not (allocated.uid or allocated.name):
            return None
        return CameOutOf(allocated.uid or allocated.name, allocated.name)

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        if isinstance(note, StandsFor):
            self._held(note.uid, record, row, sign)
            return
        assert isinstance(note, CameOutOf)
        users = self._users.setdefault(note.uid, {})
        if sign > 0:
            users[record.key] = record, row
        else:
            users.pop(record.key, None)
            if not users:
                del self._users[note.uid]
        room = self.all.get(note.uid)
        if room is not None and room.record is not None and room.row == row:
            self._used(room, record, sign)

    def recounted(self, row: Row) -> None:
        """What a room has of CPUs and devices is lent otherwise."""
        self.node_put(row)

    def node_put(self, row: Row) -> None:
        """Labels of a node are those of its rooms, too."""
        for room in list(self._on.get(row, {}).values()):
            self._close(room)
            self._open(room)

    # Who may use what.

    def wish(self, ask: Ask) -> RoomRequest | None:
        """What matters of a pod; None where reservations mean nothing to it. Asked several times for each placement."""
        if not self.lists and not ask.meta.annotations and names.LABEL_RESERVATION_IGNORED not in ask.meta.labels:
            return None
        former, version, wish = self._last
        if former is not ask or version != self.lists.version:
            wish = None if is_stand_in(ask.meta.name) else wish_of(ask, self.lists)
            self._last = ask, self.lists.version, wish
        return wish

    def matching(self, wish: RoomRequest, meta: ObjectMeta) -> Matching:
        """`meta`: of any pod with this wish."""
        matching = self._matchings.get(wish)
        if matching is None:
            affinity = None if wish.affinity is None else RESERVATION_AFFINITY.read(meta)
            matching = self._matchings[wish] = Matching(Rules(wish, affinity), self.cluster)
            listed = self.index.candidates(matching.rules.selector)
            for room in self.usable(wish) if listed is None else listed:
                if matching.rules.mismatch(room, self.node_labels(room)) is None:
                    matching.enter(room)
        return matching

    def usable(self, wish: RoomRequest) -> list[Room]:
        """Rooms of the owners' lists that pods of a wish are on, and that can be used."""
        return [room for room in self._concerned(wish) if room.can_be_used]

    def _concerned(self, wish: RoomRequest) -> Iterable[Room]:
        if wish.ignores:
            return list(self.all.values())
        return [room for id_ in wish.lists for room in self._rooms_of.get(id_, {}).values()]

    def node_labels(self, room: Room) -> dict[str, str]:
        node = self.cluster.nodes.get(room.row) if self.has_node_labels else None
        return {} if node is None else dict(node.metadata.labels)

    def _room(self, uid: str) -> Room:
        room = self.all.get(uid)
        if room is None:
            room = self.all[uid] = Room(UNKNOWN)
        return room

    def _forget(self, uid: str) -> None:
        reservation = self.objects.pop(uid)
        if self._by_name.get(reservation.metadata.name) == uid:
            del self._by_name[reservation.metadata.name]
        self.touched.discard(uid)
        self.removed.append(uid)
        self.unmeasured[uid] = reservation.metadata.name
        self._unsaid(uid)

    def _unsaid(self, uid: str) -> None:
        """Nothing is said of a room any more."""
        room = self.all[uid]
        self._close(room)
        self._list(room, None)
        room.terms = UNKNOWN
        self.opened.discard(uid)
        self._forget_empty(uid)

    def _forget_empty(self, uid: str) -> None:
        if uid not in self.objects and uid not in self._operating and self.all[uid].record is None:
            del self.all[uid]

    def _list(self, room: Room, id_: OwnersId | None) -> None:
        """A room has another list of owners."""
        before, uid = room.owners_id, room.terms.uid
        if id_ is not None:
            self._rooms_of.setdefault(id_, {})[uid] = room
        room.owners_id = id_
        if before is not None:
            if before != id_:
                here = self._rooms_of[before]
                del here[uid]
                if not here:
                    del self._rooms_of[before]
            self.lists.drop(before)

    def _held(self, uid: str, record: PodRecord, row: Row, sign: int) -> None:
        room = self._room(uid)
        self._touch(uid, room.name)
        if sign > 0:
            room.hold(record, row)
            self._on.setdefault(row, {})[uid] = room
            for user, where in self._users.get(uid, {}).values():
                if where == row:
                    room.moved(user, +1)
            self._give(room, room.given(), +1)
            self._open(room)
            return
        self._close(room)
        self._give(room, room.given(), -1)
        here = self._on[row]
        del here[uid]
        if not here:
            del self._on[row]
        room.leave()
        self._forget_empty(uid)

    def _used(self, room: Room, owner: PodRecord, sign: int) -> None:
        self._touch(room.terms.uid, room.name)
        if room.terms.once or not room.can_be_used:
            self._close(room)
            self._give(room, room.given(), -1)
            room.moved(owner, sign)
            self._give(room, room.given(), +1)
            self._open(room)
            return
        given, lent = room.moved(owner, sign)
        self._give(room, given, +1)
        for matching in room.seen_by:
            matching.lends(room, lent, +1)
            matching.recounted(room)

    def _give(self, room: Room, given: Iterable[tuple[Hashable, int]], sign: int) -> None:
        for column, amount in given:
            self.cluster.table.add(column, room.row, -sign * amount)

    def _open(self, room: Room) -> None:
        """Make a room visible to the pods that may use it."""
        if not room.can_be_used:
            return
        labels = self.node_labels(room)
        for matching in list(self._matchings.values()):
            wish = matching.rules.wish
            if (wish.ignores or room.owners_id in wish.lists) and matching.rules.mismatch(room, labels) is None:
                matching.enter(room)
        self.index.put(room, {**labels, **room.terms.labels})
        self.cluster.table.add(STRICTER if room.terms.policy else PLAIN, room.row, +1)
        room.is_counted = True

    def _close(self, room: Room) -> None:
        """Hide a room from all pods."""
        self.index.remove(room)
        lent = dict(room.lent())
        for matching in list(room.seen_by):
            matching.leave(room, lent)
        if room.is_counted:
            self.cluster.table.add(STRICTER if room.terms.policy else PLAIN, room.row, -1)
            room.is_counted = False
