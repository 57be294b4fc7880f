"""What a plugin says of rows for one class of pods: a `Judge` by itself, `Facet`s for what depends on other rows.

    judge.feasible(cells)   0 where a node will do, else a mask of the judge's own reasons
    judge.score(cells)      0..100 from the row alone
    judge.facets            what depends on other rows: domains, and scores normalised over the candidates
    judge.check(row)        an exact look at the winner, for what no column can say; what it finds goes to `reserve`
    judge.mend(ask, row)    what would make it take a row that it turns away: for explanations

A formula is written once for one row and many: see `cells`. Rows of an explanation go through the same code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Gain, Numbers, OfRow
from koord.scheduler.framework.change import Change
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Array, Changes, Reason, Row
from koord.scheduler.state.view import View


class Facet(Protocol):
    """A part of a verdict or score that is the same for all rows of a group, and changes for whole groups at once.

    Groups are small integers per row (a zone; a number of pods on the node and its zone; a raw score). What a group is
    worth may depend on how many candidates each group has, which is how scores are normalised.
    """

    gates: bool
    "Whether it rules rows out, or scores them."
    normalised: bool
    "Whether its table depends on the candidates."

    @property
    def flat(self) -> bool:
        """Whether all rows are worth the same to it, so that it cannot decide anything. May change, but seldom."""
        ...

    @property
    def closes(self) -> bool:
        """Whether it rules out any group now."""
        ...

    def refresh(self, changed: Changes | None) -> bool:
        """Catch up with the state; None: with everything. True if anything about it changed."""
        ...

    @property
    def groups(self) -> Array:
        """The group of every row. Another array means that all groups may be numbered anew; while it is the same one,
        only rows that the table logged as changed are in another group than before."""
        ...

    @property
    def size(self) -> int:
        """How many groups there are."""
        ...

    def table(self, candidates: Array | None) -> Array:
        """What each group is worth, 0..100; of a gate, whether it rules the group out. `candidates` counts the rows
        that are still in question, by group."""
        ...


class KeepsGroups(ABC):
    """A facet that scores, and keeps the group of every row itself: one group alone decides nothing."""

    gates = closes = False
    _groups: Array

    @property
    def groups(self) -> Array:
        return self._groups

    @property
    def flat(self) -> bool:
        return self.size < 2

    @property
    @abstractmethod
    def size(self) -> int: ...


class OfNodes:
    """A facet about nodes alone: no pod that comes or goes changes a row's group, nor what groups are worth unless that
    is normalised."""


class FewGroups:
    """A facet that can also do without arrays, which is faster where few groups are in question."""

    def few(self, groups: list[int], candidates: int) -> list[int] | None:
        """What these groups are worth, as `table` says; they are all that have candidates, `candidates` of them
        together. The same list comes again as long as it is the same groups. None: it takes a table."""
        return None

    def open(self, groups: list[int]) -> list[int]:
        """Of a gate: those of some groups that it does not rule out."""
        raise NotImplementedError(type(self).__name__)


class OfFewRows:
    """A facet that scores all rows 0 but a few, which it knows. Where its weight is so high that no score of others
    makes up for it, the best row is among those: no other row need be judged."""

    def rows(self) -> Array:
        """The rows that may score more, after `refresh`. A row that comes into it, or leaves it, is one that the table
        logged as changed."""
        raise NotImplementedError(type(self).__name__)

    def moved(self, changed: Changes) -> list[Row]:
        """Of rows that changed, those that are among them, or were."""
        raise NotImplementedError(type(self).__name__)


@dataclass(frozen=True, slots=True)
class Objection:
    """Why the winner will not do after all."""

    reason: str
    resolvable: bool = True
    "Whether it might if pods left the row."


class Need(NamedTuple):
    """An amount that must be left on a row: it is turned away where has - taken < adds."""

    has: Hashable
    taken: Hashable
    "Columns of what there is, and what is taken of it."
    adds: int
    "What the pod takes."
    lasts: bool = True
    "Whether preemption is of no use where the row has less than that in all."


class Joint(Protocol):
    """A step that several plugins take together for one candidate row."""

    def settle(self, offers: Sequence[object], ask: Ask, row: Row) -> object:
        """What suits all who made offers, in the order of the profile; or an `Objection`."""
        ...


@dataclass(frozen=True, slots=True)
class Door:
    """One way onto a row, of pods that see room there which other pods hold: by their room, or beside all of it."""

    plugin: str
    "Whose rooms they are: its `reserve` gets the door that was taken."
    holders: tuple[PodRecord, ...] = ()
    "The pods whose room it takes."
    limited: frozenset[str] = frozenset()
    "Resources of which it gets no more than is left in the room: that of one pod alone."
    words: str = ""
    "What objections to it begin with, for users."


class Judge:
    """A plugin's view of one class of pods. Subclasses override what they have."""

    filters_on: Reason = Reason(0)
    "Changes after which `feasible` must be asked again; 0: it has no row-local filter."
    scores_on: Reason = Reason(0)
    "Likewise for `score`."
    facets: Sequence[Facet] = ()
    exact = False
    "Whether `check` has something to say."
    amounts: Sequence[Need] = ()
    """Where the verdict is by amounts alone: what it is about, in the order of the mask's bits. So it is known what
    victims would give. See `AmountJudge`."""
    eased: bool = False
    "Whether a row that will do also will after pods have left it."
    alike: Hashable = None
    """For speed: judges of one type with an equal `alike` differ in numbers only, and `together` makes one judge of
    them. None: it is asked alone."""
    numbers: Hashable = ()
    "Those in which judges that are alike differ, as `of_row` takes them."
    only_about: set[Row] | None = None
    """For speed: the only rows of which `feasible` may say more than 0, or may have said so since the class was made;
    None: any row. A row that comes into it is one that the table logged as changed."""
    gains: Mapping[Hashable, Gain] | None = None
    """What the columns that its formulas read gain by one more pod of the class on a row, beside what every pod adds
    (`Shape.gains`); None: it cannot tell. For speed: see `alike`, the module."""
    promised: Callable[[Cells], Cells] | None = None
    "Of a judge of amounts: how cells look with what other pods were promised, where there are any."
    view: View | None = None
    "How the class sees the cluster, where that is otherwise than all others do. Cells are as it shows them."

    @property
    def refused(self) -> str | None:
        """Why no node can take such a pod now, whatever the node, where that is so: then it is the only reason told.
        The filter turns all rows away."""
        return None

    def seen(self, cells: Cells) -> Cells:
        """Cells as verdicts by amounts see them: with what other pods were promised."""
        return cells if self.promised is None else self.promised(cells)

    def left(self, cells: Cells) -> list[Numbers]:
        """What is left of each of `amounts`, without the pod."""
        cells = self.seen(cells)
        return [cells[need.has] - cells[need.taken] for need in self.amounts]

    def feasible(self, cells: Cells) -> Numbers:
        """0 where the row will do, else a mask of reasons."""
        raise NotImplementedError(type(self).__name__)

    def score(self, cells: Cells) -> Numbers:
        raise NotImplementedError(type(self).__name__)

    def of_row(self, columns: dict[Hashable, Array]) -> tuple[OfRow, OfRow]:
        """`feasible` and `score` of single rows, for all judges that are alike, and for as long as the columns are
        these arrays. For speed: they read views of the columns, which are found once for all classes."""
        raise NotImplementedError(type(self).__name__)

    pins: bool = True
    "Whether `only` counts."

    def only(self) -> list[Row] | None:
        """The only rows that can do, where that is known beforehand."""
        return None

    def scoring(self, *, pins: bool) -> Judge:
        """The same judge for a profile in which its filter is off. What it knows before filters may still count."""
        other = copy(self)
        other.filters_on, other.exact, other.amounts, other.alike, other.joint = Reason(0), False, (), None, None
        other.facets = tuple(facet for facet in self.facets if not facet.gates)
        other.pins = pins
        return other

    def together(self, judges: Sequence[Any]) -> Judge:
        """One judge that answers for others which are alike: its numbers are arrays, with an element for each of them.
        Cells are columns of one element a row then, so that the same formulas give a row of answers for each row."""
        raise NotImplementedError(type(self).__name__)

    joint: Joint | None = None
    "Where several plugins agree on something for one row before each checks it: NUMA nodes, say."

    doors: Callable[[Row], Sequence[Door]] | None = None
    """The ways onto a row, the best first, where there are several: exact checks take the first that all plugins can
    live with. None: there is one."""

    def offer(self, ask: Ask, row: Row, door: Door | None = None) -> object:
        """What this plugin could live with on a row, for `joint` to settle. `door`: the way that is being tried."""
        return None

    def check(self, ask: Ask, row: Row, agreed: object = None, door: Door | None = None) -> object:
        """An `Objection`, or what was worked out on the way: `reserve` gets it. `agreed`: what the joint settled."""
        return None

    def offer_more(self, ask: Ask, row: Row, having: object) -> object:
        """As `offer`, to a pod that keeps all that it has by its note and asks for more. The row is without it."""
        return self.offer(ask, row)

    def check_more(self, ask: Ask, row: Row, agreed: object, having: object) -> object:
        """As `check`: what such a pod has afterwards, which is never less than `having`."""
        return self.check(ask, row, agreed)

    def remarks(self) -> Sequence[str]:
        """What else there is to say about its scores: by which of several rules they are, say. For explanations."""
        return ()

    def reasons(self, mask: int) -> list[str]:
        """The words for a mask that `feasible` gave."""
        return []

    def facet_reason(self, facet: Facet, group: int) -> str:
        """The words for a group that a gate of this judge rules out."""
        return ""

    def facet_unresolvable(self, facet: Facet, group: int) -> bool:
        """Whether no preemption could change what a gate of this judge says of a group."""
        return False

    def unresolvable(self, mask: int, row: Row) -> bool:
        """Whether no preemption could change the verdict."""
        return False

    def unresolvable_rows(self, masks: Array, rows: Array) -> Array:
        """As `unresolvable`, of many rows."""
        pairs = zip(masks.tolist(), rows.tolist(), strict=True)
        return np.array([self.unresolvable(mask, row) for mask, row in pairs], np.bool_)

    def mend(self, ask: Ask, row: Row) -> Sequence[Change]:
        """Alternatives that would make this judge take a row which it turns away, as small as can be. What else
        speaks against the row is not its concern: each is tried out, with all judges, before a user hears of it."""
        return ()

    def detail(self, reason: str, rows: Sequence[Row]) -> str:
        """For explanations: what a reason means on some rows, in numbers. Empty: the reason says it all."""
        return ""

    def lack(self, cells: Cells) -> Numbers:
        """How far rows are from what the pod asks for: 0 not at all, 1 all of it. Of rows that this judge turns
        away, those with the least are looked at for mending."""
        return 1


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

    def unresolvable(self, mask: int, row: Row) -> bool:
        return True
