"""What the nodes in a set of manifests lend: the manager's state and configuration, taken from files.

Who wants one node asks `explain_node`; who wants all (a plan, a preview) takes `states` and `slo_config`.
"""

from __future__ import annotations

import difflib
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
from koord.manager.node_resource.plugins import Plugins, calculate, choose
from koord.manager.node_resource.prepare import Prepared, prepare
from koord.manager.node_resource.state import (
    NodeState,
    device_facts,
    metric_row,
    node_facts,
    on_nodes,
    pod_row,
    topology_facts,
)
from koord.offline import defaults


class NoSuchNode(BadInput):
    """The node is not there; others with such a name may be."""


class Configured(NamedTuple):
    """What a manager that starts on these manifests goes by, and what it would complain about."""

    config: SloConfig
    unusable: frozenset[str]
    "Sections that cannot be read."
    notes: tuple[str, ...]


def slo_config(manifests: Manifests) -> Configured:
    """The configuration in the manifests; the defaults, with co-location off, where there is none."""
    maps = {each.metadata.key: each for each in manifests.of(kinds.CONFIG_MAPS)}
    found = maps.get(STORED)
    if found is None:
        stray = [key for key in maps if key.endswith(f"/{names.CONFIGMAP_SLO_CONTROLLER}")]
        hint = f"; {stray[0]} is in another namespace" if stray else ""
        return Configured(SloConfig(), frozenset(), (f"there is no ConfigMap {STORED}: defaults hold{hint}",))
    published = maps.get(PUBLISHED)
    last = last_valid(published.data if published is not None else None)
    config, problems, _ = in_force(last, found.data)
    known = published.data.keys() if published is not None else ()
    unusable = frozenset(each.key for each in problems if each.keeps_old and each.key not in known)
    return Configured(config, unusable, tuple(f"ConfigMap {STORED}: {each}" for each in problems))


def states(manifests: Manifests, unusable: frozenset[str] = frozenset()) -> dict[str, NodeState]:
    """What is known of every node, by name."""
    pods = on_nodes(pod_row(pod) for pod in manifests.of(kinds.PODS))
    metrics = {each.metadata.name: metric_row(each) for each in manifests.of(kinds.NODE_METRICS)}
    topologies = {each.metadata.name: topology_facts(each) for each in manifests.of(kinds.NODE_RESOURCE_TOPOLOGIES)}
    devices = {each.metadata.name: device_facts(each) for each in manifests.of(kinds.DEVICES)}
    found = {}
    for node in manifests.of(kinds.NODES):
        name = node.metadata.name
        found[name] = NodeState(
            node_facts(_completed(node)),
            pods.get(name, ()),
            metrics.get(name),
            topologies.get(name),
            devices.get(name),
            unusable=unusable,
        )
    return found


def recomputed(
    manifests: Manifests, configured: Configured, *, now_s: float, plugins: Plugins | None = None
) -> dict[str, Prepared]:
    """What every node should show by this configuration: for plans, and for previews of another one."""
    chosen = plugins or choose()
    found = {}
    for name, state in states(manifests, configured.unusable).items():
        settings = configured.config.for_node(state.node.labels, state.node.annotations)
        found[name] = prepare(state.node, calculate(state, configured.config, settings, chosen, now_s))
    return found


def explain_node(
    manifests: Manifests,
    name: str,
    *,
    now_s: float,
    plugins: Plugins | None = None,
    written_s: float | None = None,
    who: str = "",
    remarks: tuple[str, ...] = (),
) -> tuple[NodeExplanation, tuple[str, ...]]:
    """How the node's figures came about, and what was odd about the manifests. Raises `NoSuchNode`, `Invalid`.

    `written_s`, `who` and `remarks` are what a cluster tells beside its objects.
    """
    manifests.require_valid()
    configured = slo_config(manifests)
    known = states(manifests, configured.unusable)
    state = known.get(name)
    if state is None:
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"; there is {', '.join(near)}" if near else ""
        raise NoSuchNode(f"there is no node {name}{hint}")
    settings = configured.config.for_node(state.node.labels, state.node.annotations)
    told = manager.explain(
        state, configured.config, settings, plugins or choose(), now_s, written_s=written_s, manager=who
    )
    told = replace(told, notes=(*told.notes, *remarks))
    return told, configured.notes


def _completed(node: Node) -> Node:
    """With allocatable, and a capacity that is at least that, where a manifest leaves them out."""
    node = defaults.node(node)
    if node.status.capacity:
        return node
    return replace(node, status=replace(node.status, capacity=node.status.allocatable))
