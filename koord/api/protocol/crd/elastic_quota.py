"""ElasticQuota and ElasticQuotaProfile: what a group of pods is guaranteed, and may borrow.

Quotas form trees by their labels (quota.scheduling.koordinator.sh/parent). A profile makes the root quota of a tree
from the nodes that it selects.
"""

from __future__ import annotations

from collections.abc import Mapping

from koord.api.kubernetes.meta import Condition, ObjectMeta
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.text.quantity import ResourceList
from koord.api.text.selector import LabelSelector


class ElasticQuotaSpec(Struct):
    min: ResourceList = EMPTY
    "What the quota is guaranteed. What it does not use of that may be lent to others, unless it forbids so."
    max: ResourceList = EMPTY
    "What the quota may use at most, borrowed resources included."


class ElasticQuotaStatus(Struct):
    used: ResourceList = EMPTY
    "What the pods of the quota use, by their requests. Written by the scheduler."
    conditions: tuple[Condition, ...] = ()
    "Whether the scheduler can use the quota (Usable), and why not. Written by the scheduler."


class ElasticQuota(Struct):
    """What a group of pods is guaranteed (min) and may use at most (max), borrowing what others leave idle."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ElasticQuotaSpec = ElasticQuotaSpec()
    "The bounds of the quota."
    status: ElasticQuotaStatus = ElasticQuotaStatus()
    "What is used of it."


class ElasticQuotaProfileSpec(Struct):
    quota_name: str
    "Name of the ElasticQuota to write, in the profile's namespace."
    node_selector: LabelSelector
    "The nodes whose resources the quota gets."
    quota_labels: Mapping[str, str] = EMPTY
    "Labels to set on the quota."
    resource_ratio: str | None = None
    "Share of the nodes' resources that the quota gets, above 0 and up to 1, for example 0.9. Absent or unreadable: 1."


class ElasticQuotaProfileStatus(Struct):
    """Nothing is reported for profiles."""


class ElasticQuotaProfile(Struct, kw_only=True):
    """Makes the root of a quota tree out of a set of nodes, and keeps its size in step with theirs."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ElasticQuotaProfileSpec
    "The quota, and the nodes that it is computed from."
    status: ElasticQuotaProfileStatus = ElasticQuotaProfileStatus()
    "Not used."
