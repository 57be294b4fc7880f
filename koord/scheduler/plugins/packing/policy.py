"""A packing policy as DeviceShare asks it: which row for a class of pods, and which device on the row that won.

Classes keep scores as they do those of other plugins, and have a row that changed scored together where they are many.
Pods without GPUs are scored as well: their CPU may be what a node's GPUs depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Many, Numbers, One
from koord.scheduler.framework.explains import Explains
from koord.scheduler.framework.facet import Facet
from koord.scheduler.framework.judge import FastForms, Judge, Shortcuts
from koord.scheduler.plugins.devices.inventory import Unit
from koord.scheduler.plugins.devices.requests import GPU, Request
from koord.scheduler.plugins.devices.room import Room
from koord.scheduler.plugins.packing.batch import Batch
from koord.scheduler.plugins.packing.rows import SCORED_ON, PackingRows, PolicyName
from koord.scheduler.plugins.packing.shapes import PodShape
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Reason, Row
from koord.scheduler.state.view import View


def rows_of(cluster: Cluster, policy: PolicyName) -> PackingRows:
    """The rows of a cluster under a policy, which all its classes share."""
    rows = cluster.shared.get((PackingRows, policy))
    if rows is None:
        rows = cluster.shared[PackingRows, policy] = PackingRows(cluster, policy)
    assert isinstance(rows, PackingRows)
    return rows


def packing_of(policy: PolicyName, ask: Ask, cluster: Cluster, view: View | None) -> ByPacking:
    """The policy for the class of a pod."""
    shape = rows_of(cluster, policy).demand.of_shape(ask.shape, ask.spec)
    # Invalid requests are refused before scoring.
    return ByPacking(policy, PodShape(0, 0) if shape is None else shape, cluster, view)


class ByPacking:
    """The policy for one class of pods."""

    facets: Sequence[Facet] = ()
    scores_on: Reason = SCORED_ON

    def __init__(self, policy: PolicyName, shape: PodShape, cluster: Cluster, view: View | None) -> None:
        self._rows, self._shape = rows_of(cluster, policy), shape
        self._cluster, self._table, self._view = cluster, cluster.table, view
        self.numbers = shape
        self.joins: Hashable = None if view is not None else policy
        "Classes under one policy can be asked together, unless they see rows in ways of their own."
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
        if type(cells) is One:
            return self._rows.score_one(self._shape, cells.rows)[0]
        return self._rows.score(self._shape, self._index(cells)).score

    def of_row(self, row: Row, shape: PodShape) -> int:
        """The score of one row, for any class under the same policy."""
        self._rows.follow()
        return self._rows.score_one(shape, row)[0]

    def together(self, shapes: Sequence[PodShape]) -> Callable[[Many], Array]:
        """Scores by row and class."""
        rows, batch = self._rows, Batch(shapes)

        def scores(cells: Many) -> Array:
            rows.follow()
            return rows.score_many(batch, cells.rows[:, 0])

        return scores

    def device(self, room: Room, request: Request, unit: Unit) -> float:
        if not self._shape.is_share or request.type != GPU or room.row is None:
            return 0
        worked_out = self._worked_out
        if worked_out is None or worked_out[0] != room.row or worked_out[1] != self._table.version:
            self._rows.follow()
            worked_out = self._worked_out = room.row, self._table.version, self._rows.values(self._shape, room.row)
        return worked_out[2][room.machine.slots[GPU, unit.minor]]

    def slot(self, row: Row) -> int | None:
        """The device of a row where a share would go."""
        if not self._shape.is_share or self._view is not None:
            return None
        self._rows.follow()
        return self._rows.score_one(self._shape, row)[1]

    def remarks(self) -> Sequence[str]:
        self._rows.follow()
        return (self._rows.remark,)

    def _seen(self, cells: Any) -> Numbers:
        """Of rows that look otherwise to these pods: from their cells alone."""
        many = Many(cells.columns, np.array([cells.rows])) if type(cells) is One else cells
        if isinstance(many.rows, slice):
            many = Many(many.columns, self._index(many))
        scores = self._rows.seen_through(many).score(self._shape, np.arange(len(many.rows))).score
        return scores.item(0) if type(cells) is One else scores

    def _index(self, cells: Many) -> Array:
        rows: Array = np.arange(len(self._table.alive))[cells.rows] if isinstance(cells.rows, slice) else cells.rows
        return rows


class PackingJudge(Judge, Explains):
    """For pods without devices: it scores, and rejects no row."""

    scores_on = SCORED_ON

    def __init__(self, policy: ByPacking) -> None:
        self._policy = policy
        if policy.joins is not None:
            forms = FastForms(
                policy.joins,
                policy.numbers,
                lambda columns: (_never, policy.of_row),
                lambda numbers: _Together(policy.together(numbers)),
            )
            self.shortcuts = Shortcuts(forms)

    def score(self, cells: Cells) -> Numbers:
        return self._policy.score(cells)

    def remarks(self) -> Sequence[str]:
        return self._policy.remarks()


class _Together(Judge):
    def __init__(self, scores: Callable[[Many], Array]) -> None:
        self._scores = scores

    def score(self, cells: Many) -> Numbers:
        return self._scores(cells)


def _never(row: Row, numbers: object) -> int:
    return 0
