"""What a slo-controller-config would do: batch and mid resources of every node before and after, and evictions.

Before is the result of the configuration that it replaces, with the same reports; if that is unknown, what nodes show.
After is what nodes are planned with. A node that never reported is unchanged, unless it is switched off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from koord.api import kinds
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts
from koord.api.protocol.crd.node_slo import NodeSLO
from koord.api.text.manifest import Manifest, Manifests
from koord.api.text.quantity import render
from koord.manager.config_in_force import STORED
from koord.manager.lending.freshness import distrust
from koord.manager.node_resource.plugins import calculate, choose, why_off
from koord.manager.node_resource.prepare import prepare
from koord.manager.node_state import BATCH, MID, NodeState
from koord.offline.node_resources import ManagerConfiguration, slo_config, states
from koord.offline.would_evict import WouldEvict, would_evict

LENT: Final = (*BATCH, *MID)
KINDS: Final = (kinds.NODES, kinds.PODS, kinds.NODE_METRICS, kinds.NODE_RESOURCE_TOPOLOGIES, kinds.DEVICES)
"""Kinds that decide about what nodes lend."""


class ResourceChange(msgspec.Struct, frozen=True):
    before: str | None
    after: str | None
    "None is not at all."


class NodePreview(msgspec.Struct, frozen=True):
    resources: dict[str, ResourceChange]
    why: str
    "Why nothing is lent after the change; empty where something is."


class Preview(msgspec.Struct, frozen=True):
    nodes: dict[str, NodePreview]
    evictions: tuple[WouldEvict, ...]
    notes: tuple[str, ...] = ()


def has_config(manifests: Manifests) -> bool:
    return any(item.kind is kinds.CONFIG_MAPS and item.key == STORED for item in manifests.items)


def preview(manifests: Manifests, *, now_s: float, replaced: Manifests | None = None) -> tuple[Preview, Manifests]:
    """What the configuration in the manifests would do; and the manifests as they would be with it.

    `replaced`: manifests with the configuration that is in force.
    """
    configured = slo_config(manifests)
    node_states = states(manifests, configured.unusable)
    before = _lent_by(slo_config(replaced), node_states, now_s) if replaced is not None and has_config(replaced) else {}
    after = _lent_by(configured, node_states, now_s)
    previews = {}
    for name, state in node_states.items():
        shown = {key: amount for key, amount in state.node.allocatable.items() if key in LENT}
        was = before.get(name, shown)
        changes = {key: ResourceChange(_text(key, was.get(key)), _text(key, after[name].get(key))) for key in LENT}
        settings = configured.config.for_node(state.node.labels, state.node.annotations)
        why = why_off(configured.config, settings) or distrust(state, settings.colocation, now_s)
        previews[name] = NodePreview(
            {key: change for key, change in changes.items() if change != ResourceChange(None, None)}, why
        )
    evictions = _evictions(manifests, configured, node_states, after, now_s)
    return Preview(previews, evictions, configured.notes), _applied(manifests, configured, node_states, after)


def _lent_by(
    configured: ManagerConfiguration, states_of: Mapping[str, NodeState], now_s: float
) -> dict[str, dict[str, int]]:
    plugins, lent = choose(), {}
    for name, state in states_of.items():
        settings = configured.config.for_node(state.node.labels, state.node.annotations)
        if state.metric is None and not why_off(configured.config, settings):
            lent[name] = {key: amount for key, amount in state.node.allocatable.items() if key in LENT}
            continue
        shown = prepare(state.node, calculate(state, configured.config, settings, plugins, now_s)).resources
        lent[name] = {key: amount for key, amount in shown.items() if key in LENT and amount is not None}
    return lent


def _evictions(
    manifests: Manifests,
    configured: ManagerConfiguration,
    states_of: Mapping[str, NodeState],
    after: Mapping[str, Mapping[str, int]],
    now_s: float,
) -> tuple[WouldEvict, ...]:
    pods: dict[str, list[Pod]] = {}
    for pod in manifests.of(kinds.PODS):
        if pod.spec.node_name:
            pods.setdefault(pod.spec.node_name, []).append(pod)
    metrics = {metric.metadata.name: metric for metric in manifests.of(kinds.NODE_METRICS)}
    evictions: list[WouldEvict] = []
    for node in manifests.of(kinds.NODES):
        name = node.metadata.name
        settings = configured.config.for_node(node.metadata.labels, node.metadata.annotations)
        if name not in metrics or name not in pods or distrust(states_of[name], settings.colocation, now_s):
            continue
        has = {key: amount for key, amount in amounts(node.status.allocatable).items() if key not in LENT}
        evictions += would_evict(node, {**has, **after[name]}, pods[name], metrics[name], settings.node_slo, now_s)
    return tuple(evictions)


def _applied(
    manifests: Manifests,
    configured: ManagerConfiguration,
    states_of: Mapping[str, NodeState],
    after: Mapping[str, Mapping[str, int]],
) -> Manifests:
    """Nodes that show what they would lend, and NodeSLOs as the manager would write them."""
    items = []
    for item in manifests.items:
        if item.kind is kinds.NODES and isinstance(item.object, Node):
            items.append(_with(item, _lending(item.object, after[item.object.metadata.name])))
        elif item.kind is not kinds.NODE_SLOS:
            items.append(item)
    for name, state in states_of.items():
        spec = configured.config.for_node(state.node.labels, state.node.annotations).node_slo
        slo = NodeSLO(ObjectMeta(name=name), spec)
        head = {"kind": kinds.NODE_SLOS.kind, "metadata": {"name": name}}
        items.append(Manifest(kinds.NODE_SLOS, slo, head, "slo-controller-config", 0))
    return manifests.with_items(items)


def _lending(node: Node, lent: Mapping[str, int]) -> Node:
    status, shown = node.status, {key: render(key, amount) for key, amount in lent.items()}
    capacity = {key: amount for key, amount in status.capacity.items() if key not in LENT}
    allocatable = {key: amount for key, amount in status.allocatable.items() if key not in LENT}
    has = replace(
        status,
        capacity={**capacity, **shown} if capacity else status.capacity,
        allocatable={**allocatable, **shown} if allocatable else status.allocatable,
    )
    return replace(node, status=has)


def _with(item: Manifest, obj: Any) -> Manifest:
    return Manifest(item.kind, obj, item.data, item.source, item.document)


def _text(resource: str, amount: int | None) -> str | None:
    return None if amount is None else render(resource, amount)
