"""What a plugin is: it says what it looks at in a pod, and judges rows for all pods that look alike to it.

    key(ask)                what this plugin looks at; pods with equal keys (of all plugins) are one class
    compile(ask, cluster)   the judge for that class, or None where the plugin has nothing to say
    refuses(ask, cluster)   why a pod is turned away as things are, whatever the node: its team has used up its quota
    view(ask, cluster)      how that class sees the cluster, where some rows look otherwise to it than to all others
    notes                   what the plugin must know of pods on nodes, made from the pods themselves
    reserve(...)            the note of a pod that was just placed: what it takes there
    post_filter(...)        what would make room for a pod that fits nowhere: victims, for example
    needs(...)              what a job needs for any of its pods to be bound
    permit(...)             whether a placed pod waits for others before it is bound
    pre_bind(...)           what is written on the pod with its binding; `steps` for other objects
    takes()                 the kinds of objects that it looks at beside pods and nodes

A point that a plugin does not have is None: that is how the engine knows whom to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from koord.api.kinds import Kind
from koord.scheduler.framework.judge import Judge
from koord.scheduler.state.table import Reason, Row

if TYPE_CHECKING:
    from koord.api.kubernetes.pod import Pod
    from koord.scheduler.core.entity import Attempt, Entity
    from koord.scheduler.core.queue import ClusterEvent
    from koord.scheduler.framework.ask import Ask
    from koord.scheduler.framework.engine import Engine, Placement
    from koord.scheduler.framework.writes import Step, Tell, Write
    from koord.scheduler.state.cluster import Cluster
    from koord.scheduler.state.notes import Notes
    from koord.scheduler.state.pods import PodRecord
    from koord.scheduler.state.view import View


@dataclass(frozen=True, slots=True)
class Taking:
    """A kind of objects that a plugin looks at. It hears of every one that is there, changes or goes."""

    kind: Kind[Any]
    put: Callable[[Any], None]
    remove: Callable[[Any], None]
    put_many: Callable[[Sequence[Any]], None] | None = None
    "Many at once, with the same result as one by one."
    stand_in: Callable[[Any], Pod] | None = None
    """Where such objects are placed like pods: the pod that stands for one, with a name that `stand_in_name` gives. It
    is queued as long as it has no node, counts on its node, and is gone when it has finished. `bind` binds it."""
    named: tuple[str, str] | None = None
    "The namespace and name of the only object that it looks at; None: at all of the kind."


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure for Prometheus, by its name and labels: what a gauge is (None where it is gone), by how much a counter
    grew, or one that a histogram is to count."""

    name: str
    labels: Mapping[str, str]
    value: float | None


@dataclass(frozen=True, slots=True)
class Permit:
    """Whether a placed entity is bound at once, or waits with others until they are let go together."""

    group: str = ""
    "Who waits together."
    wait_s: float = 0.0
    "0: it does not wait. Of a group, the first one's time counts for all."
    allows: tuple[str, ...] = ()
    "Groups whose waiting members are bound with it."
    keeps_s: float = 0.0
    """Of a job: how long members whose bindings fail keep their places and are bound again, once one is bound. Where
    none of them can be bound, all give their places back together. 0: each goes its own way."""


@dataclass(frozen=True, slots=True)
class JobNeed:
    """What a part of a job needs for any member of the job to be bound."""

    name: str
    "What users call it."
    members: tuple[int, ...]
    "Which of the job's pods are in it, those first that go first."
    at_least: int
    "So many of them must have a place. Others get one if there is room when all parts have what they need."
    waits: str = ""
    "Why none of them gets a place yet, though other parts may go."


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
    "Where it, or the first pod of a job, will fit once the victims are gone; None where that is nowhere."
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

    @property
    def helps(self) -> bool:
        """Whether somebody is promised a place."""
        return self.node is not None or bool(self.others)

    event: tuple[str, str] | None = None
    "An event for the pod beside the usual one: its reason, and its text."


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
    compile_through: Callable[[Ask, Cluster, View], Judge | None] | None = None
    "The same for a class with a view, of a plugin that looks at pods themselves: hidden ones are not there."
    refuses: Callable[[Ask, Cluster], str | None] | None = None
    """Why a pod is turned away whatever the node, as things are now; None: it is not. Asked at every attempt, before
    any node is looked at. What changes all the time and says nothing of nodes belongs here and not in a class."""
    held_as: Callable[[Ask, Cluster], str] | None = None
    """Of a plugin that refuses pods: the reason for the condition of one whom more nodes could not help either, or "".
    Autoscalers add nodes for pods whose reason is Unschedulable, and for no others."""
    lets_through: Callable[[Sequence[Ask], Cluster], int] | None = None
    """Of a plugin that refuses pods: how many of some pods, the first ones, it would let through one after the other if
    each were placed. Fewer than that may be said: whoever is left is asked about alone."""
    frees: Callable[[Ask, Cluster], Iterable[PodRecord]] | None = None
    "Of a plugin that refuses pods: pods on nodes whose going may let in one that it refuses."
    tried: Callable[[Sequence[Ask], Sequence[Placement], Cluster], None] | None = None
    "How an attempt at some pods ended, for a plugin that refuses pods and knows when they may be let through."
    eases: Callable[[Cluster, bool], Sequence[str]] | None = None
    """Keys of pods that it refused and may let through now. Asked before each decision; the second argument says that
    nobody else is ready, so that there is time to look at all of them. Then it is asked until somebody is ready, or it
    names nobody: it names no pod twice while nothing changes."""
    view: Callable[[Ask, Cluster], View | None] | None = None
    """How the class of a pod sees the cluster; None: as it is. Classes may share one. As long as the plugin's key is
    the same, so is the view; what it shows may change."""
    helps: Callable[[Ask, ClusterEvent, Cluster], bool] | None = None
    """Whether an event of `wakes_on` could help a pod which this plugin turned away. Asked once for all pods of a
    template. Without it, every such event helps."""
    prefers: Callable[[Ask, Cluster], Sequence[Row]] | None = None
    """Rows that a pod is tried on first, in their order: the first one that all plugins take is taken, whatever the
    scores. Few: each costs a look."""
    reserve: Callable[[Ask, Row, Cluster, object], object] | None = None
    """The note of a pod that is being placed on a row, or None; last, what `check` worked out. It changes nothing:
    whoever counts notes is told."""
    tells: Callable[[object], str] | None = None
    "What a pod has by its note, in words, for people: `gpu 0 and 1`."
    meets: Callable[[Ask, PodRecord], bool] | None = None
    "Whether a pod could be turned away by another that was promised the same node, for more than its amounts."
    permit: Callable[[Ask, Row, Cluster], Permit | None] | None = None
    "Whether a placed pod waits for others; None: it does not."
    pre_bind: Callable[[Ask, Row, Cluster, object], Mapping[str, Any] | None] | None = None
    "What is to be written on the pod before it is bound, as a merge patch; last, its note."
    pre_bind_together: Callable[[Sequence[Ask], Cluster], Mapping[str, Any] | None] | None = None
    "What is written, besides, on each of some pods that are bound together: a job's, or one alone."
    steps: Callable[[Ask, Row, Cluster, object], Sequence[Step]] | None = None
    "What is to be done with other objects before it is bound."
    bind: Callable[[Ask, Row, Cluster], Write | None] | None = None
    "What binds such a pod instead of the usual binding, for what is no pod to the API server."
    stands_for: Callable[[Ask], tuple[Kind[Any], Any] | None] | None = None
    "The object that a pod stands for which is none to the API server: users are told there."
    writes: Callable[[Cluster], Iterable[Write | Tell]] | None = None
    "What is to be written on other objects now, whether or not anything is decided: their status, say, and events."
    measures: Callable[[], Iterable[Measure]] | None = None
    "Figures that are others than when they were asked for last."
    post_filter: Callable[[Ask, Engine], Remedy | None] | None = None
    """What would make room for a pod that fits nowhere, or why nothing does. It may try things out in a transaction of
    the cluster, and undoes it."""
    post_filter_job: Callable[[Sequence[Ask], Engine], Remedy | None] | None = None
    "The same for a job."
    plan_job: Callable[[Sequence[Ask], Engine], Sequence[Row | None] | str | None] | None = None
    """Rows for the members of a job, in their order (None: no place for that one); a text, why the job has no place; or
    None where it has no plan of its own. Inside a transaction: it may place and undo. The engine places members as
    planned, with all checks."""
    needs: Callable[[Sequence[Ask], Cluster], Sequence[JobNeed] | None] | None = None
    "What a job needs, by its parts; None: it is not this plugin's job. A job of which nobody says so needs all."
    group: Callable[[Ask, Cluster], str | None] | None = None
    "The job that a waiting pod belongs to, by a key of its own; None: it goes alone."
    about: Callable[[Sequence[Ask], Cluster], Sequence[tuple[Kind[Any], Any]]] | None = None
    "Objects at which users look to see how a job fares, beside its pods: events are recorded on them, too."
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

    def asks_engines(self, engine_of: Callable[[Ask], Engine | None]) -> None:
        """Told once, of a core: who decides about a pod. For plugins that try something out beside decisions."""

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        """What this plugin looks at in a pod. Pods that differ in nothing else share all work."""
        return None

    def keyed_by_spec(self, ask: Ask) -> bool:
        """Whether `key` depends on nothing but the pod's spec: then it is asked once for all pods of a template."""
        return False

    def keyed_by_name(self, cluster: Cluster) -> bool:
        """Whether `key` or `prefers` may tell pods apart that differ in their names, uids, times and conditions only.
        For speed: where no plugin does, the members of a job are looked at once."""
        return True

    def takes(self) -> Iterable[Taking]:
        """The kinds of objects that it looks at beside pods and nodes: those of `koord.scheduler.core.inputs`."""
        return ()

    def services(self) -> Mapping[str, Callable[[str], object]]:
        """What it tells people who look into a running scheduler: by a path below the plugin's name, such as
        `node/:nodeName`, what answers in JSON when called with that name."""
        return {}
