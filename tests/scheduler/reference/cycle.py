"""One scheduling cycle, plainly: which nodes are feasible for a pod, why the others are not, and what each scores.

`filter` and `score` ask one plugin; `feasible` and `totals` ask a profile's plugins in their order and with their
weights. Plugins that this reference does not know are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from koord.api.configuration.component_config import PluginArgs
from koord.api.configuration.scheduler_args import (
    ARGS,
    InterPodAffinityArgs,
    LoadAwareSchedulingArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
)
from koord.api.configuration.scheduler_config import SchedulerProfile
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from tests.scheduler.reference import (
    load_aware_rules,
    node_rules,
    pod_affinity_rules,
    resource_rules,
    spread_rules,
    volume_rules,
)
from tests.scheduler.reference.cluster import OK, Cluster, Verdict, uu

A = TypeVar("A", bound=PluginArgs)
NO_ARGS: Final = PluginArgs()


def _as(type_: type[A], args: PluginArgs) -> A:
    assert isinstance(args, type_)
    return args


FILTERS: Final[Mapping[str, Callable[[Pod, Node, Cluster, PluginArgs], Verdict]]] = {
    "NodeUnschedulable": lambda pod, node, _cluster, _args: node_rules.node_unschedulable(pod, node),
    "NodeName": lambda pod, node, _cluster, _args: node_rules.node_name(pod, node),
    "TaintToleration": lambda pod, node, _cluster, _args: node_rules.taint_toleration(pod, node),
    "NodeAffinity": lambda pod, node, _cluster, args: node_rules.node_affinity(pod, node, _as(NodeAffinityArgs, args)),
    "NodePorts": lambda pod, node, cluster, _args: node_rules.node_ports(pod, node, cluster),
    "NodeResourcesFit": lambda pod, node, cluster, args: resource_rules.fit(
        pod, node, cluster, _as(NodeResourcesFitArgs, args)
    ),
    "VolumeRestrictions": lambda pod, node, cluster, _args: volume_rules.restrictions(pod, node, cluster),
    "NodeVolumeLimits": lambda pod, node, cluster, _args: volume_rules.limits(pod, node, cluster),
    "VolumeBinding": lambda pod, node, cluster, _args: volume_rules.binding(pod, node, cluster),
    "VolumeZone": lambda pod, node, cluster, _args: volume_rules.zone(pod, node, cluster),
    "PodTopologySpread": lambda pod, node, cluster, args: spread_rules.spread(
        pod, node, cluster, _as(PodTopologySpreadArgs, args)
    ),
    "InterPodAffinity": lambda pod, node, cluster, _args: pod_affinity_rules.pod_affinity(pod, node, cluster),
    "LoadAwareScheduling": lambda pod, node, cluster, args: load_aware_rules.load_aware(
        pod, node, cluster, _as(LoadAwareSchedulingArgs, args)
    ),
}
"""Whether a pod may run on a node."""

REJECTIONS: Final[Mapping[str, Callable[[Pod, Cluster], Verdict]]] = {
    "NodeAffinity": lambda pod, _cluster: (
        uu("pod affinity terms conflict") if node_rules.node_affinity_names(pod) == frozenset() else OK
    ),
    "VolumeRestrictions": volume_rules.restrictions_of_pod,
    "VolumeBinding": volume_rules.binding_of_pod,
    "VolumeZone": volume_rules.zone_of_pod,
}
"""Whether a pod may run at all. Found before any node is looked at, so it is the reason on every node."""

SCORES: Final[Mapping[str, Callable[[Pod, list[Node], Cluster, PluginArgs], dict[str, int]]]] = {
    "TaintToleration": lambda pod, nodes, _cluster, _args: node_rules.taint_toleration_score(pod, nodes),
    "NodeAffinity": lambda pod, nodes, _cluster, args: node_rules.node_affinity_score(
        pod, nodes, _as(NodeAffinityArgs, args)
    ),
    "NodeResourcesFit": lambda pod, nodes, cluster, args: resource_rules.fit_score(
        pod, nodes, cluster, _as(NodeResourcesFitArgs, args)
    ),
    "PodTopologySpread": lambda pod, nodes, cluster, args: spread_rules.spread_score(
        pod, nodes, cluster, _as(PodTopologySpreadArgs, args)
    ),
    "InterPodAffinity": lambda pod, nodes, cluster, args: pod_affinity_rules.pod_affinity_score(
        pod, nodes, cluster, _as(InterPodAffinityArgs, args)
    ),
    "NodeResourcesBalancedAllocation": lambda pod, nodes, cluster, args: resource_rules.balanced_score(
        pod, nodes, cluster, _as(NodeResourcesBalancedAllocationArgs, args)
    ),
    "ImageLocality": lambda pod, nodes, cluster, _args: node_rules.image_locality_score(pod, nodes, cluster),
    "LoadAwareScheduling": lambda pod, nodes, cluster, args: load_aware_rules.load_aware_score(
        pod, nodes, cluster, _as(LoadAwareSchedulingArgs, args)
    ),
}
"""How well a pod is placed on each of the feasible nodes, 0 to 100; nothing where the plugin does not care."""


def default_args(plugin: str) -> PluginArgs:
    return ARGS[plugin]().completed() if plugin in ARGS else NO_ARGS


def filter(plugin: str, pod: Pod, node: str, cluster: Cluster, args: PluginArgs | None = None) -> Verdict:
    """What one plugin says of one node. `args` are completed ones; None means the plugin's defaults."""
    rejection = REJECTIONS[plugin](pod, cluster) if plugin in REJECTIONS else OK
    if not rejection:
        return rejection
    return FILTERS[plugin](pod, cluster.node(node), cluster, default_args(plugin) if args is None else args)


def score(
    plugin: str, pod: Pod, feasible_nodes: Iterable[str], cluster: Cluster, args: PluginArgs | None = None
) -> dict[str, int]:
    """What one plugin scores the feasible nodes, 0 to 100, normalised. Empty where the plugin has nothing to say."""
    wanted = set(feasible_nodes)
    nodes = [node for node in cluster.nodes if node.metadata.name in wanted]
    return SCORES[plugin](pod, nodes, cluster, default_args(plugin) if args is None else args)


def args_of(profile: SchedulerProfile, plugin: str) -> PluginArgs:
    return profile.written_args(plugin).completed() if plugin in ARGS else NO_ARGS


def feasible(pod: Pod, cluster: Cluster, profile: SchedulerProfile | None = None) -> dict[str, Verdict]:
    """The verdict by node: ok, or the reason of the first plugin that rejects it.

    A plugin that rejects the pod itself stops the cycle, and is the reason on all nodes. Nodes other than those that
    the pod is pinned to are not checked further.
    """
    profile = profile or SchedulerProfile()
    points = profile.resolved().at
    plugins = [plugin for plugin in points["filter"] if plugin in FILTERS]
    everywhere = _rejection(pod, cluster, points["preFilter"])
    if everywhere is not None:
        return {node.metadata.name: everywhere for node in cluster.nodes}
    pinned = node_rules.node_affinity_names(pod) if "NodeAffinity" in points["preFilter"] else None
    verdicts = {}
    for node in cluster.nodes:
        name = node.metadata.name
        verdicts[name] = OK
        if pinned is not None and name not in pinned:
            verdicts[name] = Verdict("uu", ("node(s) didn't satisfy plugin(s) [NodeAffinity]",), "NodeAffinity")
            continue
        for plugin in plugins:
            verdict = FILTERS[plugin](pod, node, cluster, _remembered_args(profile, plugin, cluster))
            if not verdict:
                verdicts[name] = Verdict(verdict.code, verdict.reasons, plugin)
                break
    return verdicts


def _remembered_args(profile: SchedulerProfile, plugin: str, cluster: Cluster) -> PluginArgs:
    """The same object each time, so that what is computed from it once is found again."""
    return cluster.once(_all_args, profile)[plugin]


def _all_args(profile: SchedulerProfile) -> dict[str, PluginArgs]:
    return {plugin: args_of(profile, plugin) for plugin in {*FILTERS, *SCORES}}


def _rejection(pod: Pod, cluster: Cluster, plugins: Iterable[str]) -> Verdict | None:
    for plugin in plugins:
        verdict = REJECTIONS[plugin](pod, cluster) if plugin in REJECTIONS else OK
        if not verdict:
            return Verdict(verdict.code, verdict.reasons, plugin)
    return None


def feasible_nodes(pod: Pod, cluster: Cluster, profile: SchedulerProfile | None = None) -> list[str]:
    return [name for name, verdict in feasible(pod, cluster, profile).items() if verdict]


def scores(
    pod: Pod, nodes: Iterable[str], cluster: Cluster, profile: SchedulerProfile | None = None
) -> dict[str, dict[str, int]]:
    """By plugin and node, before weights. Plugins that have nothing to say are absent."""
    profile = profile or SchedulerProfile()
    nodes = list(nodes)
    found = {
        plugin: score(plugin, pod, nodes, cluster, args_of(profile, plugin))
        for plugin in profile.resolved().at["score"]
        if plugin in SCORES
    }
    return {plugin: by_node for plugin, by_node in found.items() if by_node}


def totals(pod: Pod, nodes: Iterable[str], cluster: Cluster, profile: SchedulerProfile | None = None) -> dict[str, int]:
    """By node, the sum of all scores times their weights. Highest total wins."""
    profile = profile or SchedulerProfile()
    nodes = list(nodes)
    weights = profile.resolved().weights
    total: Counter[str] = Counter(dict.fromkeys(nodes, 0))
    for plugin, by_node in scores(pod, nodes, cluster, profile).items():
        for node, value in by_node.items():
            total[node] += value * weights[plugin]
    return dict(total)
