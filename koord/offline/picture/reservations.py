"""Reservations: what each holds on the node, a bar for how much of it is used, and by whom."""

from __future__ import annotations

from typing import Final

import msgspec

from koord.api.kubernetes.resources import amounts
from koord.api.protocol.crd.reservation import Reservation
from koord.offline.picture.section import Line, Section, Seen, Span
from koord.scheduler.plugins.reservation.room import OPEN

WIDTH: Final = 10


class ReservationFigures(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    percent: int
    "Used, of the resource that is used most."
    allocatable: dict[str, str]
    allocated: dict[str, str]
    pods: tuple[str, ...]


def reservations(seen: Seen) -> Section | None:
    held = [each for each in seen.reservations if each.status.phase in OPEN]
    if not held:
        return None
    found = [_figures(each) for each in sorted(held, key=lambda each: each.metadata.name)]
    return Section("reservations", "used of each", tuple(_line(each) for each in found), {"reservations": found})


def _figures(reservation: Reservation) -> ReservationFigures:
    status = reservation.status
    has, used = amounts(status.allocatable), amounts(status.allocated)
    return ReservationFigures(
        reservation.metadata.name,
        max((used.get(name, 0) * 100 // amount for name, amount in has.items() if amount), default=0),
        {name: str(amount) for name, amount in status.allocatable.items()},
        {name: str(amount) for name, amount in status.allocated.items()},
        tuple(f"{each.namespace}/{each.name}" for each in status.current_owners),
    )


def _line(each: ReservationFigures) -> Line:
    full = min(WIDTH, -(-each.percent * WIDTH // 100))
    rooms = ", ".join(f"{name} {each.allocated.get(name, '0')}/{has}" for name, has in each.allocatable.items())
    users = ", ".join(each.pods) or "nobody yet"
    return (
        Span(f"{each.name} ["),
        Span("#" * full + "." * (WIDTH - full), "green"),
        Span(f"] {each.percent:>3}%  {rooms}  {users}"),
    )
