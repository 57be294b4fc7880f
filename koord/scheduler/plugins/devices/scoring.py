"""Which nodes and devices are preferred: empty ones (LeastAllocated), full ones (MostAllocated), or by another policy.

Per resource with a total T and a free amount F, for a pod that takes A:

    least   (T - (T - F + A)) * 100 // T        most   min(T - F + A, T) * 100 // T

weighted over the resources of the plugin's arguments that there are. Of a device, T and F are its own; of a node, they
are sums over all healthy devices of the type, A is what one device gives, and types add up. Nodes are then compared
with the best of them, which has 100.

A `Policy` is how one class of pods ranks nodes (by columns, for all rows and again for those that changed) and devices
(on the row that won). Another policy is another object with these methods: see `policy_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from koord.api.configuration.scheduler_args import DeviceShareArgs
from koord.scheduler.framework.amount_scores import BALANCED, LEAST_ALLOCATED, MOST_ALLOCATED, ScoreShape
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Many, Numbers, One
from koord.scheduler.framework.facet import Facet
from koord.scheduler.plugins.devices.inventory import Unit
from koord.scheduler.plugins.devices.ledger import COUNTED, taken, total
from koord.scheduler.plugins.devices.requests import Request, Wanted
from koord.scheduler.plugins.devices.room import Room
from koord.scheduler.plugins.packing.policy import packing_of
from koord.scheduler.plugins.taint_toleration import by_maximum
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Changes, Reason, Row
from koord.scheduler.state.view import View

BEST: Final = 100
FEW: Final = 6
"""Up to this many rows are scored one by one: numpy's fixed cost per call is more than the arithmetic."""
_SHAPES: Final = {
    "LeastAllocated": LEAST_ALLOCATED,
    "MostAllocated": MOST_ALLOCATED,
    "BalancedAllocation": BALANCED,
}
_CHANGES: Final = int(Reason.NODE | Reason.EXACT)


class RowScores(Protocol):
    """Scores of rows by themselves."""

    scores_on: Reason
    "Changes after which it is asked again."

    joins: Hashable
    "Of equal ones, one can answer for all; None: it is asked alone."

    @property
    def numbers(self) -> Hashable:
        """Those in which they differ."""
        ...

    def score(self, cells: Cells) -> Numbers:
        """Of one row or many: higher is better."""
        ...

    def of_row(self, row: Row, numbers: Any) -> int:
        """Of one row, for any of them."""
        ...

    def together(self, numbers: Sequence[Any]) -> Callable[[Many], Array]:
        """Scores by row and element, of cells that are columns."""
        ...


class Policy(Protocol):
    """How one class of pods ranks nodes and devices."""

    @property
    def rows(self) -> RowScores | None:
        """None: facets say all."""
        ...

    @property
    def facets(self) -> Sequence[Facet]:
        """Scores that depend on other candidates."""
        ...

    def device(self, room: Room, request: Request, unit: Unit) -> float:
        """Of one device of the row that won: higher is better, and the lowest minor among equals."""
        ...

    def slot(self, row: Row) -> int | None:
        """The device of a row that it prefers for a share, by its slot, where it knows that already."""
        ...

    def remarks(self) -> Sequence[str]:
        """What else there is to say about the scores, for people."""
        ...


def policy_of(args: DeviceShareArgs, ask: Ask, wanted: Wanted, cluster: Cluster, view: View | None) -> Policy:
    """The policy that the arguments name, for the class of a pod."""
    strategy = args.scoring_strategy
    if strategy.type == "FGD" or strategy.type == "ShadowPrices":
        return packing_of(strategy.type, ask, cluster, view)
    return ByAllocation(
        _SHAPES[strategy.type], {weight.name: weight.weight for weight in strategy.resources}, wanted, cluster, view
    )


class ByAllocation:
    """Koordinator's scores."""

    rows: RowScores | None = None

    def __init__(
        self, shape: ScoreShape, weights: Mapping[str, int], wanted: Wanted, cluster: Cluster, view: View | None
    ) -> None:
        self._shape, self._weights = shape, weights
        columns = [_columns(request, weights) for request in wanted.requests]
        self.facets: Sequence[Facet] = (_Relative(shape, columns, cluster, view),) if any(columns) else ()

    def slot(self, row: Row) -> int | None:
        return None

    def remarks(self) -> Sequence[str]:
        return ()

    def device(self, room: Room, request: Request, unit: Unit) -> float:
        asked, used = request.amounts, room.used(unit)
        filled = [
            (whole, min(whole, used.get(name, 0)) + asked.get(name, 0), weight)
            for name, weight in self._weights.items()
            if (whole := unit.total.get(name, 0))
        ]
        return self._shape.plain(filled)


Filling = tuple[Hashable, Hashable, int, int]
"""Columns of what there is and what is taken, what the pod adds, and the weight."""


def _columns(request: Request, weights: Mapping[str, int]) -> list[Filling]:
    asked = request.amounts
    counted = COUNTED[request.type]
    return [
        (total(request.type, name), taken(request.type, name), asked.get(name, 0), weight)
        for name, weight in weights.items()
        if name in counted
    ]


class _Relative:
    """Rows grouped by the sum of their types' scores; a group is worth its share of the best candidate's."""

    gates = closes = flat = False
    normalised = True

    def __init__(
        self, shape: ScoreShape, fillings: Sequence[Sequence[Filling]], cluster: Cluster, view: View | None
    ) -> None:
        self._shape, self._fillings, self._cluster, self._view = shape, fillings, cluster, view
        self.size = BEST * len(fillings) + 1
        self.groups: Array = np.zeros(0, np.int64)
        self._raw = np.arange(self.size)

    def raw(self, cells: Cells) -> Numbers:
        worth: Numbers = 0
        for filling in self._fillings:
            amounts = ((cells[has], cells[used] + adds, weight) for has, used, adds, weight in filling)
            worth = worth + (self._shape.plain(amounts) if type(cells) is One else self._shape.of_rows(amounts))
        return worth

    def refresh(self, changed: Changes | None) -> bool:
        table = self._cluster.table
        columns = table.columns if self._view is None else self._view.columns
        if changed is None or len(self.groups) != table.capacity:
            self.groups = np.zeros(table.capacity, np.int64)
            self.groups[: table.used] = self.raw(Many(columns, slice(0, table.used)))
            return True
        if not changed.reasons & _CHANGES:
            return False
        rows = changed.because_of(_CHANGES)
        if len(rows) > FEW:
            self.groups[rows] = self.raw(Many(columns, rows))
            return True
        for row in rows:
            self.groups[row] = self.raw(One(columns, row))
        return True

    def table(self, candidates: Array | None) -> Array:
        assert candidates is not None
        return by_maximum(self._raw, candidates)
