"""What informers say, taken into the state and the queue.

A pod that has a node counts there; one that waits for us is queued; one that we placed counts from that moment, and its
binding, once heard of, changes nothing. A pod on a node that is not known is looked for again when the node comes.
Nothing here waits or writes: handlers of informers call it, in the order of events. Whatever that order, in the end the
state is that of a feed which was told of the last of it alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from msgspec.structs import replace

from koord.api.kubernetes.core import Namespace
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.faults import BadInput
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.crd.node_slo import NodeSLO
from koord.kube.clock import Clock
from koord.kube.store import Delta
from koord.scheduler.events import load_event, node_event, pod_event, storage_event
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.bounds import too_many_terms
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.plugin import Plugin, Remedy
from koord.scheduler.patience import Patience
from koord.scheduler.profiles import profile_for
from koord.scheduler.queue import Entity, Event, Queue, Where
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.nominations import Nomination
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.storage import StorageObject
from koord.scheduler.state.table import Reason, Row

log = logging.getLogger(__name__)

FREED: Final = int(Reason.PODS | Reason.FREED)
LET_GO: Final = "AssignedPodDelete"
"""What metrics call it when a pod gives back a place that it never took."""


@runtime_checkable
class TakesNodeMetrics(Protocol):
    """A plugin that looks at what nodes report."""

    def put_node_metric(self, metric: NodeMetric) -> None: ...

    def remove_node_metric(self, name: str) -> None: ...


@runtime_checkable
class TakesNodeSLOs(Protocol):
    """A plugin that looks at how nodes protect their services."""

    def put_node_slo(self, slo: NodeSLO) -> None: ...

    def remove_node_slo(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Assumed:
    """A pod that we have placed and whose binding has not been heard of."""

    ask: Ask
    node: str

    @property
    def uid(self) -> str:
        return self.ask.meta.uid


class Feed:
    """Keeps a cluster and a queue true. `pods_of` tells which pods an informer has on a node.

    The queue is told monotonic time, so that no backoff depends on a wall clock; pods are stamped with the wall's.
    """

    def __init__(
        self,
        cluster: Cluster,
        queue: Queue,
        engines: Mapping[str, Engine],
        plugins: Iterable[Plugin],
        *,
        clock: Clock,
        pods_of: Callable[[str], Iterable[Pod]],
        alone: bool = False,
        wake: Callable[[], None] = lambda: None,
        queued: Callable[[Where, str], None] = lambda where, event: None,
    ) -> None:
        self.cluster, self.queue, self.engines, self.clock = cluster, queue, engines, clock
        self.assumed: dict[str, Assumed] = {}
        self.patience = Patience()
        told = list(plugins)
        self._metered = [plugin for plugin in told if isinstance(plugin, TakesNodeMetrics)]
        self._protecting = [plugin for plugin in told if isinstance(plugin, TakesNodeSLOs)]
        self._pods_of, self._alone, self._wake = pods_of, alone, wake
        queue.moved = queued

    def engine_of(self, pod: Pod | Ask) -> Engine | None:
        """Who decides about a pod; None where that is another scheduler."""
        name = profile_for(self.engines, str(pod.spec.scheduler_name), alone=self._alone)
        return None if name is None else self.engines[name]

    def is_ours(self, pod: Pod) -> bool:
        """Whether a pod waits for a place, and for one from us."""
        return (
            not pod.spec.node_name
            and pod.metadata.deletion_timestamp is None
            and not pod.is_finished
            and self.engine_of(pod) is not None
        )

    def pod(self, delta: Delta[Pod]) -> None:
        key, old, new = delta.key, delta.old, delta.new
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self.pod(Delta(key, old, None))
            self.pod(Delta(key, None, new))
            return
        if new is None or new.is_finished:
            self._gone(key)
        elif new.spec.node_name:
            self.queue.remove(key)
            held, promise = self.assumed.pop(key, None), self.cluster.nominations.withdraw(key)
            self.patience.forget(key)
            self._count(new)
            if held is not None and held.node != new.spec.node_name:
                self._has_room(held.ask.record())
            if promise is not None and self.cluster.table.names[promise.row] != new.spec.node_name:
                self._has_room(promise.record)
        elif not self.is_ours(new):
            self._gone(key)
        else:
            self._waits(key, old, new)
        self._happened(_pod_event(old, new))

    def node(self, delta: Delta[Node]) -> None:
        name, old, new = delta.key, delta.old, delta.new
        # Some of what a node says counts from the moment at which it is heard.
        self.cluster.now_s = self.clock.now()
        if new is None:
            row = self.cluster.table.row_of.get(name)
            if row is not None:
                promised = [each.record.key for each in self.cluster.nominations.on(row)]
                self.cluster.remove_node(name)
                # Room may be made for them elsewhere.
                self._activate(promised)
        else:
            row = self.cluster.table.row_of.get(name)
            if row is None:
                row = self.cluster.put_node(new)
                self._repopulate(name, row)
            elif old is None or _node_differs(old, new):
                self.cluster.put_node(new)
        self._happened(node_event(old, new))

    def namespace(self, delta: Delta[Namespace]) -> None:
        if delta.new is None:
            self.cluster.remove_namespace(delta.key)
        else:
            self.cluster.put_namespace(delta.new)
        if delta.old is None or delta.new is None or delta.old.metadata.labels != delta.new.metadata.labels:
            # Terms choose namespaces by their labels: whose pods are shunned, or sought, is another question now.
            self._happened(Event(int(Reason.PODS), delta.new or delta.old, "NamespaceUpdate"))

    def storage(self, delta: Delta[StorageObject]) -> None:
        if delta.new is not None:
            self.cluster.put_storage(delta.new)
        elif delta.old is not None:
            self.cluster.remove_storage(delta.old)
        thing = delta.new if delta.new is not None else delta.old
        if thing is not None:
            self._happened(storage_event(thing))

    def node_metric(self, delta: Delta[NodeMetric]) -> None:
        self.cluster.now_s = self.clock.now()
        for plugin in self._metered:
            if delta.new is None:
                plugin.remove_node_metric(delta.key)
            else:
                plugin.put_node_metric(delta.new)
        self._happened(load_event(delta.key))

    def node_slo(self, delta: Delta[NodeSLO]) -> None:
        for plugin in self._protecting:
            if delta.new is None:
                plugin.remove_node_slo(delta.key)
            else:
                plugin.put_node_slo(delta.new)
        self._happened(load_event(delta.key, "NodeSLOUpdate"))

    def assume(self, ask: Ask, node: str, promise: Nomination | None = None) -> None:
        """A pod has been placed by an engine; from now on until its binding is heard of, that is our word alone.
        `promise`: what it was promised before, which may have been another node."""
        self.assumed[ask.key] = Assumed(ask, node)
        if promise is not None and self.cluster.table.names[promise.row] != node:
            self._has_room(promise.record)

    def stands(self, ask: Ask, node: str) -> Row | None:
        """The row of the node where we placed a pod, while that is how things are; None where it no longer is."""
        held = self.assumed.get(ask.key)
        if held is None or held.uid != ask.meta.uid or held.node != node:
            return None
        return self.cluster.table.row_of.get(node)

    def let_go(self, ask: Ask) -> bool:
        """What we placed is not bound: it counts no more. False where somebody was faster, and knows better."""
        held = self.assumed.get(ask.key)
        if held is None or held.uid != ask.meta.uid:
            return False
        del self.assumed[ask.key]
        if ask.key in self.cluster.pods:
            record, _ = self.cluster.pods[ask.key]
            self.cluster.remove_pod(ask.key)
            self._has_room(record)
        return True

    def nominate(self, ask: Ask, engine: Engine, remedy: Remedy) -> tuple[str, ...]:
        """As `Engine.nominate`; who else could have the room that is not kept any more hears of it."""
        nominations = self.cluster.nominations
        before = nominations.of(ask.key)
        outbid = engine.nominate(ask, remedy)
        after = nominations.of(ask.key)
        if before is not None and (after is None or after.row != before.row):
            self._has_room(before.record)
        self._activate(outbid)
        return outbid

    def take_back(self, key: str) -> None:
        """A pod is promised nothing any more, and tried again; others may have the room."""
        promise = self.cluster.nominations.withdraw(key)
        if promise is not None:
            self._has_room(promise.record)
            self._activate([key])

    def _waits(self, key: str, old: Pod | None, new: Pod) -> None:
        held = self.assumed.get(key)
        if held is not None and held.uid != new.metadata.uid:
            # Another pod of the same name: the one that we placed is gone.
            self._gone(key)
            held = None
        changed = old is None or not self.is_ours(old) or _differs(old, new)
        if held is not None:
            # Should its binding fail, it comes back as it is now; once bound, it is not asked about again.
            if changed and key in self.queue:
                self.queue.put(Entity.of(Ask(new)), self.clock.monotonic())
            return
        if key in self.cluster.pods:
            # It had a node by a history that is no longer true: the API server was restored from an older state.
            self.cluster.remove_pod(key)
        if changed or key not in self.queue:
            self._ask(new)
        self._promised(key, old, new)

    def _promised(self, key: str, old: Pod | None, new: Pod) -> None:
        """Promises of before our time are kept; what we promise ourselves is known before the API server says it."""
        before = old.status.nominated_node_name if old is not None else ""
        now, nominations = new.status.nominated_node_name, self.cluster.nominations
        held, row = nominations.of(key), self.cluster.table.row_of.get(now)
        if now and row is not None and held is None and now != before:
            record = _record(new, self.clock.now())
            if record is not None:
                nominations.put(Nomination(record, row))
        elif before and not now and held is not None and self.cluster.table.names[held.row] == before:
            self.take_back(key)

    def _ask(self, pod: Pod) -> None:
        self.queue.put(Entity.of(Ask(pod)), self.clock.monotonic())
        self._wake()

    def _repopulate(self, name: str, row: Row) -> None:
        """A node has come: with the pods that were on it before we knew of it."""
        for pod in self._pods_of(name):
            if not pod.is_finished:
                self._count(pod)
        for key, held in self.assumed.items():
            if held.node == name and key not in self.cluster.pods:
                # The node was away for a moment, and the binding is under way.
                self.cluster.place(held.ask.record(self.clock.now()), row)

    def _count(self, pod: Pod) -> None:
        key, row = pod.metadata.key, self.cluster.table.row_of.get(pod.spec.node_name)
        known = self.cluster.pods.get(key)
        if row is None:
            if known is not None:
                self.cluster.remove_pod(key)
            return
        record = _record(pod, self.clock.now())
        if record is None:
            return
        if known is not None:
            if known[1] == row and _same(record, known[0]):
                return
            if known[1] != row or known[0].uid != record.uid:
                # What plugins took for it where we thought it was is given back.
                self.cluster.remove_pod(key)
        self.cluster.place(record, row)

    def _gone(self, key: str) -> None:
        self.queue.remove(key)
        held = self.assumed.pop(key, None)
        self.patience.forget(key)
        if (promise := self.cluster.nominations.withdraw(key)) is not None:
            self._has_room(promise.record)
        if key in self.cluster.pods:
            record, row = self.cluster.pods[key]
            self.cluster.remove_pod(key)
            self._made_room(row)
            if held is not None:
                # That it had a place was our word alone: the API server's change of the pod tells nobody.
                self._has_room(record)

    def _made_room(self, row: Row) -> None:
        """Whose victims are all gone comes before those who are made in their place, backoff or not: what they take
        up again is not always an amount that is kept for it."""
        there = self.cluster.pods_on[row]
        for promise in self.cluster.nominations.on(row):
            left = (key for key, uid in promise.victims if key in there and there[key].uid == uid)
            if promise.victims and not any(left):
                self.patience.room_was_made(promise.record.key, self.clock.monotonic())
                self._activate([promise.record.key])

    def _has_room(self, record: PodRecord) -> None:
        """A place that was kept for a pod is free, and no change of an object says so."""
        self._happened(Event(FREED, record, LET_GO))

    def _activate(self, keys: Sequence[str]) -> None:
        if keys:
            self.queue.activate(keys, self.clock.monotonic())
            self._wake()

    def _happened(self, event: Event | None) -> None:
        if event is not None and self.queue.happened(event, self.clock.monotonic()):
            self._wake()


def _record(pod: Pod, now_s: float) -> PodRecord | None:
    """What is kept of a pod that has a node. What cannot be understood of it is left out, and so are terms beyond what
    is supported, which would cost every other pod; its requests still count."""
    why = too_many_terms(pod.spec)
    if why is None:
        try:
            return Ask(pod).record(now_s)
        except BadInput as error:
            why = f"which cannot be understood: {error}"
    log.warning("counted without its affinity: %s", why, extra=_fields(pod))
    try:
        return Ask(replace(pod, spec=replace(pod.spec, affinity=None))).record(now_s)
    except BadInput as error:
        log.error("not counted, since it cannot be understood: %s", error, extra=_fields(pod))
        return None


def _same(record: PodRecord, known: PodRecord) -> bool:
    """Whether two records say the same. That of a pod before it was bound has another shape, with the same amounts."""
    new, old = record.shape, known.shape
    if new is not old and (new.requests, new.non_zero, new.ports) != (old.requests, old.non_zero, old.ports):
        return False
    return replace(record, placed_s=known.placed_s, shape=old) == known


def _fields(pod: Pod) -> dict[str, str]:
    return {"pod": pod.metadata.key, "node": pod.spec.node_name}


def _pod_event(old: Pod | None, new: Pod | None) -> Event | None:
    try:
        return pod_event(old, new)
    except BadInput:
        return Event(FREED, new, "AssignedPodUpdate")


def _differs(old: Pod, new: Pod) -> bool:
    """Whether a waiting pod changed in something that could change its chances; its status could not."""
    before, now = old.metadata, new.metadata
    return old.spec != new.spec or (before.labels, before.annotations, before.owner_references) != (
        now.labels,
        now.annotations,
        now.owner_references,
    )


def _node_differs(old: Node, new: Node) -> bool:
    """Whether a node changed in something that decisions look at: reports of its health are many."""
    before, now = old.metadata, new.metadata
    return (
        old.spec != new.spec
        or before.labels != now.labels
        or before.annotations != now.annotations
        or old.status.allocatable != new.status.allocatable
        or old.status.images != new.status.images
    )
