"""What each plugin of a class says of every row, counted: the first that turns it away, and why."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from koord.scheduler.framework.cells import Cells, Many
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.state.table import Array, Row, Table


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One plugin's share in a class."""

    plugin: Plugin
    judge: Judge
    weight: int
    rank: int = 0
    "Its place among those that are asked before filters: if several refuse a pod on every node, the first one counts."
    pins: bool = True
    "Whether `Judge.only` counts."


class Verdicts:
    """The filters' verdicts on every row: the first filter that rejects it, and its mask; counted."""

    def __init__(self, blocked: Array, table: Table, filters: Sequence[Part], columns: dict[Hashable, Array]) -> None:
        self._filters = filters
        self.counts: dict[tuple[int, int], int] = {}
        self._of_row: dict[Row, tuple[int, int]] = {}
        left = table.alive.copy()
        for index, part in enumerate(filters):
            out = np.flatnonzero(left & ((blocked >> np.uint32(index)) & np.uint32(1)).astype(np.bool_))
            if len(out):
                masks = np.broadcast_to(np.asarray(part.judge.feasible(Many(columns, out))), out.shape)
                for row, mask in zip(out.tolist(), masks.astype(np.int64).tolist(), strict=True):
                    self._of_row[row] = (index, mask)
                left[out] = False
        for verdict in self._of_row.values():
            self.counts[verdict] = self.counts.get(verdict, 0) + 1
        self._alive = table.alive

    def judge(self, row: Row, blocked: int, cells: Cells) -> None:
        """A row has been judged again."""
        old = self._of_row.pop(row, None)
        new: tuple[int, int] | None = None
        if blocked and self._alive.item(row):
            index = (blocked & -blocked).bit_length() - 1
            new = self._of_row[row] = (index, int(self._filters[index].judge.feasible(cells)))
        if old != new:
            if old is not None:
                self.counts[old] -= 1
                if not self.counts[old]:
                    del self.counts[old]
            if new is not None:
                self.counts[new] = self.counts.get(new, 0) + 1
