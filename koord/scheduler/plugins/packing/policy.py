"""A packing policy as DeviceShare asks it: which row for a class of pods, and which device on the row that won.

A class keeps the scores of all rows, and has those scored again that changed, all at once. Pods without GPUs are scored
as well: their CPU may be what a node's GPUs depend on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Many, Numbers, One
from koord.scheduler.framework.judge import Facet, Judge
from koord.scheduler.plugins.devices.inventory import Unit
from koord.scheduler.plugins.devices.requests import GPU, Request
from koord.scheduler.plugins.devices.room import Room
from koord.scheduler.plugins.packing.rows import SCORED_ON, PackingRows, PolicyName
from koord.scheduler.plugins.packing.shapes import PodShape
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Reason, Row
from koord.scheduler.state.view import View


def rows_of(cluster: Cluster, policy: PolicyName) -> PackingRows:
    """The rows of a cluster under a policy, which all its classes share."""
    found = cluster.shared.get((PackingRows, policy))
    if found is None:
        found = cluster.shared[PackingRows, policy] = PackingRows(cluster, policy)
    assert isinstance(found, PackingRows)
    return found


def packing_of(policy: PolicyName, ask: Ask, cluster: Cluster, view: View | None) -> ByPacking:
    """The policy for the class of a pod."""
    shape = rows_of(cluster, policy).demand.of_shape(ask.shape, ask.spec)
    # Requests that make no sense are refused before anybody scores.
    return ByPacking(policy, PodShape(0, 0) if shape is None else shape, cluster, view)


class ByPacking:
    """The policy for one class of pods."""

    facets: Sequence[Facet] = ()
    scores_on: Reason = SCORED_ON

    def __init__(self, policy: PolicyName, shape: PodShape, cluster: Cluster, view: View | None) -> None:
        self._rows, self._shape = rows_of(cluster, policy), shape
        self._cluster, self._table, self._view = cluster, cluster.table, view
        self._version = self._epoch = -1
        self._scores: Array = np.zeros(0, np.int64)
        self._device: Array = np.zeros(0, np.int64)
        "By row, where a share would go."
        self._worked_out: tuple[Row, int, list[float]] | None = None
        "Of the row that was asked for last, at which version: what it is worth by device."

    @property
    def rows(self) -> ByPacking:
        """Scores of rows by themselves."""
        return self

    def score(self, cells: Cells) -> Numbers:
        self._rows.follow()
        if self._view is not None:
            return self._seen(cells)
        if self._version != self._table.version or self._epoch != self._rows.epoch:
            self._catch_up()
        if type(cells) is One:
            return self._scores.item(cells.rows)
        return self._scores[cells.rows]

    def device(self, room: Room, request: Request, unit: Unit) -> float:
        if not self._shape.is_share or request.type != GPU or room.row is None:
            return 0
        slot = room.machine.slots[GPU, unit.minor]
        if unit.place is None and self._view is None and self._version == self._table.version:
            # Nothing but the scores tells such devices apart.
            return float(slot == self._device.item(room.row))
        known = self._worked_out
        if known is None or known[0] != room.row or known[1] != self._table.version:
            self._rows.follow()
            known = self._worked_out = room.row, self._table.version, self._rows.values(self._shape, room.row)
        return known[2][slot]

    def remarks(self) -> Sequence[str]:
        self._rows.follow()
        return (self._rows.remark,)

    def _catch_up(self) -> None:
        table, rows = self._table, self._rows
        changed = None
        if self._epoch == rows.epoch and len(self._scores) == table.capacity:
            changed = table.changes(self._version)
        if changed is None:
            self._scores, self._device = np.zeros((2, table.capacity), np.int64)
            again = np.flatnonzero(table.alive)
        else:
            again = changed.index
        if len(again):
            self._scores[again], self._device[again] = rows.score(self._shape, again)
        self._version, self._epoch = table.read(), rows.epoch

    def _seen(self, cells: Any) -> Numbers:
        """Of rows that look otherwise to these pods: from their cells alone."""
        many = cells if type(cells) is not One else Many(cells.columns, np.array([cells.rows]))
        if isinstance(many.rows, slice):
            many = Many(many.columns, np.arange(len(self._table.alive))[many.rows])
        found = self._rows.seen_through(many).score(self._shape, np.arange(len(many.rows))).score
        return found.item(0) if type(cells) is One else found


class PackingJudge(Judge):
    """For pods without devices: it scores, and turns nobody away."""

    scores_on = SCORED_ON

    def __init__(self, policy: ByPacking) -> None:
        self._policy = policy

    def score(self, cells: Cells) -> Numbers:
        return self._policy.score(cells)

    def remarks(self) -> Sequence[str]:
        return self._policy.remarks()
