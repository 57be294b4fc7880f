"""A feed with stores in front of it, as informers have them, and objects in a line."""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SchedulerConfiguration, parse
from koord.api.kinds import NODES, PODS, Kind
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.kube.store import Delta, Store
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind, Broken, Decision, Nowhere
from koord.scheduler.core.feed import Feed
from koord.scheduler.core.moment import Moment
from koord.scheduler.core.observer import Observer
from koord.scheduler.profiles import profiles_of
from koord.scheduler.state.cluster import Cluster
from tests.kube.manual_clock import ManualClock

_versions = count(1)
CONFIG = parse({"profiles": [{"schedulerName": "koord-scheduler"}, {"schedulerName": "other-profile"}]})


def node(name: str, *, cpu: str = "4", pods: str = "110", labels: dict[str, str] | None = None, **spec: Any) -> Node:
    return convert(
        Node,
        {
            "metadata": {"name": name, "labels": labels or {}, "resourceVersion": str(next(_versions))},
            "spec": spec,
            "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": pods}},
        },
    )


def pod(name: str, *, uid: str = "", cpu: str = "1", on: str = "", **more: Any) -> Pod:
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": uid or f"{name}-uid",
        "resourceVersion": str(next(_versions)),
        **more.pop("metadata", {}),
    }
    status = more.pop("status", {})
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "koord-scheduler", "nodeName": on, "containers": [container], **more}
    return convert(Pod, {"metadata": metadata, "spec": spec, "status": status})


def changed(given: Pod, **spec: Any) -> Pod:
    """The same pod in a later version."""
    metadata = replace(given.metadata, resource_version=str(next(_versions)))
    return replace(given, metadata=metadata, spec=replace(given.spec, **spec))


def finished(given: Pod) -> Pod:
    return replace(changed(given), status=replace(given.status, phase="Succeeded"))


def deleting(given: Pod) -> Pod:
    gone = changed(given)
    return replace(gone, metadata=replace(gone.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))


class Fed:
    """A core, and the stores that feed it, as informers have them."""

    def __init__(
        self, config: SchedulerConfiguration = CONFIG, *, alone: bool = False, observer: Observer | None = None
    ) -> None:
        self.clock = ManualClock()
        self.pods: Store[Pod] = Store()
        self.nodes: Store[Node] = Store()
        self.woken = 0
        self.queued: list[tuple[str, str]] = []
        self.core = Core(
            profiles_of(config),
            alone=alone,
            now=self.now,
            observer=observer,
            wake=self._wake,
            queued=lambda where, event: self.queued.append((where.value, event)),
        )

    @property
    def feed(self) -> Feed:
        return self.core.feed

    @property
    def now(self) -> Moment:
        return Moment(self.clock.now(), self.clock.monotonic())

    def _wake(self) -> None:
        self.woken += 1

    def put(self, *things: Pod | Node) -> None:
        for thing in things:
            if isinstance(thing, Pod):
                for pod_delta in self.pods.put(thing):
                    self.hear(PODS, pod_delta)
            else:
                for node_delta in self.nodes.put(thing):
                    self.hear(NODES, node_delta)

    def delete(self, *things: Pod | Node) -> None:
        for thing in things:
            if isinstance(thing, Pod):
                for pod_delta in self.pods.delete(thing.metadata.key):
                    self.hear(PODS, pod_delta)
            else:
                for node_delta in self.nodes.delete(thing.metadata.key):
                    self.hear(NODES, node_delta)

    def hear(self, kind: Kind[Any], delta: Delta[Any]) -> None:
        self.core.at(self.now)
        if delta.new is not None:
            self.core.put(kind, delta.new, delta.old)
        else:
            self.core.removed(kind, delta.old)

    def failed(self, bind: Bind) -> None:
        """The binding of a pod failed."""
        self.core.at(self.now)
        self.core.failed(bind, bind.ask)

    def step(self) -> Decision | None:
        self.core.at(self.now)
        return self.core.decide()

    def bind(self) -> Bind:
        decision = self.step()
        assert isinstance(decision, Bind), decision
        return decision

    def nowhere(self) -> Nowhere:
        decision = self.step()
        assert isinstance(decision, Nowhere), decision
        return decision

    def broken(self) -> Broken:
        decision = self.step()
        assert isinstance(decision, Broken), decision
        return decision

    @property
    def placed(self) -> dict[str, str]:
        """Pods that count, and where."""
        return placed(self.feed.cluster)

    @property
    def waiting(self) -> set[str]:
        return {attempt.entity.key for attempt in self.feed.queue}


def placed(cluster: Cluster) -> dict[str, str]:
    return {key: cluster.table.names[row] for key, (_, row) in cluster.pods.items()}


def picture(cluster: Cluster) -> dict[str, Any]:
    """All that decisions are made from, by node, whatever the order in which it came."""
    columns = cluster.table.columns
    requested = [name for name in columns if isinstance(name, tuple) and name[0] == "requested"]
    return {
        name: {
            "cpu": int(columns[("allocatable", "cpu")][row]),
            "pods": sorted(
                # When it was placed is our clock's word, or the API's.
                (replace(record, placed_s=None, shape=None).__repr__(), record.shape.requests)
                for record in cluster.pods_on[row].values()
            ),
            "requested": Counter({str(column): int(columns[column][row]) for column in requested}),
            "count": int(columns["pod count"][row]),
            "labels": dict(cluster.nodes[row].metadata.labels),
        }
        for name, row in cluster.table.row_of.items()
    }
