"""Whether a pod fits into a room on its node, which room it takes, and how well it fills it.

A room of policy "" or Aligned lends what is left of it, and the node adds what it has free. A Restricted one gives of
what it restricts no more than is left of it. A pod that need not come out of a reservation may also go beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from koord.scheduler.plugins.reservation.room import Room
from koord.scheduler.state.pods import Amounts

NO_ROOM: Final = 1
TOO_MANY_PODS_BY_NODE: Final = 2
TOO_MANY_PODS: Final = 4
NOTHING_FITS: Final = 8
_FIRST_RESOURCE: Final = 4
"""Bits from here on: of each resource that the pod asks for one for the node, one for reservations."""
MOST: Final = 1000
"""The score of the node with the first room by order."""


@dataclass(frozen=True, slots=True)
class Free:
    """What a node has free: without what rooms hold."""

    pods: int
    "More pods that fit, were none of the pod's rooms there."
    amounts: Mapping[str, int]


def by_node(i: int) -> int:
    return 1 << (_FIRST_RESOURCE + 2 * i)


def by_room(i: int) -> int:
    return 1 << (_FIRST_RESOURCE + 2 * i + 1)


def shortage(requests: Amounts, room: Room, free: Free, ignored: frozenset[str] = frozenset()) -> int:
    """What speaks against a room, as a mask; 0: the pod fits."""
    mask = 0 if free.pods >= 1 else TOO_MANY_PODS_BY_NODE
    for i, (name, asked) in enumerate(requests):
        if asked > free.amounts[name] + room.lent_of(name) and name not in ignored:
            mask |= by_node(i)
        if room.restricts(name) and asked > room.capacity_of(name) - room.used_of(name):
            mask |= by_room(i)
    if room.is_restricted and room.reserves("pods") and len(room.owners) + 1 > room.capacity_of("pods"):
        mask |= TOO_MANY_PODS
    return mask


def alone(requests: Amounts, free: Free, ignored: frozenset[str] = frozenset()) -> int:
    """What speaks against the node beside all rooms."""
    mask = 0
    for i, (name, asked) in enumerate(requests):
        if asked > free.amounts[name] and name not in ignored:
            mask |= by_node(i)
    return mask


def candidates(requests: Amounts, rooms: Iterable[Room], *, must: bool) -> list[Room]:
    """Rooms that are of use to a pod: a pod that need not come out of one passes over those that have nothing of what
    it asks for, or restrict nothing of it."""
    return [room for room in rooms if must or any(room.has(name) and room.tracks(name) for name, _ in requests)]


def look(
    requests: Amounts, rooms: Sequence[Room], free: Free, *, must: bool, ignored: frozenset[str] = frozenset()
) -> tuple[int, list[Room]]:
    """What speaks against a node with rooms of the pod, as a mask, 0 where it will do; and the rooms that the pod may
    take there, the best first: by order, then by how well it fills them, by name."""
    matches, against, nodes = list[Room](), 0, 0
    for room in candidates(requests, rooms, must=must):
        mask = shortage(requests, room, free, ignored)
        against |= mask
        if not mask:
            matches.append(room)
    if matches:
        if len(matches) > 1:
            matches.sort(key=lambda room: (not room.terms.order, room.terms.order, -score(requests, room), room.name))
        return 0, matches
    if must:
        return against or NOTHING_FITS, matches
    for i in range(len(requests)):
        nodes |= against & by_node(i)
    nodes |= against & TOO_MANY_PODS_BY_NODE
    return nodes or alone(requests, free, ignored), matches


def score(requests: Amounts, room: Room) -> int:
    """How full the room would be, over all that is reserved; what would not fit counts 0."""
    asked, total, number = dict(requests), 0, 0
    for name, capacity in room.resources():
        number += 1
        filled = asked.get(name, 0) + (room.used_of(name) if room.tracks(name) else 0)
        if filled <= capacity:
            total += 100 * filled // capacity
    return total // number if number else 0


def words(mask: int, requests: Amounts, named: Room | None = None) -> list[str]:
    """For users. `named`: the reservation that the pod asks for by name, where that is known."""
    words_for = []
    if mask & NO_ROOM:
        words_for.append("node(s) no reservations match reservation affinity")
    if mask & TOO_MANY_PODS_BY_NODE:
        words_for.append("Insufficient pods by node")
    if mask & TOO_MANY_PODS:
        figures = ""
        if named is not None:
            figures = f", requested: 1, used: {len(named.owners)}, capacity: {named.capacity_of('pods')}"
        words_for.append(f"Reservation(s) Too many pods{figures}")
    if mask & NOTHING_FITS:
        words_for.append("node(s) no reservation(s) to meet the requirements")
    for i, (name, asked) in enumerate(requests):
        if mask & by_node(i):
            words_for.append(f"Insufficient {name} by node")
        if mask & by_room(i):
            figures = ""
            if named is not None:
                used, capacity = named.used_of(name), named.capacity_of(name)
                figures = f", requested: {asked}, used: {used}, capacity: {capacity}"
            words_for.append(f"Reservation(s) Insufficient {name}{figures}")
    return words_for
