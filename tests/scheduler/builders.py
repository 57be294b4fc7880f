"""Nodes and pods in a line: `node("n1", cpu="8")`, `ask("p1", cpu="500m")`."""

from __future__ import annotations

from typing import Any

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.scheduler.core.queue import ClusterEvent
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.plugins.node_affinity import NodeAffinity
from koord.scheduler.plugins.node_name import NodeName
from koord.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from koord.scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord.scheduler.plugins.node_unschedulable import NodeUnschedulable
from koord.scheduler.plugins.taint_toleration import TaintToleration
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import PodRecord

ROW_LOCAL: tuple[Plugin, ...] = (
    NodeUnschedulable(),
    NodeName(),
    TaintToleration(),
    NodeAffinity(),
    NodeResourcesFit(),
    NodeResourcesBalancedAllocation(),
)
WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
}


def node(
    name: str,
    *,
    cpu: str = "8",
    memory: str = "32Gi",
    pods: str = "110",
    labels: dict[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
    unschedulable: bool = False,
    extended: dict[str, str] | None = None,
) -> Node:
    data = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": taints or [], "unschedulable": unschedulable},
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods, **(extended or {})}},
    }
    return convert(Node, data)


def ask(name: str, *, cpu: str = "500m", memory: str = "1Gi", namespace: str = "shop", **spec: Any) -> Ask:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]
    data = {
        "metadata": {"name": name, "namespace": namespace, "uid": name, "labels": spec.pop("labels", {})},
        "spec": {"containers": containers, **spec},
    }
    return Ask(convert(Pod, data))


def recorded(cluster: Cluster, ask: Ask) -> PodRecord:
    """What is kept of a pod that comes to a node, with what plugins note of it."""
    return ask.record(notes=cluster.noted(ask.pod, template=ask.template))


def engine(*nodes: Node, plugins: tuple[Plugin, ...] = ROW_LOCAL, seed: int = 0) -> Engine:
    cluster = Cluster(seed)
    for node in nodes:
        cluster.put_node(node)
    return Engine(cluster, Profile("default-scheduler", plugins, WEIGHTS))


def helps(plugin: Plugin, ask: Ask, event: ClusterEvent, cluster: Cluster) -> bool:
    """Whether a plugin that looks closer at events says that one could help a pod."""
    assert plugin.queueing is not None
    assert plugin.queueing.helps is not None
    return plugin.queueing.helps(ask, event, cluster)
