"""Room that a quota holds by reservations: an owner gets it though the quota has nothing left, and only there."""

from __future__ import annotations

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.judge import Judge
from koord.scheduler.plugins.quota.check import shortage
from koord.scheduler.plugins.quota.quotas import Quotas, is_fixed
from koord.scheduler.plugins.quota.tree import Quota
from koord.scheduler.plugins.reservation.rooms import Rooms
from koord.scheduler.state.table import Row


def rows_reserved(quotas: Quotas, rooms: Rooms, ask: Ask, quota: Quota) -> tuple[Row, ...]:
    """Rows with a reservation of the pod's quota that leaves the quota within its bounds; none where the quota has room
    without one."""
    wish = rooms.wish(ask)
    if wish is None:
        return ()
    asked, fixed = quotas.asked(ask), is_fixed(ask.pod)
    if shortage(quotas, quota, asked, fixed=fixed) is None:
        return ()
    found: set[Row] = set()
    for room in rooms.usable(wish):
        record = room.record
        if record is None or quotas.bucket(record.labels, record.namespace).quota is not quota:
            continue
        more = {key: max(0, amount - room.lent_of(key)) for key, amount in asked.items()}
        if shortage(quotas, quota, more, fixed=fixed) is None:
            found.add(room.row)
    return tuple(sorted(found))


class OnlyReserved(Judge):
    """For pods whose quota has no room but what it holds by reservations."""

    def __init__(self, rows: tuple[Row, ...]) -> None:
        self._rows = rows

    def only(self) -> list[Row]:
        return list(self._rows)

    def reasons(self, mask: int) -> list[str]:
        return ["node(s) hold no reservation of the pod's quota, which has no room without one"]

    def unresolvable(self, mask: int, row: Row) -> bool:
        return True
