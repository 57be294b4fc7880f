"""Labels of nodes as integer columns, one per key that a pod or plugin uses.

A value is interned per key; a node without the label has `ABSENT`. A topology domain is an interned value: rows of one
zone hold one number, so "pods per zone" is an array indexed by it. A key that no node has needs no column of its own:
pods may name any key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from koord.api.text.selector import Operator, Requirement
from koord.scheduler.state.table import Array, Column, Reason, Row, Table

ABSENT: Final = -1
EMPTY: Final[Mapping[str, int]] = MappingProxyType({})

LabelColumn = tuple[str, str]


class Labels:
    """The label columns of a table, made when first asked for and kept up to date from then on."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._of_row: dict[Row, Mapping[str, str]] = {}
        self._having: Counter[str] = Counter()
        "How many rows have a key."
        self._ids: dict[str, dict[str, int]] = {}
        self._kept: set[str] = set()
        self._nowhere: Array = np.full(0, ABSENT, np.int32)

    def put(self, row: Row, labels: Mapping[str, str]) -> None:
        """The labels of a row are these."""
        if self._of_row.get(row) == labels:
            return
        self.forget(row)
        self._of_row[row] = labels
        self._having.update(labels.keys())
        for key in self._ids:
            self._write(key, row, labels)
        self._table.touch(row, int(Reason.LABELS))

    def forget(self, row: Row) -> None:
        for key in self._of_row.pop(row, ()):
            self._having[key] -= 1
            if not self._having[key]:
                del self._having[key]

    def of(self, row: Row) -> Mapping[str, str]:
        return self._of_row[row]

    def column(self, key: str) -> Array:
        """The value of a label on every row, as a number. To be read at once: it may be another array later."""
        if key not in self._ids and not self._having[key]:
            if len(self._nowhere) != self._table.capacity:
                self._nowhere = np.full(self._table.capacity, ABSENT, np.int32)
                self._nowhere.flags.writeable = False
            return self._nowhere
        return self._declare(key)

    def keep(self, key: str) -> None:
        """A reader uses the column of a key in the table."""
        self._kept.add(key)
        self._declare(key)

    def give_up(self) -> list[LabelColumn]:
        """Forgets the keys that no row has any more, and returns their columns."""
        idle = [key for key in self._ids if not self._having[key] and key not in self._kept]
        for key in idle:
            del self._ids[key]
        return [("label", key) for key in idle]

    def _declare(self, key: str) -> Array:
        name: LabelColumn = ("label", key)
        if key not in self._ids:
            self._ids[key] = {}
            self._table.declare(Column(name, np.int32, Reason.LABELS, ABSENT))
            for row, labels in self._of_row.items():
                self._write(key, row, labels)
        return self._table.columns[name]

    def values(self, key: str) -> Mapping[str, int]:
        """The numbers of a key's values. Grows; a number does not change its meaning as long as a row has the key."""
        self.column(key)
        return self._ids.get(key, EMPTY)

    def matches(self, requirement: Requirement, rows: npt.NDArray[np.intp] | slice) -> npt.NDArray[np.bool_]:
        """Which rows fulfil a requirement on a label."""
        column: npt.NDArray[np.int32] = self.column(requirement.key)[rows]
        ids = self._ids.get(requirement.key, EMPTY)
        match requirement.operator:
            case Operator.EXISTS:
                return np.not_equal(column, ABSENT)
            case Operator.DOES_NOT_EXIST:
                return np.equal(column, ABSENT)
            case Operator.GREATER | Operator.LESS:
                wanted = [number for value, number in ids.items() if requirement.matches({requirement.key: value})]
                return np.isin(column, wanted)
            case _:
                wanted = [ids[value] for value in requirement.values if value in ids]
                inside = column == wanted[0] if len(wanted) == 1 else np.isin(column, wanted)
                negative = requirement.operator in (Operator.NOT_IN, Operator.NOT_EQUALS)
                return ~inside if negative else inside

    def _write(self, key: str, row: Row, labels: Mapping[str, str]) -> None:
        ids = self._ids[key]
        value = labels.get(key)
        number = ABSENT if value is None else ids.setdefault(value, len(ids))
        self._table.columns["label", key][row] = number
