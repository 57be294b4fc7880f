"""A small cluster in which anything may happen, kept twice: as the scheduler keeps it, and as plain objects.

`differences` says where the plugins' verdicts and scores, caught up with what happened, are not those of the plain
reading of the rules.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace as changed
from typing import Any

from msgspec.structs import replace

from koord.api.configuration.component_config import PluginArgs
from koord.api.kubernetes.core import Namespace
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.framework.facet import Gate
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.owners import Workload
from tests.scheduler.reference import cycle
from tests.scheduler.reference.cluster import Cluster as Plain


def feed(plain: Plain, seed: int = 0) -> Cluster:
    """The scheduler's cluster with the same objects."""
    cluster = Cluster(seed)
    for namespace in plain.namespaces:
        cluster.put_namespace(namespace)
    for service in plain.services:
        cluster.put_service(service)
    workloads: list[Workload] = [*plain.replica_sets, *plain.stateful_sets, *plain.replication_controllers]
    for workload in workloads:
        cluster.put_workload(workload)
    for node in plain.nodes:
        cluster.put_node(node)
    for pod in plain.placed_pods():
        cluster.place(Ask(pod).record(), cluster.table.row_of[pod.spec.node_name])
    return cluster


def differences(
    engine: Engine, plugin: Plugin, pod: Pod, plain: Plain, args: PluginArgs | None = None
) -> Iterator[str]:
    """Where a plugin, alone in its profile, differs from the rules: refused nodes with reasons, and scores."""
    pod_class = engine.class_of(Ask(pod))
    names, row_of = engine.cluster.table.names, engine.cluster.table.row_of
    verdicts = {
        node.metadata.name: cycle.filter(plugin.name, pod, node.metadata.name, plain, args) for node in plain.nodes
    }
    ours = {names[row]: tuple(reasons) for row, (_, reasons) in pod_class.rejections().items()}
    theirs = {name: verdict.reasons for name, verdict in verdicts.items() if not verdict}
    if ours != theirs:
        yield f"{pod.metadata.key}: refuses {ours}, not {theirs}"
        return
    for name, verdict in verdicts.items():
        for part in pod_class.parts:
            for facet in part.judge.facets:
                if isinstance(facet, Gate) and not verdict:
                    resolvable = not facet.unresolvable(int(facet.groups[row_of[name]]))
                    if resolvable != (verdict.code == "unsched"):
                        yield f"{pod.metadata.key}: {name} is {verdict.code}"
    feasible = {names[row] for row in pod_class.feasible_rows()}
    if feasible != {name for name, verdict in verdicts.items() if verdict}:
        yield f"{pod.metadata.key}: feasible are {feasible}"
        return
    scores = {name: pod_class.scores(row_of[name]).get(plugin.name, 0) for name in feasible}
    wanted = cycle.score(plugin.name, pod, feasible, plain, args) if feasible else {}
    if scores != (wanted or dict.fromkeys(feasible, 0)):
        yield f"{pod.metadata.key}: scores {scores}, not {wanted}"
    best = pod_class.best()
    if (best is None) != (not scores) or (best is not None and scores[names[best]] != max(scores.values())):
        yield f"{pod.metadata.key}: takes {best if best is None else names[best]}, scores {scores}"


def alone(cluster: Cluster, plugin: Plugin) -> Engine:
    return Engine(cluster, Profile("alone", (plugin,), {plugin.name: 1}))


class Story:
    """Random events that change a cluster."""

    def __init__(self, plain: Plain, pods: list[Pod], seed: int) -> None:
        self.plain, self.pods, self._random = plain, pods, random.Random(seed)
        self.cluster = feed(plain)
        self._number = 0

    def event(self) -> None:
        happens: Any = self._random.choice(
            [self.place] * 6
            + [self.remove] * 4
            + [self._change_node] * 4
            + [self._end, self._come_and_go, self._rename]
        )
        happens()

    def _put(self, **fields: Any) -> None:
        self.plain = changed(self.plain, **fields, _memory={})

    def place(self) -> None:
        if not self.plain.nodes:
            return
        self._number += 1
        node, pod = self._random.choice(self.plain.nodes), self._random.choice([*self.pods, *self.plain.pods])
        name = f"{pod.metadata.name}-{self._number}"
        meta = replace(pod.metadata, name=name, uid=name, labels={**pod.metadata.labels, "pod": name})
        placed = replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node.metadata.name))
        if placed.is_finished:
            return
        self._put(pods=(*self.plain.pods, placed))
        self.cluster.place(Ask(placed).record(), self.cluster.table.row_of[node.metadata.name])

    def remove(self) -> None:
        placed = self.plain.placed_pods()
        if placed:
            gone = self._random.choice(placed)
            self._put(pods=tuple(pod for pod in self.plain.pods if pod is not gone))
            self.cluster.remove_pod(gone.metadata.key)

    def _end(self) -> None:
        """A pod is being deleted: it is still there, but counts for spreading no more."""
        placed = self.plain.placed_pods()
        if placed:
            old = self._random.choice(placed)
            new = replace(old, metadata=replace(old.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
            self._put(pods=tuple(new if pod is old else pod for pod in self.plain.pods))
            self.cluster.place(Ask(new).record(), self.cluster.table.row_of[new.spec.node_name])

    def _change_node(self) -> None:
        """Labels and taints as another node has them, names of hosts included; or none."""
        if not self.plain.nodes:
            return
        old, other = self._random.choice(self.plain.nodes), self._random.choice(self.plain.nodes)
        labels = dict(other.metadata.labels)
        if self._random.random() < 0.7:
            labels["kubernetes.io/hostname"] = old.metadata.name
        if self._random.random() < 0.2:
            labels.pop("topology.kubernetes.io/zone", None)
        if self._random.random() < 0.1:
            labels["topology.kubernetes.io/zone"] = self._random.choice(["", "another"])
        meta, spec = replace(old.metadata, labels=labels), replace(old.spec, taints=other.spec.taints)
        self._put_node(replace(old, metadata=meta, spec=spec))

    def _come_and_go(self) -> None:
        if self._random.random() < 0.5 and len(self.plain.nodes) > 1:
            gone = self._random.choice(self.plain.nodes).metadata.name
            self._put(
                nodes=tuple(node for node in self.plain.nodes if node.metadata.name != gone),
                pods=tuple(pod for pod in self.plain.pods if pod.spec.node_name != gone),
            )
            self.cluster.remove_node(gone)
        elif self.plain.nodes:
            self._number += 1
            old, name = self._random.choice(self.plain.nodes), f"new-{self._number}"
            labels = {**old.metadata.labels, "kubernetes.io/hostname": name}
            self._put_node(replace(old, metadata=replace(old.metadata, name=name, labels=labels)))

    def _put_node(self, node: Node) -> None:
        others = [each for each in self.plain.nodes if each.metadata.name != node.metadata.name]
        self._put(nodes=(*others, node))
        self.cluster.put_node(node)

    def _rename(self) -> None:
        """A namespace gets other labels; a Service or workload comes or goes."""
        names = [namespace.metadata.name for namespace in self.plain.namespaces]
        labels = {"env": self._random.choice(["prod", "dev", "other"])}
        namespace = Namespace(metadata=ObjectMeta(name=self._random.choice(names), labels=labels))
        rest = [each for each in self.plain.namespaces if each.metadata.name != namespace.metadata.name]
        self._put(namespaces=(*rest, namespace))
        self.cluster.put_namespace(namespace)
        if self.plain.services and self._random.random() < 0.5:
            service = self._random.choice(self.plain.services)
            self._put(services=tuple(each for each in self.plain.services if each is not service))
            self.cluster.owners.remove_service(service.metadata.namespace, service.metadata.name)
        if self.plain.replica_sets and self._random.random() < 0.5:
            workload = self._random.choice(self.plain.replica_sets)
            self._put(
                replica_sets=tuple(
                    replica_set for replica_set in self.plain.replica_sets if replica_set is not workload
                )
            )
            self.cluster.owners.remove_workload(workload)
