"""Licence seats that are tied to nodes: a plugin for koord's scheduler with state of its own.

    kubectl label node n1 example.com/seats=4       n1 has the seats 0 to 3
    labels: {example.com/seats: "2"}                a pod that needs two of them

Seats are written on a pod before it is bound (example.com/seat-numbers: "0,1"), and a restart reads them from there.
"""

from typing import Any

import numpy as np

from koord.api.kubernetes.pod import Pod
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers
from koord.scheduler.framework.change import Change, relabelled
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.table import Column, Reason, Row

SEATS, NUMBERS = "example.com/seats", "example.com/seat-numbers"


class Seats(Notes):  # which seats of each node are taken; a note is the numbers of one pod's seats
    name = "Licences"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.taken: dict[Row, set[int]] = {}
        cluster.table.declare(Column("seats", np.int64, Reason.LABELS))
        cluster.table.declare(Column("seats taken", np.int64, Reason.EXACT))

    def node_put(self, row: Row) -> None:
        self.cluster.table.set("seats", row, int(self.cluster.nodes[row].metadata.labels.get(SEATS, 0)))

    def of(self, pod: Pod) -> object | None:
        return tuple(int(seat) for seat in pod.metadata.annotations.get(NUMBERS, "").split(",") if seat) or None

    def moved(self, note: Any, record: Any, row: Row, sign: int) -> None:
        taken = self.taken.setdefault(row, set())
        taken.update(note) if sign > 0 else taken.difference_update(note)
        self.cluster.table.add("seats taken", row, sign * len(note))


class Licences(Plugin):
    name, notes = "Licences", Seats
    wakes_on = Reason.NODE | Reason.LABELS | Reason.FREED

    def key(self, ask: Ask, cluster: Cluster) -> int:
        return int(ask.meta.labels.get(SEATS, 0))

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        return _Judge(self.key(ask, cluster), cluster) if self.key(ask, cluster) else None

    def reserve(self, ask: Ask, row: Row, cluster: Cluster, checked: object) -> object:
        taken = cluster.notes(Seats).taken.get(row, ())
        free = [seat for seat in range(cluster.table.columns["seats"].item(row)) if seat not in taken]
        return tuple(free[: self.key(ask, cluster)]) or None

    def pre_bind(self, ask: Ask, row: Row, cluster: Cluster, note: Any) -> dict[str, Any] | None:
        return {"metadata": {"annotations": {NUMBERS: ",".join(map(str, note))}}} if note else None


class _Judge(Judge):
    filters_on = Reason.NODE | Reason.LABELS | Reason.EXACT

    def __init__(self, needed: int, cluster: Cluster) -> None:
        self._needed, self._cluster = needed, cluster

    def feasible(self, cells: Cells) -> Numbers:
        return (cells["seats"] - cells["seats taken"] < self._needed) * 1

    def reasons(self, mask: int) -> list[str]:
        return ["Insufficient licence seats"]

    def fixes(self, ask: Ask, row: Row) -> list[Change]:
        enough = self._cluster.table.columns["seats taken"].item(row) + self._needed
        return relabelled(self._cluster.nodes[row], {SEATS: str(enough)})
