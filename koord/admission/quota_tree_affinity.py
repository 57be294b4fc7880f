"""Pods of a quota tree go to the tree's nodes: those that the tree's ElasticQuotaProfile selects.

A pod is in the quota that its label names, else in the one named as its namespace, else in one that lists the latter.
What the profile selects by is added to every alternative of the pod's required node affinity, where it is not yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from koord.admission.plain import labels_of, part, with_part
from koord.admission.request import Json
from koord.api.protocol import names
from koord.api.protocol.annotations import quota as quota_words
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.elastic_quota import ElasticQuota, ElasticQuotaProfile
from koord.api.text.selector import LabelSelector

_AFFINITY = ("spec", "affinity", "nodeAffinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class QuotaTrees:
    """Quotas and their trees, ready to be asked."""

    tree_of: Mapping[str, str] = field(default_factory=dict)
    "By the quota's name."
    quota_of_namespace: Mapping[str, str] = field(default_factory=dict)
    "Where a quota lists the namespace."
    nodes_of: Mapping[str, tuple[Json, ...]] = field(default_factory=dict)
    "What the nodes of a tree are selected by, as requirements of a node affinity."

    @staticmethod
    def of(quotas: Iterable[ElasticQuota], profiles: Iterable[ElasticQuotaProfile]) -> QuotaTrees:
        """Of several profiles of one tree, the first by namespace and name counts."""
        tree_of: dict[str, str] = {}
        quota_of_namespace: dict[str, str] = {}
        for quota in sorted(quotas, key=lambda quota: quota.metadata.key):
            tree_of[quota.metadata.name] = quota.metadata.labels.get(names.LABEL_QUOTA_TREE_ID, "")
            for namespace in _listed(quota):
                quota_of_namespace.setdefault(namespace, quota.metadata.name)
        nodes_of: dict[str, tuple[Json, ...]] = {}
        for profile in sorted(profiles, key=lambda profile: profile.metadata.key):
            tree = profile.metadata.labels.get(names.LABEL_QUOTA_TREE_ID, "")
            if tree:
                nodes_of.setdefault(tree, _requirements(profile.spec.node_selector))
        return QuotaTrees(tree_of, quota_of_namespace, nodes_of)

    def nodes(self, labels: Mapping[str, str], namespace: str) -> tuple[Json, ...]:
        """What the nodes are selected by that a pod belongs on; nothing where it is in no tree."""
        name = labels.get(names.LABEL_QUOTA_NAME) or namespace
        if name not in self.tree_of:
            name = self.quota_of_namespace.get(namespace, "")
        return self.nodes_of.get(self.tree_of.get(name, ""), ())


def with_affinity(pod: Json, namespace: str, trees: QuotaTrees) -> Json:
    """The pod bound to the nodes of its tree; the same object where it is so already."""
    wanted = trees.nodes(labels_of(pod), namespace)
    if not wanted:
        return pod
    required = part(pod, *_AFFINITY, _REQUIRED)
    terms: list[Any] = required.get("nodeSelectorTerms") or []
    after = [_with_requirements(term, wanted) for term in terms] or [{"matchExpressions": list(wanted)}]
    if len(after) == len(terms) and all(new is old for new, old in zip(after, terms, strict=True)):
        return pod
    return with_part(pod, {**required, "nodeSelectorTerms": after}, *_AFFINITY, _REQUIRED)


def _with_requirements(term: Json, wanted: tuple[Json, ...]) -> Json:
    present: list[Any] = term.get("matchExpressions") or []
    missing = [term for term in wanted if term not in present]
    return {**term, "matchExpressions": [*present, *missing]} if missing else term


def _requirements(selector: LabelSelector) -> tuple[Json, ...]:
    requirements: list[Json] = [
        {"key": key, "operator": "In", "values": [value]} for key, value in sorted(selector.match_labels.items())
    ]
    for expression in selector.match_expressions:
        values = {"values": list(expression.values)} if expression.values else {}
        requirements.append({"key": expression.key, "operator": expression.operator, **values})
    return tuple(requirements)


def _listed(quota: ElasticQuota) -> tuple[str, ...]:
    try:
        return quota_words.namespaces_of(quota.metadata)
    except AnnotationError:
        # It lists none that anyone could read; the quota itself is there.
        return ()
