"""Keeps Reservations up to date: which status must be written now, and which Reservations must be deleted.

It checks a reservation when something about it changed, when it expires, and from time to time after its end. A write
is not repeated until the object is received again, or something changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from koord.api.configuration.scheduler_args import ReservationArgs
from koord.api.kinds import PODS, RESERVATIONS
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts
from koord.api.machinery.struct import EMPTY
from koord.api.protocol import names
from koord.api.protocol.annotations.reservation import RESERVATION_ALLOCATED, RESERVATION_RESIZE_ALLOCATABLE
from koord.api.protocol.crd.reservation import Reservation
from koord.api.text.quantity import ResourceList
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.writes import Patch, Tell, Write
from koord.scheduler.plugins.reservation import lifecycle
from koord.scheduler.plugins.reservation.giving_back import given_back
from koord.scheduler.plugins.reservation.growing import Growth, as_grown, grown, lacks
from koord.scheduler.plugins.reservation.lifecycle import NODE_GONE_S, Owner, Surroundings
from koord.scheduler.plugins.reservation.operating import is_operating, owner_write
from koord.scheduler.plugins.reservation.owners import came_out_of
from koord.scheduler.plugins.reservation.reserve_pod import ENDED, reserve_pod
from koord.scheduler.plugins.reservation.rooms import Rooms
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Row

if TYPE_CHECKING:
    from koord.scheduler.framework.engine import Engine


RESIZED: Final = "Resized"


class _Size(NamedTuple):
    """What a reservation is to say of its size."""

    reserved: ResourceList | None = None
    "None: as it says."
    said: Mapping[str, str | None] = EMPTY
    "Annotations about what it holds."
    pending: str | None = None
    "Why it does not have the requested size; empty: it does, or will; None: unknown."


class _Refused(NamedTuple):
    """A reservation that cannot grow on its node."""

    target: ResourceList
    row: Row
    at: int
    "After which change of the row."
    why: str


class Keeper:
    def __init__(self, rooms: Rooms, args: ReservationArgs, *, cleans: bool = False) -> None:
        """`cleans`: whether pods no longer say that they came out of a reservation which was deleted."""
        self._rooms, self._args, self._cleans = rooms, args, cleans
        self._owners: dict[str, dict[str, Owner]] = {}
        "By uid of reservation and key of pod, pods on nodes that came out of it."
        self._reservation_of: dict[str, str] = {}
        "By key of pod."
        self._operating: dict[str, Pod] = {}
        "By uid, pods that hold their room for another."
        self._sent: dict[str, tuple[object, object]] = {}
        self._due: list[tuple[float, str]] = []
        self._due_of: dict[str, float] = {}
        "By uid, when it is checked again, whatever happens."
        self._missing_since_s: dict[str, float] = {}
        self.engine_of: Callable[[Ask], Engine | None] = lambda ask: None
        "A lookup from pod to the engine that schedules it."
        self._growing: dict[str, Growth] = {}
        "By uid, what reservations have been given, until their objects may say so."
        self._refused: dict[str, _Refused] = {}
        "By uid, the reservations that were asked to grow and cannot."

    def as_held(self, reservation: Reservation) -> Reservation:
        """A reservation with all that it has been given."""
        return as_grown(reservation, self._growing.get(reservation.metadata.uid or reservation.metadata.name))

    def put_pod(self, pod: Pod) -> None:
        if names.LABEL_OPERATING_MODE in pod.metadata.labels or pod.metadata.uid in self._operating:
            self._put_operating(pod)
        key, uid = pod.metadata.key, came_out_of(pod)
        self._mark(pod)
        before = self._reservation_of.get(key)
        if before is not None and before != uid:
            self._leave(key, before)
        if uid:
            owner = Owner.of(pod)
            if self._owners.setdefault(uid, {}).get(key) != owner:
                self._owners[uid][key] = owner
                self._reservation_of[key] = uid
                self._rooms.touched.add(uid)

    def _mark(self, pod: Pod) -> None:
        config, meta, marked = self._args.pre_allocation_config, pod.metadata, self._rooms.marked
        if meta.labels.get(config.cluster_label_key) == "true" and not pod.is_finished:
            try:
                marked[meta.key] = int(meta.annotations.get(config.cluster_priority_annotation_key, "0"))
            except ValueError:
                marked[meta.key] = 0
        elif marked:
            marked.pop(meta.key, None)

    def _put_operating(self, pod: Pod) -> None:
        self._rooms.put_pod(pod)
        uid = pod.metadata.uid
        if is_operating(pod):
            self._operating[uid] = pod
            self._rooms.touched.add(uid)
        else:
            self._operating.pop(uid, None)

    def remove_pod(self, pod: Pod) -> None:
        self._rooms.marked.pop(pod.metadata.key, None)
        if self._operating.pop(pod.metadata.uid, None) is not None:
            self._rooms.remove_pod(pod)
        before = self._reservation_of.get(pod.metadata.key)
        if before is not None:
            self._leave(pod.metadata.key, before)

    def owners(self, uid: str) -> list[Owner]:
        """Pods that use a reservation, as the API server has them."""
        return list(self._owners.get(uid, {}).values())

    def _leave(self, key: str, uid: str) -> None:
        del self._reservation_of[key]
        owners = self._owners[uid]
        del owners[key]
        if not owners:
            del self._owners[uid]
        self._rooms.touched.add(uid)

    def writes(self, cluster: Cluster) -> Iterator[Write | Tell]:
        now_s, rooms = cluster.now_s, self._rooms
        while self._due and self._due[0][0] <= now_s:
            due_s, uid = heappop(self._due)
            if self._due_of.get(uid) == due_s:
                del self._due_of[uid]
                rooms.touched.add(uid)
        for uid, refused in self._refused.items():
            if refused.at != cluster.table.last_change(refused.row):
                rooms.touched.add(uid)
        removed, rooms.removed = rooms.removed, []
        for uid in removed if self._cleans else ():
            yield from (_cleaned(owner) for owner in self.owners(uid))
        touched, rooms.touched = rooms.touched, set()
        for uid in sorted(touched):
            operating = self._operating.get(uid)
            if operating is not None:
                write = owner_write(operating, self.owners(uid))
                if write is not None and self._sent.get(uid) != (operating, write):
                    self._sent[uid] = operating, write
                    yield write
                continue
            reservation = rooms.objects.get(uid)
            if reservation is None:
                for memo in (self._sent, self._missing_since_s, self._due_of, self._growing, self._refused):
                    memo.pop(uid, None)
                continue
            with cluster.shield.about("keep its status", RESERVATIONS, reservation.metadata):
                yield from list(self._look(uid, reservation, cluster, now_s))

    def _look(self, uid: str, reservation: Reservation, cluster: Cluster, now_s: float) -> Iterator[Write | Tell]:
        node = reservation.status.node_name
        if reservation.status.phase in ENDED:
            is_gone = bool(node) and self._is_gone(uid, node, cluster, now_s)
            yield from self._end(uid, reservation, now_s, is_gone=is_gone)
            return
        if not node:
            fault = self._rooms.all[uid].terms.fault
            wanted = lifecycle.status_of_unusable(reservation, fault, now_s) if fault else {}
            if wanted and self._sent.get(uid) != (reservation, fault):
                self._sent[uid] = reservation, fault
                yield lifecycle.status_patch(reservation, wanted)
            return
        is_gone = self._is_gone(uid, node, cluster, now_s)
        size = self._size(uid, reservation, cluster)
        around = Surroundings(self.owners(uid), is_gone, size.reserved, size.pending)
        wanted = lifecycle.status_of(reservation, around, now_s)
        due_s = lifecycle.expires_s(reservation)
        if due_s is not None:
            # Just after: at that very moment, it has not expired.
            self._look_at(uid, max(due_s, now_s) + 0.001)
        said = size.said or self._given_back(uid, reservation, cluster)
        if (wanted or said) and self._sent.get(uid) != (reservation, (wanted, said)):
            self._sent[uid] = reservation, (wanted, said)
            if wanted:
                yield lifecycle.status_patch(reservation, wanted)
            if said:
                yield lifecycle.annotated(reservation, said)
            if size.pending and "conditions" in wanted:
                yield Tell(RESERVATIONS, reservation, lifecycle.RESIZE_PENDING, size.pending, "Warning")
            if "allocatable" in wanted and size.reserved is not None:
                resized = f"reserves {lifecycle.in_words(size.reserved)} from now on"
                yield Tell(RESERVATIONS, reservation, RESIZED, resized)
        elif not (wanted or said):
            self._sent.pop(uid, None)

    def _size(self, uid: str, reservation: Reservation, cluster: Cluster) -> _Size:
        """What a reservation should reserve and hold after a resize request."""
        target, room, meta = lifecycle.target_of(reservation), self._rooms.all[uid], reservation.metadata
        if target is None:
            self._growing.pop(uid, None)
            self._refused.pop(uid, None)
            return _Size(pending=lifecycle.resize_fault(reservation))
        has, wants = amounts(reservation.status.allocatable), amounts(target)
        growth = self._growing.get(uid)
        if growth is not None and growth.target != wants:
            growth = self._growing.pop(uid, None) and None
        if room.record is None:
            return _Size()
        if growth is None:
            more = any(amount > has.get(name, 0) for name, amount in wants.items())
            if not more and not lacks(room, tuple(sorted(wants.items())), meta.annotations):
                self._refused.pop(uid, None)
                return _Size(target, pending="")
            why = self._grow(uid, reservation, target, cluster)
            if why:
                return _Size(pending=f"cannot be resized to {lifecycle.in_words(target)}: {why}")
            growth = self._growing[uid]
        if not growth.is_said(meta):
            return _Size(said=growth.said)
        if wants == has:
            del self._growing[uid]
        return _Size(target, pending="")

    def _grow(self, uid: str, reservation: Reservation, target: ResourceList, cluster: Cluster) -> str:
        """Have a reservation hold more, or say why it cannot."""
        room, table = self._rooms.all[uid], cluster.table
        refused = self._refused.get(uid)
        if refused is not None and refused.target == target and refused.at == table.last_change(room.row):
            return refused.why
        engine = self.engine_of(Ask(reserve_pod(reservation)))
        resized = (
            "no profile of this scheduler decides about it"
            if engine is None
            else grown(reservation, target, room, engine)
        )
        if isinstance(resized, str):
            # What was tried out touched it.
            self._rooms.touched.discard(uid)
            self._refused[uid] = _Refused(target, room.row, table.last_change(room.row), resized)
            return resized
        self._refused.pop(uid, None)
        self._growing[uid] = resized
        return ""

    def _given_back(self, uid: str, reservation: Reservation, cluster: Cluster) -> Mapping[str, str | None]:
        """What a reservation that was made smaller has to say of its CPUs and devices."""
        meta = reservation.metadata
        if not RESERVATION_RESIZE_ALLOCATABLE.is_on(meta):
            return {}
        return given_back(self._rooms.all[uid], meta.annotations, cluster)

    def _end(self, uid: str, reservation: Reservation, now_s: float, *, is_gone: bool) -> Iterator[Write]:
        self._sent.pop(uid, None)
        args = self._args
        if args.disable_garbage_collection:
            return
        if lifecycle.is_garbage(reservation, now_s, node_is_gone=is_gone, kept_s=args.gc_duration_seconds):
            yield lifecycle.deleted(reservation)
        self._look_at(uid, now_s + args.gc_interval_seconds)

    def _is_gone(self, uid: str, node: str, cluster: Cluster, now_s: float) -> bool:
        """Whether a node has been missing for a while: objects of one kind may arrive before those of another."""
        if node in cluster.table.row_of:
            self._missing_since_s.pop(uid, None)
            return False
        since_s = self._missing_since_s.setdefault(uid, now_s)
        if now_s - since_s < NODE_GONE_S:
            self._look_at(uid, since_s + NODE_GONE_S)
            return False
        return True

    def _look_at(self, uid: str, time_s: float) -> None:
        """Look at a reservation then, or before."""
        if time_s < self._due_of.get(uid, inf):
            self._due_of[uid] = time_s
            heappush(self._due, (time_s, uid))


def _cleaned(owner: Owner) -> Patch:
    body = {"metadata": {"uid": owner.uid, "annotations": {RESERVATION_ALLOCATED.key: None}}}
    return Patch(PODS, owner.name, body, owner.namespace)
