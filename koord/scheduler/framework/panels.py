"""Judges of many classes that differ in nothing but numbers, asked together about every row that changes.

Where pods of many classes come in turn, each class has to look at the rows that the others' placements changed. To ask
its own judges costs it some forty calls of numpy, however few the rows are. One judge whose numbers are arrays costs
not much more, and answers for all classes:

    bases[seat, change]         what the judges of a class give a row, by the change's place in the table's log

Changes are judged when a class needs them, some at a time. What is too much for all is left to each class alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from koord.scheduler.framework.cells import Many, OfRow
from koord.scheduler.framework.groups import NEVER, TIE_BITS
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.stable import tie, ties
from koord.scheduler.framework.verdicts import Part
from koord.scheduler.state.cluster import NAME_HASH, Cluster
from koord.scheduler.state.table import Array, Row, Table
from koord.scheduler.state.view import View

WINDOW: Final = 1024
"""Answers are kept for so many changes at least. A class that was not asked for that long loses its seat."""
FEW_CHANGES: Final = 7
"""Up to so many rows that changed are judged for one class alone, as plain numbers."""
MOST_CHANGES: Final = 64
"""Nor are more changes than that, however few the rows are."""
MOST_ANSWERS: Final = 1 << 13
"""Changes times seats. More than that takes longer than one class takes by itself."""
MOST_FILTERS: Final = 8
"""That a class has in common with others: a byte of every answer says which of them turn a row away."""
FIRST_SEATS: Final = 16
FEW_OF_A_VIEW: Final = 4
"""Fewer classes that share a view are not asked together: every change would be judged for them, asked for or not."""
FEW_PARTS: Final = 64
"""A view that shows no more than such a part of all rows otherwise is of no account."""
PATIENCE: Final = 16
"""Newcomers wait for each other so many rounds at most: numbers are put into arrays for all of them at once."""
WAITING: Final = -1
LOST: Final = -2


class Seat:
    """The place of one class."""

    __slots__ = ("asked_at", "number", "numbers", "panel", "parts", "salt", "since")

    def __init__(self, parts: Sequence[Part], salt: int, panel: Panel, asked_at: int) -> None:
        self.parts, self.salt, self.panel, self.asked_at = parts, salt, panel, asked_at
        self.numbers = [part.judge.numbers for part in parts]
        self.number = WAITING
        "Which line of answers is its own."
        self.since = 0
        "Its judges have answered for all changes after this version."


class _OfRow(NamedTuple):
    """What the judges of a panel say of single rows."""

    of: Array
    filters: list[tuple[int, OfRow, int]]
    "With the place of each among the judges, and its bit."
    scorers: list[tuple[int, OfRow, int]]
    "Likewise, with its weight."


class Panel:
    """Classes whose judges are alike, one by one, and what these answered."""

    def __init__(self, parts: Sequence[Part], table: Table, view: View | None) -> None:
        self._table, self._view = table, view
        self._filters = [i for i, part in enumerate(parts) if part.judge.filters_on]
        self._scorers = [(i, part.weight) for i, part in enumerate(parts) if part.judge.scores_on and part.weight]
        self._joint: list[Judge] = []
        self._salts: Array = np.zeros(0, np.uint32)
        self.bodies = len(self._filters) + len(self._scorers)
        self.seats: list[Seat] = []
        self.waiting: list[Seat] = []
        self._rounds = 0
        self.turned_away: Array = np.zeros((FIRST_SEATS, 2 * WINDOW), np.uint8)
        "Which filters turn rows away: a bit for each, in their order."
        self.bases: Array = np.zeros((FIRST_SEATS, 2 * WINDOW), np.int64)
        "Scores times weights, and ties; far below zero where the row is turned away."
        self._of_row: _OfRow | None = None

    def take_in(self, start: int, version: int) -> None:
        """Give those who wait a seat, if it is worth while. Answers are kept from the version `start` on, and reach up
        to another one."""
        if self._view is not None and len(self.waiting) + len(self.seats) < FEW_OF_A_VIEW:
            return
        self._rounds += 1
        if self._rounds < PATIENCE and 8 * len(self.waiting) < len(self.seats):
            return
        self._rounds = 0
        newcomers, self.waiting = self.waiting, []
        for seat in newcomers:
            seat.number, seat.since = len(self.seats), version
            self.seats.append(seat)
        more = len(self.seats) - len(self.bases)
        if more > 0:
            room = ((0, max(more, len(self.seats) // 4)), (0, 0))
            self.turned_away, self.bases = np.pad(self.turned_away, room), np.pad(self.bases, room)
        since = max(start, min([seat.asked_at for seat in newcomers]))
        if 0 < (version - since) * len(newcomers) <= MOST_ANSWERS and self._table.version - since <= WINDOW:
            # What happened since each of them was asked last is judged for all of them at once.
            self._join(newcomers)
            rows = self._table.changed_rows(since)[: version - since, np.newaxis]
            first = newcomers[0].number
            self.judge(Many(self.columns(), rows), since - start, version - start, first)
            for seat in newcomers:
                seat.since = since
        self._join(self.seats)

    def dismiss(self, before: int) -> None:
        """Take the seats of those who were not asked since a version."""
        for seat in (*self.waiting, *self.seats):
            if seat.asked_at < before:
                seat.number = LOST
        self.waiting = [seat for seat in self.waiting if seat.number != LOST]
        staying = [seat for seat in self.seats if seat.number != LOST]
        if len(staying) == len(self.seats):
            return
        numbers = [seat.number for seat in staying]
        for answers in (self.turned_away, self.bases):
            answers[: len(numbers)] = answers[numbers]
        for number, seat in enumerate(staying):
            seat.number = number
        self.seats = staying
        if staying:
            self._join(staying)

    def _join(self, seats: Sequence[Seat]) -> None:
        self._salts = np.array([seat.salt for seat in seats], np.uint32)
        by_seat = [[part.judge for part in seat.parts] for seat in seats]
        self._joint = [alike[0].together(alike) for alike in zip(*by_seat, strict=True)]

    @property
    def view(self) -> View | None:
        """How its classes see the cluster; None: as it is."""
        return self._view

    def columns(self) -> dict[Hashable, Array]:
        """As all of its classes see them."""
        return self._table.columns if self._view is None else self._view.columns

    def judge(self, cells: Many, start: int, end: int, first: int = 0) -> None:
        """Judges that are joined answer for changes at these places, from the seat `first` on; the cells are columns,
        so that answers for a row are one."""
        seats = slice(first, first + len(self._salts))
        blocked: Array | None = None
        for bit, i in enumerate(self._filters):
            out = self._joint[i].feasible(cells)
            if np.count_nonzero(out):
                more = (np.asarray(out) != 0) * np.uint8(1 << bit)
                blocked = more if blocked is None else blocked | more
        total: Array | None = None
        for i, weight in self._scorers:
            score = self._joint[i].score(cells)
            more = score if weight == 1 else score * weight
            total = more if total is None else total + more
        tied = ties(cells[NAME_HASH.name], self._salts)
        bases = tied if total is None else (total << TIE_BITS) | tied
        if blocked is None:
            self.turned_away[seats, start:end] = 0
            self.bases[seats, start:end] = bases.T
        else:
            self.turned_away[seats, start:end] = blocked.T
            self.bases[seats, start:end] = np.where(blocked, NEVER, bases).T

    def judge_for(self, seat: Seat, changes: Iterable[tuple[int, Row]], columns: dict[Hashable, Array]) -> None:
        """The judges of one class answer for changes at some places."""
        of_row = self._of_row
        if of_row is None or of_row.of is not columns[NAME_HASH.name]:
            of_row = self._of_row = self._look_up(seat.parts, columns)
        hashes, salt, number, numbers = of_row.of.data, seat.salt, seat.number, seat.numbers
        blocked, bases = self.turned_away[number].data, self.bases[number].data
        answered: dict[Row, int] = {}
        for place, row in changes:
            before = answered.get(row)
            if before is not None:
                # One that changed again before anybody asked: it is as it is.
                blocked[place], bases[place] = blocked[before], bases[before]
                continue
            answered[row] = place
            against = 0
            for i, feasible, bit in of_row.filters:
                if feasible(row, numbers[i]):
                    against |= bit
            blocked[place] = against
            if against:
                # Nobody looks at the score of a row that is turned away.
                bases[place] = NEVER
                continue
            total = 0
            for i, score, weight in of_row.scorers:
                total += weight * score(row, numbers[i])
            bases[place] = total << TIE_BITS | tie(hashes[row], salt)

    def _look_up(self, parts: Sequence[Part], columns: dict[Hashable, Array]) -> _OfRow:
        """Once, and again when the table has grown: then all columns are other arrays."""
        of_row = [part.judge.of_row(columns) for part in parts]
        filters = [(i, of_row[i][0], 1 << bit) for bit, i in enumerate(self._filters)]
        scorers = [(i, of_row[i][1], weight) for i, weight in self._scorers]
        return _OfRow(columns[NAME_HASH.name], filters, scorers)

    def forget(self, places: int) -> None:
        """Drop the oldest answers."""
        for answers in (self.turned_away, self.bases):
            answers[:, :-places] = answers[:, places:]
        self.clear(-places)

    def clear(self, start: int = 0) -> None:
        """From some place on, nobody has been turned away yet."""
        self.turned_away[:, start:] = 0


class Panels:
    """All panels of a cluster. The answers of all of them reach up to the same change."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._panels: dict[Hashable, Panel] = {}
        self._start = self._version = table.version

    def seat(self, parts: Sequence[Part], salt: int, behind: int, view: View | None) -> Seat | None:
        """A seat for those judges of a class that can be asked with others. The class has caught up with so many
        changes; None where these were too many for it to profit. A view that shows few rows otherwise counts as none:
        of those rows the class asks its own judges."""
        if behind >= WINDOW:
            return None
        if view is not None and len(view.rows) * FEW_PARTS <= len(self._table):
            view = None
        key = view, *[(type(part.judge), part.judge.alike, part.weight) for part in parts]
        panel = self._panels.get(key)
        if panel is None:
            panel = self._panels[key] = Panel(parts, self._table, view)
        seat = Seat(parts, salt, panel, self._table.version)
        panel.waiting.append(seat)
        return seat

    def places(self, seat: Seat, since: int) -> slice | None:
        """Where the answers for all changes after a version are, once they are filled in; None where a class has to
        ask its judges itself."""
        now = seat.asked_at = self._table.version
        behind = now - self._version
        if behind > FEW_CHANGES and (behind > MOST_CHANGES or self._table.different(self._version) > FEW_CHANGES):
            self._catch_up()
        start = self._start
        if seat.number < 0 or since < start or since < seat.since or now - start > 2 * WINDOW:
            return None
        return slice(since - start, now - start)

    def fill_in(self, seat: Seat, places: slice, rows: Array, wanted: Array | None = None) -> None:
        """Have those changes judged for one class that have not been for all: these rows changed. `wanted`: by row,
        whether anybody asks; None: of all."""
        judged = max(0, self._version - self._start - places.start)
        if judged == len(rows):
            return
        changes: Iterable[tuple[int, Row]] = enumerate(rows[judged:].tolist(), places.start + judged)
        if wanted is not None:
            asked = wanted.data
            changes = [each for each in changes if asked[each[1]]]
        seat.panel.judge_for(seat, changes, seat.panel.columns())

    def _catch_up(self) -> None:
        """Have changes judged for everybody, or forget them where they are too many."""
        table = self._table
        for panel in self._panels.values():
            if panel.waiting:
                panel.take_in(self._start, self._version)
        behind = table.version - self._version
        most = max([len(panel.seats) for panel in self._panels.values()], default=0)
        if behind > WINDOW or behind * most > MOST_ANSWERS:
            self._start = self._version = table.read()
            for panel in self._panels.values():
                panel.clear()
            self._dismiss()
            return
        if table.version - self._start > 2 * WINDOW:
            for panel in self._panels.values():
                panel.forget(WINDOW)
            self._start += WINDOW
            self._dismiss()
        rows = table.changed_rows(self._version)[:, np.newaxis]
        as_it_is = Many(table.columns, rows)
        start, end = self._version - self._start, table.version - self._start
        for panel in self._panels.values():
            if panel.seats:
                seen = panel.columns()
                panel.judge(as_it_is if seen is table.columns else Many(seen, rows), start, end)
        self._version = table.read()

    def _dismiss(self) -> None:
        for key, panel in list(self._panels.items()):
            panel.dismiss(self._version - WINDOW)
            if not panel.seats and not panel.waiting:
                del self._panels[key]


def panels_of(cluster: Cluster) -> Panels:
    """The panels of a cluster, which last as long as some class may have a seat."""
    found = cluster.shared.get(Panels)
    if found is None:
        found = cluster.shared[Panels] = Panels(cluster.table)
    assert isinstance(found, Panels)
    return found
