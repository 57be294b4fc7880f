"""What a feature would do if it were rolled out now: what nodes would lend, how far batch pods would be held back, who
would be evicted. The decisions are the manager's and the agents' own, asked with what nodes report.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from koord.api import kinds
from koord.api.configuration.slo_config import NodeSettings, SloConfig, parse
from koord.api.kubernetes.core import ConfigMap
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.protocol import names
from koord.api.protocol.priority import QoSClass, qos_class
from koord.api.text.manifest import Manifest, Manifests
from koord.api.text.quantity import value
from koord.api.text.selector import LabelMatcher
from koord.manager.config_in_force import PUBLISHED, STORED
from koord.manager.rollout.features import Feature, ended, everywhere, is_begun
from koord.manager.rollout.state import chosen
from koord.offline.policy_preview import configured
from koord.offline.preview import NodePreview, preview
from koord.offline.would_evict import WouldEvict, held_back_milli

BATCH_CPU: Final = str(names.RESOURCE_BATCH_CPU)
BATCH_MEMORY: Final = str(names.RESOURCE_BATCH_MEMORY)


class NodeOutlook(msgspec.Struct, frozen=True, rename="camel"):
    batch_cpu_milli: int
    "Lent by the feature; 0 for features that lend nothing."
    batch_memory_bytes: int
    held_back_milli: int
    "CPU that batch pods use now and would not get; 0 for features that do not throttle."
    services: int
    batch_pods: int
    why: str
    "Why it would lend nothing, with a feature that lends."


class FeaturePreview(msgspec.Struct, frozen=True, rename="camel"):
    feature: str
    about: str
    lends: bool
    "Whether the feature is one that lends."
    holds_back: bool
    "Whether it is one that holds batch pods back and evicts them."
    nodes: dict[str, NodeOutlook]
    "Those that would get it."
    already: tuple[str, ...]
    "Those that have it."
    batch_cpu_milli: int
    batch_memory_bytes: int
    evictions: tuple[WouldEvict, ...]
    notes: tuple[str, ...] = ()


def feature_preview(
    current: Sequence[Manifest], feature: Feature, pool: LabelMatcher | None, percent: int, now_s: float
) -> FeaturePreview:
    """`found` is the current cluster: nodes, pods, reports and configuration."""
    stored = next((item.object for item in current if item.key == STORED and item.kind is kinds.CONFIG_MAPS), None)
    data = dict(stored.data) if isinstance(stored, ConfigMap) else {}
    text = (ended(data, feature, on=True) if is_begun(data, feature) else None) or everywhere(data, feature)
    after = {**data, feature.section: text}
    before_config, config = parse(data), parse(after)
    as_is = Manifests(tuple(current), (), (), {})
    changed = as_is.with_items([*(item for item in current if item.key not in (STORED, PUBLISHED)), configured(after)])
    previewed, _ = preview(changed, now_s=now_s)
    nodes: list[Node] = [node for node in as_is.of(kinds.NODES) if pool is None or pool.matches(node.metadata.labels)]
    had = frozenset(node.metadata.name for node in nodes if _same(feature, before_config, config, node))
    inside = chosen([node.metadata.name for node in nodes], percent, had)
    pods: dict[str, list[Pod]] = {}
    for pod in as_is.of(kinds.PODS):
        if pod.spec.node_name in inside and not pod.is_finished:
            pods.setdefault(pod.spec.node_name, []).append(pod)
    metrics = {metric.metadata.name: metric for metric in as_is.of(kinds.NODE_METRICS)}
    outlooks: dict[str, NodeOutlook] = {}
    for node in nodes:
        name = node.metadata.name
        if name not in inside or name in had:
            continue
        there = pods.get(name, [])
        held = 0
        if feature.holds_back and name in metrics:
            settings = config.for_node(node.metadata.labels, node.metadata.annotations)
            held = held_back_milli(node, there, metrics[name], settings.node_slo, now_s)
        outlooks[name] = _outlook(previewed.nodes[name] if feature.changes_lending else None, there, held)
    anyway = {eviction.pod for eviction in preview(as_is, now_s=now_s)[0].evictions} if previewed.evictions else set()
    return FeaturePreview(
        feature.name,
        feature.about,
        feature.changes_lending,
        feature.holds_back,
        outlooks,
        tuple(sorted(had)),
        sum(node.batch_cpu_milli for node in outlooks.values()),
        sum(node.batch_memory_bytes for node in outlooks.values()),
        tuple(eviction for eviction in previewed.evictions if eviction.node in outlooks and eviction.pod not in anyway),
        previewed.notes,
    )


def _same(feature: Feature, before: SloConfig, after: SloConfig, node: Node) -> bool:
    return _on(feature, before, node) == _on(feature, after, node)


def _on(feature: Feature, config: SloConfig, node: Node) -> object:
    settings: NodeSettings = config.for_node(node.metadata.labels, node.metadata.annotations)
    if feature.is_lending:
        return config.is_colocation_enabled and settings.colocation.enable
    if feature.changes_lending:
        return settings.colocation, settings.node_slo
    return settings.node_slo


def _outlook(lending: NodePreview | None, pods: Sequence[Pod], held_milli: int) -> NodeOutlook:
    batch = sum(qos_class(pod) is QoSClass.BE for pod in pods)
    services = len(pods) - batch
    if lending is None:
        return NodeOutlook(0, 0, held_milli, services, batch, "")
    lent = {key: value(change.after) for key, change in lending.resources.items() if change.after is not None}
    return NodeOutlook(lent.get(BATCH_CPU, 0), lent.get(BATCH_MEMORY, 0), held_milli, services, batch, lending.why)
