"""How some pods see the cluster otherwise than all others do: a reservation's owners see what it holds as free.

A plugin owns a view and changes it (`add`, `hide`, `show`); every class of pods that it gives the view to reads it:

    columns          the table's columns, with the amounts that the view adds to some cells
    counts, keep     what is known of the hidden pods alone, to be taken off what is known of all pods

Columns without added amounts are the table's own memory. The others are copies that follow the table's log of changes,
once for all classes of the view; so readers of columns need not know whether they read a view.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import numpy as np

from koord.scheduler.state.counts import Counts
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Array, Reason, Row, Table

if TYPE_CHECKING:
    from koord.scheduler.state.cluster import Cluster

FEW_ROWS: Final = 8
"""Up to this many changed rows are written one by one: numpy's fixed cost per call is more than the arithmetic."""
ALL_AT_ONCE: Final = 32
"""Writing all cells of a column takes as long as looking up one in this many of them."""
_PODS: Final = int(Reason.PODS)


class CountsPods(Protocol):
    """Counts something about pods on rows. Made empty, then called with every pod."""

    def __init__(self) -> None: ...

    def pod_moved(self, record: PodRecord, row: Row, sign: int) -> None:
        """A pod came to a row (+1), or left it (-1)."""
        ...


Kept = TypeVar("Kept", bound=CountsPods)


class View:
    """What is added to cells, and which pods are not there.

    Code that changes it inside a transaction must have the change undone: notes of pods are called for pods that an
    undo moves, `Cluster.undoable` is for the rest.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._table = cluster.table
        self._added: dict[Hashable, Array] = {}
        self.rows: set[Row] = set()
        "Rows whose cells look otherwise than they are, or did once."
        self._columns: dict[Hashable, Array] = {}
        self._copies: list[tuple[Array, Array, Array]] = []
        "For each column with amounts: the cells as seen, the table's cells, and what is added."
        self._cells: list[tuple[memoryview, memoryview, memoryview]] = []
        self._reasons, self._version, self._capacity = 0, -1, -1
        self._hidden: dict[Row, dict[str, PodRecord]] = {}
        self.counts = Counts(self._hidden)
        "Of hidden pods."
        self._kept: dict[type[CountsPods], CountsPods] = {}

    def add(self, column: Hashable, row: Row, amount: int) -> None:
        """From now on, a cell looks as if it had `amount` more; a negative amount: less."""
        if not amount:
            return
        self.rows.add(row)
        added = self._added.get(column)
        if added is None:
            added = self._added[column] = np.zeros(self._table.capacity, np.int64)
            self._capacity = -1
        elif row >= len(added):
            added = self._added[column] = np.pad(added, (0, self._table.capacity - len(added)))
        added[row] += amount
        self._table.touch(row, self._table.reason_of(column))

    def added(self, column: Hashable, row: Row) -> int:
        """What it adds to a cell."""
        added = self._added.get(column)
        return 0 if added is None or row >= len(added) else int(added[row])

    def hide(self, record: PodRecord, row: Row) -> None:
        """A pod on a row is not there, except for its amounts: those are for `add`."""
        self._move(record, row, +1)
        self._hidden.setdefault(row, {})[record.key] = record

    def show(self, record: PodRecord, row: Row) -> None:
        """It is there again, or has left the row."""
        here = self._hidden[row]
        del here[record.key]
        if not here:
            del self._hidden[row]
        self._move(record, row, -1)

    def hidden(self, row: Row) -> Collection[PodRecord]:
        """The pods on a row that are hidden."""
        here = self._hidden.get(row)
        return here.values() if here else ()

    def visible(self, records: list[PodRecord], row: Row) -> list[PodRecord]:
        """Of pods on a row, those that are not hidden."""
        here = self._hidden.get(row)
        return [record for record in records if record.key not in here] if here else records

    def keep(self, kind: type[Kept]) -> Kept:
        """What a kind of counter knows of the hidden pods, made on first use and kept up to date."""
        counter = self._kept.get(kind)
        if counter is None:
            counter = self._kept[kind] = kind()
            for row, records in self._hidden.items():
                for record in records.values():
                    counter.pod_moved(record, row, +1)
        assert isinstance(counter, kind)
        return counter

    def _move(self, record: PodRecord, row: Row, sign: int) -> None:
        self.counts.moved(record, row, sign)
        for counter in self._kept.values():
            counter.pod_moved(record, row, sign)
        self._table.touch(row, _PODS)

    @property
    def columns(self) -> dict[Hashable, Array]:
        """As the pods of the view see them. Another dictionary means that all arrays are others, too."""
        if self._version != self._table.version or self._capacity < 0:
            self._follow()
        return self._columns

    def follow(self, rows: Iterable[Row]) -> dict[Hashable, Array]:
        """The columns, where only these rows are sure to be up to date; the others are once `columns` is read.
        For callers that read no other rows: most changes are elsewhere."""
        if self._capacity != self._table.capacity:
            return self.columns
        self._write_few(rows)
        return self._columns

    def _follow(self) -> None:
        table = self._table
        if self._capacity != table.capacity:
            self._copy()
        else:
            changed = table.changes(self._version)
            if changed is None:
                self._write(slice(None))
            elif changed.reasons & self._reasons:
                rows = changed.entries
                if len(rows) * ALL_AT_ONCE > table.capacity:
                    self._write(slice(None))
                elif len(rows) > FEW_ROWS:
                    self._write(rows)
                else:
                    self._write_few(rows.tolist())
        self._version = table.read()

    def _copy(self) -> None:
        table = self._table
        self._columns, self._copies = _Columns(table), []
        for name, added in self._added.items():
            if len(added) < table.capacity:
                added = self._added[name] = np.pad(added, (0, table.capacity - len(added)))
            there = table.columns[name]
            seen = self._columns[name] = there.copy()
            self._copies.append((seen, there, added))
        self._cells = [(seen.data, there.data, added.data) for seen, there, added in self._copies]
        self._reasons = 0
        for name in self._added:
            self._reasons |= table.reason_of(name)
        self._capacity = table.capacity
        self._write(slice(None))

    def _write(self, rows: Array | slice) -> None:
        for seen, there, added in self._copies:
            if isinstance(rows, slice):
                np.add(there, added, out=seen, casting="unsafe")
            else:
                seen[rows] = there[rows] + added[rows]

    def _write_few(self, rows: Iterable[Row]) -> None:
        for row in rows:
            for seen, there, added in self._cells:
                seen[row] = there[row] + added[row]


class _Columns(dict[Hashable, Array]):
    """Columns by name. A column without a copy is the table's memory, in a separate array object: caches that compare
    array identity notice that a view's arrays differ."""

    def __init__(self, table: Table) -> None:
        super().__init__({name: column[:] for name, column in table.columns.items()})
        self._table = table

    def __missing__(self, name: Hashable) -> Array:
        column = self[name] = self._table.columns[name][:]
        return column
