"""What the plugin says of nodes: for pods that may use reservations, and for reservations themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from koord.scheduler.framework.cells import Cells, Many, Numbers
from koord.scheduler.framework.exact_check import Door
from koord.scheduler.framework.facet import OfFewRows
from koord.scheduler.framework.judge import Judge
from koord.scheduler.plugins.reservation import fitting
from koord.scheduler.plugins.reservation.fitting import NO_ROOM, Free
from koord.scheduler.plugins.reservation.matching import Matching
from koord.scheduler.plugins.reservation.room import COUNT, Room
from koord.scheduler.plugins.reservation.rooms import PLAIN, STRICTER
from koord.scheduler.plugins.taint_toleration import by_maximum
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.insiders import NAME
from koord.scheduler.state.pods import Amounts
from koord.scheduler.state.table import Array, Changes, Reason, Row

_ELSEWHERE: Final = "node(s) didn't match the nodeName specified by reservation"
_CONFLICT: Final = "node(s) reservation allocate policy conflict"


class RowRooms(NamedTuple):
    """What a pod finds on a row that has rooms of its own."""

    at: int
    "After which change of the row that was found."
    mask: int
    "What speaks against the row; 0: it will do."
    rooms: Sequence[Room]
    "Those that the pod may take, the best first."


class Rooming:
    """What pods of one class find in the rooms of a row. It is kept until the row changes: the class asks whether the
    row will do, how well, and which room is taken."""

    def __init__(self, cluster: Cluster, matching: Matching, requests: Amounts, ignored: frozenset[str]) -> None:
        self._cluster, self.matching, self.requests, self._ignored = cluster, matching, requests, ignored
        self.must = matching.rules.must
        for name, _ in requests:
            cluster.resource(name)
        self._looks: dict[Row, RowRooms] = {}

    def free(self, row: Row) -> Free:
        columns, here = self._cluster.table.columns, self.matching.at.get(row, ())
        pods = columns["allocatable", "pods"].item(row) - columns[COUNT].item(row) + len(here)
        amounts = {
            name: columns["allocatable", name].item(row) - columns["requested", name].item(row)
            for name, _ in self.requests
        }
        return Free(pods, amounts)

    def _look(self, row: Row, here: Sequence[Room]) -> RowRooms:
        row_rooms, at = self._looks.get(row), self._cluster.table.last_change(row)
        if row_rooms is None or row_rooms.at != at:
            mask, rooms = fitting.look(self.requests, here, self.free(row), must=self.must, ignored=self._ignored)
            row_rooms = self._looks[row] = RowRooms(at, mask, rooms)
        return row_rooms

    def verdict(self, row: Row) -> int:
        here = self.matching.at.get(row)
        if here is None:
            return NO_ROOM if self.must else 0
        return self._look(row, here).mask

    def chosen(self, row: Row) -> Room | None:
        """The room that a pod takes, where nothing but amounts matters."""
        here = self.matching.at.get(row)
        return next(iter(self._look(row, here).rooms), None) if here else None

    def doors(self, row: Row) -> list[Door]:
        """The rooms that a pod may take, the best first; last, to go beside them."""
        here = self.matching.at.get(row)
        doors = [_door(room) for room in self._look(row, here).rooms] if here else []
        if not self.must and not fitting.alone(self.requests, self.free(row), self._ignored):
            doors.append(BESIDE)
        return doors

    def raw(self, row: Row) -> int:
        """The score before it is compared with other nodes'."""
        first = self.matching.first
        if first is not None and first.row == row:
            return fitting.MOST
        room = self.chosen(row)
        return 0 if room is None else fitting.score(self.requests, room)


BESIDE: Final = Door(NAME)


def _door(room: Room) -> Door:
    assert room.record is not None
    limited = frozenset(name for name, _ in room.resources() if room.restricts(name))
    return Door(NAME, (room.record,), limited, "Reservation(s) ")


class OwnerJudge(Judge):
    """For pods that may use reservations, or must."""

    filters_on = Reason.NODE | Reason.ALLOCATABLE | Reason.REQUESTED | Reason.EXACT

    def __init__(self, rooming: Rooming, cluster: Cluster) -> None:
        self._rooming, self._cluster = rooming, cluster
        self.facets = (Filling(rooming.raw, rooming.matching.at, cluster),)
        self.doors = rooming.doors

    @property
    def refused(self) -> str | None:
        rooming = self._rooming
        return fitting.words(NO_ROOM, ())[0] if rooming.must and not rooming.matching.at else None

    def feasible(self, cells: Cells) -> Numbers:
        rooming = self._rooming
        at, rows = rooming.matching.at, cells.rows
        if type(cells) is not Many:
            return rooming.verdict(rows)
        elsewhere = NO_ROOM if rooming.must else 0
        if isinstance(rows, np.ndarray):
            verdict, listed = rooming.verdict, rows.ravel().tolist()
            if not rooming.must and at.keys().isdisjoint(listed):
                return 0
            verdicts = [verdict(row) if row in at else elsewhere for row in listed]
            return np.array(verdicts, np.int64).reshape(rows.shape)
        masks = np.full(self._cluster.table.capacity, elsewhere, np.int64)
        for row in at:
            masks[row] = rooming.verdict(row)
        return masks[rows]

    def reasons(self, mask: int) -> list[str]:
        rooming = self._rooming
        if mask & NO_ROOM and rooming.matching.at:
            return ["node(s) didn't satisfy plugin Reservation"]
        named = None
        if rooming.matching.rules.name:
            named = next((room for here in rooming.matching.at.values() for room in here), None)
        return fitting.words(mask, rooming.requests, named)

    def unresolvable(self, masks: Array, rows: Array) -> Array:
        return (masks & NO_ROOM).astype(np.bool_)


class Filling(OfFewRows):
    """Rows grouped by how full their room would be. `raw`: of a row that has one, which are those `at`."""

    gates = closes = False
    normalised = True

    def __init__(self, raw: Callable[[Row], int], at: Mapping[Row, object], cluster: Cluster) -> None:
        self._raw, self._at, self._cluster = raw, at, cluster
        self._groups: Array = np.zeros(0, np.int32)
        self._raws: list[int] = [0]
        self._codes: dict[int, int] = {0: 0}
        self._seen: set[Row] = set()
        "Rows that had a room when last looked at."
        self._rows: Array | None = None
        self.flat = True

    def refresh(self, changed: Changes | None) -> bool:
        at = self._at
        if changed is None or len(self._groups) != self._cluster.table.capacity:
            self._groups = np.zeros(self._cluster.table.capacity, np.int32)
            self._raws, self._codes = [0], {0: 0}
            for row in at:
                self._groups[row] = self._code(self._raw(row))
            self._seen, self._rows = set(at), None
            self.flat = not at
            return True
        is_new = self.flat != (not at)
        self.flat = not at
        if self.flat and not is_new:
            return False
        groups, has_moved, seen = self._groups, is_new, self._seen
        for row in self.moved(changed):
            code = self._code(self._raw(row)) if row in at else 0
            if (row in at) != (row in seen):
                seen.symmetric_difference_update((row,))
                self._rows = None
            if groups.item(row) != code:
                groups[row] = code
                has_moved = True
        return has_moved

    def moved(self, changed: Changes) -> list[Row]:
        at = self._at
        return changed.among(at) + [row for row in changed.among(self._seen) if row not in at]

    def rows(self) -> Array:
        if self._rows is None:
            self._rows = np.array(sorted(self._seen), np.intp)
        return self._rows

    def _code(self, raw: int) -> int:
        code = self._codes.get(raw)
        if code is None:
            code = self._codes[raw] = len(self._raws)
            self._raws.append(raw)
        return code

    @property
    def groups(self) -> Array:
        return self._groups

    @property
    def size(self) -> int:
        return len(self._raws)

    def table(self, candidates: Array | None) -> Array:
        assert candidates is not None
        return by_maximum(np.array(self._raws, np.int64), candidates)


class HolderJudge(Judge):
    """For reservations: those of the default policy and others do not share a node, and one may name its node."""

    filters_on = Reason.NODE | Reason.EXACT

    def __init__(self, policy: str, node: str, cluster: Cluster) -> None:
        self._others, self._node, self._cluster = PLAIN if policy else STRICTER, node, cluster

    def feasible(self, cells: Cells) -> Numbers:
        masks = (cells[self._others] > 0) * 2
        if not self._node:
            return masks
        row = self._cluster.table.row_of.get(self._node, -1)
        if type(cells) is not Many:
            return masks | (cells.rows != row)
        rows = np.arange(self._cluster.table.capacity)[cells.rows]
        return masks | (rows != row)

    def reasons(self, mask: int) -> list[str]:
        return [_ELSEWHERE] if mask & 1 else [_CONFLICT]

    def unresolvable(self, masks: Array, rows: Array) -> Array:
        return np.ones(len(rows), np.bool_)
