"""What a round looks at, without malformed objects: those stay, and the round goes on without them.

Used only after a plugin has failed, so that a round over valid objects costs nothing extra. A pod is valid if its
requests, its node preferences and its class can be read; a node and its report if their amounts can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from koord.api.kinds import NODE_METRICS, NODES, PODS
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.shield import Shield
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.descheduler.load import Reading, has_of, load_of
from koord.descheduler.node_preferences import NodePreferences
from koord.descheduler.sight import Sight

LOOK = "look whether it should move"


def without_malformed(sight: Sight, shield: Shield) -> Sight | None:
    """The same sight without malformed objects, each reported to `shield`; None if there are none."""
    nodes = {name: node for name, node in sight.nodes.items() if _node_is_clear(node, shield)}
    metrics = {
        name: metric
        for name, metric in sight.metrics.items()
        if name in nodes and _metric_is_clear(nodes[name], metric, sight.now_s, shield)
    }
    pods_on = _clear_pods(sight, sight.pods_on, shield)
    finished_on = _clear_pods(sight, sight.finished_on, shield)
    before = len(sight.nodes), len(sight.metrics), _number(sight.pods_on), _number(sight.finished_on)
    if before == (len(nodes), len(metrics), _number(pods_on), _number(finished_on)):
        return None
    return replace(sight, nodes=nodes, metrics=metrics, pods_on=pods_on, finished_on=finished_on)


def _clear_pods(sight: Sight, pods_on: Mapping[str, Sequence[Pod]], shield: Shield) -> dict[str, list[Pod]]:
    return {node: [pod for pod in pods if _pod_is_clear(sight, pod, shield)] for node, pods in pods_on.items()}


def _pod_is_clear(sight: Sight, pod: Pod, shield: Shield) -> bool:
    with shield.about(LOOK, PODS, pod.metadata):
        NodePreferences.of(pod.spec)
        sight.places.class_of(pod)
        return True
    return False


def _node_is_clear(node: Node, shield: Shield) -> bool:
    with shield.about("look at its load", NODES, node.metadata):
        has_of(node)
        return True
    return False


def _metric_is_clear(node: Node, metric: NodeMetric, now_s: float, shield: Shield) -> bool:
    with shield.about("look at the load that it reports", NODE_METRICS, metric.metadata):
        load_of(node, (), metric, now_s, Reading(inf))
        return True
    return False


def _number(pods_on: Mapping[str, Sequence[Pod]]) -> int:
    return sum(map(len, pods_on.values()))
