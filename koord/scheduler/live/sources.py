"""Where a feed hears from: the informers of all kinds that decisions look at.

Several feeds may be connected one after the other: each hears first what is there already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.kubernetes.core import Service
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.policy import PodDisruptionBudget
from koord.api.protocol.crd.node_slo import NodeSLOSpec
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord.kube.malformed import MalformedTeller
from koord.kube.store import Delta
from koord.scheduler.live.feed import Feed

BY_NODE: Final = "node"
OF_NODES: Final[tuple[Kind[Any], ...]] = (kinds.NODE_METRICS, kinds.NODE_SLOS)
"""Kinds of koord's own, which a cluster need not serve, or not yet."""
_OTHERS: Final[tuple[Kind[Any], ...]] = (
    kinds.NODES,
    kinds.NAMESPACES,
    kinds.SERVICES,
    kinds.POD_DISRUPTION_BUDGETS,
)
_WORKLOADS: Final[tuple[Kind[Any], ...]] = (
    kinds.REPLICA_SETS,
    kinds.STATEFUL_SETS,
    kinds.REPLICATION_CONTROLLERS,
)
_STORAGE: Final[tuple[Kind[Any], ...]] = (
    kinds.PERSISTENT_VOLUME_CLAIMS,
    kinds.PERSISTENT_VOLUMES,
    kinds.STORAGE_CLASSES,
    kinds.CSI_NODES,
    kinds.CSI_DRIVERS,
    kinds.CSI_STORAGE_CAPACITIES,
)


class Sources:
    """All informers of the scheduler."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._added: list[Kind[Any]] = []
        self.pods: Informer[Pod] = informers.get(kinds.PODS, indexes={BY_NODE: _node_of})
        others: tuple[Kind[Any], ...] = (*_OTHERS, *_WORKLOADS, *_STORAGE)
        for kind in others:
            informers.get(kind)

    def add(self, kind: Kind[Any]) -> None:
        """One of `OF_NODES` is served here: whoever is connected from now on hears of it too."""
        self._informers.get(kind)
        self._added.append(kind)

    def node_metas(self) -> Iterable[ObjectMeta]:
        return [node.metadata for node in self._informers.get(kinds.NODES).list()]

    def slo_specs(self) -> Mapping[str, NodeSLOSpec]:
        """By node, how its agent protects services, as far as that is known."""
        if kinds.NODE_SLOS not in self._added:
            return {}
        return {slo.metadata.name: slo.spec for slo in self._informers.get(kinds.NODE_SLOS).list()}

    def pods_of(self, node: str) -> Iterable[Pod]:
        return self.pods.by_index(BY_NODE, node)

    def tell_malformed(self, teller: MalformedTeller) -> Callable[[], None]:
        """Of nodes and pods; returns what ends it."""
        ends = [
            self._informers.get(kinds.NODES).add_handler(teller.hear(kinds.NODES)),
            self.pods.add_handler(teller.hear(kinds.PODS)),
        ]

        def end() -> None:
            for each in ends:
                each()

        return end

    def connect(self, feed: Feed) -> Callable[[], None]:
        """Feeds from now on; returns what ends it. Pods come last, when all that decisions look at is known."""
        get, removals = self._informers.get, []
        removals.append(get(kinds.NAMESPACES).add_handler(feed.namespace))
        removals.append(get(kinds.NODES).add_handler(feed.node))
        removals.append(get(kinds.SERVICES).add_handler(_services(feed)))
        removals.append(get(kinds.POD_DISRUPTION_BUDGETS).add_handler(_budgets(feed)))
        workloads = _workloads(feed)
        removals += [get(kind).add_handler(workloads) for kind in _WORKLOADS]
        removals += [get(kind).add_handler(feed.storage) for kind in _STORAGE]
        removals += [self.connect_added(kind, feed) for kind in self._added]
        removals.append(self.pods.add_handler(feed.pod))

        def disconnect() -> None:
            for remove in removals:
                remove()

        return disconnect

    def connect_added(self, kind: Kind[Any], feed: Feed) -> Callable[[], None]:
        handler = feed.node_metric if kind is kinds.NODE_METRICS else feed.node_slo
        return self._informers.get(kind).add_handler(handler)


def _services(feed: Feed) -> Callable[[Delta[Service]], None]:
    def hear(delta: Delta[Service]) -> None:
        if delta.new is not None:
            feed.cluster.put_service(delta.new)
        else:
            feed.cluster.remove_service(*delta.key.split("/", 1))

    return hear


def _budgets(feed: Feed) -> Callable[[Delta[PodDisruptionBudget]], None]:
    def hear(delta: Delta[PodDisruptionBudget]) -> None:
        if delta.new is not None:
            feed.cluster.put_budget(delta.new)
        else:
            feed.cluster.remove_budget(*delta.key.split("/", 1))

    return hear


def _workloads(feed: Feed) -> Callable[[Delta[Any]], None]:
    def hear(delta: Delta[Any]) -> None:
        if delta.new is not None:
            feed.cluster.put_workload(delta.new)
        elif delta.old is not None:
            feed.cluster.remove_workload(delta.old)

    return hear


def _node_of(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()
