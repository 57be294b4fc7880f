"""Judges of many classes that differ in nothing but numbers, asked together about every row that changes.

Where pods of many classes come in turn, each class has to look at the rows that the others' placements changed. To ask
its own judges costs it some forty calls of numpy, however few the rows are. One judge whose numbers are arrays costs
not much more, and answers for all classes:

    bases[seat, change]         what the judges of a class give a row, by the change's place in the table's log

Changes are judged when a class of the panel needs them, some at a time. If a row changed more than once, only its last
change is judged: no class reads the others any more. What is too much for all is left to each class alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from koord.scheduler.framework.cells import Many, OfRow
from koord.scheduler.framework.groups import NEVER, TIE_BITS
from koord.scheduler.framework.judge import FastForms, Judge
from koord.scheduler.framework.stable import tie, ties
from koord.scheduler.framework.verdicts import Part
from koord.scheduler.state.cluster import NAME_HASH, Cluster
from koord.scheduler.state.table import Array, Changes, Row, Table
from koord.scheduler.state.view import View

WINDOW: Final = 1024
"""Answers are kept for at least this many changes. A class that was not asked for that long loses its seat."""
FEW_CHANGES: Final = 7
"""Up to this many changed rows are judged for one class alone, as plain numbers."""
MOST_CHANGES: Final = 512
"""Nor are more changes than that, however few the rows are."""
MOST_ANSWERS: Final = 1 << 13
"""Rows times seats. More than that takes longer than one class takes by itself."""
MOST_FILTERS: Final = 8
"""Filters that a class may share with others: a byte of every answer says which of them reject a row."""
FIRST_SEATS: Final = 16
FEW_OF_A_VIEW: Final = 4
"""Fewer classes that share a view are not asked together: every change would be judged for them, asked for or not."""
FEW_PARTS: Final = 64
"""A view is ignored if it changes at most one row in this many."""
PATIENCE: Final = 16
"""New classes wait for each other for at most this many rounds: they are put into arrays all at once."""
WAITING: Final = -1
LOST: Final = -2


def forms_of(part: Part) -> FastForms:
    """Of a part that is asked together with others."""
    forms = part.judge.shortcuts.fast
    assert forms is not None
    return forms


class Seat:
    """The place of one class."""

    __slots__ = ("asked_at", "number", "numbers", "panel", "parts", "salt", "since")

    def __init__(self, parts: Sequence[Part], salt: int, panel: Panel, asked_at: int) -> None:
        self.parts, self.salt, self.panel, self.asked_at = parts, salt, panel, asked_at
        self.numbers = [forms_of(part).numbers for part in parts]
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
        self.start = self.version = table.version
        "Answers are kept for changes after the first, and judges have been asked together up to the second."
        self._filters = [i for i, part in enumerate(parts) if part.judge.filters_on]
        self._scorers = [(i, part.weight) for i, part in enumerate(parts) if part.judge.scores_on and part.weight]
        self._joint: list[Judge] = []
        self._salts: Array = np.zeros(0, np.uint32)
        self.bodies = len(self._filters) + len(self._scorers)
        self.seats: list[Seat] = []
        self.waiting: list[Seat] = []
        self._rounds = 0
        self.turned_away: Array = np.zeros((FIRST_SEATS, 2 * WINDOW), np.uint8)
        "Which filters reject rows: a bit for each, in their order. 0 where no filter was asked."
        self.bases: Array = np.zeros((FIRST_SEATS, 2 * WINDOW), np.int64)
        "Scores times weights, and ties; far below zero where the row is rejected."
        self._of_row: _OfRow | None = None

    def catch_up(self) -> bool:
        """Have changes judged for everybody, or forget them where they are too many. Whether answers were dropped."""
        if self.waiting:
            self._take_in()
        table = self._table
        if table.version - self.version > WINDOW or table.different(self.version) * len(self.seats) > MOST_ANSWERS:
            self.start = self.version = table.read()
            self.turned_away[:] = 0
            return True
        is_full = table.version - self.start > 2 * WINDOW
        if is_full:
            self._forget(WINDOW)
        if self.seats:
            places, rows = table.last_changes(self.version)
            self._judge(rows, places + (self.version - self.start))
        self.version = table.read()
        return is_full

    def _take_in(self) -> None:
        """Give the waiting classes a seat, if that is worthwhile."""
        if self._view is not None and len(self.waiting) + len(self.seats) < FEW_OF_A_VIEW:
            return
        self._rounds += 1
        if self._rounds < PATIENCE and 8 * len(self.waiting) < len(self.seats):
            return
        self._rounds = 0
        newcomers, self.waiting = self.waiting, []
        version = self.version
        for seat in newcomers:
            seat.number, seat.since = len(self.seats), version
            self.seats.append(seat)
        more = len(self.seats) - len(self.bases)
        if more > 0:
            room = ((0, max(more, len(self.seats) // 4)), (0, 0))
            self.turned_away, self.bases = np.pad(self.turned_away, room), np.pad(self.bases, room)
        self.turned_away[newcomers[0].number :] = 0
        since = max(self.start, min([seat.asked_at for seat in newcomers]))
        if 0 < (version - since) * len(newcomers) <= MOST_ANSWERS and self._table.version - since <= WINDOW:
            # What happened since each of them was asked last is judged for all of them at once.
            self._join(newcomers)
            places, rows = self._table.last_changes(since, version)
            self._judge(rows, places + (since - self.start), newcomers[0].number)
            for seat in newcomers:
                seat.since = since
        self._join(self.seats)

    def dismiss(self, before: int) -> None:
        """Take the seats of classes that were not asked since a version."""
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
        forms = [forms_of(part) for part in seats[0].parts]
        by_part = zip(*[seat.numbers for seat in seats], strict=True)
        self._joint = [form.together(numbers) for form, numbers in zip(forms, by_part, strict=True)]

    @property
    def view(self) -> View | None:
        """The view that its classes have of the cluster; None: the cluster itself."""
        return self._view

    def columns(self) -> dict[Hashable, Array]:
        """As all of its classes see them."""
        return self._table.columns if self._view is None else self._view.columns

    def _judge(self, rows: Array, places: Array, first: int = 0) -> None:
        """Judges that are joined answer for changes of rows at these places, from the seat `first` on. Cells are
        columns, so that answers for a row are one."""
        if not len(rows):
            return
        cells = Many(self.columns(), rows[:, np.newaxis])
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
        where: Array | slice = places
        if places.item(-1) - places.item(0) == len(places) - 1:
            where = slice(places.item(0), places.item(-1) + 1)
        if blocked is None:
            self.turned_away[seats, where] = 0
            self.bases[seats, where] = bases.T
        else:
            self.turned_away[seats, where] = blocked.T
            self.bases[seats, where] = np.where(blocked, NEVER, bases).T

    def judge_for(self, seat: Seat, places: Mapping[Row, int], columns: dict[Hashable, Array]) -> None:
        """The judges of one class answer for changes of rows at some places."""
        of_row = self._of_row
        if of_row is None or of_row.of is not columns[NAME_HASH.name]:
            of_row = self._of_row = self._look_up(seat.parts, columns)
        hashes, salt, number, numbers = of_row.of.data, seat.salt, seat.number, seat.numbers
        blocked, bases = self.turned_away[number].data, self.bases[number].data
        for row, place in places.items():
            against = 0
            for i, feasible, bit in of_row.filters:
                if feasible(row, numbers[i]):
                    against |= bit
            blocked[place] = against
            if against:
                # The score of a rejected row is never read.
                bases[place] = NEVER
                continue
            total = 0
            for i, score, weight in of_row.scorers:
                total += weight * score(row, numbers[i])
            bases[place] = total << TIE_BITS | tie(hashes[row], salt)

    def _look_up(self, parts: Sequence[Part], columns: dict[Hashable, Array]) -> _OfRow:
        """Once, and again when the table has grown: then all columns are other arrays."""
        of_row = [forms_of(part).of_row(columns) for part in parts]
        filters = [(i, of_row[i][0], 1 << bit) for bit, i in enumerate(self._filters)]
        scorers = [(i, of_row[i][1], weight) for i, weight in self._scorers]
        return _OfRow(columns[NAME_HASH.name], filters, scorers)

    def _forget(self, places: int) -> None:
        """Drop the oldest answers."""
        for answers in (self.turned_away, self.bases):
            answers[:, :-places] = answers[:, places:]
        self.turned_away[:, -places:] = 0
        self.start += places


class Panels:
    """All panels of a cluster. Each catches up when one of its classes asks: what others do is not its concern."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._panels: dict[Hashable, Panel] = {}

    def seat(self, parts: Sequence[Part], salt: int, behind: int, view: View | None) -> Seat | None:
        """A seat for the judges of a class that can be asked together with others; None if the class was too many
        changes `behind` to profit. A view that changes few rows counts as none: for those rows, the class asks its own
        judges."""
        if behind >= WINDOW:
            return None
        if view is not None and len(view.rows) * FEW_PARTS <= len(self._table):
            view = None
        key = view, *[(type(part.judge), forms_of(part).key, part.weight) for part in parts]
        panel = self._panels.get(key)
        if panel is None:
            panel = self._panels[key] = Panel(parts, self._table, view)
        seat = Seat(parts, salt, panel, self._table.version)
        panel.waiting.append(seat)
        return seat

    def first_place(self, seat: Seat, since: int) -> int | None:
        """Where the answers for all changes after a version begin, once they are filled in; None where a class has to
        ask its judges itself."""
        panel, table = seat.panel, self._table
        now = seat.asked_at = table.version
        behind = now - panel.version
        if behind > FEW_CHANGES and (behind > MOST_CHANGES or table.different(panel.version) > FEW_CHANGES):
            self._catch_up(panel)
        start = panel.start
        if seat.number < 0 or since < start or since < seat.since or now - start > 2 * WINDOW:
            return None
        return since - start

    def fill_in(self, seat: Seat, first: int, changed: Changes, wanted: Array | None = None) -> None:
        """Judge for one class the changes that have not been judged for all, from some place on. `wanted`: by row,
        whether it is needed; None: all are."""
        panel, rows = seat.panel, changed.entries
        judged = max(0, panel.version - panel.start - first)
        if judged >= len(rows):
            return
        # Of a row that changed more than once, the last place counts.
        places = {row: place for place, row in enumerate(rows[judged:].tolist(), first + judged)}
        if wanted is not None:
            asked = wanted.data
            places = {row: place for row, place in places.items() if asked[row]}
        panel.judge_for(seat, places, panel.columns())

    def _catch_up(self, panel: Panel) -> None:
        if not panel.catch_up():
            return
        for key, panel in list(self._panels.items()):
            panel.dismiss(self._table.version - WINDOW)
            if not panel.seats and not panel.waiting:
                del self._panels[key]


def panels_of(cluster: Cluster) -> Panels:
    """The panels of a cluster, which last as long as some class may have a seat."""
    panels = cluster.shared.get(Panels)
    if panels is None:
        panels = cluster.shared[Panels] = Panels(cluster.table)
    assert isinstance(panels, Panels)
    return panels
