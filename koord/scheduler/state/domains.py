"""Numbers of pods per topology domain, and rows grouped by the domains that they are in.

A `Dimension` gives every row a code and every code a number: a weighted sum of tallies over the rows of a domain that
count. Where no two rows share a domain (hosts), the code stands for the number itself, so that thousands of domains
are a handful of codes. A `Grouping` combines dimensions: rows with equal codes are one group.

    code 0           the row lacks the label
    placing a pod    changes one number (domains), or one row's code (rows as domains)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from koord.scheduler.state.counts import Tally
from koord.scheduler.state.labels import ABSENT
from koord.scheduler.state.table import Array, Changes, Reason, Row

if TYPE_CHECKING:
    from koord.scheduler.state.cluster import Cluster

Counted: TypeAlias = Callable[[npt.NDArray[np.intp] | slice], Array]
"""Which of some rows count."""

FEW_ROWS: Final = 48
"""Up to this many changed rows are handled one by one; more are cheaper all together."""
_NODES: Final = int(Reason.NODE | Reason.LABELS)
_TAINTS: Final = int(Reason.TAINTS)


class Dimension:
    """Domains of one label, with their numbers."""

    def __init__(
        self,
        cluster: Cluster,
        key: str,
        sources: Sequence[tuple[Tally, int]],
        *,
        by_row: bool | None = None,
        most: int | None = None,
        counted: Counted | None = None,
    ) -> None:
        """`by_row` True: each row is its own domain; None: where the label shows it. `most` bounds numbers of rows."""
        self._cluster, self._key, self._sources = cluster, key, tuple(sources)
        self._by_row_wanted, self._most, self._counted_rows = by_row, most, counted
        self.identity = (key, self._sources, by_row, most, counted)
        "Dimensions that are equal in this are the same; `counted` is hashable for that reason."
        self._versions = [0] * len(self._sources)
        self._plain = self._sources[0][0] if len(self._sources) == 1 and self._sources[0][1] == 1 else None
        "The tally whose number a row's amount is, where there is no more to it."
        self.by_row = False
        self.codes: Array = np.zeros(0, np.int32)
        "The code of every row."
        self.values: Array = np.zeros(1, np.int64)
        "The number of every code. That of code 0 is for rows without the label, and mostly means nothing."
        self.rows: Array = np.zeros(1, np.int64)
        "How many rows that count have each code."

    @property
    def size(self) -> int:
        return len(self.values)

    @property
    def looks_at_taints(self) -> bool:
        return self._counted_rows is not None

    def code_of(self, value: str) -> int | None:
        """The code of a label's value, where codes are domains."""
        number = self._cluster.labels.values(self._key).get(value)
        return None if number is None else number + 1

    def rebuild(self) -> None:
        """Sum up all rows."""
        table, labels = self._cluster.table, self._cluster.labels
        self._ids = labels.column(self._key).copy()
        self._counts = table.alive.copy()
        if self._counted_rows is not None:
            self._counts &= self._counted_rows(slice(None))
        amounts = np.zeros(table.capacity, np.int64)
        for i, (tally, weight) in enumerate(self._sources):
            tally.add_to(amounts, weight)
            self._versions[i] = tally.version
        amounts *= self._counts
        has = self._ids != ABSENT
        self._rows_of = np.bincount(self._ids[has], minlength=len(labels.values(self._key)))
        self.by_row = self._by_row_wanted or (self._by_row_wanted is None and not (self._rows_of > 1).any())
        if self.by_row:
            if self._most is not None:
                amounts = np.minimum(amounts, self._most)
            values, inverse = distinct(amounts)
            self.values = np.concatenate((np.zeros(1, np.int64), values))
            self.codes = ((inverse + 1) * has).astype(np.int32)
            self._code_of_value = {int(value): code for code, value in enumerate(values, 1)}
        else:
            self.codes = self._ids + 1
            sums = np.bincount(self.codes, amounts, minlength=len(labels.values(self._key)) + 1)
            self.values = np.rint(sums).astype(np.int64)
        self.rows = np.bincount(self.codes[self._counts], minlength=self.size)

    def catch_up(self, recoded: list[Row]) -> bool | None:
        """Follow the tallies; whether any number changed. None where they changed too much: then rebuild."""
        changed = False
        versions = self._versions
        for i, (tally, weight) in enumerate(self._sources):
            seen = versions[i]
            if tally.version == seen:
                continue
            moves = tally.since(seen)
            versions[i] = tally.version
            if moves is None:
                return None
            changed = True
            if self.by_row:
                for move in moves:
                    row = move if move >= 0 else ~move
                    # A row that does not count has the number 0, whatever comes or goes.
                    if self._counts.item(row):
                        self._recode(row)
                    recoded.append(row)
            else:
                codes, counts, values = self.codes, self._counts, self.values
                for move in moves:
                    row = move if move >= 0 else ~move
                    if counts.item(row):
                        code = codes.item(row)
                        values[code] = values.item(code) + (weight if move >= 0 else -weight)
        return changed

    def reseat(self, rows: Sequence[Row], recoded: list[Row]) -> bool:
        """Rows may have another label, or count no more, or do now. False where that changes the kind of codes."""
        index = np.array(rows, np.intp)
        counts = self._cluster.table.alive[index]
        if self._counted_rows is not None:
            counts = counts & self._counted_rows(index)
        numbers = self._cluster.labels.column(self._key)[index]
        different = (self._ids[index] != numbers) | (self._counts[index] != counts)
        for i in different.nonzero()[0].tolist():
            recoded.append(rows[i])
            if not self._reseat(rows[i], numbers.item(i), counts.item(i)):
                return False
        return True

    def _reseat(self, row: Row, number: int, counts: bool) -> bool:
        old, amount, code = self._ids.item(row), self._amount(row), self.codes.item(row)
        if self._counts.item(row):
            self.rows[code] -= 1
            if not self.by_row:
                self.values[code] -= amount
        self._ids[row], self._counts[row] = number, counts
        if old != number:
            self._grow_to(number)
            if old != ABSENT:
                self._rows_of[old] -= 1
            if number != ABSENT:
                self._rows_of[number] += 1
                if self.by_row and self._by_row_wanted is None and self._rows_of.item(number) > 1:
                    return False
        code = self._code(row) if self.by_row else number + 1
        self.codes[row] = code
        if counts:
            self.rows[code] += 1
            if not self.by_row:
                self.values[code] += amount
        return True

    def _amount(self, row: Row) -> int:
        if self._plain is not None:
            return self._plain.at(row)
        amount: int = 0
        for tally, weight in self._sources:
            amount += weight * tally.at(row)
        return amount

    def _recode(self, row: Row) -> None:
        """The number of a row that counts, and is its own domain, may be another one."""
        old = self.codes.item(row)
        if old:
            code = self._code_for(self._amount(row))
            if code != old:
                self.codes[row], rows = code, self.rows
                rows[old], rows[code] = rows.item(old) - 1, rows.item(code) + 1

    def _code(self, row: Row) -> int:
        """The code of a row that is its own domain."""
        if self._ids.item(row) == ABSENT:
            return 0
        return self._code_for(self._amount(row) if self._counts.item(row) else 0)

    def _code_for(self, value: int) -> int:
        if self._most is not None and value > self._most:
            value = self._most
        code = self._code_of_value.get(value)
        if code is None:
            code = self._code_of_value[value] = self.size
            self.values = np.append(self.values, value)
            self.rows = np.append(self.rows, 0)
        return code

    def _grow_to(self, number: int) -> None:
        more = number + 1 - len(self._rows_of)
        if more > 0:
            self._rows_of = np.pad(self._rows_of, (0, more))
        if not self.by_row and number + 2 > self.size:
            more = number + 2 - self.size
            self.values, self.rows = np.pad(self.values, (0, more)), np.pad(self.rows, (0, more))


def grouping_of(cluster: Cluster, dimensions: Sequence[Dimension]) -> Grouping:
    """The grouping by these dimensions, shared by all classes of pods that need the same one."""
    identity = tuple([dimension.identity for dimension in dimensions])
    grouping = cluster.shared.get(identity)
    if grouping is None:
        grouping = cluster.shared[identity] = Grouping(cluster, dimensions)
    assert isinstance(grouping, Grouping)
    return grouping


class Grouping:
    """Rows grouped by their codes in several dimensions. `codes[d][g]` is the code of group g in dimension d."""

    def __init__(self, cluster: Cluster, dimensions: Sequence[Dimension]) -> None:
        self._version = -1
        self.changed_at = 0
        "Counts the times that anything about it changed."
        self.moves = 0
        "Counts the times that rows went to another group, while groups kept their numbers."
        self._cluster, self.dimensions = cluster, tuple(dimensions)
        self._reasons = _NODES | (_TAINTS if any(dimension.looks_at_taints for dimension in dimensions) else 0)
        self.groups: Array = np.zeros(0, np.int32)
        self._codes: list[Array] = []
        self._group_of: dict[tuple[int, ...], int] = {}
        self._most_groups = 0
        self._epoch = 0
        self.size = 0
        "How many groups there are. It is asked for several times a pod."

    @property
    def shape(self) -> tuple[int, int]:
        """Changes whenever groups are added or renumbered."""
        return self._epoch, self.size

    def codes(self, dimension: int) -> Array:
        return np.arange(self.size) if len(self.dimensions) == 1 else self._codes[dimension]

    def values(self, dimension: int) -> Array:
        """The number of every group in a dimension."""
        return self.spread(dimension, self.dimensions[dimension].values)

    def spread(self, dimension: int, by_code: Array) -> Array:
        """What every group has, of something that is known for the codes of a dimension."""
        return by_code if len(self.dimensions) == 1 else by_code[self._codes[dimension]]

    def refresh(self) -> None:
        """Catch up with the state."""
        table = self._cluster.table
        if self._version == table.version:
            return
        is_current = self._version >= 0 and len(self.groups) == table.capacity
        reasons = table.reasons(self._version) if is_current else None
        if reasons is None or not self._follow(reasons):
            self._rebuild()
        if len(self.dimensions) == 1:
            self.size = self.dimensions[0].size
        self._version = table.read()

    def _follow(self, reasons: int) -> bool:
        """Take up what changed; False where that is more than can be told by rows."""
        different = False
        recoded: list[Row] = []
        for dimension in self.dimensions:
            followed = dimension.catch_up(recoded)
            if followed is None:
                return False
            different = different or followed
        if reasons & self._reasons:
            changed = self._cluster.table.changes(self._version)
            assert changed is not None
            moved = changed.because_of(self._reasons)
            if len(moved) > FEW_ROWS:
                return False
            for dimension in self.dimensions:
                if not dimension.reseat(moved, recoded):
                    return False
            different = different or bool(recoded)
        if recoded:
            self.moves += 1
        if len(self.dimensions) > 1:
            for row in recoded:
                self._regroup(row)
            if self.size > self._most_groups:
                return False
        self.changed_at += different
        return True

    def _regroup(self, row: Row) -> None:
        codes = tuple([dimension.codes.item(row) for dimension in self.dimensions])
        group = self._group_of.get(codes)
        if group is None:
            group = self._group_of[codes] = self.size
            self.size += 1
            self._codes = [np.append(former, code) for former, code in zip(self._codes, codes, strict=True)]
        self.groups[row] = group

    def _rebuild(self) -> None:
        for dimension in self.dimensions:
            dimension.rebuild()
        self._epoch += 1
        self.changed_at += 1
        if len(self.dimensions) == 1:
            self.groups = self.dimensions[0].codes
            return
        groups = self.dimensions[0].codes.astype(np.int64)
        for dimension in self.dimensions[1:]:
            _, groups = distinct(groups * dimension.size + dimension.codes)
        self.groups = groups.astype(np.int32)
        member = np.zeros(int(groups.max()) + 1, np.intp)
        member[groups] = np.arange(len(groups))
        self._codes = [dimension.codes[member] for dimension in self.dimensions]
        self._group_of = {tuple(codes): group for group, codes in enumerate(np.stack(self._codes, axis=1).tolist())}
        self.size = len(member)
        # Groups that no row is in any more stay until they are too many.
        self._most_groups = 2 * self.size + 256


def distinct(numbers: Array) -> tuple[Array, Array]:
    """The different numbers, in order, and the place of each number among them. Without sorting, where they are few."""
    least = int(numbers.min())
    span = int(numbers.max()) - least + 1
    if span > 4 * len(numbers):
        return np.unique(numbers, return_inverse=True)
    offsets = numbers - least
    there = np.zeros(span, np.bool_)
    there[offsets] = True
    return there.nonzero()[0] + least, (np.cumsum(there) - 1)[offsets]


class Grouped:
    """A facet over a grouping: what all of them have in common."""

    def __init__(self, cluster: Cluster, dimensions: Sequence[Dimension]) -> None:
        self.grouping = grouping_of(cluster, dimensions)
        self._seen = -1
        self._is_one = True

    def refresh(self, changed: Changes | None) -> bool:
        grouping = self.grouping
        grouping.refresh()
        if grouping.changed_at == self._seen:
            return False
        self._seen = grouping.changed_at
        self._is_one = grouping.size < 2
        self.changed()
        return True

    def changed(self) -> None:
        """Groups or numbers are different now."""

    @property
    def groups(self) -> Array:
        return self.grouping.groups

    @property
    def moves(self) -> int:
        return self.grouping.moves

    @property
    def flat(self) -> bool:
        return self._is_one

    @property
    def size(self) -> int:
        return self.grouping.size
