"""ClusterRoles: what may be done, said in rules or gathered from other roles."""

from __future__ import annotations

from msgspec import field

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.struct import Struct
from koord.api.text.selector import LabelSelector


class PolicyRule(Struct):
    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = field(default=(), name="nonResourceURLs")


class AggregationRule(Struct):
    cluster_role_selectors: tuple[LabelSelector, ...] = ()


class ClusterRole(Struct):
    metadata: ObjectMeta = ObjectMeta()
    rules: tuple[PolicyRule, ...] = ()
    aggregation_rule: AggregationRule | None = None
