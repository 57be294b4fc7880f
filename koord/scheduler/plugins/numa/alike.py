"""Rows that look alike: what was said of one holds for the others, and for the same row when it looks so again.

Nodes of one kind that hold the same amounts are many, and a judge of single rows is asked after every placement. Going
through sets of NUMA nodes costs a hundred times as much as finding what was said before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, TypeVar

from koord.scheduler.framework.cells import Cells, Numbers
from koord.scheduler.plugins.numa.allocations import BIND, CORES, CPUS, PER_CORE, POLICY, RATIO, WHOLE, ZONES
from koord.scheduler.plugins.numa.hints import Hints
from koord.scheduler.plugins.numa.zones import Choice
from koord.scheduler.state.table import Array

MOST: Final = 1 << 13
_ALWAYS: Final = (POLICY, BIND, PER_CORE, RATIO, ZONES, CPUS, WHOLE, CORES)
T = TypeVar("T")


class Alike:
    """Answers by what a row looks like to one class of pods."""

    def __init__(self, columns: Sequence[Hashable]) -> None:
        """`columns`: what the answers depend on, beside what every judge here looks at."""
        self._names = (*_ALWAYS, *columns)
        self._of: Array | None = None
        "The column that shows whether the table has grown."
        self._views: list[memoryview] = []
        self._verdicts: dict[Hashable, Numbers] = {}
        self._scores: dict[Hashable, int] = {}
        self._hints: dict[Hashable, dict[str, Hints]] = {}
        self._choices: dict[Hashable, Choice] = {}

    def verdict(self, cells: Cells, work: Callable[[Cells], Numbers]) -> Numbers:
        return self._found(self._verdicts, cells, work)

    def score(self, cells: Cells, work: Callable[[Cells], int]) -> int:
        return self._found(self._scores, cells, work)

    def hints(self, cells: Cells, work: Callable[[Cells], dict[str, Hints]]) -> dict[str, Hints]:
        return self._found(self._hints, cells, work)

    def choice(self, cells: Cells, work: Callable[[Cells], Choice]) -> Choice:
        return self._found(self._choices, cells, work)

    def _found(self, memo: dict[Hashable, T], cells: Cells, work: Callable[[Cells], T]) -> T:
        columns, row = cells.columns, cells.rows
        first = columns[POLICY]
        if first is not self._of:
            self._of, self._views = first, [columns[name].data for name in self._names]
        key = tuple([view[row] for view in self._views])
        result = memo.get(key)
        if result is None:
            if len(memo) >= MOST:
                memo.clear()
            result = memo[key] = work(cells)
        return result
