"""A feed with stores in front of it, as informers have them, and objects in a line."""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SchedulerConfiguration, parse
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.kube.store import Store
from koord.scheduler.framework.engine import Engine
from koord.scheduler.live.cycle import Bind, Broken, Cycle, Decision, Nowhere
from koord.scheduler.live.feed import Feed
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
    """A feed, what decides on it, and the stores that feed it."""

    def __init__(self, config: SchedulerConfiguration = CONFIG, *, alone: bool = False) -> None:
        self.clock = ManualClock()
        self.pods: Store[Pod] = Store(indexes={"node": _node_of})
        self.nodes: Store[Node] = Store()
        profiles = profiles_of(config)
        cluster = Cluster()
        self.woken = 0
        self.queued: list[tuple[str, str]] = []
        self.feed = Feed(
            cluster,
            profiles.queue(cluster),
            {name: Engine(cluster, profile) for name, profile in profiles.profiles.items()},
            profiles.plugins(),
            clock=self.clock,
            pods_of=lambda name: self.pods.by_index("node", name),
            alone=alone,
            wake=self._wake,
            queued=lambda where, event: self.queued.append((where.value, event)),
        )
        self.cycle = Cycle(self.feed)

    def _wake(self) -> None:
        self.woken += 1

    def put(self, *things: Pod | Node) -> None:
        for thing in things:
            if isinstance(thing, Pod):
                for pod_delta in self.pods.put(thing):
                    self.feed.pod(pod_delta)
            else:
                for node_delta in self.nodes.put(thing):
                    self.feed.node(node_delta)

    def delete(self, *things: Pod | Node) -> None:
        for thing in things:
            if isinstance(thing, Pod):
                for pod_delta in self.pods.delete(thing.metadata.key):
                    self.feed.pod(pod_delta)
            else:
                for node_delta in self.nodes.delete(thing.metadata.key):
                    self.feed.node(node_delta)

    def step(self) -> Decision | None:
        return self.cycle.step()

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


def _node_of(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()
