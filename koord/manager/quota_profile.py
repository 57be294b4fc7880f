"""The root of a quota tree from a set of nodes: what an ElasticQuotaProfile makes of its ElasticQuota.

    min = allocatable of the selected nodes * resourceRatio,  max = as good as no bound

The resources of nodes that accept no pods are listed separately, in an annotation. The quota is never deleted here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.resources import amounts, stored_amounts
from koord.api.machinery.struct import Struct
from koord.api.protocol import names
from koord.api.protocol.annotations.quota import (
    RESOURCE_KEYS,
    TOTAL_RESOURCE,
    UNSCHEDULABLE_RESOURCE,
    default_tree_id,
)
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.elastic_quota import ElasticQuota, ElasticQuotaProfile
from koord.api.text.quantity import ResourceList, from_value, render
from koord.api.text.selector import NOTHING, compile_labels

NO_BOUND: Final = (2**63 - 1) // 2000
"""What readers of the protocol can still multiply by 1000 without running over."""


class NodePart(Struct):
    """What a node has for quotas."""

    labels: Mapping[str, str]
    allocatable: ResourceList
    takes_pods: bool
    "Whether it is ready and not cordoned."


def node_part(node: Node) -> NodePart:
    ready = node.status.condition("Ready")
    takes_pods = not node.spec.unschedulable and ready is not None and ready.status == "True"
    return NodePart(node.metadata.labels, node.status.allocatable, takes_pods)


class WantedQuota(Struct):
    """What the quota should have. Other labels and annotations on it are left alone."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    min: Mapping[str, str]
    max: Mapping[str, str]

    def is_in(self, quota: ElasticQuota) -> bool:
        meta = quota.metadata
        return (
            all(meta.labels.get(key) == text for key, text in self.labels.items())
            and all(meta.annotations.get(key) == text for key, text in self.annotations.items())
            and amounts(quota.spec.min) == amounts(self.min)
            and amounts(quota.spec.max) == amounts(self.max)
        )


def tree_id(profile: ElasticQuotaProfile) -> str:
    meta = profile.metadata
    return meta.labels.get(names.LABEL_QUOTA_TREE_ID) or default_tree_id(meta.namespace, meta.name)


def wanted_quota(profile: ElasticQuotaProfile, nodes: Iterable[NodePart]) -> WantedQuota:
    """The quota of a profile. Raises `BadInput` for a selector that makes no sense."""
    selects = compile_labels(profile.spec.node_selector, absent=NOTHING)
    total: dict[str, int] = {}
    closed: dict[str, int] = {}
    for node in nodes:
        if not selects.matches(node.labels):
            continue
        allocatable = stored_amounts(node.allocatable)
        for totals in (total,) if node.takes_pods else (total, closed):
            for name, amount in allocatable.items():
                totals[name] = totals.get(name, 0) + amount
    ratio = _ratio(profile.spec.resource_ratio)
    total, closed = _scaled(total, ratio), _scaled(closed, ratio)
    keys = _keys(profile)
    return WantedQuota(
        profile.metadata.namespace,
        profile.spec.quota_name,
        {
            names.LABEL_QUOTA_PROFILE: profile.metadata.name,
            **profile.spec.quota_labels,
            names.LABEL_QUOTA_TREE_ID: tree_id(profile),
            names.LABEL_QUOTA_IS_ROOT: "true",
        },
        {
            names.ANNOTATION_QUOTA_TOTAL_RESOURCE: TOTAL_RESOURCE.render(_rendered(total)),
            names.ANNOTATION_QUOTA_UNSCHEDULABLE_RESOURCE: UNSCHEDULABLE_RESOURCE.render(_rendered(closed)),
        },
        {key: render(key, total.get(key, 0)) for key in keys},
        {key: from_value(NO_BOUND) for key in keys},
    )


def _ratio(text: str | None) -> float:
    try:
        ratio = float(text) if text is not None else 1.0
    except ValueError:
        return 1.0
    return ratio if 0 < ratio <= 1 else 1.0


def _scaled(total: dict[str, int], ratio: float) -> dict[str, int]:
    return total if ratio == 1 else {name: int(amount * ratio) for name, amount in total.items()}


def _rendered(total: Mapping[str, int]) -> dict[str, str]:
    return {name: render(name, amount) for name, amount in total.items()}


def _keys(profile: ElasticQuotaProfile) -> tuple[str, ...]:
    try:
        return RESOURCE_KEYS.read(profile.metadata)
    except AnnotationError:
        return RESOURCE_KEYS.default
