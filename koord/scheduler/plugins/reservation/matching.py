"""Which rooms pods of one kind may use, and why not the others.

A `RoomRequest` is what matters of a pod: the owner lists that it is on, and its annotations about reservations. Pods
with equal requests see the same rooms, by one `Matching`: its view shows lent room as free, and stand-ins as absent.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from koord.api.kubernetes.node import Taint
from koord.api.kubernetes.pod import Toleration
from koord.api.kubernetes.taints import untolerated
from koord.api.kubernetes.words import TaintEffect, TaintKey
from koord.api.protocol.annotations.reservation import (
    EXACT_MATCH_RESERVATION,
    RESERVATION_AFFINITY,
    RESERVATION_IGNORED,
    ReservationAffinity,
)
from koord.api.text.selector import NodeMatcher, compile_nodes
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.reservation.owners import OwnerLists, OwnersId
from koord.scheduler.plugins.reservation.room import COUNT, Room
from koord.scheduler.state.pods import Amounts, PodRecord
from koord.scheduler.state.table import Reason, Row
from koord.scheduler.state.view import View

if TYPE_CHECKING:
    from koord.scheduler.state.cluster import Cluster

HARD: Final = ("NoSchedule", "NoExecute")
UNSCHEDULABLE: Final = Taint(TaintKey("node.kubernetes.io/unschedulable"), TaintEffect("NoSchedule"))
_EXACT: Final = int(Reason.EXACT)


class Mismatch(Enum):
    """Why a pod cannot use a room, in the order of the checks. Users see the words."""

    OWNERS = ""
    NAME = "didn't match the requested reservation name"
    UNSCHEDULABLE = "is unschedulable"
    TAINT = "had untolerated taint"
    AFFINITY = "didn't match affinity rules"
    EXACT = "is not exact matched"


class RoomRequest(NamedTuple):
    """What matters of a pod."""

    lists: frozenset[OwnersId]
    affinity: str | None = None
    "As the pod has it; None where it has none. A pod that has one must come out of a reservation."
    exact: tuple[str, ...] = ()
    "Resources where its request must equal what is reserved."
    requests: Amounts = ()
    "What it asks for, where that matters."
    ignores: bool = False
    "Whether it takes what is reserved for others as free."


def wish_of(ask: Ask, lists: OwnerLists) -> RoomRequest | None:
    """None where reservations mean nothing to a pod. Raises `AnnotationError` where it cannot be understood."""
    meta = ask.meta
    if RESERVATION_IGNORED.key in meta.labels and RESERVATION_IGNORED.read(meta):
        return RoomRequest(frozenset(), ignores=True)
    lists_with_pod = lists.of(meta)
    affinity, exact = None, tuple[str, ...]()
    if meta.annotations:
        affinity = meta.annotations.get(RESERVATION_AFFINITY.key)
        if EXACT_MATCH_RESERVATION.key in meta.annotations:
            exact = EXACT_MATCH_RESERVATION.read(meta).resource_names
    if affinity is None and not lists_with_pod:
        return None
    if affinity is not None:
        RESERVATION_AFFINITY.read(meta)
    return RoomRequest(lists_with_pod, affinity, exact, ask.requests if exact else ())


class Rules:
    """What a wish comes to, ready to be compared with rooms."""

    def __init__(self, wish: RoomRequest, affinity: ReservationAffinity | None) -> None:
        self.wish, self.must = wish, affinity is not None
        self.name = affinity.name if affinity is not None else ""
        self.tolerations: tuple[Toleration, ...] = affinity.tolerations if affinity is not None else ()
        self.selector: Mapping[str, str] = affinity.reservation_selector if affinity is not None else {}
        required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
        self._terms: tuple[NodeMatcher, ...] | None = None
        if required is not None:
            self._terms = tuple(compile_nodes(term) for term in required.reservation_selector_terms)
        self._asked = dict(wish.requests)

    def mismatch(self, room: Room, node_labels: Mapping[str, str]) -> Mismatch | None:
        """Why a pod cannot use a room; None where it can."""
        wish, terms = self.wish, room.terms
        if wish.ignores:
            return None
        if room.owners_id not in wish.lists:
            return Mismatch.OWNERS
        if self.name:
            if self.name != terms.name:
                return Mismatch.NAME
            return None if self._is_exact(room) else Mismatch.EXACT
        if terms.unschedulable and untolerated((UNSCHEDULABLE,), self.tolerations, HARD) is not None:
            return Mismatch.UNSCHEDULABLE
        if self.taint(room) is not None:
            return Mismatch.TAINT
        if not self._selects(room, node_labels):
            return Mismatch.AFFINITY
        return None if self._is_exact(room) else Mismatch.EXACT

    def taint(self, room: Room) -> Taint | None:
        """The first taint of a room that keeps the pod out."""
        return untolerated(room.terms.taints, self.tolerations, HARD) if room.terms.taints else None

    def _selects(self, room: Room, node_labels: Mapping[str, str]) -> bool:
        """As if the room were a node, which has its own labels over those of its node."""
        if not self.selector and self._terms is None:
            return True
        labels = {**node_labels, **room.terms.labels}
        if any(labels.get(key) != value for key, value in self.selector.items()):
            return False
        return self._terms is None or any(matcher.matches(labels, room.name) for matcher in self._terms)

    def _is_exact(self, room: Room) -> bool:
        """Whether the pod asks for exactly what is reserved, of the resources that it names."""
        return all(self._asked.get(name, 0) == room.full.get(("requested", name), 0) for name in self.wish.exact)


class Matching:
    """The rooms that pods with the same request may use. Code that changes rooms keeps it up to date."""

    def __init__(self, rules: Rules, cluster: Cluster) -> None:
        self.rules, self._cluster = rules, cluster
        self.view = RoomView(cluster, self)
        self.at: dict[Row, list[Room]] = {}
        self.first: Room | None = None
        "The one with the lowest order, of those that have one."
        self.number = 0
        self._given_back: dict[str, list[tuple[Hashable, int]]] = {}

    def enter(self, room: Room) -> None:
        """A room can be used from now on."""
        assert room.record is not None
        here = self.at.setdefault(room.row, [])
        here.append(room)
        here.sort(key=lambda room: room.name)
        room.seen_by.add(self)
        self.number += 1
        self.view.hide(room.record, room.row)
        self.view.add(COUNT, room.row, -1)
        self._noted(room.record, room.row)
        self.lends(room, room.lent(), +1)
        if room.terms.order:
            self._find_first()

    def leave(self, room: Room, lent: Mapping[Hashable, int]) -> None:
        """A room cannot be used any more; `lent` of it was lent."""
        assert room.record is not None
        here = self.at[room.row]
        here.remove(room)
        if not here:
            del self.at[room.row]
        room.seen_by.discard(self)
        self.number -= 1
        self.view.show(room.record, room.row)
        self.view.add(COUNT, room.row, +1)
        for column, amount in self._given_back.pop(room.record.key, ()):
            self.view.add(column, room.row, amount)
        self.lends(room, lent.items(), -1)
        if self.first is room:
            self._find_first()

    def recounted(self, room: Room) -> None:
        """Its owners are others: so is what plugins count for the rest of it."""
        assert room.record is not None
        self._noted(room.record, room.row)

    def _noted(self, record: PodRecord, row: Row) -> None:
        """Give back what plugins count for a room, its devices for example; what owners have counts with them."""
        noting = self._cluster.noting
        cells: list[tuple[Hashable, int]] = []
        for name, _ in record.notes:
            notes = noting.get(name)
            if notes is not None and (note := notes.counts_as(record, row)) is not None:
                cells += notes.cells(note, row)
        before = self._given_back.pop(record.key, ())
        if cells:
            self._given_back[record.key] = cells
        if cells == before:
            return
        for column, amount in before:
            self.view.add(column, row, amount)
        for column, amount in cells:
            self.view.add(column, row, -amount)

    def lends(self, room: Room, lent: Iterable[tuple[Hashable, int]], sign: int) -> None:
        for column, amount in lent:
            self.view.add(column, room.row, -sign * amount)

    def _find_first(self) -> None:
        before = self.first
        ordered = [room for here in self.at.values() for room in here if room.terms.order]
        self.first = min(ordered, key=lambda room: (room.terms.order, room.name), default=None)
        for room in (before, self.first):
            if room is not None and room.row >= 0 and before is not self.first:
                self._cluster.table.touch(room.row, _EXACT)


class RoomView(View):
    """A view that keeps its owner alive."""

    def __init__(self, cluster: Cluster, matching: Matching) -> None:
        super().__init__(cluster)
        self.matching = matching
