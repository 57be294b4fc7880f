"""Room that a quota holds by reservations: an owner gets it though the quota has nothing left, and only there."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.exact_check import Door, ExactCheck, Objection
from koord.scheduler.framework.judge import Judge
from koord.scheduler.plugins.quota.check import shortage
from koord.scheduler.plugins.quota.quotas import Quotas, is_fixed
from koord.scheduler.plugins.quota.tree import Quota
from koord.scheduler.plugins.reservation.rooms import Rooms
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Row

RoomOnRow: TypeAlias = tuple[Row, str]
"""A row, and the key of what holds a room there."""
NOT_RESERVED: Final = "node(s) hold no reservation of the pod's quota, which has no room without one"


def has_rooms(cluster: Cluster) -> bool:
    """Whether any reservation holds room."""
    rooms = cluster.noting.get(Rooms.name)
    return isinstance(rooms, Rooms) and bool(rooms.all)


def rooms_for(quotas: Quotas, ask: Ask, cluster: Cluster) -> tuple[RoomOnRow, ...]:
    """Where a pod may go though its quota has no room: its quota holds room for it there."""
    rooms = cluster.noting.get(Rooms.name)
    if not isinstance(rooms, Rooms) or not rooms.all or (quota := quotas.quota_of(ask)) is None:
        return ()
    return rooms_reserved(quotas, rooms, ask, quota)


def rooms_reserved(quotas: Quotas, rooms: Rooms, ask: Ask, quota: Quota) -> tuple[RoomOnRow, ...]:
    """Reservations of the pod's quota that leave the quota within its bounds; none where the quota has room without
    one."""
    wish = rooms.wish(ask)
    if wish is None:
        return ()
    asked, fixed = quotas.asked(ask), is_fixed(ask.pod)
    if shortage(quotas, quota, asked, fixed=fixed) is None:
        return ()
    reserved: set[RoomOnRow] = set()
    for room in rooms.usable(wish):
        record = room.record
        if record is None or quotas.bucket(record.labels, record.namespace).quota is not quota:
            continue
        more = {key: max(0, amount - room.lent_of(key)) for key, amount in asked.items()}
        if shortage(quotas, quota, more, fixed=fixed) is None:
            reserved.add((room.row, record.key))
    return tuple(sorted(reserved))


def newly_open(quotas: Quotas, cluster: Cluster) -> set[str]:
    """Quotas with a reservation that its owners may use since this was asked last."""
    rooms = cluster.noting.get(Rooms.name)
    if not isinstance(rooms, Rooms) or not rooms.opened:
        return set()
    opened, rooms.opened = rooms.opened, set()
    records = [room.record for uid in opened if (room := rooms.all.get(uid)) is not None]
    there = [quotas.bucket(record.labels, record.namespace).quota for record in records if record is not None]
    return {quota.name for quota in there if quota is not None}


class OnlyReserved(Judge):
    """For pods whose quota has no room but what it holds by reservations. Beside those, or in another one on the same
    row, they would take what the quota has not."""

    def __init__(self, reserved: tuple[RoomOnRow, ...]) -> None:
        self._reserved = frozenset(reserved)
        self.exact = ByItsDoor(self._reserved)

    def only(self) -> list[Row]:
        return sorted({row for row, _ in self._reserved})

    def reasons(self, mask: int) -> list[str]:
        return [NOT_RESERVED]

    def unresolvable(self, masks: Array, rows: Array) -> Array:
        return np.ones(len(rows), np.bool_)


class ByItsDoor(ExactCheck):
    """The pod must come by the room of one of its quota's reservations."""

    def __init__(self, reserved: frozenset[RoomOnRow]) -> None:
        self._reserved = reserved

    def check(self, ask: Ask, row: Row, agreed: object = None, door: Door | None = None) -> object:
        holders = () if door is None else door.holders
        return None if any((row, record.key) in self._reserved for record in holders) else Objection(NOT_RESERVED)
