"""What informers say, taken into the state and the queue.

A pod that has a node counts there; one that waits for us is queued; one that we placed counts from that moment, and its
binding, once heard of, changes nothing. A pod on a node that is not known is looked for again when the node comes.
Nothing here waits or writes: handlers of informers call it, in the order of events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, runtime_checkable

from msgspec.structs import replace

from koord.api.crd.node_metric import NodeMetric
from koord.api.node import Node
from koord.api.pod import Pod
from koord.kube.store import Delta
from koord.scheduler.events import load_event, node_event, pod_event, storage_event
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.queue import Entity, Event, Queue
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.storage import StorageObject
from koord.scheduler.state.table import Reason

FREED: Final = Reason.PODS | Reason.FREED


@runtime_checkable
class TakesNodeMetrics(Protocol):
    """A plugin that looks at what nodes report."""

    def put_node_metric(self, metric: NodeMetric) -> None: ...

    def remove_node_metric(self, name: str) -> None: ...


class Feed:
    """Keeps a cluster and a queue true. `pods_of` tells which pods an informer has on a node."""

    def __init__(
        self,
        cluster: Cluster,
        queue: Queue,
        engines: Mapping[str, Engine],
        plugins: Iterable[Plugin],
        *,
        now: Callable[[], float],
        pods_of: Callable[[str], Iterable[Pod]],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self.cluster, self.queue, self.engines = cluster, queue, engines
        self.assumed: dict[str, str] = {}
        "Pods that we have placed and whose binding has not been heard of, and their uids."
        self._metered = [plugin for plugin in plugins if isinstance(plugin, TakesNodeMetrics)]
        self._now, self._pods_of, self._wake = now, pods_of, wake

    def is_ours(self, pod: Pod) -> bool:
        """Whether a pod waits for a place, and for one from us."""
        return (
            not pod.spec.node_name
            and str(pod.spec.scheduler_name) in self.engines
            and pod.metadata.deletion_timestamp is None
            and not pod.is_finished
        )

    def pod(self, delta: Delta[Pod]) -> None:
        key, old, new = delta.key, delta.old, delta.new
        if new is None or new.is_finished:
            self._gone(key)
        elif new.spec.node_name:
            self.queue.remove(key)
            self.assumed.pop(key, None)
            self._count(new)
        elif not self.is_ours(new):
            self._gone(key)
        elif self.assumed.get(key, new.metadata.uid) != new.metadata.uid:
            # Another pod of the same name: the one that we placed is gone.
            self._gone(key)
            self._ask(new)
        elif key not in self.assumed and (old is None or not self.is_ours(old) or _differs(old, new)):
            self._ask(new)
        self._happened(pod_event(old, new))

    def node(self, delta: Delta[Node]) -> None:
        if delta.new is None:
            if delta.key in self.cluster.table.row_of:
                self.cluster.remove_node(delta.key)
        else:
            is_new = delta.key not in self.cluster.table.row_of
            self.cluster.put_node(delta.new)
            for pod in self._pods_of(delta.key) if is_new else ():
                if not pod.is_finished:
                    self._count(pod)
        self._happened(node_event(delta.old, delta.new))

    def storage(self, delta: Delta[StorageObject]) -> None:
        if delta.new is not None:
            self.cluster.put_storage(delta.new)
        elif delta.old is not None:
            self.cluster.remove_storage(delta.old)
        thing = delta.new if delta.new is not None else delta.old
        if thing is not None:
            self._happened(storage_event(thing))

    def node_metric(self, delta: Delta[NodeMetric]) -> None:
        for plugin in self._metered:
            if delta.new is None:
                plugin.remove_node_metric(delta.key)
            else:
                plugin.put_node_metric(delta.new)
        self._happened(load_event(delta.key))

    def let_go(self, key: str, uid: str) -> bool:
        """What we placed is not bound: it counts no more. False where somebody was faster, and it is on a node now."""
        if self.assumed.get(key) != uid:
            return False
        del self.assumed[key]
        if key in self.cluster.pods:
            record, _ = self.cluster.pods[key]
            self.cluster.remove_pod(key)
            self._happened(Event(int(FREED), record))
        return True

    def _ask(self, pod: Pod) -> None:
        self.queue.put(Entity.of(Ask(pod)), self._now())
        self._wake()

    def _count(self, pod: Pod) -> None:
        key, row = pod.metadata.key, self.cluster.table.row_of.get(pod.spec.node_name)
        known = self.cluster.pods.get(key)
        if row is None:
            if known is not None:
                self.cluster.remove_pod(key)
            return
        record = Ask(pod).record(self._now())
        if known is not None and known[1] == row and replace(record, placed_s=known[0].placed_s) == known[0]:
            return
        self.cluster.place(record, row)

    def _gone(self, key: str) -> None:
        self.queue.remove(key)
        self.assumed.pop(key, None)
        if key in self.cluster.pods:
            self.cluster.remove_pod(key)

    def _happened(self, event: Event | None) -> None:
        if event is not None and self.queue.happened(event, self._now()):
            self._wake()


def _differs(old: Pod, new: Pod) -> bool:
    """Whether a waiting pod changed in something that could change its chances; its status could not."""
    before, now = old.metadata, new.metadata
    return old.spec != new.spec or (before.uid, before.labels, before.annotations, before.owner_references) != (
        now.uid,
        now.labels,
        now.annotations,
        now.owner_references,
    )
