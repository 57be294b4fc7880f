"""What NodeNUMAResource says of rows for one class of pods.

Amounts are judged in columns, for all rows (`formulas`); the row that wins is looked at exactly (`check`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers, One
from koord.scheduler.framework.change import Change
from koord.scheduler.framework.explains import Explains
from koord.scheduler.framework.judge import Judge
from koord.scheduler.plugins.numa.check import NUMACheck
from koord.scheduler.plugins.numa.explanation import REASONS, UNSATISFIED, Explanation
from koord.scheduler.plugins.numa.formulas import (
    CONFLICT,
    FIRST_RESOURCE,
    FRACTION,
    INVALID,
    MISMATCH,
    NO_ZONES,
    UNEVEN,
    Formulas,
)
from koord.scheduler.state.table import Array, Reason, Row

LASTING: Final = MISMATCH | FRACTION | INVALID | CONFLICT | UNEVEN | NO_ZONES
"""No pod that leaves helps."""


class NUMAJudge(Judge, Explains):
    filters_on = Reason.NODE | Reason.EXACT
    scores_on = Reason.NODE | Reason.EXACT | Reason.REQUESTED | Reason.ALLOCATABLE
    exact: NUMACheck | None

    def __init__(self, formulas: Formulas) -> None:
        self.formulas = formulas
        self._explanation = Explanation(formulas)
        self.exact = NUMACheck(formulas)
        if formulas.allocations.amplifies:
            self.filters_on |= Reason.REQUESTED | Reason.ALLOCATABLE

    def feasible(self, cells: Cells) -> Numbers:
        formulas = self.formulas
        if type(cells) is not One or formulas.allocations.amplifies:
            return formulas.verdict(cells)
        return formulas.alike.verdict(cells, formulas.verdict)

    def score(self, cells: Cells) -> Numbers:
        return self.formulas.score(cells)

    def reasons(self, mask: int) -> list[str]:
        reasons = [words for bit, words in REASONS.items() if mask & bit]
        named = enumerate(self.formulas.zones.needs, FIRST_RESOURCE)
        return reasons[:1] or [f"{UNSATISFIED}{name}" for i, name in named if mask >> i & 1]

    def unresolvable(self, masks: Array, rows: Array) -> Array:
        lasting: Array = (masks & LASTING) != 0
        return lasting

    def lack(self, cells: Cells) -> Numbers:
        cpus = self.formulas.cpu_milli // 1000
        missing = cpus - self.formulas.free(cells, self.formulas.bound(cells))
        return 0.5 + missing * (missing > 0) / max(cpus, 1)

    def fixes(self, ask: Ask, row: Row) -> Sequence[Change]:
        return self._explanation.fixes(ask, row)

    def detail(self, reason: str, rows: Sequence[Row]) -> str:
        return self._explanation.detail(reason, rows)
