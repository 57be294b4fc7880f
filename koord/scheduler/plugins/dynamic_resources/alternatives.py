"""Scores for requests with alternatives (`firstAvailable`): a node scores more where the earlier ones are available.

raw = sum of 8 - n over the requests, n the number of the alternative that the search chose there
score = 100 * raw / the highest raw of all nodes that would do
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from koord.scheduler.framework.facet import KeepsGroups
from koord.scheduler.plugins.dynamic_resources.ledger import Ledger
from koord.scheduler.plugins.dynamic_resources.requests import ClaimWanted
from koord.scheduler.plugins.dynamic_resources.search import NoSolution, search
from koord.scheduler.plugins.taint_toleration import by_maximum
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Changes, Reason, Row

MOST: Final = 8
"""Alternatives of one request."""
_CONCERNS: Final = int(Reason.NODE | Reason.LABELS | Reason.EXACT)


class Alternatives(KeepsGroups):
    """Rows grouped by their raw score."""

    normalised = True

    def __init__(self, cluster: Cluster, ledger: Ledger, wanted: Sequence[ClaimWanted]) -> None:
        self._cluster, self._ledger, self._wanted = cluster, ledger, wanted
        number = sum(1 for claim in wanted for request in claim.devices.requests if request.first_available)
        self._raw = np.arange(MOST * number + 1)
        self._groups = np.zeros(0, np.int64)

    def refresh(self, changed: Changes | None) -> bool:
        table = self._cluster.table
        if changed is None or len(self._groups) != table.capacity:
            self._groups = np.zeros(table.capacity, np.int64)
            rows: Sequence[Row] = list(table.row_of.values())
        elif changed.reasons & _CONCERNS:
            rows = changed.because_of(_CONCERNS)
        else:
            return False
        for row in rows:
            self._groups[row] = self._score(row) if row in self._cluster.nodes else 0
        return bool(rows)

    def _score(self, row: Row) -> int:
        solution = search(self._wanted, self._ledger.pools(row), self._ledger.usage)
        if isinstance(solution, NoSolution):
            return 0
        return sum(
            MOST - number
            for claim, numbers in zip(self._wanted, solution.alternatives, strict=True)
            for request, number in zip(claim.devices.requests, numbers, strict=True)
            if request.first_available
        )

    @property
    def size(self) -> int:
        return len(self._raw)

    def table(self, candidates: Array | None) -> Array:
        assert candidates is not None
        return by_maximum(self._raw, candidates)
