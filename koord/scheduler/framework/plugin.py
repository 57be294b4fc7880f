"""What a plugin is: it says what it looks at in a pod, and judges rows for all pods that look alike to it.

    key(ask, cluster)       what this plugin looks at; pods with equal keys (of all plugins) are one class
    compile(ask, cluster)   the judge for that class, or None where the plugin has nothing to say
    notes                   what the plugin must know of pods on nodes, made from the pods themselves
    reserve(...)            the note of a pod that was just placed: what it takes there
    pre_bind(...)           what is written on the pod before it is bound
    post_filter(...)        what would make room for a pod that fits nowhere: victims, for example
    takes()                 the kinds of objects that it looks at beside pods and nodes

What few plugins need is in objects of its own, which a plugin makes at the latest when it is attached to a cluster:

    refusals    `Refusals`: it turns pods away whatever the node, as things are now
    jobs        `Jobs`: pods that are placed together
    stand_ins   `StandIns`: other objects that are placed like pods
    queueing    `Queueing`: pods that wait outside the queue, the order of the others, and what wakes rejected ones
    nominating  `Nominating`: nodes that a pod is tried on first, and pods that are nominated to the same node
    controller  `Controller`: what it writes, measures and answers beside decisions

A point that a plugin does not have is None: that is how the engine knows whom to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from koord.api.kinds import Kind
from koord.scheduler.framework.judge import Judge
from koord.scheduler.state.table import Reason, Row

if TYPE_CHECKING:
    from koord.api.kubernetes.pod import Pod
    from koord.scheduler.framework.ask import Ask
    from koord.scheduler.framework.controller import Controller
    from koord.scheduler.framework.engine import Engine
    from koord.scheduler.framework.jobs import Jobs
    from koord.scheduler.framework.nominating import Nominating
    from koord.scheduler.framework.queueing import Queueing
    from koord.scheduler.framework.refusals import Refusals
    from koord.scheduler.framework.remedy import Remedy
    from koord.scheduler.framework.stand_ins import StandIns
    from koord.scheduler.framework.writes import PreBind
    from koord.scheduler.state.cluster import Cluster
    from koord.scheduler.state.notes import Notes


@dataclass(frozen=True, slots=True)
class Taking:
    """A kind of objects that a plugin reads. The plugin gets every object, and every change and removal."""

    kind: Kind[Any]
    put: Callable[[Any], None]
    remove: Callable[[Any], None]
    put_many: Callable[[Sequence[Any]], None] | None = None
    "Many at once, with the same result as one by one. Measured: a third of the time, for reports of all nodes."
    stand_in: Callable[[Any], Pod] | None = None
    """For objects that are placed like pods: the pod that stands for one, with a name that `stand_in_name` gives. It
    is queued as long as it has no node, counts on its node, and is gone when it has finished. See `StandIns`."""
    named: tuple[str, str] | None = None
    "The namespace and name of the only object that it looks at; None: at all of the kind."


class KeyedBy(IntEnum):
    """How much of a pod a plugin's `key` depends on."""

    SPEC = 1
    "Nothing but the pod's spec: `key` is called once for all pods of a template."
    LABELS = 2
    "Anything but its name, uid, times and conditions: `key` is called once for the members of a job."
    POD = 3
    "Anything."


class Plugin:
    """A policy of the scheduler. One file, one class, one line in the registry; an instance for each profile.

    Points that are None are not asked for. What profiles share (notes, indexes) lives with the cluster.
    """

    name: str = ""
    wakes_on: Reason = Reason(0)
    "Changes that can help a pod which this plugin rejected. `Queueing.helps` looks closer."
    notes: type[Notes] | None = None
    "What it must know of pods on nodes."

    compile: Callable[[Ask, Cluster], Judge | None] | None = None
    """The judge for the class of a pod, or None where the plugin has nothing to say about it. A plugin that looks at
    pods on nodes respects `ask.view`: pods that the view hides are not there."""
    reserve: Callable[[Ask, Row, Cluster, object], object] | None = None
    """The note of a pod that is being placed on a row, or None; the last argument is what `check` worked out. It
    changes nothing: the index that counts notes gets the note."""
    pre_bind: Callable[[Ask, Row, Cluster, object], Mapping[str, Any] | PreBind | None] | None = None
    """The merge patch that is written on the pod before it is bound, or a `PreBind` with steps on other objects. Last,
    its note."""
    post_filter: Callable[[Ask, Engine], Remedy | None] | None = None
    """What would make room for a pod that fits nowhere, or why nothing does. It may try things out in a transaction of
    the cluster, and undoes it."""

    refusals: Refusals | None = None
    jobs: Jobs | None = None
    stand_ins: StandIns | None = None
    queueing: Queueing | None = None
    nominating: Nominating | None = None
    controller: Controller | None = None

    def attach(self, cluster: Cluster) -> None:
        """Declare columns, watch what the plugin keeps something about, and make the objects above. Asked once or more
        for a cluster, early."""

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        """What this plugin looks at in a pod. Pods that differ in nothing else share all work."""
        return None

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        """How much of a pod `key` and what it prefers depend on. SPEC must follow from the spec alone. For speed:
        without it a decision takes 6% longer, and equal members of a job are not placed by one pass."""
        return KeyedBy.POD

    def takes(self) -> Iterable[Taking]:
        """The kinds of objects that it looks at beside pods and nodes: those of `koord.scheduler.core.inputs`."""
        return ()
