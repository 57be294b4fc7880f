"""What the nodes in a set of manifests lend: the manager's state and configuration, taken from files.

`explain_node` explains one node. Plans and previews use `states` and `slo_config` for all nodes.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from koord.api import kinds
from koord.api.configuration.slo_config import SloConfig
from koord.api.kubernetes.node import Node
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.text.manifest import Manifests
from koord.manager.config_in_force import PUBLISHED, STORED, in_force, last_valid
from koord.manager.node_resource import explain as manager
from koord.manager.node_resource.explain import NodeExplanation
from koord.manager.node_resource.plugins import calculate, choose
from koord.manager.node_resource.prepare import Prepared, prepare
from koord.manager.node_state import (
    NodeState,
    device_facts,
    metric_row,
    node_facts,
    on_nodes,
    pod_row,
    topology_facts,
)
from koord.manager.plugin import Plugin
from koord.offline import defaults


class NoSuchNode(BadInput):
    """The node does not exist. The message names nodes with similar names."""


class ManagerConfiguration(NamedTuple):
    """The configuration of a manager that starts on these manifests, and its complaints."""

    config: SloConfig
    unusable: frozenset[str]
    "Sections that cannot be read."
    notes: tuple[str, ...]


def slo_config(manifests: Manifests) -> ManagerConfiguration:
    """The configuration in the manifests; the defaults, with co-location off, where there is none."""
    maps = {config_map.metadata.key: config_map for config_map in manifests.of(kinds.CONFIG_MAPS)}
    stored = maps.get(STORED)
    if stored is None:
        stray = [key for key in maps if key.endswith(f"/{names.CONFIGMAP_SLO_CONTROLLER}")]
        hint = f"; {stray[0]} is in another namespace" if stray else ""
        return ManagerConfiguration(SloConfig(), frozenset(), (f"there is no ConfigMap {STORED}: defaults hold{hint}",))
    published = maps.get(PUBLISHED)
    last = last_valid(published.data if published is not None else None)
    config, problems, _ = in_force(last, stored.data)
    published_keys = published.data.keys() if published is not None else ()
    unusable = frozenset(problem.key for problem in problems if problem.keeps_old and problem.key not in published_keys)
    return ManagerConfiguration(config, unusable, tuple(f"ConfigMap {STORED}: {problem}" for problem in problems))


def states(manifests: Manifests, unusable: frozenset[str] = frozenset()) -> dict[str, NodeState]:
    """What is known of every node, by name."""
    pods = on_nodes(pod_row(pod) for pod in manifests.of(kinds.PODS))
    metrics = {metric.metadata.name: metric_row(metric) for metric in manifests.of(kinds.NODE_METRICS)}
    topologies = {
        topology.metadata.name: topology_facts(topology) for topology in manifests.of(kinds.NODE_RESOURCE_TOPOLOGIES)
    }
    devices = {device.metadata.name: device_facts(device) for device in manifests.of(kinds.DEVICES)}
    by_node = {}
    for node in manifests.of(kinds.NODES):
        name = node.metadata.name
        by_node[name] = NodeState(
            node_facts(_completed(node)),
            pods.get(name, ()),
            metrics.get(name),
            topologies.get(name),
            devices.get(name),
            unusable=unusable,
        )
    return by_node


def recomputed(
    manifests: Manifests, configured: ManagerConfiguration, *, now_s: float, plugins: Sequence[Plugin] | None = None
) -> dict[str, Prepared]:
    """What every node should show by this configuration: for plans, and for previews of another one."""
    chosen = choose() if plugins is None else plugins
    by_node = {}
    for name, state in states(manifests, configured.unusable).items():
        settings = configured.config.for_node(state.node.labels, state.node.annotations)
        by_node[name] = prepare(state.node, calculate(state, configured.config, settings, chosen, now_s))
    return by_node


def explain_node(
    manifests: Manifests,
    name: str,
    *,
    now_s: float,
    plugins: Sequence[Plugin] | None = None,
    written_s: float | None = None,
    who: str = "",
    remarks: tuple[str, ...] = (),
) -> tuple[NodeExplanation, tuple[str, ...]]:
    """How the node's figures came about, and what was odd about the manifests. Raises `NoSuchNode`, `Invalid`.

    `written_s`, `who` and `remarks` are what a cluster tells beside its objects.
    """
    manifests.require_valid()
    configured = slo_config(manifests)
    by_node = states(manifests, configured.unusable)
    state = by_node.get(name)
    if state is None:
        near = difflib.get_close_matches(name, by_node, n=3)
        hint = f"; there is {', '.join(near)}" if near else ""
        raise NoSuchNode(f"there is no node {name}{hint}")
    settings = configured.config.for_node(state.node.labels, state.node.annotations)
    explanation = manager.explain(
        state,
        configured.config,
        settings,
        choose() if plugins is None else plugins,
        now_s,
        written_s=written_s,
        manager=who,
    )
    explanation = replace(explanation, notes=(*explanation.notes, *remarks))
    return explanation, configured.notes


def _completed(node: Node) -> Node:
    """With allocatable, and a capacity that is at least that, where a manifest leaves them out."""
    node = defaults.node(node)
    if node.status.capacity:
        return node
    return replace(node, status=replace(node.status, capacity=node.status.allocatable))
