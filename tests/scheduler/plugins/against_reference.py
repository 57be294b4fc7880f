"""One plugin of the engine beside the plain reading of its rules: the same nodes, the same words, the same scores."""

from __future__ import annotations

from koord.api.configuration.component_config import PluginArgs
from koord.api.kubernetes.pod import Pod
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.plugins.load_aware_scheduling import LoadAwareScheduling
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.storage import StorageObject
from tests.scheduler.builders import recorded
from tests.scheduler.reference import cycle
from tests.scheduler.reference.cluster import Cluster as Plain


def engine_for(plain: Plain, plugin: Plugin, *, seed: int = 0) -> Engine:
    """An engine with one plugin that knows what the plain cluster knows."""
    cluster = Cluster(seed)
    cluster.now_s = plain.now_s
    for node in plain.nodes:
        cluster.put_node(node)
    things: list[StorageObject] = [*plain.claims, *plain.volumes, *plain.storage_classes]
    things += [*plain.csi_nodes, *plain.csi_drivers, *plain.storage_capacities]
    for thing in things:
        cluster.put_storage(thing)
    engine = Engine(cluster, Profile("default-scheduler", (plugin,), {plugin.name: 1}))
    for pod in plain.pods:
        bind(engine, pod, assigned_s=plain.assigned_at_s.get(pod.metadata.key))
    if isinstance(plugin, LoadAwareScheduling):
        for metric in plain.node_metrics:
            plugin.put_node_metric(metric)
    return engine


def bind(engine: Engine, pod: Pod, *, assigned_s: float | None = None) -> None:
    """A pod that is on a node already."""
    cluster = engine.cluster
    row = cluster.table.row_of.get(pod.spec.node_name)
    if row is None or pod.is_finished:
        return
    now_s = cluster.now_s
    cluster.now_s = now_s if assigned_s is None else assigned_s
    cluster.place(recorded(cluster, Ask(pod)), row)
    cluster.now_s = now_s


def verdicts(engine: Engine, pod: Pod) -> dict[str, tuple[str, ...]]:
    """By node, why it will not do; nothing where it will."""
    pod_class = engine.class_of(Ask(pod))
    names = engine.cluster.table.names
    feasible = {names[row] for row in pod_class.feasible_rows()}
    reasons = {names[row]: tuple(words) for row, (_, words) in pod_class.rejections().items()}
    assert feasible.isdisjoint(reasons)
    assert feasible | reasons.keys() == engine.cluster.table.row_of.keys()
    return {name: reasons.get(name, ()) for name in engine.cluster.table.row_of}


def scores(engine: Engine, pod: Pod) -> dict[str, int]:
    """By feasible node, what the plugin scores it."""
    pod_class = engine.class_of(Ask(pod))
    (plugin,) = engine.profile.plugins
    names = engine.cluster.table.names
    return {names[row]: pod_class.scores(int(row)).get(plugin.name, 0) for row in pod_class.feasible_rows()}


def assert_same(engine: Engine, pod: Pod, plain: Plain, args: PluginArgs | None = None) -> None:
    (plugin,) = engine.profile.plugins
    nodes = [node.metadata.name for node in plain.nodes]
    found = verdicts(engine, pod)
    if plugin.name in cycle.FILTERS:
        assert found == {name: cycle.filter(plugin.name, pod, name, plain, args).reasons for name in nodes}
    feasible = [name for name in nodes if not found[name]]
    if plugin.name in cycle.SCORES:
        expected = cycle.score(plugin.name, pod, feasible, plain, args)
        assert scores(engine, pod) == {name: expected.get(name, 0) for name in feasible}
