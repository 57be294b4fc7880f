"""The engine beside the plain reading of the rules: a whole profile on a cluster that knows the same objects.

`engine_of` feeds an engine, `judged` asks it everything about a pod, and `differences` says in words where that is not
what the rules say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from koord.api.configuration.scheduler_config import SchedulerConfiguration, SchedulerProfile
from koord.api.kubernetes.pod import Pod
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import One
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.facet import Gate
from koord.scheduler.framework.pod_class import Part
from koord.scheduler.plugins.load_aware_scheduling import LoadAwareScheduling
from koord.scheduler.profiles import profiles_of
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.owners import Workload
from koord.scheduler.state.storage import StorageObject
from koord.scheduler.state.table import Row
from tests.scheduler.builders import recorded
from tests.scheduler.reference import cycle
from tests.scheduler.reference.cluster import Cluster as Plain


def engine_of(plain: Plain, profile: SchedulerProfile, *, seed: int = 0, attached_first: bool = True) -> Engine:
    """An engine with a profile's plugins that knows what the plain cluster knows.

    Plugins hear of objects as they come, or find them there when they are attached.
    """
    cluster = Cluster(seed)
    cluster.now_s = plain.now_s
    engine = engine_on(cluster, profile) if attached_first else None
    feed(cluster, plain)
    if engine is None:
        engine = engine_on(cluster, profile)
        # What plugins note of pods is made when pods are put, as after every change of a configuration.
        put_pods(cluster, plain)
    for plugin in load_aware(engine):
        for metric in plain.node_metrics:
            plugin.put_node_metric(metric)
    return engine


def engine_on(cluster: Cluster, profile: SchedulerProfile) -> Engine:
    """One more engine on a cluster."""
    (built,) = profiles_of(SchedulerConfiguration(profiles=(profile,))).profiles.values()
    return Engine(cluster, built)


def load_aware(engine: Engine) -> list[LoadAwareScheduling]:
    return [plugin for plugin in engine.profile.plugins if isinstance(plugin, LoadAwareScheduling)]


def feed(cluster: Cluster, plain: Plain) -> None:
    for namespace in plain.namespaces:
        cluster.put_namespace(namespace)
    for service in plain.services:
        cluster.put_service(service)
    workloads: list[Workload] = [*plain.replica_sets, *plain.stateful_sets, *plain.replication_controllers]
    for workload in workloads:
        cluster.put_workload(workload)
    things: list[StorageObject] = [*plain.claims, *plain.volumes, *plain.storage_classes]
    things += [*plain.csi_nodes, *plain.csi_drivers, *plain.storage_capacities]
    for thing in things:
        cluster.put_storage(thing)
    for node in plain.nodes:
        cluster.put_node(node)
    put_pods(cluster, plain)


def put_pods(cluster: Cluster, plain: Plain) -> None:
    """Those that are on nodes already."""
    for pod in plain.placed_pods():
        put_pod(cluster, pod, plain.assigned_at_s.get(pod.metadata.key))


def put_pod(cluster: Cluster, pod: Pod, assigned_s: float | None = None) -> None:
    """A pod that is on a node already."""
    now_s, cluster.now_s = cluster.now_s, cluster.now_s if assigned_s is None else assigned_s
    cluster.place(recorded(cluster, Ask(pod)), cluster.table.row_of[pod.spec.node_name])
    cluster.now_s = now_s


def _may_help(engine: Engine, part: Part, row: Row) -> bool:
    """Whether preemption could make a plugin take a row that it turns away."""
    judge = part.judge
    allowed = judge.only()
    mask = 1
    if allowed is None or row in allowed:
        mask = int(judge.feasible(One(engine.cluster.table.columns, row))) if judge.filters_on else 0
    if mask:
        return not judge.unresolvable(np.array([mask]), np.array([row])).item()
    closed = (facet for facet in judge.facets if isinstance(facet, Gate) and facet.table(None)[facet.groups[row]])
    facet = next(closed)
    return not facet.unresolvable(int(facet.groups[row]))


@dataclass(frozen=True)
class Judged:
    """What an engine says of a pod."""

    feasible: frozenset[str]
    scores: Mapping[str, Mapping[str, int]]
    "By plugin and feasible node, before weights."
    reasons: Mapping[str, tuple[str, tuple[str, ...]]]
    "By node that will not do: the plugin that says so first, and its words, sorted."
    preemptible: frozenset[str]
    "Of these, where preemption might help."
    best: str | None
    totals: Mapping[str, int]


def judged(engine: Engine, pod: Pod) -> Judged:
    pod_class = engine.class_of(Ask(pod))
    names, weights = engine.cluster.table.names, engine.profile.weights
    rows = [int(row) for row in pod_class.feasible_rows()]
    by_row = {row: pod_class.scores(row) for row in rows}
    plugins = dict.fromkeys(plugin for scores in by_row.values() for plugin in scores)
    best = pod_class.best()
    rejections = pod_class.rejections()
    reasons = {names[row]: (part.plugin.name, tuple(sorted(words))) for row, (part, words) in rejections.items()}
    preemptible = frozenset(names[row] for row, (part, _) in rejections.items() if _may_help(engine, part, row))
    return Judged(
        frozenset(names[row] for row in rows),
        {plugin: {names[row]: by_row[row].get(plugin, 0) for row in rows} for plugin in plugins},
        reasons,
        preemptible,
        None if best is None else names[best],
        {names[row]: sum(weights.get(name, 0) * score for name, score in by_row[row].items()) for row in rows},
    )


def differences(engine: Engine, pod: Pod, plain: Plain, profile: SchedulerProfile) -> Iterator[str]:
    """Each difference from the plain reading of the rules in words; nothing where the two agree."""
    found, verdicts = judged(engine, pod), cycle.feasible(pod, plain, profile)
    who = pod.metadata.key
    feasible = {name for name, verdict in verdicts.items() if verdict}
    if found.feasible != feasible:
        yield f"{who}: feasible {sorted(found.feasible)}, by the rules {sorted(feasible)}"
        return
    refused = {name: verdict for name, verdict in verdicts.items() if not verdict}
    by_rules = {name: (verdict.plugin, tuple(sorted(verdict.reasons))) for name, verdict in refused.items()}
    if found.reasons != by_rules:
        yield f"{who}: reasons {found.reasons}, by the rules {by_rules}"
    preemptible = {name for name, verdict in refused.items() if verdict.code == "unsched"}
    if found.preemptible != preemptible:
        yield f"{who}: preemption may help on {set(found.preemptible)}, by the rules on {preemptible}"
    if not feasible:
        if found.best is not None:
            yield f"{who}: takes {found.best}, which is not feasible"
        return
    scores = cycle.scores(pod, feasible, plain, profile)
    yield from (f"{who}: {difference}" for difference in score_differences(found.scores, scores, "the rules"))
    totals = cycle.totals(pod, feasible, plain, profile)
    if found.best is None or totals[found.best] < max(totals.values()):
        yield f"{who}: takes {found.best}, by the rules {totals}"


def score_differences(
    ours: Mapping[str, Mapping[str, int]], theirs: Mapping[str, Mapping[str, int]], whose: str
) -> Iterator[str]:
    """A plugin that does not judge a pod scores every node 0, or is absent."""
    for plugin in sorted(ours.keys() | theirs.keys()):
        mine, others = ours.get(plugin, {}), theirs.get(plugin, {})
        if mine != others and (any(mine.values()) or any(others.values())):
            yield f"{plugin} scores {dict(sorted(mine.items()))}, by {whose} {dict(sorted(others.items()))}"
