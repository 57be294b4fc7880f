"""A room: what a reservation holds on its node, and what its owners use of it.

    left    = max(0, reserved - used)               held against everybody else
    lent    = max(0, reserved - used - inner)       what its owners see as free; `inner` is kept from them, too
    given   = min(reserved, used)                   counted with the owners already, so not twice

Amounts are by column of the table: `("requested", "cpu")`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

import msgspec

from koord.api.kubernetes.node import Taint
from koord.api.kubernetes.resources import amounts
from koord.api.machinery.faults import BadInput
from koord.api.machinery.struct import EMPTY
from koord.api.protocol.annotations.cpu import NODE_RESERVATION
from koord.api.protocol.annotations.reservation import RESERVATION_ORDER, RESERVATION_RESTRICTED_OPTIONS
from koord.api.protocol.crd.reservation import Reservation, ReservationPhase
from koord.scheduler.plugins.reservation.owners import OwnersId
from koord.scheduler.plugins.reservation.usable import fault_of
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Row

if TYPE_CHECKING:
    from koord.scheduler.plugins.reservation.matching import Matching

COUNT: Final = "pod count"
RESTRICTED: Final = "Restricted"
OPEN: Final = (ReservationPhase.AVAILABLE, ReservationPhase.WAITING)


class Terms(msgspec.Struct, frozen=True):
    """What a reservation says of the room."""

    name: str
    uid: str
    is_open: bool
    "Whether it is there to be used, as far as the object says."
    policy: str = ""
    once: bool = True
    unschedulable: bool = False
    "Or being deleted."
    taints: tuple[Taint, ...] = ()
    labels: Mapping[str, str] = EMPTY
    order: int = 0
    inner: Mapping[str, int] = EMPTY
    "What is reserved inside the reservation, by resource."
    restricted: frozenset[str] | None = None
    "Resources where owners get no more than is reserved; None: all reserved resources."
    fault: str = ""
    "Why it cannot be used; empty: it can."
    nothing_of: frozenset[str] = frozenset()
    "Resources that it reserves an amount of 0 of."


UNKNOWN: Final = Terms("", "", False)
"""Of a room whose reservation is not known, or not yet."""


def terms_of(reservation: Reservation) -> Terms:
    meta, spec = reservation.metadata, reservation.spec
    fault, order = fault_of(reservation), 0
    inner: Mapping[str, int] = EMPTY
    restricted: frozenset[str] | None = None
    nothing_of = frozenset[str]()
    try:
        nothing_of = frozenset(name for name, amount in amounts(reservation.status.allocatable).items() if not amount)
        order = RESERVATION_ORDER.read(meta, "Reservation")
        kept = NODE_RESERVATION.read(meta, "Reservation")
        if NODE_RESERVATION.is_on(meta):
            inner = {**amounts(kept.resources), **({"cpu": kept.cpu_milli} if kept.cpu_milli else {})}
        if spec.allocate_policy == RESTRICTED:
            restricted = frozenset(RESERVATION_RESTRICTED_OPTIONS.read(meta, "Reservation").resources) or None
    except BadInput as error:
        fault = fault or str(error)
    return Terms(
        meta.name,
        meta.uid or meta.name,
        reservation.status.phase in OPEN and bool(reservation.status.node_name),
        spec.allocate_policy or "",
        spec.allocate_once,
        spec.unschedulable or meta.deletion_timestamp is not None,
        spec.taints,
        meta.labels,
        order,
        inner,
        restricted,
        fault,
        nothing_of,
    )


@dataclass(slots=True, eq=False)
class Room:
    terms: Terms
    owners_id: OwnersId | None = None
    record: PodRecord | None = None
    "What holds it on its node."
    row: Row = -1
    full: dict[Hashable, int] = field(default_factory=dict)
    used: dict[Hashable, int] = field(default_factory=dict)
    "Of what is reserved, what owners ask for; that may be more."
    inner: dict[Hashable, int] = field(default_factory=dict)
    owners: dict[str, PodRecord] = field(default_factory=dict)
    "Those that are on its node."
    seen_by: WeakSet[Matching] = field(default_factory=WeakSet)
    is_counted: bool = False
    "Whether the table's columns count it, by its policy."

    @property
    def name(self) -> str:
        return self.terms.name

    @property
    def can_be_used(self) -> bool:
        """Whether it is there to be used by its owners: the next one, or at all."""
        terms = self.terms
        return self.record is not None and terms.is_open and not terms.fault and not (terms.once and bool(self.owners))

    def hold(self, record: PodRecord, row: Row) -> None:
        self.record, self.row = record, row
        self.full = {column: amount for column, amount in record.shape.gains if column != COUNT}
        self.used = dict.fromkeys(self.full, 0)
        self.owners = {}
        self.look_inside()

    def leave(self) -> None:
        self.record, self.row = None, -1
        self.full, self.used, self.inner, self.owners = {}, {}, {}, {}

    def look_inside(self) -> None:
        inner = self.terms.inner
        self.inner = {
            column: amount
            for column in self.full
            if isinstance(column, tuple) and (amount := inner.get(column[1], 0)) > 0
        }

    def moved(self, owner: PodRecord, sign: int) -> tuple[list[tuple[Hashable, int]], list[tuple[Hashable, int]]]:
        """An owner came to the node (+1), or left it (-1). How much more is given from now on, and how much more lent,
        of what the owner asks for."""
        used, full, inner = self.used, self.full, self.inner
        given: list[tuple[Hashable, int]] = []
        lent: list[tuple[Hashable, int]] = []
        for column, amount in owner.shape.gains:
            if amount and column in used:
                before, most = used[column], full[column]
                after = used[column] = before + sign * amount
                given.append((column, min(most, after) - min(most, before)))
                most -= inner.get(column, 0) if inner else 0
                lent.append((column, max(0, most - after) - max(0, most - before)))
        if sign > 0:
            self.owners[owner.key] = owner
        else:
            self.owners.pop(owner.key, None)
        return given, lent

    def given(self) -> Iterator[tuple[Hashable, int]]:
        used = self.used
        for column, amount in self.full.items():
            yield column, min(amount, used[column])

    def lent(self) -> Iterator[tuple[Hashable, int]]:
        used, inner = self.used, self.inner
        for column, amount in self.full.items():
            yield column, max(0, amount - used[column] - inner.get(column, 0))

    def lent_of(self, resource: str) -> int:
        column = ("requested", resource)
        return max(0, self.full.get(column, 0) - self.used.get(column, 0) - self.inner.get(column, 0))

    def capacity_of(self, resource: str) -> int:
        """What its owners may have of a resource in all."""
        column = ("requested", resource)
        return self.full.get(column, 0) - self.inner.get(column, 0)

    def used_of(self, resource: str) -> int:
        return self.used.get(("requested", resource), 0)

    def has(self, resource: str) -> bool:
        """Whether it reserves some of a resource."""
        return bool(self.full.get(("requested", resource)))

    def reserves(self, resource: str) -> bool:
        """Whether it says how much it reserves of a resource, if only that it is nothing."""
        return self.has(resource) or resource in self.terms.nothing_of

    @property
    def is_restricted(self) -> bool:
        return self.terms.policy == RESTRICTED

    def restricts(self, resource: str) -> bool:
        """Whether owners get no more of a resource than is reserved."""
        if not self.is_restricted or not self.reserves(resource):
            return False
        named = self.terms.restricted
        return named is None or resource in named or not any(self.reserves(name) for name in named)

    def tracks(self, resource: str) -> bool:
        """Whether it counts what owners use of a resource: of a Restricted one, only what it restricts."""
        return not self.is_restricted or self.restricts(resource)

    def resources(self) -> Iterable[tuple[str, int]]:
        """What is reserved, by resource."""
        for column, amount in self.full.items():
            if isinstance(column, tuple) and amount:
                yield column[1], amount
