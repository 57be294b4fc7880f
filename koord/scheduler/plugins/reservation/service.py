"""What the plugin knows of reservations, for people who look into a running scheduler, and for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from koord.api.protocol.crd.reservation import ReservationPhase
from koord.api.text.quantity import counts_bytes, render
from koord.scheduler.framework.controller import Measure
from koord.scheduler.plugins.reservation.room import Room
from koord.scheduler.plugins.reservation.rooms import Rooms

PHASE: Final = "scheduler_reservation_status_phase"
RESOURCE: Final = "scheduler_reservation_resource"
_GIB: Final = 1 << 30


def services_of(rooms: Rooms) -> Mapping[str, Callable[[str], object]]:
    """What the plugin answers, by path."""
    names = rooms.cluster.table.names
    return {
        "nodeReservations/:nodeName": lambda node: node_told(rooms, node),
        "reservationSelectorIndex": lambda _: rooms.index.figures(names, detail=False),
        "reservationSelectorIndex?detail=true": lambda _: rooms.index.figures(names, detail=True),
    }


def room_told(room: Room) -> dict[str, object]:
    """One reservation on a node: what it reserves, what is used, and the pods that use it."""
    terms = room.terms
    reserved = dict(room.resources())
    return {
        "name": terms.name,
        "uid": terms.uid,
        "available": room.can_be_used,
        "allocateOnce": terms.once,
        "allocatePolicy": terms.policy or "Default",
        "order": terms.order,
        "unschedulable": terms.unschedulable,
        "allocatable": {name: render(name, amount) for name, amount in sorted(reserved.items())},
        "allocated": {name: render(name, room.used_of(name)) for name in sorted(reserved) if room.used_of(name)},
        "assignedPods": sorted(room.owners),
        **({"error": terms.fault} if terms.fault else {}),
    }


def node_told(rooms: Rooms, node: str) -> dict[str, object] | None:
    """All reservations of a node; None where it is not known."""
    row = rooms.cluster.table.row_of.get(node)
    if row is None:
        return None
    return {"items": [room_told(room) for room in sorted(rooms.on(row), key=lambda room: room.name)]}


def measures(rooms: Rooms) -> Iterator[Measure]:
    """What changed since the last call: the phase of each reservation, and how much of it is used."""
    changed, rooms.unmeasured = rooms.unmeasured, {}
    for uid, name in changed.items():
        reservation, room = rooms.objects.get(uid), rooms.all.get(uid)
        phase = None if reservation is None else reservation.status.phase
        for phase_name in ReservationPhase:
            value = None if phase is None else float(phase_name is phase)
            yield Measure(PHASE, {"name": name, "phase": str(phase_name)}, value)
        held = {} if room is None or room.record is None else dict(room.resources())
        for resource in {*held, *rooms.measured.get(uid, ())}:
            yield from _resource(name, resource, room if resource in held else None)
        if held:
            rooms.measured[uid] = tuple(held)
        else:
            rooms.measured.pop(uid, None)


def _resource(name: str, resource: str, room: Room | None) -> Iterator[Measure]:
    size, unit = (1000, "core") if resource == "cpu" else (_GIB, "Gi") if counts_bytes(resource) else (1, "raw")
    has = None if room is None else dict(room.resources())[resource]
    used = None if room is None else room.used_of(resource)
    for type_, amount, counted in (("allocatable", has, unit), ("allocated", used, unit)):
        labels = {"type": type_, "name": name, "resource": resource, "unit": counted}
        yield Measure(RESOURCE, labels, None if amount is None else amount / size)
    labels = {"type": "utilization", "name": name, "resource": resource, "unit": "ratio"}
    yield Measure(RESOURCE, labels, None if has is None or used is None else used / has)
