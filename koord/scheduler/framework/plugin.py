"""What a plugin is: it says what it looks at in a pod, and judges rows for all pods that look alike to it.

    key(ask)                what this plugin looks at; pods with equal keys (of all plugins) are one class
    compile(ask, cluster)   the judge for that class, or None where the plugin has nothing to say
    judge.feasible(cells)   0 where a node will do, else a mask of the judge's own reasons
    judge.score(cells)      0..100 from the row alone
    judge.facets            what depends on other rows: domains, and scores normalised over the candidates
    judge.check(row)        an exact look at the winner, for what no column can say; what it finds goes to `reserve`
    judge.view()            rows that look otherwise to this class, for all judges of it
    judge.mend(ask, row)    what would make it take a row that it turns away: for explanations
    notes                   what the plugin must know of pods on nodes, made from the pods themselves
    reserve(...)            the note of a pod that was just placed: what it takes there
    post_filter(...)        what would make room for a pod that fits nowhere: victims, for example
    permit(...)             whether a placed pod waits for others before it is bound
    pre_bind(...)           what is written on the pod with its binding; `steps` for other objects
    takes()                 the kinds of objects that it looks at beside pods and nodes

A point that a plugin does not have is None: that is how the engine knows whom to ask.

`cells` is one row or many: `cells[name]` is an int or an array, and a formula is written once for both (`a * (a > b)`
instead of a branch). `rows` of an explanation go through the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np

from koord.api.kinds import Kind
from koord.scheduler.framework.change import Change
from koord.scheduler.state.table import Array, Changes, Reason, Row

if TYPE_CHECKING:
    from koord.scheduler.core.queue import Attempt, Entity, Event
    from koord.scheduler.framework.ask import Ask
    from koord.scheduler.framework.engine import Engine
    from koord.scheduler.framework.writes import Step, Write
    from koord.scheduler.state.cluster import Cluster
    from koord.scheduler.state.notes import Notes
    from koord.scheduler.state.pods import PodRecord

Cells: TypeAlias = Any
"""One row or many, by column name. See `One` and `Many`."""
Numbers: TypeAlias = Any
"""An int, or an array of ints: whatever the cells gave."""

EXACT_BELOW: Final = 1 << 46
"""Below this, a quotient of up to 100 in floating point never rounds up to the next whole number."""


OfRow: TypeAlias = Callable[[Row, Any], int]
"""What judges say of a row, by their own `numbers`."""
Overlay: TypeAlias = Mapping[Hashable, Mapping[Row, int]]
"""What some rows look like to one class: column -> row -> what is added there."""


class Many:
    """The cells of several rows: each column is an array, taken once."""

    __slots__ = ("_taken", "columns", "overlay", "rows")

    def __init__(self, columns: dict[Hashable, Array], rows: Any, overlay: Overlay | None = None) -> None:
        self.columns, self.rows, self.overlay = columns, rows, overlay
        self._taken: dict[Hashable, Array] = {}

    def __getitem__(self, name: Hashable) -> Array:
        column = self._taken.get(name)
        if column is None:
            column = self.columns[name][self.rows]
            if self.overlay and self.overlay.get(name):
                added = np.zeros(len(self.columns[name]), np.int64)
                added[list(self.overlay[name])] = list(self.overlay[name].values())
                column = column + added[self.rows]
            self._taken[name] = column
        return column

    def block(self, names: tuple[Hashable, ...]) -> Array:
        """Several columns as one array of floats, a line for each: one call of numpy is for all of them."""
        block = self._taken.get(names)
        if block is None:
            block = self._taken[names] = np.array([self[name] for name in names], np.float64)
        return block


class One:
    """The cells of one row: each column is a plain number, on which Python is faster than numpy."""

    __slots__ = ("columns", "overlay", "rows")

    def __init__(self, columns: dict[Hashable, Array], row: Row, overlay: Overlay | None = None) -> None:
        self.columns, self.rows, self.overlay = columns, row, overlay

    def __getitem__(self, name: Hashable) -> Any:
        value = self.columns[name].item(self.rows)
        if self.overlay and name in self.overlay:
            return value + self.overlay[name].get(self.rows, 0)
        return value


def least(a: Numbers, b: Numbers) -> Numbers:
    """The smaller of two, for numbers and arrays."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.minimum(a, b)
    return a if a < b else b


def all_positive(numbers: Numbers) -> bool:
    """Whether all are above zero, of numbers and arrays that are never below."""
    if isinstance(numbers, np.ndarray):
        return bool(np.count_nonzero(numbers) == numbers.size)
    return bool(numbers > 0)


def are_exact(amounts: Array) -> bool:
    """Whether few amounts are small enough for floats to be exact, quotients too."""
    return max(amounts.ravel().tolist(), default=0) < EXACT_BELOW


def percent(part: Numbers, whole: Numbers) -> Numbers:
    """100 * part // whole, for numbers and arrays; `part` is not negative, `whole` is positive."""
    if isinstance(whole, np.ndarray) and np.maximum.reduce(whole, axis=None) < EXACT_BELOW:
        # Ten times faster than the division of 64-bit integers.
        return (part * 100 / whole).astype(np.int64)
    return part * 100 // whole


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


class FewGroups:
    """A facet that can also do without arrays, which is faster where few groups are in question."""

    def few(self, groups: list[int], candidates: int) -> list[int] | None:
        """What these groups are worth, as `table` says; they are all that have candidates, `candidates` of them
        together. The same list comes again as long as it is the same groups. None: it takes a table."""
        return None

    def open(self, groups: list[int]) -> list[int]:
        """Of a gate: those of some groups that it does not rule out."""
        raise NotImplementedError(type(self).__name__)


@dataclass(frozen=True, slots=True)
class Objection:
    """Why the winner will not do after all."""

    reason: str
    resolvable: bool = True
    "Whether it might if pods left the row."


class Joint(Protocol):
    """A step that several plugins take together for one candidate row."""

    def settle(self, offers: Sequence[object], ask: Ask, row: Row) -> object:
        """What suits all who made offers, in the order of the profile; or an `Objection`."""
        ...


class Judge:
    """A plugin's view of one class of pods. Subclasses override what they have."""

    filters_on: Reason = Reason(0)
    "Changes after which `feasible` must be asked again; 0: it has no row-local filter."
    scores_on: Reason = Reason(0)
    "Likewise for `score`."
    facets: Sequence[Facet] = ()
    exact = False
    "Whether `check` has something to say."
    changes_view = False
    "Whether pods of this class see some rows otherwise than others do; then `view` says how."
    amounts: Sequence[tuple[Hashable, Hashable, int]] = ()
    """Where the verdict is by amounts alone: columns of what there is and of what is taken, and what the pod adds, in
    the order of the mask's bits. So it is known what victims would give."""
    eased: bool = False
    "Whether a row that will do also will after pods have left it."
    alike: Hashable = None
    """For speed: judges of one type with an equal `alike` differ in numbers only, and `together` makes one judge of
    them. None: it is asked alone."""
    numbers: Hashable = ()
    "Those in which judges that are alike differ, as `of_row` takes them."
    promised: Callable[[Cells], Cells] | None = None
    "Of a judge of amounts: how cells look with what other pods were promised, where there are any."

    def view(self) -> Overlay:
        """How rows look to this class now: a reservation's owners see what it holds as free.

        When that changes, the plugin touches the rows concerned.
        """
        return {}

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

    def offer(self, ask: Ask, row: Row) -> object:
        """What this plugin could live with on a row, for `joint` to settle."""
        return None

    def check(self, ask: Ask, row: Row, agreed: object = None) -> object:
        """An `Objection`, or what was worked out on the way: `reserve` gets it. `agreed`: what the joint settled."""
        return None

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

    def lack(self, cells: Cells) -> Numbers:
        """How far rows are from what the pod asks for: 0 not at all, 1 all of it. Of rows that this judge turns
        away, those with the least are looked at for mending."""
        return 1


class Refused(Judge):
    """For pods that no node can take, whatever the node: something else must happen first."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def only(self) -> list[Row]:
        return []

    def reasons(self, mask: int) -> list[str]:
        return [self._reason]

    def unresolvable(self, mask: int, row: Row) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Taking:
    """A kind of objects that a plugin looks at. It hears of every one that is there, changes or goes."""

    kind: Kind[Any]
    put: Callable[[Any], None]
    remove: Callable[[Any], None]
    put_many: Callable[[Sequence[Any]], None] | None = None
    "Many at once, with the same result as one by one."


@dataclass(frozen=True, slots=True)
class Permit:
    """Whether a placed entity is bound at once, or waits with others until they are let go together."""

    group: str = ""
    "Who waits together."
    wait_s: float = 0.0
    "0: it does not wait. Of a group, the first one's time counts for all."
    allows: tuple[str, ...] = ()
    "Groups whose waiting members are bound with it."


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that will fit on a node once some others are gone."""

    pod: str
    node: str
    victims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Remedy:
    """How a pod that fits nowhere could be helped."""

    node: str | None = None
    "Where it will fit once the victims are gone; None where that is nowhere."
    victims: tuple[str, ...] = ()
    "Keys of the pods that have to go."
    message: str = ""
    "What is added to the reasons that users see."
    clears: bool = False
    "Whether the pod is promised no node any more, because none would help."
    others: tuple[Move, ...] = ()
    "Further pods that are helped with it: the members of its job."
    rejects: tuple[str, ...] = ()
    "Groups whose waiting members give up their places."
    final: bool = False
    "Whether no other plugin is to be asked, though this one has no node."


class Plugin:
    """A policy of the scheduler. One file, one class, one line in the registry; an instance for each profile.

    Points that are None are not asked for. What profiles share (notes, indexes) lives with the cluster.
    """

    name: str = ""
    wakes_on: Reason = Reason(0)
    "Changes that can help a pod which this plugin turned away."
    before: int = 0
    "Its place among those that are asked before filters: of several that refuse a pod as such, the first is heard."
    notes: type[Notes] | None = None
    "What it must know of pods on nodes."

    compile: Callable[[Ask, Cluster], Judge | None] | None = None
    "The judge for the class of a pod, or None where the plugin has nothing to say about it."
    helps: Callable[[Ask, Event, Cluster], bool] | None = None
    """Whether an event of `wakes_on` could help a pod which this plugin turned away. Asked once for all pods of a
    template. Without it, every such event helps."""
    reserve: Callable[[Ask, Row, Cluster, object], object] | None = None
    """The note of a pod that is being placed on a row, or None; last, what `check` worked out. It changes nothing:
    whoever counts notes is told."""
    meets: Callable[[Ask, PodRecord], bool] | None = None
    "Whether a pod could be turned away by another that was promised the same node, for more than its amounts."
    permit: Callable[[Ask, Row, Cluster], Permit | None] | None = None
    "Whether a placed pod waits for others; None: it does not."
    pre_bind: Callable[[Ask, Row, Cluster, object], Mapping[str, Any] | None] | None = None
    "What is to be written on the pod before it is bound, as a merge patch; last, its note."
    steps: Callable[[Ask, Row, Cluster, object], Sequence[Step]] | None = None
    "What is to be done with other objects before it is bound."
    bind: Callable[[Ask, Row, Cluster], Write | None] | None = None
    "What binds such a pod instead of the usual binding, for what is no pod to the API server."
    post_filter: Callable[[Ask, Engine], Remedy | None] | None = None
    """What would make room for a pod that fits nowhere, or why nothing does. It may try things out in a transaction of
    the cluster, and undoes it."""
    post_filter_job: Callable[[Sequence[Ask], Engine], Remedy | None] | None = None
    "The same for a job."
    plan_job: Callable[[Sequence[Ask], Engine], Sequence[Row | None] | None] | None = None
    """Rows for the members of a job, in their order (None: no place for that one), or None where it has no plan of its
    own. Inside a transaction: it may place and undo. The engine places members as planned, with all checks."""
    at_least: Callable[[Sequence[Ask], Cluster], int | None] | None = None
    "How many members of a job must have a place for any to be bound; None: it is not this plugin's job."
    group: Callable[[Ask, Cluster], str | None] | None = None
    "The job that a waiting pod belongs to, by a key of its own; None: it goes alone."
    blocks: Callable[[Entity], str | None] | None = None
    "Why an entity must not be tried yet, or None."
    order: Callable[[Attempt], Sequence[Any]] | None = None
    "Who is first: lower comes first."
    lane: Callable[[Entity], Hashable] | None = None
    "Beside `order`: entities of one lane queue behind each other."
    lane_is_open: Callable[[Hashable], bool] | None = None
    "Whether the first of a lane can go now; lanes that are closed are passed over."

    def attach(self, cluster: Cluster) -> None:
        """Declare columns and watch what the plugin keeps something about. Asked once or more for a cluster, early."""

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        """What this plugin looks at in a pod. Pods that differ in nothing else share all work."""
        return None

    def keyed_by_spec(self, ask: Ask) -> bool:
        """Whether `key` depends on nothing but the pod's spec: then it is asked once for all pods of a template."""
        return False

    def takes(self) -> Iterable[Taking]:
        """The kinds of objects that it looks at beside pods and nodes: those of `koord.scheduler.core.inputs`."""
        return ()

    def services(self) -> Mapping[str, Callable[[str], object]]:
        """What it tells people who look into a running scheduler: by a path below the plugin's name, such as
        `node/:nodeName`, what answers in JSON when called with that name."""
        return {}
