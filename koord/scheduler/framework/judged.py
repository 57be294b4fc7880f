"""What the judges of one class say of every row by itself, added up.

    base[row] = (sum of weight * score << TIE_BITS) + tie, far below zero where the row is turned away

Many rows are judged as arrays, few as plain numbers, by the same formulas; for a row that changed, only the parts that
the change concerns. A hash of seed, class and node decides ties. What depends on other rows is not here: see `groups`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from koord.scheduler.framework.cells import Cells, Crowded, Gain, Many, Numbers, OfRow, One
from koord.scheduler.framework.exact_check import Objection
from koord.scheduler.framework.groups import LOW, NEVER, TIE_BITS
from koord.scheduler.framework.panels import LOST, MOST_FILTERS, Seat, forms_of, panels_of
from koord.scheduler.framework.stable import stable_hash, tie, ties
from koord.scheduler.framework.verdicts import Part, Verdicts
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Changes, Reason, Row
from koord.scheduler.state.view import View

_ANY: Final = int(Reason.ANY)
_NODE: Final = int(Reason.NODE)
OF_PODS: Final = int(Reason.REQUESTED | Reason.PODS | Reason.LOAD | Reason.EXACT)
"""Why a row changes when a pod comes or goes."""
_ALL_BITS: Final = 0xFFFFFFFF
_ALL_JOINT_BITS: Final = 0xFF
_OUT: Final = 0
"""Rejected by a judge that is asked alone, and perhaps by others too."""
_CANDIDATE: Final = 1
_JOINTLY_OUT: Final = 2
"""Rejected only by judges that are asked together with other classes. If candidates are not counted, the row may be a
candidate or this."""
_NEVER: Final = np.int64(NEVER)
FEW_APART: Final = 12
"""Up to this many rows are judged one by one, where answers for all others can be taken over."""

_Body: TypeAlias = Callable[[Cells], Numbers]


class _Plan(NamedTuple):
    """What must be judged again after a change, by its reasons."""

    filters: list[tuple[_Body, int]]
    "Judges that are asked alone, with the bit of each."
    kept: int
    "The bits of those whose verdicts stay."
    joint: list[tuple[_Body, int]]
    "Judges that may be asked together with other classes, likewise."
    kept_jointly: int
    others: list[tuple[_Body, int]] | None
    "Scorers that are asked alone, with their weights; None if their scores stay."
    bodies: int


class _Single(NamedTuple):
    """The same for one row."""

    by_row: list[tuple[OfRow, Hashable, int]]
    "All judges that may be asked together with other classes: they take its number, with their own numbers and bits."
    plan: _Plan


class Judged:
    """Verdicts and scores of every row."""

    def __init__(
        self, key: Hashable, cluster: Cluster, parts: Sequence[Part], view: View | None = None, *, counts: bool = True
    ) -> None:
        """`counts`: whether it matters how many candidates there are, or only which one is best."""
        self.parts, self._view, self._counts = tuple(parts), view, counts
        self._cluster, self._table = cluster, cluster.table
        # Flags as plain integers: an IntFlag's arithmetic costs more than a verdict.
        self.filters = [part for part in parts if int(part.judge.filters_on)]
        self.scorers = [part for part in parts if part.weight and int(part.judge.scores_on)]
        alone = any(amounts is not None and amounts.promised for amounts in (part.judge.amounts for part in parts))
        self._joining = [part for part in parts if part.judge.shortcuts.fast is not None and not alone]
        "Parts whose judges may be asked together with those of other classes."
        if sum(part in self._joining for part in self.filters) > MOST_FILTERS:
            self._joining = []
        joint = [i for i, part in enumerate(self.filters) if part in self._joining]
        self._bit_of = {id(self.filters[i]): 1 << k for k, i in enumerate(joint)}
        "Of filters that may be asked together with other classes, as a panel numbers them."
        self._bits_of: Array = np.array(
            [sum(1 << i for k, i in enumerate(joint) if mask >> k & 1) for mask in range(1 << len(joint))], np.uint32
        )
        "By their bits in an answer, those among all filters."
        self._scorers: list[tuple[_Body, int]] = [
            (part.judge.score, part.weight) for part in self.scorers if part in self._joining
        ]
        self._scorers_by_row: list[tuple[OfRow, Hashable, int]] = []
        self._singles: dict[int, _Single] = {}
        "By reasons. What is in it is good for as long as the table has not grown."
        self._other_scorers = [part for part in self.scorers if part not in self._joining]
        self._alone_on = 0
        "After which changes others have to be asked, alone."
        for part in self.filters:
            if part not in self._joining:
                self._alone_on |= int(part.judge.filters_on)
        for part in self._other_scorers:
            self._alone_on |= int(part.judge.scores_on)
        self._plans: dict[tuple[int, bool], _Plan] = {}
        self.columns = cluster.table.columns if view is None else view.columns
        "As the class sees them."
        self._take_rows()
        self._salt = stable_hash(key, cluster.seed)
        self.barred: dict[Row, tuple[str, Objection]] = {}
        "Rows that failed an exact check, until they change: the plugin that says so, and why."
        self._own: Array = np.zeros(0, np.uint32)
        "Per row, the filters asked alone that reject it, as bits in the order of the filters."
        self._jointly: Array = np.zeros(0, np.uint8)
        "The same for filters that may be asked with other classes, by their bits in an answer; see `_are_old`."
        self._standing: Array = np.zeros(0, np.uint8)
        "One byte per row that sums up both, so that taking over answers need not read the larger arrays."
        self._others: Array = np.zeros(0, np.int32)
        "Per row, the total of the scorers that are asked alone."
        self._unscored: set[Row] = set()
        "Rows that were rejected when they changed, and whose other scores are therefore old."
        self.base: Array = np.zeros(0, np.int64)
        self._are_old = False
        "Whether answers were taken over into bases only: the filters that reject a row are then asked again on demand."
        self.verdicts: Verdicts | None = None
        self._panels = panels_of(cluster)
        self._seat: Seat | None = None
        self.rows_judged = self.bodies_run = 0
        "The work so far: rows looked at, and plugins times rows."

    @property
    def only(self) -> frozenset[Row] | None:
        """Where plugins know the only rows that can do: the rows in all of their lists."""
        return self._only

    @property
    def pinning(self) -> list[Part]:
        """The plugins that do."""
        return self._pinning

    @property
    def blocked(self) -> Array:
        """Which filters reject a row, as bits."""
        if self._are_old:
            self._are_old, rows = False, slice(0, self._table.used)
            nobody = np.zeros(self._table.used, np.uint8)
            self._jointly[rows] = self._ask(self._plan(_ANY, False).joint, Many(self.columns, rows), nobody)
        blocked: Array = self._own | self._bits_of.take(self._jointly)
        return blocked

    def _ask(self, filters: Sequence[tuple[_Body, int]], cells: Many, answers: Array) -> Array:
        """The bits of filters that reject rows, besides those that are known."""
        for feasible, bit in filters:
            out = np.asarray(feasible(cells))
            if np.count_nonzero(out):
                answers = answers | (out != 0) * answers.dtype.type(bit)
        return answers

    def _take_rows(self) -> None:
        lists = [(part, rows) for part in self.parts if part.pins and (rows := part.judge.only()) is not None]
        self._pinning = [part for part, _ in lists]
        self._only = frozenset.intersection(*(frozenset(rows) for _, rows in lists)) if lists else None

    def look_again(self) -> None:
        """Read again the lists of rows and what the view shows, without judging any row."""
        self._take_rows()
        if self._view is not None:
            self.columns = self._view.columns

    def seen(self, changed: Changes | None) -> Changes | None:
        """What changed for this class. None: everything."""
        if self._only is not None and changed is not None and changed.reasons & _NODE:
            # A node of a name that is in a list may have come, or be in another row now.
            changed = None
        if self._view is not None:
            before, self.columns = self.columns, self._view.columns
            if self.columns is not before:
                # What is kept by row reads arrays that the view does not write any more.
                return None
        return changed

    def seen_at(self, rows: Sequence[Row]) -> bool:
        """As `seen`, of some rows alone. False where more has to be looked at."""
        if self._only is not None:
            return False
        return self._view is None or self._view.follow(rows) is self.columns

    def judge_all(self) -> None:
        capacity = self._table.capacity
        self._take_rows()
        self._own, self._jointly = np.zeros(capacity, np.uint32), np.zeros(capacity, np.uint8)
        self._standing = np.zeros(capacity, np.uint8)
        if self._other_scorers:
            self._others = np.zeros(capacity, np.int32)
        self.base = np.full(capacity, NEVER, np.int64)
        self.barred, self._unscored, self.verdicts, self._are_old = {}, set(), None, False
        self._singles.clear()
        if self._table.used:
            self._judge(slice(0, self._table.used), _ANY, None)

    def judge_many(self, changed: Changes) -> tuple[Array, Array, Array | None]:
        """Judge rows that changed, as arrays. Returns the rows, some of them perhaps twice; their bases, where the last
        one of a row counts; and which were candidates before, or None if that is unchanged."""
        reasons = changed.reasons
        # Arrays are judged whole: what is old is brought up to date with the rest.
        if self._unscored and not self._unscored.isdisjoint(changed.rows):
            self._unscored.difference_update(changed.rows)
            reasons |= _ANY & ~_NODE
        if self.barred:
            for row in changed.rows:
                if self.barred.pop(row, None) is not None:
                    reasons |= _ANY
        self.verdicts = None
        first, places = self._first_place(changed), None
        if first is not None:
            assert self._seat is not None
            apart = None if reasons & (_NODE | self._alone_on) else self._apart(changed)
            if apart is not None:
                return self._take_over(changed, first, apart)
            if self._seat.panel.view is self._view:
                self._panels.fill_in(self._seat, first, changed)
                places = changed.places + first
        if self._are_old and places is None:
            reasons |= _ANY & ~_NODE
        return changed.index, *self._judge(changed.index, reasons, places)

    def bar(self, row: Row, plugin: str, objection: Objection) -> int:
        """An exact check failed: the row is out until something about it changes. Its base before."""
        was: int = self.base.item(row)
        self.barred[row] = (plugin, objection)
        self.base[row], self._standing[row] = NEVER, _OUT
        return was

    def join(self, behind: int) -> None:
        """The class had to catch up with `behind` changes: next time, it is asked together with others."""
        if self._joining and (self._seat is None or self._seat.number == LOST):
            self._seat = self._panels.seat(self._joining, self._salt, behind, self._view)

    @property
    def is_seated(self) -> bool:
        """Whether it is asked together with others."""
        return self._seat is not None and self._seat.number >= 0

    def _first_place(self, changed: Changes) -> int | None:
        """Where answers for what changed begin, if they were given together with others."""
        if self._seat is None or changed.since is None or changed.lasts is None:
            return None
        return self._panels.first_place(self._seat, changed.since)

    def _apart(self, changed: Changes) -> list[Row] | None:
        """The rows for which answers that were given together with others do not count, because the class sees them
        otherwise. None where they are many."""
        seat = self._seat
        assert seat is not None
        if self._view is None or seat.panel.view is not None or not self._view.rows:
            return []
        apart = self._view.rows.intersection(changed.rows)
        return sorted(apart) if len(apart) <= FEW_APART else None

    def _take_over(self, changed: Changes, first: int, apart: Sequence[Row]) -> tuple[Array, Array, Array | None]:
        """Take over answers unchanged, for rows that no other judge rejects. Rows `apart` are judged by themselves."""
        seat, rows = self._seat, changed.entries
        assert seat is not None
        self._panels.fill_in(seat, first, changed, self._standing)
        panel, number, last = seat.panel, seat.number, first + len(rows)
        self.rows_judged += len(rows)
        self.bodies_run += len(rows) * panel.bodies
        self._are_old = True
        against, base = panel.turned_away[number, first:last], panel.bases[number, first:last]
        standing = self._standing[rows]
        # Comparing bytes is much cheaper than comparing arrays.
        standings = standing.tobytes()
        if apart or (self._counts and (_JOINTLY_OUT in standings or against.tobytes().count(0) != len(rows))):
            return self._recount(changed, base, apart)
        # Usually no row is rejected, now or before, or candidates are not counted. For a row that changed more than
        # once, the last value written stays.
        if self._other_scorers:
            base = base + (self._others[rows].astype(np.int64) << TIE_BITS)
        if _OUT in standings:
            base = np.where(standing, base, _NEVER)
        self.base[rows] = base
        return rows, base, None

    def _recount(self, changed: Changes, base: Array, apart: Sequence[Row]) -> tuple[Array, Array, Array | None]:
        """The same, where it matters which rows the answers reject, or rejected before."""
        rows = changed.index
        before, base = self._standing[rows], base[changed.places]
        if self._other_scorers:
            base += self._others[rows].astype(np.int64) << TIE_BITS
        now = np.uint8(_JOINTLY_OUT) - (base > LOW)
        if _OUT in before.tobytes():
            is_out = before == _OUT
            now[is_out], base[is_out] = _OUT, NEVER
        self.base[rows], self._standing[rows] = base, now
        if apart:
            for row in apart:
                self.judge_one(row, _ANY)
            base, now = self.base[rows], self._standing[rows]
        if now.tobytes() == before.tobytes():
            return rows, base, None
        were: Array = before == _CANDIDATE
        return rows, base, were

    def _plan(self, reasons: int, answered: bool) -> _Plan:
        """`answered`: judges that are asked together with other classes have given their answers."""
        plan = self._plans.get((reasons, answered))
        if plan is None:
            again = [(part, 1 << i) for i, part in enumerate(self.filters) if int(part.judge.filters_on) & reasons]
            filters: list[tuple[_Body, int]] = [
                (part.judge.feasible, bit) for part, bit in again if part not in self._joining
            ]
            joint: list[tuple[_Body, int]] = [
                (part.judge.feasible, self._bit_of[id(part)]) for part, _ in again if part in self._joining
            ]
            others: list[tuple[_Body, int]] | None = None
            if any(int(part.judge.scores_on) & reasons for part in self._other_scorers):
                others = [(part.judge.score, part.weight) for part in self._other_scorers]
            kept, kept_jointly = _ALL_BITS, _ALL_JOINT_BITS
            for _, bit in filters:
                kept ^= bit
            for _, bit in joint:
                kept_jointly ^= bit
            if answered:
                joint, kept_jointly = [], 0
            plan = _Plan(filters, kept, joint, kept_jointly, others, len(filters) + len(joint) + len(others or ()))
            self._plans[reasons, answered] = plan
        return plan

    def _judge(self, rows: Array | slice, reasons: int, places: Array | None) -> tuple[Array, Array | None]:
        """Judge rows, and take the answers for changes at some places. Bases, and which rows were candidates."""
        cells = Many(self.columns, rows)
        plan = self._plan(reasons, places is not None)
        own_before, jointly_before = self._own[rows], self._jointly[rows]
        own = self._ask(plan.filters, cells, own_before & np.uint32(plan.kept))
        if places is not None:
            assert self._seat is not None
            panel, number = self._seat.panel, self._seat.number
            jointly, base = panel.turned_away[number][places], panel.bases[number][places]
            self.bodies_run += len(own) * panel.bodies
        else:
            jointly = self._ask(plan.joint, cells, jointly_before & np.uint8(plan.kept_jointly))
            base = np.zeros(own.shape, np.int64)
            for score, weight in self._scorers:
                base += score(cells) if weight == 1 else score(cells) * weight
            base <<= TIE_BITS
            base |= ties(self._cluster.node_hashes()[rows], self._salt)
            self.bodies_run += len(own) * len(self._scorers)
        if plan.others is not None:
            total = np.zeros(own.shape, np.int64)
            for score, weight in plan.others:
                total += score(cells) * weight
            self._others[rows] = total
        if self._other_scorers:
            base += self._others[rows].astype(np.int64) << TIE_BITS
        # Comparing bytes is much cheaper than comparing arrays.
        same = not self._are_old and not reasons & _NODE
        same = same and own.tobytes() == own_before.tobytes() and jointly.tobytes() == jointly_before.tobytes()
        out = own != 0
        if reasons & _NODE:
            out |= ~self._table.alive[rows]
        if self._only is not None:
            elsewhere = np.ones(self._table.capacity, np.bool_)
            elsewhere[list(self._only)] = False
            out |= elsewhere[rows]
        base[out | (jointly != 0)] = NEVER
        were = None
        if not same:
            were = None if isinstance(rows, slice) else self.base[rows] > LOW
            self._own[rows], self._jointly[rows] = own, jointly
            self._standing[rows] = np.where(out, np.uint8(_OUT), np.uint8(_CANDIDATE) + (jointly != 0))
        self.base[rows] = base
        self.rows_judged += len(base)
        self.bodies_run += len(base) * plan.bodies
        return base, None if were is None or were.tobytes() == (base > LOW).tobytes() else were

    def _single(self, reasons: int) -> _Single:
        of_row = {id(part): forms_of(part).of_row(self.columns) for part in self._joining}
        self._scorers_by_row = [
            (of_row[id(part)][1], forms_of(part).numbers, part.weight) for part in self.scorers if part in self._joining
        ]
        by_row = [
            (of_row[id(part)][0], forms_of(part).numbers, self._bit_of[id(part)])
            for part in self.filters
            if part in self._joining
        ]
        single = self._singles[reasons] = _Single(by_row, self._plan(reasons, False))
        return single

    def judge_one(self, row: Row, reasons: int) -> None:
        single = self._singles.get(reasons)
        if single is None:
            single = self._single(reasons)
        by_row, plan = single
        scorers = self._scorers_by_row
        self.rows_judged += 1
        self.bodies_run += len(by_row) + len(plan.filters) + len(scorers)
        if self.barred:
            self.barred.pop(row, None)
        jointly = 0
        for feasible_row, numbers, bit in by_row:
            if feasible_row(row, numbers):
                jointly |= bit
        self._jointly[row] = jointly
        own = self._own.item(row)
        if plan.filters:
            before, cells = own, One(self.columns, row)
            for feasible, bit in plan.filters:
                own = own | bit if feasible(cells) else own & ~bit
            if own != before:
                self._own[row] = own
        if self.verdicts is not None:
            self.verdicts.judge(row, own | self._bits_of.item(jointly), One(self.columns, row))
        is_open = not own and self._table.alive.item(row) and (self._only is None or row in self._only)
        if jointly or not is_open:
            if self._other_scorers:
                self._unscored.add(row)
            self.base[row] = NEVER
            self._standing[row] = _JOINTLY_OUT if is_open else _OUT
            return
        total = 0
        for score, numbers, weight in scorers:
            total += weight * score(row, numbers)
        if self._other_scorers:
            total += self._other(row, plan)
        self.base[row] = total << TIE_BITS | tie(self._cluster.node_hashes().item(row), self._salt)
        self._standing[row] = _CANDIDATE

    def _other(self, row: Row, plan: _Plan) -> int:
        """The total that scorers asked alone give a row."""
        if row in self._unscored:
            self._unscored.discard(row)
            plan = self._plan(_ANY, False)
        if plan.others is None:
            mask: int = self._others.item(row)
            return mask
        cells = One(self.columns, row)
        total = sum(weight * int(score(cells)) for score, weight in plan.others)
        self._others[row] = total
        self.bodies_run += len(plan.others)
        return total

    def with_more(self, rows: Array, pods: Array, gains: Mapping[Hashable, Gain]) -> Array:
        """The bases of candidates with `pods` more pods of this class on each."""
        cells = Crowded(self.columns, rows, pods, gains)
        base = np.zeros(len(rows), np.int64)
        for part in self.scorers:
            base += part.judge.score(cells) * part.weight
        base <<= TIE_BITS
        base |= ties(self._cluster.node_hashes()[rows], self._salt)
        for part in self.filters:
            if int(part.judge.filters_on) & OF_PODS:
                base[np.broadcast_to(np.asarray(part.judge.feasible(cells)) != 0, base.shape)] = NEVER
        return base

    def scores(self, row: Row) -> dict[str, int]:
        """The score of a row by plugin, 0..100, as they went into its base."""
        cells = One(self.columns, row)
        return {part.plugin.name: int(part.judge.score(cells)) for part in self.scorers}
