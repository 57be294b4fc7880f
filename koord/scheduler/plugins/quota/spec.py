"""A quota as its object says it. What cannot be understood makes the quota unusable, and says why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from koord.api.kubernetes.resources import amounts
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.protocol.annotations import quota as protocol
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.api.protocol.quota_bounds import bound_faults
from koord.api.text.quantity import ResourceList, render
from koord.scheduler.plugins.quota.tree import Bounds


@dataclass(frozen=True, slots=True)
class QuotaSpec:
    key: str
    "Namespace and name of the object. The name alone is the quota's, in the whole cluster."
    name: str
    namespace: str
    made: str
    parent: str
    tree: str
    is_parent: bool
    is_root: bool
    "Whether it is the root of a tree that a profile made."
    ignores_default: bool
    bounds: Bounds
    namespaces: tuple[str, ...] = ()
    total: Mapping[str, int] | None = None
    "What its tree has, where it is the root of one."
    fault: str = ""
    "Why it cannot be used."


def quota_spec(quota: ElasticQuota) -> QuotaSpec:
    meta = quota.metadata
    fault, bounds = "", Bounds()
    try:
        bounds = _bounds(quota)
        fault = next(map(str, bound_faults(bounds.min, bounds.max)), "")
    except BadInput as error:
        fault = str(error)
    namespaces: tuple[str, ...] = ()
    total: Mapping[str, int] | None = None
    try:
        namespaces = protocol.namespaces_of(meta)
        total_written = protocol.TOTAL_RESOURCE.read(meta)
        total = None if total_written is None else amounts(total_written, capped=True)
    except (AnnotationError, BadInput) as error:
        fault = fault or str(error)
    # The root is above all trees, whatever its labels say.
    is_top = meta.name == names.QUOTA_ROOT
    parent = "" if is_top else protocol.parent_of(meta)
    return QuotaSpec(
        meta.key,
        meta.name,
        meta.namespace,
        meta.creation_timestamp or "",
        names.OLD_QUOTAS.get(parent, parent),
        "" if is_top else protocol.TREE_ID.read(meta),
        protocol.IS_PARENT.read(meta),
        protocol.IS_ROOT.read(meta),
        protocol.IGNORE_DEFAULT_TREE.read(meta),
        bounds,
        namespaces,
        total,
        fault,
    )


def _bounds(quota: ElasticQuota) -> Bounds:
    least, most = amounts(quota.spec.min, capped=True), amounts(quota.spec.max, capped=True)
    return Bounds(least, most, _weight(quota, most), protocol.ALLOW_LENT_RESOURCE.read(quota.metadata))


def _weight(quota: ElasticQuota, most: Mapping[str, int]) -> Mapping[str, int]:
    """What is missing, unreadable or nothing but zeros counts as max."""
    try:
        written = protocol.SHARED_WEIGHT.read(quota.metadata)
        weight = {} if written is None else amounts(written, capped=True)
    except (AnnotationError, BadInput):
        return most
    if any(amount < 0 for amount in weight.values()):
        return most
    return weight if any(weight.values()) else most


def written(amounts: Mapping[str, int]) -> ResourceList:
    """Amounts as quantities, in the order of their names."""
    return {key: render(key, amount) for key, amount in sorted(amounts.items())}


def some(names: Sequence[str], most: int = 5) -> str:
    """`a, b, c`, and how many more."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def listed(amounts: Mapping[str, int]) -> str:
    """`cpu 4, memory 8Gi`."""
    return ", ".join(f"{key} {text}" for key, text in written(amounts).items()) or "nothing"
