"""Judging by amounts: a plugin declares what a pod needs and what it fills, and this module judges rows by it.

    needs = [Need(("allocatable", "cpu"), ("requested", "cpu"), adds=500)]      turned away where has - taken < adds
    shares = [Share(("allocatable", "cpu"), ("requested", "cpu"), adds=500)]    scored by how full it would be
    AmountJudge(table, needs, shares, LEAST_ALLOCATED)

Columns are any columns of the table: allocatable resources, zones of a node, devices, a quota's ceiling. `adds` is what
the pod of this class brings. Bit i of a verdict is need i; a subclass has the words for it (`reasons`), and proposes
changes that would help (its method `fixes`, which reads the amounts left from `left`). Everything else follows from the
declaration: after which changes to judge again, what victims would give, how far a row is from taking the pod, whether
preemption could help, and which classes can be judged together. Rules for scores are in `amount_scores`.

`shortage` is the verdict's definition. One row is judged on views of its columns, many rows as arrays, and many classes
as arrays with a column for each class; `tests/scheduler/framework/test_amounts.py` compares all of these with it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from koord.scheduler.framework.amount_scores import Filled, PodAmounts, ScoreShape
from koord.scheduler.framework.cells import Cells, Many, Numbers, OfRow, One, all_positive, are_exact
from koord.scheduler.framework.explains import Explains
from koord.scheduler.framework.judge import FastForms, Judge, Need, NeededAmounts, Shortcuts
from koord.scheduler.state.pods import is_gained
from koord.scheduler.state.table import Array, Reason, Row, Table


class Share(NamedTuple):
    """What a pod would fill of one resource."""

    capacity: Hashable
    used: Hashable
    "Columns of what there is, and what is used of it."
    adds: int
    weight: int = 1


def shortage(cells: Cells, needs: Iterable[Need]) -> int:
    """The needs that one row cannot meet, as a mask: the formula."""
    mask = 0
    for i, need in enumerate(needs):
        if cells[need.has] - cells[need.taken] < need.adds:
            mask |= 1 << i
    return mask


class AmountJudge(Judge, Explains):
    """Judges rows by declared amounts alone. See the module's text."""

    def __init__(
        self, table: Table, needs: Sequence[Need] = (), shares: Sequence[Share] = (), shape: ScoreShape | None = None
    ) -> None:
        """`shape`: None where it does not score."""
        self._table, self._shares, self._shape = table, tuple(shares), shape
        self._needed = NeededAmounts(needs)
        self.needs = self._needed.needs
        needed = tuple([(has, taken, lasts) for has, taken, _, lasts in needs])
        filled = tuple([(capacity, used, weight) for capacity, used, _, weight in shares])
        if needs:
            self.amounts = self._needed
            self.filters_on = table.reasons_of([column for columns in needed for column in columns[:2]])
        if shape is not None:
            self.scores_on = table.reasons_of([column for columns in filled for column in columns[:2]])
        self._numbers = PodAmounts(tuple([need.adds for need in needs]), tuple([share.adds for share in shares]))
        forms = FastForms(
            (needed, filled, shape),
            self._numbers,
            partial(_forms_of_row, self.needs, self._shares, shape),
            partial(_Together, self.needs, self._shares, shape),
        )
        self._views: _Views | None = None
        asked = [taken for _, taken, _ in needed] + [used for _, used, _ in filled]
        given = [has for has, _, _ in needed] + [capacity for capacity, _, _ in filled]
        counts = all(map(is_gained, asked)) and not table.reasons_of(given) & ~(Reason.NODE | Reason.ALLOCATABLE)
        self.shortcuts = Shortcuts(forms, gains={} if counts else None)

    def feasible(self, cells: Cells) -> Numbers:
        cells = self._needed.seen(cells)
        if type(cells) is not One:
            return _short(cells, self.needs, self._numbers.needed)
        if cells.overlay:
            return shortage(cells, self.needs)
        return self._of_row(cells.columns).feasible(cells.rows, self._numbers)

    def score(self, cells: Cells) -> Numbers:
        assert self._shape is not None
        if type(cells) is not One:
            return self._shape.of_rows(_filled(cells, self._shares, self._numbers.adds))
        if cells.overlay:
            return self._shape.plain(_filled(cells, self._shares, self._numbers.adds))
        return self._of_row(cells.columns).score(cells.rows, self._numbers)

    def _of_row(self, columns: dict[Hashable, Array]) -> _Views:
        """The forms for single rows, kept until the table grows: then columns are other arrays."""
        views, first = self._views, next(iter(columns.values()))
        if views is None or views.of is not first:
            views = self._views = _Views(first, *_forms_of_row(self.needs, self._shares, self._shape, columns))
        return views

    def left(self, cells: Cells) -> list[Numbers]:
        """What is left of each need, without the pod."""
        return self._needed.left(cells)

    def columns(self) -> dict[Hashable, Array]:
        """As the class sees them."""
        return self._table.columns if self.view is None else self.view.columns

    def unresolvable(self, masks: Array, rows: Array) -> Array:
        """If the empty node could not give an amount, no pod's leaving helps."""
        columns, short = self.columns(), np.zeros(len(rows), np.bool_)
        for i, need in enumerate(self.needs):
            if need.lasts:
                short |= ((masks >> i) & 1).astype(np.bool_) & (columns[need.has][rows] < need.adds)
        return short

    def lack(self, cells: Cells) -> Numbers:
        total: Numbers = 0.0
        for need, left in zip(self.needs, self.left(cells), strict=True):
            missing = need.adds - left
            total = total + missing * (missing > 0) / max(need.adds, 1)
        return total


def _forms_of_row(
    needed: Sequence[Need], filled: Sequence[Share], shape: ScoreShape | None, columns: dict[Hashable, Array]
) -> tuple[OfRow, OfRow]:
    """Verdicts and scores of single rows, for all judges of these columns."""
    needs = [(columns[need.has].data, columns[need.taken].data, 1 << i) for i, need in enumerate(needed)]

    def feasible(row: Row, amounts: PodAmounts) -> int:
        mask = 0
        for (has, taken, bit), adds in zip(needs, amounts.needed):  # noqa: B905 - equally long
            if has[row] - taken[row] < adds:
                mask |= bit
        return mask

    filter_of_row: OfRow = feasible
    if len(needs) == 3:
        filter_of_row = _quickly(feasible, *[(has, taken) for has, taken, _ in needs])
    shares = [(columns[share.capacity].data, columns[share.used].data, share.weight) for share in filled]
    return filter_of_row, _nothing if shape is None else shape.of_views(shares)


class _Views(NamedTuple):
    """A judge's formulas for single rows."""

    of: Array
    "A column that shows whether the table has grown."
    feasible: OfRow
    score: OfRow


class _Together(Judge):
    """Judges that differ in amounts only, as one. Of cells that are columns it makes an array of row, class."""

    def __init__(
        self, needs: Sequence[Need], shares: Sequence[Share], shape: ScoreShape | None, of_class: Sequence[PodAmounts]
    ) -> None:
        self._needs, self._shares, self._shape = needs, shares, shape
        self._needed = [
            np.array(column, np.int64) for column in zip(*[amounts.needed for amounts in of_class], strict=True)
        ]
        self._adds = [
            np.array(column, np.int64) for column in zip(*[amounts.adds for amounts in of_class], strict=True)
        ]
        self._has, self._taken = tuple(need.has for need in needs), tuple(need.taken for need in needs)
        self._capacities, self._used = tuple(share.capacity for share in shares), tuple(share.used for share in shares)
        self._weights = [share.weight for share in shares]
        # In blocks: resource, row, class.
        self._needed_block = np.array(self._needed, np.float64)[:, np.newaxis]
        self._adds_block = np.array(self._adds, np.float64)[:, np.newaxis]

    def feasible(self, cells: Many) -> Numbers:
        has = cells.block(self._has)
        if not are_exact(has):
            return _short(cells, self._needs, self._needed)
        short = has - cells.block(self._taken) < self._needed_block
        if not np.count_nonzero(short):
            # Usually no row is rejected, which one comparison tells.
            return 0
        masks: Numbers = 0
        for i, of_resource in enumerate(short):
            if np.count_nonzero(of_resource):
                masks = masks | of_resource * np.int64(1 << i)
        return masks

    def score(self, cells: Many) -> Numbers:
        assert self._shape is not None
        if self._shares:
            capacity = cells.block(self._capacities)
            if all_positive(capacity) and are_exact(capacity):
                scores = self._shape.of_block(capacity, cells.block(self._used), self._adds_block, self._weights)
                if scores is not None:
                    return scores
        return self._shape.of_rows(_filled(cells, self._shares, self._adds))


def _short(cells: Many, needs: Sequence[Need], adding: Sequence[Numbers]) -> Numbers:
    """As `shortage`, of many rows. Most rows are short of nothing."""
    masks: Numbers = 0
    for i, (need, adds) in enumerate(zip(needs, adding, strict=True)):
        short = cells[need.has] - cells[need.taken] < adds
        if np.count_nonzero(short):
            masks = masks | short * (1 << i)
    return masks


def _filled(cells: Cells, shares: Sequence[Share], adding: Sequence[Numbers]) -> Iterator[Filled]:
    """One after the other: arrays of all rows are not held longer than they are of use."""
    for (capacity, used, _, weight), adds in zip(shares, adding, strict=True):
        yield cells[capacity], cells[used] + adds, weight


def _quickly(feasible: OfRow, *needs: tuple[memoryview, memoryview]) -> OfRow:
    """The same verdict. A row that is short of none of three amounts, pods, CPU and memory as a rule, takes no loop."""
    (has_one, taken_one), (has_two, taken_two), (has_three, taken_three) = needs

    def quickly(row: Row, amounts: PodAmounts) -> int:
        one, two, three = amounts.needed
        if (
            has_one[row] - taken_one[row] >= one
            and has_two[row] - taken_two[row] >= two
            and has_three[row] - taken_three[row] >= three
        ):
            return 0
        return int(feasible(row, amounts))

    return quickly


def _nothing(row: Row, amounts: object) -> int:
    return 0
