"""The cluster as a table: one row per node, one column per fact.

Columns are contiguous arrays; a plugin declares its own (`Column`), the table owns growth, reuse of rows, undo and the
log of changes. A row is dirty *for a reason*, so a cache of results per row looks again only at what concerns it.

All writes go through `set` and `add`: inside a transaction they can be undone, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntFlag
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from koord.api.text.stored import MOST

Array: TypeAlias = npt.NDArray[Any]
Row: TypeAlias = int

FIRST_ROWS: Final = 64
MOST_GAINS: Final = 1 << 12
LONGEST_LOG: Final = 1 << 16
"""Changes remembered. A reader that lags further behind reads every row again, which is then cheaper anyway."""


MOST_OF_A_POD: Final = MOST
"""What one pod asks for, or one node has, counts up to here."""
MOST_IN_A_CELL: Final = (1 << 62) - 1
"""A sum beyond this is kept beside its cell, so that it is exact when parts of it leave again."""
_STANDS_FOR_MORE: Final = 1 << 62
"""Plugins write this where there is no limit."""
FEW_ROWS: Final = 4
"""Fewer cells of a column are written one by one: numpy's fixed cost per call is more than that."""
SMALL: Final = 1 << 40
"""No sum of amounts up to this one reaches the most that a cell holds: they are added without a check."""


def _fits(value: int) -> bool:
    """Whether a cell holds a number."""
    return -MOST_IN_A_CELL <= value <= _STANDS_FOR_MORE


class Reason(IntFlag):
    """Why a row changed."""

    NODE = 1
    "The node came, went, or is another one."
    ALLOCATABLE = 2
    REQUESTED = 4
    "What its pods ask for, and how many they are."
    LABELS = 8
    TAINTS = 16
    UNSCHEDULABLE = 32
    PODS = 64
    "Which pods it has: their labels, ports, volumes."
    IMAGES = 128
    LOAD = 256
    "Measured usage."
    EXACT = 512
    "An exact check on it failed or may now succeed: devices, CPUs, reservations."

    ANY = 1023
    "All of the above: everything about a row."

    FREED = 1024
    "A pod left its node or asks for less: room, ports and disks are free. Said of events; rows have REQUESTED, PODS."
    STORAGE = 2048
    "Claims, volumes, classes, or what drivers say of nodes. Said of events: no row is another for it."
    CLAIMS = 4096
    "ResourceClaims, and the devices and classes that they are about. Said of events."


@dataclass(frozen=True, slots=True)
class Column:
    """A fact about every node. Declared once, by the part that writes it."""

    name: Hashable
    dtype: npt.DTypeLike
    reason: Reason
    fill: int | float = 0


class Changes(msgspec.Struct):
    """Rows that changed, each once, and all the reasons together."""

    reasons: int
    _rows: list[Row] | None = None
    _index: Array | None = None
    "One of these two at least, or a part of the table's log."
    _log: tuple[Array, Array] | None = None
    "The row of every change, and its reasons."
    since: int | None = None
    "The version after which they changed, where this is a part of the log."
    lasts: Array | None = None
    "Which of its entries are the last ones of their rows; None: all."
    _places: Array | None = None
    _last_of: memoryview | None = None
    "By row, the number of its last change, where this is a part of the log."

    def __len__(self) -> int:
        if self._rows is not None:
            return len(self._rows)
        return len(self.rows) if self.lasts is None else len(self.places)

    @property
    def rows(self) -> list[Row]:
        if self._rows is None:
            self._rows = self.index.tolist()
        return self._rows

    @property
    def index(self) -> Array:
        """The same as an array."""
        if self._index is None:
            self._index = np.array(self._rows, np.intp) if self._log is None else self._log[0][self.places]
        return self._index

    @property
    def places(self) -> Array:
        """Of a part of the log: where in it the last entry of each of these rows is."""
        if self._places is None:
            assert self.lasts is not None
            self._places = self.lasts.nonzero()[0]
        return self._places

    @property
    def entries(self) -> Array:
        """The row of every change, in their order; a row that changed more than once appears as often."""
        return self.index if self._log is None else self._log[0]

    def among(self, rows: Collection[Row]) -> list[Row]:
        """Those of some rows that changed. It takes no longer than to go through the shorter of the two."""
        last_of, since = self._last_of, self.since
        if last_of is None or since is None or len(rows) > len(self.entries):
            return [row for row in self.rows if row in rows]
        return [row for row in rows if last_of[row] >= since]

    def because_of(self, reasons: int) -> list[Row]:
        """Of these, the rows that changed for one of some reasons."""
        if not self.reasons & reasons:
            return []
        if self._log is None:
            return self.rows
        rows, why = self._log
        return list(dict.fromkeys(rows[(why & reasons) != 0].tolist()))


Gains: TypeAlias = tuple[tuple[Hashable, int], ...]
"""Columns, and what is added to each."""


class _Gaining(NamedTuple):
    gains: Gains
    "Held here, so that no other gains get its identity."
    cells: list[tuple[memoryview, int]]
    reasons: int
    large: bool
    "Whether sums may leave a cell's range."


class _Beyond(NamedTuple):
    """Stands for what a column's cell cannot hold, among writes that can be taken back."""

    column: Hashable


class _Columns(dict[Hashable, Array]):
    """A column that was forgotten is made again when it is read."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self._table = table

    def __missing__(self, name: Hashable) -> Array:
        column = self._table.forgettable(name)
        if column is None:
            raise KeyError(name)
        return self._table.declare(column)


class Table:
    """Rows of nodes. `len(table)` counts the rows in use; arrays have `capacity` rows, some of them free."""

    def __init__(self, forgettable: Callable[[Hashable], Column | None] = lambda name: None) -> None:
        """`forgettable`: the column of a name that may be forgotten, and made again when it is read."""
        self.forgettable = forgettable
        self.columns: dict[Hashable, Array] = _Columns(self)
        self.alive: npt.NDArray[np.bool_] = np.zeros(FIRST_ROWS, np.bool_)
        self.row_of: dict[str, Row] = {}
        self.names: list[str] = [""] * FIRST_ROWS
        self.capacity = FIRST_ROWS
        self.used = 0
        "Rows from here on were never in use."
        self._declared: dict[Hashable, Column] = {}
        self._reasons: dict[Hashable, int] = {}
        self._reasons_of: dict[tuple[Hashable, ...], Reason] = {}
        self._free: list[Row] = list(range(FIRST_ROWS - 1, -1, -1))
        self._log_rows: Array = np.zeros(2 * LONGEST_LOG, np.intp)
        self._log_reasons: Array = np.zeros(2 * LONGEST_LOG, np.int32)
        self._log_lasts: Array = np.zeros(2 * LONGEST_LOG, np.bool_)
        "Which entries are the last ones of their rows."
        # Single cells of a memoryview are read and written in half the time that those of an array take.
        self._log = self._log_rows.data, self._log_reasons.data, self._log_lasts.data
        self._logged = 0
        "How much of the log is in use; its first entry is change number `_log_start`."
        self._log_start = 0
        self._known_to = 0
        self._last_row, self._last_why = -1, 0
        self._why_at: dict[int, int] = {}
        """By combination of reasons, the version after the last change with that combination. Combinations are few:
        going through them costs less than going through a part of the log."""
        self._last_of: memoryview = np.full(FIRST_ROWS, -1, np.int64).data
        "By row, the number of its last change."
        self._gaining: dict[int, _Gaining] = {}
        "By the identity of what pods bring. Finding columns by name costs more than adding to them."
        self._beyond: dict[tuple[Hashable, Row], int] = {}
        "By column and row, what a sum has beyond what its cell holds."
        self.version = 0
        "The number of changes so far."
        self._undo: list[tuple[Hashable, Row, Any]] | None = None

    def __len__(self) -> int:
        return len(self.row_of)

    def read(self) -> int:
        """The version that a reader is now up to date with; for its next call of `changes`."""
        self._known_to = self.version
        return self._known_to

    def declare(self, column: Column) -> Array:
        """The array of a column, made on first use. Ask again after the table may have grown."""
        declared = self._declared.get(column.name)
        if declared is None:
            self._declared[column.name] = column
            self._reasons[column.name] = int(column.reason)
            self.columns[column.name] = np.full(self.capacity, column.fill, column.dtype)
        elif declared != column:
            raise ValueError(f"column {column.name!r} is declared twice, differently")
        return self.columns[column.name]

    def forget_columns(self, names: Sequence[Hashable]) -> None:
        """Drops columns whose cells all have their fill, until they are read again. All arrays are replaced by new
        ones: call it only between two decisions."""
        if self._undo is not None:
            raise RuntimeError("a transaction is open")
        for name in names:
            del self.columns[name], self._declared[name], self._reasons[name]
        self._reasons_of.clear()
        # As when a node comes and the table grows, caches that depend on arrays notice.
        self._grow(self.capacity + 1)
        self.touch(0, int(Reason.NODE))

    def reasons_of(self, names: Iterable[Hashable]) -> Reason:
        """After which changes some columns may be others: those of nodes are."""
        names = tuple(names)
        reason = self._reasons_of.get(names)
        if reason is None:
            if len(self._reasons_of) >= MOST_GAINS:
                self._reasons_of.clear()
            reason_bits = int(Reason.NODE)
            for name in names:
                reason_bits |= self.reason_of(name)
            reason = self._reasons_of[names] = Reason(reason_bits)
        return reason

    def add_row(self, name: str) -> Row:
        if not self._free:
            # Free rows cost time in every pass over all rows, so there are not many.
            self._grow(self.capacity + max(FIRST_ROWS, self.capacity // 4))
        row = self._free.pop()
        self.used = max(self.used, row + 1)
        self.row_of[name], self.names[row], self.alive[row] = row, name, True
        self.touch(row, int(Reason.ANY))
        return row

    def remove_row(self, name: str) -> None:
        """Free a row; its columns go back to their fill, so that the next node in the row starts clean."""
        row = self.row_of.pop(name)
        self.names[row], self.alive[row] = "", False
        for column in self._declared.values():
            self.columns[column.name][row] = column.fill
        self._beyond = {cell: more for cell, more in self._beyond.items() if cell[1] != row}
        self._free.append(row)
        self.touch(row, int(Reason.ANY))

    def set(self, name: Hashable, row: Row, value: Any) -> None:
        """Write one cell. Writing the same value is not a change."""
        array = self.columns[name]
        old = array.item(row)
        if self._beyond or (type(value) is int and not -MOST_IN_A_CELL <= value <= _STANDS_FOR_MORE):  # as `_fits`
            value = self._held(name, row, value)
        if old == value:
            return
        if self._undo is not None:
            self._undo.append((name, row, old))
        array[row] = value
        self.touch(row, self._reasons[name])

    def set_many(self, rows: Sequence[Row], values: Mapping[Hashable, Sequence[Any]]) -> None:
        """Write cells of some rows, each row once: by column, a value for each of them. As `set`, one by one."""
        if self._undo is not None or self._beyond or len(rows) < FEW_ROWS:
            for name, column in values.items():
                for row, value in zip(rows, column, strict=True):
                    self.set(name, row, value)
            return
        index, changed, reasons = np.array(rows, np.intp), np.zeros(len(rows), np.int32), self._reasons
        for name, column in values.items():
            array = self.columns[name]
            try:
                new = np.array(column, array.dtype)
            except OverflowError:
                new = None
            if new is None or (new.dtype == np.int64 and not _fits(int(new.min())) & _fits(int(new.max()))):
                for row, value in zip(rows, column, strict=True):
                    self.set(name, row, value)
                continue
            changed[array[index] != new] |= reasons[name]
            array[index] = new
        for i in np.flatnonzero(changed).tolist():
            self.touch(rows[i], int(changed[i]))

    def add(self, name: Hashable, row: Row, delta: int) -> None:
        if delta:
            beyond = self._beyond.get((name, row), 0) if self._beyond else 0
            self.set(name, row, self.columns[name].item(row) + beyond + delta)

    def _held(self, name: Hashable, row: Row, value: Any) -> Any:
        """What a cell holds of a value; the rest is kept beside it."""
        fits = type(value) is not int or _fits(value)
        held = value if fits else max(-MOST_IN_A_CELL, min(MOST_IN_A_CELL, value))
        self._keep_beyond(name, row, 0 if fits else value - held)
        return held

    def _keep_beyond(self, name: Hashable, row: Row, more: int) -> None:
        before = self._beyond.get((name, row), 0)
        if before != more:
            if self._undo is not None:
                self._undo.append((_Beyond(name), row, before))
            self._write_beyond(name, row, more)
            self.touch(row, self._reasons[name])

    def _write_beyond(self, name: Hashable, row: Row, more: int) -> None:
        if more:
            self._beyond[name, row] = more
        else:
            self._beyond.pop((name, row), None)

    def gain(self, row: Row, gains: Gains, sign: int, reasons: int) -> None:
        """Add to several cells of a row what a pod brings (+1), or takes away (-1), which is a change for some more
        reasons. Missing columns are made."""
        gaining = self._gaining.get(id(gains))
        if gaining is None:
            gaining = self._find_columns(gains)
        if gaining.large or self._beyond:
            for name, amount in gains:
                self._add_whole(name, row, sign * amount)
            self.touch(row, gaining.reasons | reasons)
            return
        if self._undo is not None:
            self._undo += [(name, row, cells[row]) for (name, _), (cells, _) in zip(gains, gaining.cells, strict=True)]
        if sign > 0:
            for cells, amount in gaining.cells:
                cells[row] += amount
        else:
            for cells, amount in gaining.cells:
                cells[row] -= amount
        self.touch(row, gaining.reasons | reasons)

    def gain_many(self, rows: Array, gains: Gains, reasons: int) -> None:
        """As `gain`, of as many equal pods as there are rows; amounts are small, and so are all sums."""
        gaining = self._gaining.get(id(gains)) or self._find_columns(gains)
        assert not gaining.large
        assert not self._beyond
        different, numbers = np.unique(rows, return_counts=True)
        listed = different.tolist()
        for name, amount in gains:
            column = self.columns[name]
            before = column[different]
            if self._undo is not None:
                self._undo += [(name, row, old) for row, old in zip(listed, before.tolist(), strict=True)]
            column[different] = before + amount * numbers
        for row in listed:
            self.touch(row, gaining.reasons | reasons)

    @property
    def sums_are_small(self) -> bool:
        """Whether every sum fits into its cell."""
        return not self._beyond

    def _add_whole(self, name: Hashable, row: Row, delta: int) -> None:
        """As `add`, of amounts that may be large: no cell holds more than leaves room to add one pod to it."""
        old = self.columns[name].item(row)
        exact = old + self._beyond.get((name, row), 0) + delta
        held = max(-MOST_IN_A_CELL, min(MOST_IN_A_CELL, exact))
        if self._undo is not None:
            self._undo.append((name, row, old))
        self._keep_beyond(name, row, exact - held)
        self.columns[name][row] = held

    def _find_columns(self, gains: Gains) -> _Gaining:
        for name, _ in gains:
            if name not in self.columns:
                self.declare(Column(name, np.int64, Reason.REQUESTED))
        if len(self._gaining) >= MOST_GAINS:
            self._gaining.clear()
        reasons = 0
        for name, _ in gains:
            reasons |= self._reasons[name]
        cells = [(self.columns[name].data, amount) for name, amount in gains]
        is_large = any(amount > SMALL for _, amount in gains)
        gaining = self._gaining[id(gains)] = _Gaining(gains, cells, reasons, is_large)
        return gaining

    def reason_of(self, name: Hashable) -> int:
        """Why a row changes when a column does."""
        if name not in self._reasons:
            self.columns[name]
        return self._reasons[name]

    def touch(self, row: Row, reason: int) -> None:
        """Note that a row changed, also where the change is not in a column."""
        at = self._logged
        if row == self._last_row and self._known_to < self.version:
            # A placement writes several columns of one row: one entry, as long as no reader has seen it.
            if reason & ~self._last_why:
                self._last_why |= reason
                self._log_reasons[at - 1] = self._last_why
                self._why_at[self._last_why] = self.version
            return
        if at == len(self._log_rows):
            self._log_rows[:LONGEST_LOG] = self._log_rows[LONGEST_LOG:]
            self._log_reasons[:LONGEST_LOG] = self._log_reasons[LONGEST_LOG:]
            self._log_lasts[:LONGEST_LOG] = self._log_lasts[LONGEST_LOG:]
            self._log_start += LONGEST_LOG
            at = LONGEST_LOG
        rows, reasons, lasts = self._log
        rows[at], reasons[at], lasts[at] = row, reason, True
        last_of, version = self._last_of, self.version
        before = last_of[row] - self._log_start
        if before >= 0:
            lasts[before] = False
        last_of[row] = version
        self._logged = at + 1
        self.version = self._why_at[reason] = version + 1
        self._last_row, self._last_why = row, reason

    def last_change(self, row: Row) -> int:
        """The number of a row's last change. While it is the same, results about the row stay valid."""
        self._known_to = self.version
        last: int = self._last_of[row]
        return last

    def reasons(self, since: int) -> int | None:
        """Why rows changed after a version, all together; None where that is too long ago to tell."""
        if since == self.version - 1:
            return self._last_why
        return self._reasons_after(since) if since >= self._log_start else None

    def _reasons_after(self, since: int) -> int:
        reasons = 0
        for why, version in self._why_at.items():
            if version > since:
                reasons |= why
        return reasons

    def changes(self, since: int) -> Changes | None:
        """What changed after a version; None where that is too long ago to tell."""
        if since == self.version - 1:
            return Changes(self._last_why, [self._last_row])
        start, end = since - self._log_start, self._logged
        if start < 0:
            return None
        rows, reasons, lasts = self._log_rows[start:end], self._log_reasons[start:end], self._log_lasts[start:end]
        why = self._reasons_after(since)
        return Changes(why, _log=(rows, reasons), since=since, lasts=lasts, _last_of=self._last_of)

    def last_changes(self, since: int, to: int | None = None) -> tuple[Array, Array]:
        """Of the changes after a version, which is not too long ago to tell, and up to another one, those that are the
        last ones of their rows: their places among them, and the rows."""
        start, end = since - self._log_start, self._logged if to is None else to - self._log_start
        places = self._log_lasts[start:end].nonzero()[0]
        return places, self._log_rows[start:end][places]

    def different(self, since: int) -> int:
        """How many rows changed after a version, which is not too long ago to tell."""
        return int(np.count_nonzero(self._log_lasts[since - self._log_start : self._logged]))

    @contextmanager
    def recording(self) -> Iterator[list[tuple[Hashable, Row, Any]]]:
        """Collect the writes made inside, so that `restore` can take them back."""
        if self._undo is not None:
            raise RuntimeError("a transaction is open already")
        self._undo = []
        try:
            yield self._undo
        finally:
            self._undo = None

    def restore(self, writes: list[tuple[Hashable, Row, Any]]) -> None:
        """Take writes back, the last first."""
        for name, row, old in reversed(writes):
            if isinstance(name, _Beyond):
                self._write_beyond(name.column, row, old)
            else:
                self.columns[name][row] = old
                self.touch(row, self._reasons[name])

    def _grow(self, new: int) -> None:
        old = self.capacity
        for name, column in self._declared.items():
            grown = np.full(new, column.fill, column.dtype)
            grown[:old] = self.columns[name]
            self.columns[name] = grown
        self._gaining.clear()
        alive = np.zeros(new, np.bool_)
        alive[:old] = self.alive
        self.alive, self.capacity = alive, new
        last_of = np.full(new, -1, np.int64)
        last_of[:old] = self._last_of
        self._last_of = last_of.data
        self.names += [""] * (new - old)
        self._free = [*range(new - 1, old - 1, -1), *self._free]
