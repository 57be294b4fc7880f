"""What nodes would lend by another policy or other thresholds, with the reports of now: the manager's own calculation,
asked twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from koord.api import kinds
from koord.api.kubernetes.core import ConfigMap
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol import names
from koord.api.text.manifest import Manifest, Manifests
from koord.api.text.quantity import value
from koord.api.text.selector import LabelMatcher
from koord.manager.config_in_force import PUBLISHED, STORED
from koord.offline.preview import ResourceChange, preview
from koord.offline.would_evict import WouldEvict


class NodePolicyPreview(msgspec.Struct, frozen=True, rename="camel"):
    """In milli-cores and bytes; None lends nothing."""

    batch_cpu_before: int | None
    batch_cpu_after: int | None
    batch_memory_before: int | None
    batch_memory_after: int | None
    why: str = ""
    "Why nothing would be lent."
    has_learned: bool = False
    "Whether the node reports what it has learned."


class PolicyPreview(msgspec.Struct, frozen=True, rename="camel"):
    nodes: dict[str, NodePolicyPreview]
    evictions: tuple[WouldEvict, ...] = ()
    "Pods that agents would evict after the change, and do not evict now."


def policy_preview(
    current: Sequence[Manifest], changed: Mapping[str, str], pool: LabelMatcher | None, now_s: float
) -> PolicyPreview:
    """`current` is the current cluster: nodes, pods, reports and configuration. `changed`: the sections of
    slo-controller-config that change, after the change."""
    as_is = Manifests(tuple(current), (), (), {})
    stored = next((item.object for item in current if item.key == STORED and item.kind is kinds.CONFIG_MAPS), None)
    data = {**(stored.data if isinstance(stored, ConfigMap) else {}), **changed}
    others = [item for item in current if item.key not in (STORED, PUBLISHED)]
    switched, _ = preview(as_is.with_items([*others, configured(data)]), now_s=now_s, replaced=as_is)
    before, _ = preview(as_is, now_s=now_s)
    anyway = {eviction.pod for eviction in before.evictions}
    learned = {
        metric.metadata.name for metric in as_is.of(kinds.NODE_METRICS) if metric.status.lending_metric is not None
    }
    nodes = {}
    for node in as_is.of(kinds.NODES):
        name = node.metadata.name
        if pool is not None and not pool.matches(node.metadata.labels):
            continue
        was, becomes = before.nodes[name].resources, switched.nodes[name].resources
        nodes[name] = NodePolicyPreview(
            _amount(was, names.RESOURCE_BATCH_CPU),
            _amount(becomes, names.RESOURCE_BATCH_CPU),
            _amount(was, names.RESOURCE_BATCH_MEMORY),
            _amount(becomes, names.RESOURCE_BATCH_MEMORY),
            switched.nodes[name].why,
            name in learned,
        )
    evictions = tuple(
        eviction for eviction in switched.evictions if eviction.node in nodes and eviction.pod not in anyway
    )
    return PolicyPreview(nodes, evictions)


def _amount(resources: Mapping[str, ResourceChange], name: str) -> int | None:
    after = resources[name].after if name in resources else None
    return None if after is None else value(after)


def configured(data: Mapping[str, str]) -> Manifest:
    """slo-controller-config as a manifest."""
    meta = ObjectMeta(name=names.CONFIGMAP_SLO_CONTROLLER, namespace=names.NAMESPACE_KOORDINATOR)
    head: dict[str, Any] = {"kind": "ConfigMap", "metadata": {"name": meta.name, "namespace": meta.namespace}}
    return Manifest(kinds.CONFIG_MAPS, replace(ConfigMap(), metadata=meta, data=data), head, "the preview", 0)
