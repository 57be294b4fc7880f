"""Rows of one class grouped by what its facets say of them, and the best row of every group.

    total[row] = base[row] + worth[group[row]]

The best row is therefore the best of the groups' best rows. A placement moves a row from one group to another and
changes what groups are worth: some dozens of numbers, however many nodes there are.

Of a group's rows only the best few are kept in order (a heap), with a floor that no other row of it is above. Entries
of rows that have changed stay as husks; the head of a heap is always true. A class whose rows change by the hundred
between two pods keeps no heaps: then one pass over all rows is cheaper, and where no row changes its group, over rows
sorted by groups (`_Sorted`).
"""

from __future__ import annotations

from collections.abc import Hashable, MutableMapping, Sequence
from heapq import heappop, heappush
from typing import Final, Literal

import numpy as np

from koord.scheduler.framework.facet import Facet, FewGroups
from koord.scheduler.state.domains import distinct
from koord.scheduler.state.table import Array, Row

TIE_BITS: Final = 32
"""Below a total there is a hash of the node's name, which decides among equals."""
NEVER: Final = -(1 << 61)
"""Added to a row's total, or in its place, it makes the row lose against any row without it."""
LOW: Final = NEVER // 2
"""Rows at or below this are not candidates."""
STEADY: Final = 1
"""Sorting pays after this many times."""
FEW_GROUPS: Final = 64
"""Up to this many groups are compared as plain numbers: a list of them takes less than a dozen calls of numpy."""
FEW_POINTS: Final = 1 << 20
"""Up to this many points, a total fits into a float with all the bits that decide among equals."""
MANY_MOVES: Final = 256
"""With more moved rows than that, grouping all rows again is cheaper than one by one, where several facets decide."""
KEPT: Final = 96
LONGEST_HEAP: Final = 1024
_POINT: Final = 1 << TIE_BITS


class Groups:
    """The groups of all rows; `number` counts the candidates of each, by their base alone."""

    def __init__(self, facets: Sequence[Facet], base: Array, shared: MutableMapping[Hashable, object]) -> None:
        """`shared` has what other classes can use as well."""
        self._shared = shared
        self.seen = [None if facet.flat else facet.groups for facet in facets]
        "By which arrays of the facets rows are grouped; None for one that cannot decide anything now."
        deciding = [i for i, facet in enumerate(facets) if not facet.flat]
        self.lone = deciding[0] if len(deciding) == 1 else None
        "Which facet decides alone, where one does."
        self.facets = facets = tuple([facets[i] for i in deciding])
        self._base = base
        self._best: Array | None = None
        self._heads: list[float] = []
        "The best bases in units of a point of score. Exact: see FEW_POINTS."
        self._present: list[int] | None = None
        self._candidates: int | None = None
        self._heaps: list[list[tuple[int, Row]] | None] = []
        self._floors: list[int] = []
        self._ids: dict[tuple[int, ...], int] = {}
        self._most_groups = 0
        "Limit on the number of groups; until then, groups that lost their last row stay."
        self._sorted: _Sorted | None = None
        self._moves: int | None = None
        "How often rows had changed their groups, by a facet that counts that."
        self._steady = 0
        "How often many rows have changed since one of them changed its group."
        if len(facets) == 1:
            self._codes_of_rows = facets[0].groups
            self.of_row: Array = self._codes_of_rows.astype(np.int32)
            size = facets[0].size
            self.codes: list[Array] = [np.arange(size)]
        elif facets:
            size = self._combine()
        else:
            self.of_row, size, self.codes = np.zeros(len(base), np.int32), 1, []
        self.number: Array = np.bincount(self.of_row[base > LOW], minlength=size)

    @property
    def size(self) -> int:
        return len(self.number)

    def fit(self) -> None:
        """Have room for all groups of a facet, also those that no row is in."""
        if len(self.facets) == 1:
            self._widen(self.facets[0].size)

    def move(self, row: Row, old_base: int, base: int) -> bool:
        """A row has changed. Whether that changes how many candidates each group has."""
        before, now = self.of_row.item(row), self._group(row)
        was, is_one = old_base > LOW, base > LOW
        if before != now:
            self.of_row[row] = now
            self._sorted, self._steady = None, 0
        elif self._sorted is not None:
            self._sorted.put(row, base)
        counted = was != is_one or (before != now and is_one)
        if counted:
            number = self.number
            if was:
                left = number[before] = number.item(before) - 1
                if not left:
                    self._present = None
            if is_one:
                there = number[now] = number.item(now) + 1
                if there == 1:
                    self._present = None
            if self._candidates is not None:
                self._candidates += is_one - was
        if self._best is not None and (was or is_one):
            heaps = self._heaps
            if is_one:
                heap = heaps[now]
                if heap is None:
                    self._set_best(now, max(self._best.item(now), base))
                else:
                    heappush(heap, (-base, row))
                    if before != now:
                        self._set_best(now, -heap[0][0])
            if was or heaps[before] is not None:
                self._settle(before)
        return counted

    def move_many(self, rows: Array, bases: Array, were: Array | None) -> bool | None:
        """Many rows have changed. `were`: which of them were candidates, None: those that are; then a row may be there
        twice, with its newest base last. Whether that changes how many candidates each group has; None where only a
        new grouping will do."""
        self._best = None
        regrouped = self._are_regrouped(rows)
        if regrouped is None:
            return None
        if regrouped:
            self._sorted, self._steady = None, 0
        else:
            self._steady += 1
            if self._sorted is not None:
                self._sorted.put(rows, bases)
        if were is None and not regrouped:
            return False
        if were is None:
            rows = np.unique(rows)
            bases = self._base[rows]
            were = bases > LOW
        are = bases > LOW
        if not regrouped and are.tobytes() == were.tobytes():
            return False
        if not self.facets:
            self.number[0] += are.tobytes().count(1) - were.tobytes().count(1)
            self._present = self._candidates = None
            return True
        before = self.of_row[rows]
        now = self._groups_of(rows) if regrouped else before
        size = self.size
        self.number -= np.bincount(before[were], minlength=size)
        self.number += np.bincount(now[are], minlength=size)
        self.of_row[rows] = now
        self._present = self._candidates = None
        return True

    def _are_regrouped(self, rows: Array) -> bool | None:
        """Whether rows that have changed are in other groups now; None where only a new grouping tells."""
        if not self.facets:
            return False
        if len(self.facets) > 1:
            if len(rows) > MANY_MOVES or self.size > self._most_groups:
                return None
            return self._groups_of(rows).tobytes() != self.of_row[rows].tobytes()
        facet = self.facets[0]
        self._widen(facet.size)
        moves = getattr(facet, "moves", None)
        if moves is not None and moves == self._moves:
            return False
        self._moves = moves
        # Comparing bytes is much cheaper than comparing arrays.
        return facet.groups[rows].astype(np.int32).tobytes() != self.of_row[rows].tobytes()

    def _groups_of(self, rows: Array) -> Array:
        """The groups that some rows are in now."""
        if len(self.facets) == 1:
            return self.facets[0].groups[rows]
        codes = zip(*[facet.groups[rows].tolist() for facet in self.facets], strict=True)
        return np.array([self._numbered(code) for code in codes], np.int32)

    def best_of_all(self, worth: Array) -> Row | None:
        """The row with the highest total, by a pass over all rows."""
        if self._sorted is None and self._steady >= STEADY and self.size > 1:
            self._sorted = _Sorted(_order_of(self.of_row, self.size, self._shared), self._base)
        if self._sorted is not None and self._sorted.order.size == self.size:
            return self._sorted.best_row(worth)
        total = self._base if self.size == 1 and not worth.item(0) else self._base + worth.take(self.of_row)
        row = int(total.argmax())
        return row if total.item(row) > LOW else None

    def best_row(self, worth: Array) -> Row | None:
        """The row with the highest total, by way of the groups' best ones."""
        if self._best is None:
            self._find_bests()
        assert self._best is not None
        totals = self._best + worth
        group = int(totals.argmax())
        return self._head(group) if totals.item(group) > LOW else None

    def best_of_few(self, weight: int, *, calm: bool = True) -> Row | Literal[False] | None:
        """The same in plain numbers, where a lone facet of that weight can say so, and groups with candidates are few;
        else False. Where rows do not change by the hundred (`calm`), by way of heaps."""
        facet, in_order = self.facets[0], self._sorted
        if not calm and (in_order is None or in_order.order.size != facet.size):
            return False
        present = self._present
        if present is None:
            present = self._present = self.number.nonzero()[0].tolist()
        if self._candidates is None:
            self._candidates = int(self.number.sum())
        if len(present) > FEW_GROUPS:
            return False
        scores: list[int] | None = None
        if not isinstance(facet, FewGroups):
            return False
        if facet.gates:
            if facet.closes:
                present = facet.open(present)
            scores = [0] * len(present)
        elif present:
            scores = facet.few(present, self._candidates)
        if not present:
            return None
        if scores is None:
            return False
        if not calm:
            assert in_order is not None
            return in_order.best_of_few(present, scores, weight << TIE_BITS)
        if self._best is None:
            self._find_bests()
        heads = self._heads
        totals = [heads[group] + weight * score for group, score in zip(present, scores)]  # noqa: B905 - equally long
        return self._head(present[totals.index(max(totals))])

    def _find_bests(self) -> None:
        """The best base of every group."""
        self._best = np.full(self.size, NEVER, np.int64)
        np.maximum.at(self._best, self.of_row, self._base)
        self._heads = (self._best / _POINT).tolist()
        self._heaps, self._floors = [None] * self.size, [NEVER] * self.size

    def _set_best(self, group: int, base: int) -> None:
        assert self._best is not None
        self._best[group], self._heads[group] = base, base / _POINT

    def _head(self, group: int) -> Row:
        """The best row of a group that has a candidate."""
        return (self._heaps[group] or self._refill(group))[0][1]

    def _settle(self, group: int) -> None:
        """Make the head of a heap true again."""
        heap = self._heaps[group]
        if heap is None:
            heap = self._refill(group)
        else:
            base, of_row = self._base, self.of_row
            while heap:
                value, row = heap[0]
                if base.item(row) == -value and of_row.item(row) == group:
                    break
                heappop(heap)
            if len(heap) > LONGEST_HEAP or (-heap[0][0] if heap else NEVER) <= self._floors[group] != NEVER:
                heap = self._refill(group)
        self._set_best(group, -heap[0][0] if heap else NEVER)

    def _refill(self, group: int) -> list[tuple[int, Row]]:
        rows = np.flatnonzero(self.of_row == group)
        values = self._base[rows]
        floor = LOW
        if len(rows) > KEPT:
            floor = max(LOW, int(np.partition(values, -KEPT)[-KEPT]) - 1)
        above = values > floor
        # A sorted list is a heap.
        heap = sorted(zip((-values[above]).tolist(), rows[above].tolist(), strict=True))
        self._heaps[group], self._floors[group] = heap, floor if floor > LOW else NEVER
        return heap

    def _group(self, row: Row) -> int:
        facets = self.facets
        if not facets:
            return 0
        if len(facets) == 1:
            code: int = self._codes_of_rows.item(row)
            if code >= len(self.number):
                self._widen(facets[0].size)
            return code
        return self._numbered(tuple([facet.groups.item(row) for facet in facets]))

    def _numbered(self, codes: tuple[int, ...]) -> int:
        """The group of rows with these codes."""
        group = self._ids.get(codes)
        if group is None:
            group = self._ids[codes] = self.size
            self._widen(group + 1)
            self.codes = [np.append(of_dimension, code) for of_dimension, code in zip(self.codes, codes, strict=True)]
        return group

    def _widen(self, size: int) -> None:
        more = size - self.size
        if more <= 0:
            return
        self.number = np.append(self.number, np.zeros(more, self.number.dtype))
        if len(self.facets) == 1:
            self.codes = [np.arange(size)]
        if self._best is not None:
            self._best = np.append(self._best, np.full(more, NEVER, np.int64))
            self._heads += [NEVER / _POINT] * more
            self._heaps += [[] for _ in range(more)]
            self._floors += [NEVER] * more

    def _combine(self) -> int:
        """Number the combinations of codes that there are."""
        by_facet = [facet.groups for facet in self.facets]
        groups = by_facet[0].astype(np.int64)
        for facet, codes in zip(self.facets[1:], by_facet[1:], strict=True):
            _, groups = distinct(groups * facet.size + codes)
        self.of_row = groups.astype(np.int32)
        member = np.zeros(int(groups.max()) + 1, np.intp)
        member[groups] = np.arange(len(groups))
        self.codes = [codes[member] for codes in by_facet]
        self._ids = {tuple(codes): group for group, codes in enumerate(np.stack(self.codes, axis=1).tolist())}
        self._most_groups = 2 * len(member) + 256
        return len(member)


class _Order:
    """Rows sorted by groups. Classes whose rows are in the same groups, as by zones, have it in common."""

    __slots__ = ("__weakref__", "ends", "groups", "place", "place_of", "rows", "size", "starts")

    def __init__(self, groups: Array, size: int) -> None:
        self.size = size
        self.rows: Array = np.argsort(groups, kind="stable")
        # Arrays are indexed by smaller numbers three times as slowly.
        self.place: Array = np.empty(len(groups), np.intp)
        "The place of every row."
        self.place[self.rows] = np.arange(len(groups))
        numbers = np.bincount(groups, minlength=size)
        self.groups = numbers.nonzero()[0]
        "Those that have rows, in order; and where the rows of each start and end."
        self.place_of = {group: place for place, group in enumerate(self.groups.tolist())}
        self.starts = (np.cumsum(numbers) - numbers)[self.groups]
        self.ends: list[int] = (self.starts + numbers[self.groups]).tolist()


def _order_of(of_row: Array, size: int, shared: MutableMapping[Hashable, object]) -> _Order:
    # Numbers of 16 bits are sorted without comparing them.
    groups = of_row.astype(np.int16) if size < 1 << 15 else of_row
    name = (_Order, size, groups.tobytes())
    order = shared.get(name)
    if order is None:
        order = shared[name] = _Order(groups, size)
    assert isinstance(order, _Order)
    return order


class _Sorted:
    """The bases of all rows, sorted by groups, so that the best of every group is found in one pass."""

    __slots__ = ("_bases", "order")

    def __init__(self, order: _Order, base: Array) -> None:
        self.order = order
        self._bases: Array = base[order.rows]

    def put(self, rows: Array | Row, bases: Array | int) -> None:
        self._bases[self.order.place[rows]] = bases

    def best_row(self, worth: Array) -> Row | None:
        totals = np.maximum.reduceat(self._bases, self.order.starts)
        totals += worth[self.order.groups]
        best = int(totals.argmax())
        return self._first(best) if totals.item(best) > LOW else None

    def best_of_few(self, groups: list[int], scores: list[int], weight: int) -> Row:
        """Of groups that all have candidates, and what they score."""
        heads, place_of = np.maximum.reduceat(self._bases, self.order.starts).tolist(), self.order.place_of
        totals = [heads[place_of[group]] + weight * score for group, score in zip(groups, scores, strict=True)]
        return self._first(place_of[groups[totals.index(max(totals))]])

    def _first(self, place: int) -> Row:
        """The best row of a group."""
        order = self.order
        start = order.starts.item(place)
        best: int = order.rows.item(start + int(self._bases[start : order.ends[place]].argmax()))
        return best
