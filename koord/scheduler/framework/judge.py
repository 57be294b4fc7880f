"""What a plugin says of rows for one class of pods: a `Judge` by itself, `facet`s for what depends on other rows.

    judge.feasible(cells)   0 where a node will do, else a mask of the judge's own reasons
    judge.score(cells)      0..100 from the row alone
    judge.facets            what depends on other rows: domains, and scores normalised over the candidates
    judge.exact             an exact look at the winner, for what no column can say; what it finds goes to `reserve`
    judge.fixes(ask, row)    what would make it accept a row that it rejects: for explanations
    judge.shortcuts         what spares it questions: for speed

A formula is written once for one row and many: see `cells`. Rows of an explanation go through the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Gain, Numbers, OfRow
from koord.scheduler.framework.change import Change
from koord.scheduler.framework.exact_check import Door, ExactCheck
from koord.scheduler.framework.facet import Facet
from koord.scheduler.state.table import Array, Reason, Row
from koord.scheduler.state.view import View


class Need(NamedTuple):
    """An amount that must be left on a row: the row is rejected where has - taken < adds."""

    has: Hashable
    taken: Hashable
    "Columns of what there is, and what is taken of it."
    adds: int
    "What the pod takes."
    lasts: bool = True
    "Whether preemption is of no use where the row has less than that in all."


class NeededAmounts:
    """What a verdict by amounts is about, in the order of the mask's bits."""

    __slots__ = ("needs", "promised")

    def __init__(self, needs: Sequence[Need]) -> None:
        self.needs = tuple(needs)
        self.promised: Callable[[Cells], Cells] | None = None
        "How cells look with what other pods were promised, where there are any. Set by the framework."

    def seen(self, cells: Cells) -> Cells:
        """Cells with what other pods were promised."""
        return cells if self.promised is None else self.promised(cells)

    def left(self, cells: Cells) -> list[Numbers]:
        """What is left of each amount, without the pod."""
        cells = self.seen(cells)
        return [cells[need.has] - cells[need.taken] for need in self.needs]


@dataclass(frozen=True, slots=True)
class FastForms:
    """A judge's verdicts and scores in forms that serve many classes. Judges of one type whose forms have an equal key
    differ in numbers only. The framework has these forms for `AmountJudge`."""

    key: Hashable
    numbers: Any
    "The numbers of this class."
    of_row: Callable[[dict[Hashable, Array]], tuple[OfRow, OfRow]]
    """`feasible` and `score` of single rows, which take the numbers of a class, for as long as the columns are these
    arrays: they read views of the columns, which are found once for all classes."""
    together: Callable[[Sequence[Any]], Judge]
    """One judge for the numbers of many classes: its numbers are arrays, with an element for each of them. Cells are
    columns of one element a row then, so that the same formulas give a row of answers for each row."""


@dataclass(frozen=True, slots=True)
class Shortcuts:
    """What spares a judge questions. Only judges that are asked for many rows, classes or pods need any."""

    fast: FastForms | None = None
    """The same verdicts and scores in forms that serve many classes. None: the judge is asked alone. Measured: a pod of
    one of 200 classes on 5,000 nodes takes 1.2 times as long without them."""
    gains: Mapping[Hashable, Gain] | None = None
    """What the columns that its formulas read gain by one more pod of the class on a row, beside what every pod adds
    (`Shape.gains`); None: it cannot tell. See `alike`, the module."""


class Judge:
    """A plugin's view of one class of pods. Subclasses override what they have."""

    filters_on: Reason = Reason(0)
    "Changes after which `feasible` must be asked again; 0: it has no row-local filter."
    scores_on: Reason = Reason(0)
    "Likewise for `score`."
    facets: Sequence[Facet] = ()
    exact: ExactCheck | None = None
    "The exact check of a row that won, for what no column can say."
    amounts: NeededAmounts | None = None
    """Where the verdict is by amounts alone: what it is about, in the order of the mask's bits. So it is known what
    victims would give. See `AmountJudge`."""
    eased: bool = False
    """Whether a row that will do also will after pods have left it. Measured: preemption for a pod with a port, a
    spreading or an affinity takes eight times as long without it."""
    shortcuts: Shortcuts = Shortcuts()
    "For speed. Verdicts and scores are the same without them."
    view: View | None = None
    "How the class sees the cluster, where that is otherwise than all others do. Cells are as it shows them."

    @property
    def refused(self) -> str | None:
        """Why no node can take the pod now, whatever the node; None if some may. It is then the only reason reported,
        and the filter rejects all rows."""
        return None

    def feasible(self, cells: Cells) -> Numbers:
        """0 where the row will do, else a mask of reasons."""
        raise NotImplementedError(type(self).__name__)

    def score(self, cells: Cells) -> Numbers:
        raise NotImplementedError(type(self).__name__)

    def only(self) -> list[Row] | None:
        """The only rows that can do, where that is known beforehand."""
        return None

    doors: Callable[[Row], Sequence[Door]] | None = None
    """The ways onto a row, the best first, where there are several: exact checks take the first that all plugins can
    live with. None: there is one."""

    def reasons(self, mask: int) -> list[str]:
        """The words for a mask that `feasible` gave."""
        return []

    def unresolvable(self, masks: Array, rows: Array) -> Array:
        """For rows that it rejects with these masks: whether no preemption could change the verdict."""
        return np.zeros(len(rows), np.bool_)

    def fixes(self, ask: Ask, row: Row) -> Sequence[Change]:
        """The smallest alternative changes that would make this judge accept a row which it rejects. The judge ignores
        other objections to the row: each change is tried out, with all judges, before users see it."""
        return ()


class Refused(Judge):
    """For pods that no node can take, whatever the node: something else must happen first."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    @property
    def refused(self) -> str | None:
        return self._reason

    def only(self) -> list[Row]:
        return []

    def reasons(self, mask: int) -> list[str]:
        return [self._reason]

    def unresolvable(self, masks: Array, rows: Array) -> Array:
        return np.ones(len(rows), np.bool_)
