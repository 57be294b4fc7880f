"""NodeResourcesBalancedAllocation: prefers nodes whose resources would be used to the same degree.

    fraction_r = min(1, (requested + pod) / allocatable)
    score = int((1 - sigma) * 100), sigma the fractions' standard deviation (of two: half their distance)
It looks at real requests. A pod that asks for nothing is not scored.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy

import numpy as np

from koord.api.configuration.scheduler_args import NodeResourcesBalancedAllocationArgs
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers, OfRow, One, all_positive, are_exact
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Reason, Row


class NodeResourcesBalancedAllocation(Plugin):
    name = "NodeResourcesBalancedAllocation"

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None = None) -> None:
        self._args = (args or NodeResourcesBalancedAllocationArgs()).completed()

    def keyed_by_spec(self, ask: Ask) -> bool:
        return True

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return ask.requests

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        asked = dict(ask.requests)
        names = [each.name for each in self._args.resources]
        if not any(asked.get(name) for name in names):
            return None
        wanted = [name for name in names if name in ("cpu", "memory", "ephemeral-storage") or asked.get(name)]
        for name in wanted:
            cluster.resource(name)
        return _Balanced([(name, asked.get(name, 0)) for name in wanted])


class _Balanced(Judge):
    scores_on = Reason.NODE | Reason.ALLOCATABLE | Reason.REQUESTED

    def __init__(self, adds: list[tuple[str, int]]) -> None:
        self._adds: list[tuple[Hashable, Hashable, Numbers]] = [
            (("allocatable", name), ("requested", name), amount) for name, amount in adds
        ]
        self._of_row: tuple[Array, OfRow] | None = None
        self.alike = tuple(name for name, _ in adds)
        self.numbers: tuple[int, ...] = tuple(amount for _, amount in adds)
        self._together: Array | None = None
        "What pods of many classes add: resource, nothing, class."

    def together(self, judges: Sequence[_Balanced]) -> _Balanced:
        joint = copy(self)
        joint._adds = [
            (capacity, requested, np.array([each._adds[i][2] for each in judges]))
            for i, (capacity, requested, _) in enumerate(self._adds)
        ]
        if len(self._adds) == 2:
            joint._together = np.array([adds for _, _, adds in joint._adds], np.float64)[:, np.newaxis]
        return joint

    def score(self, cells: Cells) -> Numbers:
        if isinstance(cells, One):
            return self._score_one(cells)
        if self._together is not None:
            capacity = cells.block(tuple([capacity for capacity, _, _ in self._adds]))
            if all_positive(capacity) and are_exact(capacity):
                return self._score_together(cells, capacity, self._together)
        fractions, has = [], []
        for capacity_column, requested_column, adds in self._adds:
            capacity = cells[capacity_column]
            every = all_positive(capacity)
            fraction = (cells[requested_column] + adds) / (capacity if every else np.maximum(capacity, 1))
            fractions.append(np.minimum(fraction, 1.0))
            has.append(None if every else capacity > 0)
        if len(fractions) == 2:
            # Of two numbers the deviation is half their distance, which is exact where a square root is not.
            deviation = np.abs(fractions[0] - fractions[1]) * 0.5
            for there in has:
                if there is not None:
                    deviation *= there
        else:
            stacked = np.stack(fractions)
            held = np.stack([np.broadcast_to(there is None or there, stacked[0].shape) for there in has])
            number = np.maximum(held.sum(axis=0), 1)
            mean = (stacked * held).sum(axis=0) / number
            deviation = np.sqrt((((stacked - mean) * held) ** 2).sum(axis=0) / number)
        return ((1.0 - deviation) * 100).astype(np.int64)

    def _score_together(self, cells: Cells, capacity: Array, adds: Array) -> Numbers:
        """As `score`, of two resources that all rows have; each call of numpy is for both."""
        fractions = cells.block(tuple([requested for _, requested, _ in self._adds])) + adds
        fractions /= capacity
        np.minimum(fractions, 1.0, out=fractions)
        deviation = fractions[0] - fractions[1]
        np.abs(deviation, out=deviation)
        deviation *= 0.5
        np.subtract(1.0, deviation, out=deviation)
        deviation *= 100
        return deviation.astype(np.int64)

    def _score_one(self, cells: One) -> int:
        columns = cells.columns
        if cells.overlay:
            pairs = [(cells[has], cells[taken] + adds) for has, taken, adds in self._adds]
            return _balance([min(1.0, used / capacity) for capacity, used in pairs if capacity > 0])
        found = self._of_row
        if found is None or found[0] is not columns["pod count"]:
            # The table has grown: all columns are other arrays.
            found = self._of_row = columns["pod count"], self.of_row(columns)[1]
        return found[1](cells.rows, self.numbers)

    def of_row(self, columns: dict[Hashable, Array]) -> tuple[OfRow, OfRow]:
        views = [(columns[has].data, columns[taken].data) for has, taken, _ in self._adds]

        def score(row: Row, numbers: tuple[int, ...]) -> int:
            fractions = []
            for (capacities, requested), adds in zip(views, numbers):  # noqa: B905 - equally long
                capacity, used = capacities[row], requested[row] + adds
                if capacity > 0:
                    fractions.append(used / capacity if used < capacity else 1.0)
            if len(fractions) == 2:
                return int((1.0 - abs(fractions[0] - fractions[1]) / 2) * 100)
            return _balance(fractions)

        return lambda row, numbers: 0, score


def _balance(fractions: list[float]) -> int:
    """The score of one row, by how full it is in each resource that it has."""
    if len(fractions) == 2:
        deviation = abs(fractions[0] - fractions[1]) / 2
    elif len(fractions) > 2:
        mean = sum(fractions) / len(fractions)
        deviation = float(np.sqrt(sum((each - mean) ** 2 for each in fractions) / len(fractions)))
    else:
        deviation = 0.0
    return int((1.0 - deviation) * 100)
