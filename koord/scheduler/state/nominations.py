"""Nominations: pods that were promised a node, and hold their room there while their victims go.

A promise counts for pods of the same or a lower priority, never for the pod itself. What a pod sees therefore depends
on the lowest priority among the promises that concern it: its `floor`. Without promises there are no floors, and no
cost.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Reason, Row, Table

_CHANGED = int(Reason.REQUESTED | Reason.PODS)


@dataclass(frozen=True, slots=True)
class Nomination:
    """A pod that waits for its place on a node."""

    record: PodRecord
    row: Row
    victims: frozenset[tuple[str, str]] = frozenset()
    "Keys and uids of its victims."


class Nominations:
    """All promises, by pod and by row."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._of_pod: dict[str, Nomination] = {}
        self.any = False
        "Whether there is any nomination: kept as a flag because it is read for every pod."
        self._on: dict[Row, dict[str, Nomination]] = {}
        self._number: Counter[int] = Counter()
        "How many there are of each priority."
        self._priorities: list[int] = []
        self._held: dict[int, dict[Hashable, dict[Row, int]]] = {}
        "By floor, what promises add to the columns; kept up to date once asked for."

    def __len__(self) -> int:
        return len(self._of_pod)

    def __iter__(self) -> Iterator[Nomination]:
        return iter(list(self._of_pod.values()))

    def of(self, key: str) -> Nomination | None:
        return self._of_pod.get(key)

    def put(self, nomination: Nomination) -> None:
        """A pod is promised a node, instead of one that it was promised before."""
        self.withdraw(nomination.record.key)
        priority = nomination.record.priority
        self._of_pod[nomination.record.key] = nomination
        self.any = True
        self._on.setdefault(nomination.row, {})[nomination.record.key] = nomination
        self._number[priority] += 1
        if self._number[priority] == 1:
            self._priorities = sorted(self._number)
        self._count(nomination, +1)

    def withdraw(self, key: str) -> Nomination | None:
        """A pod is promised nothing any more: it has its place, is gone, or lost it to a more important one."""
        nomination = self._of_pod.pop(key, None)
        if nomination is None:
            return None
        self.any = bool(self._of_pod)
        on, priority = self._on[nomination.row], nomination.record.priority
        del on[key]
        if not on:
            del self._on[nomination.row]
        self._number[priority] -= 1
        if not self._number[priority]:
            del self._number[priority]
            self._priorities = sorted(self._number)
            # Who comes after a long time finds a new floor; old ones are not worth keeping.
            self._held.pop(priority, None)
        self._count(nomination, -1)
        return nomination

    @contextmanager
    def without(self, key: str) -> Iterator[Nomination | None]:
        """As if a pod were promised nothing, while the block lasts: it does not stand in its own way."""
        nomination = self.withdraw(key)
        try:
            yield nomination
        finally:
            if nomination is not None and self._table.alive.item(nomination.row):
                self.put(nomination)

    def forget_row(self, row: Row) -> None:
        """The node is gone."""
        for key in list(self._on.get(row, ())):
            self.withdraw(key)

    def floor(self, priority: int) -> int | None:
        """The lowest priority of promises that concern a pod of some priority; None where none does."""
        at = bisect_left(self._priorities, priority)
        return self._priorities[at] if at < len(self._priorities) else None

    def on(self, row: Row) -> list[Nomination]:
        return list(self._on.get(row, {}).values())

    def at(self, row: Row, floor: int) -> list[PodRecord]:
        """The pods that are promised a row, as far as they concern pods of some floor."""
        here = self._on.get(row)
        return (
            [nomination.record for nomination in here.values() if nomination.record.priority >= floor] if here else []
        )

    def held(self, floor: int) -> dict[Hashable, dict[Row, int]]:
        """What the promises of a floor add to the columns of their rows. Read it, do not keep it."""
        amounts = self._held.get(floor)
        if amounts is None:
            amounts = self._held[floor] = {}
            for nomination in self._of_pod.values():
                if nomination.record.priority >= floor:
                    _add(amounts, nomination, +1)
        return amounts

    def _count(self, nomination: Nomination, sign: int) -> None:
        for floor, columns in self._held.items():
            if nomination.record.priority >= floor:
                _add(columns, nomination, sign)
        if self._table.alive.item(nomination.row):
            self._table.touch(nomination.row, _CHANGED)


def _add(columns: dict[Hashable, dict[Row, int]], nomination: Nomination, sign: int) -> None:
    row = nomination.row
    for column, amount in nomination.record.shape.gains:
        cells = columns.setdefault(column, {})
        now = cells.get(row, 0) + sign * amount
        if now:
            cells[row] = now
        else:
            cells.pop(row, None)
