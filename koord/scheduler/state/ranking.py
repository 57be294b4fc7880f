"""The pods of every node, the most important first: by priority, then by who has run for longer."""

from __future__ import annotations

from bisect import bisect_left
from math import inf
from typing import Final, NamedTuple

from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.stand_ins import is_stand_in
from koord.scheduler.state.table import Row
from koord.scheduler.state.watchers import Index


class Ranked(NamedTuple):
    """The pods of a row in their order, and their priorities, negative so that they rise."""

    records: list[PodRecord]
    order: list[int]

    def below(self, priority: int) -> list[PodRecord]:
        """Those of a strictly lower priority."""
        return self.records[bisect_left(self.order, -priority + 1) :]


NOBODY: Final = Ranked([], [])


class Ranking(Index):
    """Sorted when first asked for, and again when pods of the row have come or gone."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._rows: dict[Row, Ranked] = {}

    def pod_moved(self, record: PodRecord, row: Row, sign: int) -> None:
        if self._rows:
            self._rows.pop(row, None)

    def of(self, row: Row) -> Ranked:
        ranked = self._rows.get(row)
        if ranked is None:
            pods = self.cluster.pods_on.get(row)
            if not pods:
                return NOBODY
                # Held room cannot be preempted.
            records = sorted((record for record in pods.values() if not is_stand_in(record.key)), key=importance)
            ranked = self._rows[row] = Ranked(records, [-record.priority for record in records])
        return ranked


def importance(record: PodRecord) -> tuple[int, float, str]:
    """Sorts the most important first. A pod that has not started starts now, after all others."""
    return -record.priority, started_s(record), record.key


def started_s(record: PodRecord) -> float:
    return inf if record.start_s is None else record.start_s
