"""Reservations: what each holds on the node, a bar for the used part, and the pods that use it."""

from __future__ import annotations

from typing import Final

import msgspec

from koord.api.kubernetes.resources import amounts
from koord.api.protocol.crd.reservation import Reservation
from koord.offline.picture.section import Line, NodeView, Section, Span
from koord.scheduler.plugins.reservation.room import OPEN

WIDTH: Final = 10


class ReservationFigures(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    percent: int
    "Used, of the resource that is used most."
    allocatable: dict[str, str]
    allocated: dict[str, str]
    pods: tuple[str, ...]


def reservations(seen: NodeView) -> Section | None:
    held = [reservation for reservation in seen.reservations if reservation.status.phase in OPEN]
    if not held:
        return None
    listed = [_figures(reservation) for reservation in sorted(held, key=lambda reservation: reservation.metadata.name)]
    return Section(
        "reservations", "used of each", tuple(_line(reservation) for reservation in listed), {"reservations": listed}
    )


def _figures(reservation: Reservation) -> ReservationFigures:
    status = reservation.status
    has, used = amounts(status.allocatable), amounts(status.allocated)
    return ReservationFigures(
        reservation.metadata.name,
        max((used.get(name, 0) * 100 // amount for name, amount in has.items() if amount), default=0),
        {name: str(amount) for name, amount in status.allocatable.items()},
        {name: str(amount) for name, amount in status.allocated.items()},
        tuple(f"{owner.namespace}/{owner.name}" for owner in status.current_owners),
    )


def _line(figures: ReservationFigures) -> Line:
    full = min(WIDTH, -(-figures.percent * WIDTH // 100))
    rooms = ", ".join(f"{name} {figures.allocated.get(name, '0')}/{has}" for name, has in figures.allocatable.items())
    users = ", ".join(figures.pods) or "nobody yet"
    return (
        Span(f"{figures.name} ["),
        Span("#" * full + "." * (WIDTH - full), "green"),
        Span(f"] {figures.percent:>3}%  {rooms}  {users}"),
    )
