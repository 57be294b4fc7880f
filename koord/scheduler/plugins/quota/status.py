"""What the objects of quotas say: their share, what is asked for and used, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypeAlias

from koord.api.kinds import ELASTIC_QUOTAS
from koord.api.kubernetes.resources import amounts
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.protocol.annotations import quota as protocol
from koord.api.protocol.annotations.value import Annotation
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.api.text.quantity import ResourceList
from koord.scheduler.framework.writes import Create, Patch
from koord.scheduler.plugins.quota.forest import DEFAULT_TREE
from koord.scheduler.plugins.quota.quotas import Quotas
from koord.scheduler.plugins.quota.spec import written
from koord.scheduler.plugins.quota.tree import Amounts, Quota

USABLE: Final = "Usable"
"""False where the scheduler cannot use the quota, or not as its object says."""
OVERUSED: Final = "Overused"
"""True if pods of the quota would be evicted, but this is only reported."""

BUILT_IN: Final = (names.QUOTA_ROOT, names.QUOTA_SYSTEM, names.QUOTA_DEFAULT)
"""Quotas that are always there."""

Part: TypeAlias = tuple[str, str]
"""Of a status: a field, and a resource of those that are used."""
_USED: Final[Part] = ("used", "")
_TOLD_AS_CONDITIONS: Final[frozenset[Part]] = frozenset({("complaint", ""), ("overuse", "")})

ANNOTATIONS: Final[Mapping[str, Annotation[ResourceList, Any]]] = {
    "runtime": protocol.RUNTIME,
    "request": protocol.REQUEST,
    "child_request": protocol.CHILD_REQUEST,
    "fixed_request": protocol.NON_PREEMPTIBLE_REQUEST,
    "fixed_used": protocol.NON_PREEMPTIBLE_USED,
    "guaranteed": protocol.GUARANTEED,
    "allocated": protocol.ALLOCATED,
}


@dataclass(frozen=True, slots=True)
class QuotaStatus:
    """All amounts without zeros, which say nothing."""

    used: Mapping[str, int] = field(default_factory=dict)
    runtime: Mapping[str, int] = field(default_factory=dict)
    request: Mapping[str, int] = field(default_factory=dict)
    child_request: Mapping[str, int] = field(default_factory=dict)
    fixed_request: Mapping[str, int] = field(default_factory=dict)
    fixed_used: Mapping[str, int] = field(default_factory=dict)
    guaranteed: Mapping[str, int] = field(default_factory=dict)
    allocated: Mapping[str, int] = field(default_factory=dict)
    complaint: str = ""
    overuse: str = ""


def status_of(quotas: Quotas, key: str, name: str) -> QuotaStatus:
    """What an object should say."""
    complaint = "; ".join(quotas.forest.complaints(key, name))
    spec = quotas.forest.specs.get(name)
    if spec is not None and spec.key != key:
        return QuotaStatus(complaint=complaint)
    if name == names.QUOTA_ROOT:
        return _of_root(quotas)
    return replace(own_status(quotas, quotas.forest.quotas[name], complaint), overuse=quotas.overuse.get(name, ""))


def own_status(quotas: Quotas, quota: Quota, complaint: str = "") -> QuotaStatus:
    """The status that a quota should have."""
    keeps = quotas.rules is not None and quotas.rules.keeps
    if quota.parent is not None:
        return QuotaStatus(
            _some(quota.used),
            _some(quotas.runtime(quota)),
            _some(quota.request(keeps=keeps)),
            _some(quota.child_request),
            _some(quota.fixed_request),
            _some(quota.fixed_used),
            _some(quota.least) if keeps else {},
            _some(quota.allocated) if keeps else {},
            complaint,
        )
    sums, most = quotas.sums(quota), quota.bounds.max
    request, used, fixed_request, fixed_used = (
        _some({key: amount for key, amount in part.items() if key in most}) for part in sums.parts()
    )
    return QuotaStatus(used, {}, request, request, fixed_request, fixed_used, complaint=complaint)


def _of_root(quotas: Quotas) -> QuotaStatus:
    quotas.refresh()
    tree = quotas.forest.trees[DEFAULT_TREE]
    root = tree.root
    asked = _some(root.child_request)
    return QuotaStatus(
        _some(root.used), _some(dict(tree.total)), asked, asked, _some(root.fixed_request), _some(root.fixed_used)
    )


def said_by(quota: ElasticQuota) -> QuotaStatus:
    """What an object says. What cannot be read says nothing."""
    read = {name: _read(annotation, quota) for name, annotation in ANNOTATIONS.items()}
    conditions = {condition.type: condition for condition in quota.status.conditions}
    usable, over = conditions.get(USABLE), conditions.get(OVERUSED)
    complaint = usable.message if usable is not None and usable.status == "False" else ""
    overuse = over.message if over is not None and over.status == "True" else ""
    try:
        used = _some(amounts(quota.status.used, capped=True))
    except BadInput:
        used = {}
    return QuotaStatus(used, **read, complaint=complaint, overuse=overuse)


def _read(annotation: Annotation[ResourceList, Any], quota: ElasticQuota) -> Mapping[str, int]:
    try:
        return _some(amounts(annotation.read(quota.metadata), capped=True))
    except BadInput:
        return {}


def differing(said: QuotaStatus, wanted: QuotaStatus) -> frozenset[Part]:
    """The parts of a status that must change."""
    parts = {(part.name, "") for part in fields(wanted) if getattr(said, part.name) != getattr(wanted, part.name)}
    if _USED in parts:
        parts |= {(_USED[0], resource) for resource in (*said.used, *wanted.used)}
    return frozenset(parts)


def status_write(quota: ElasticQuota, parts: frozenset[Part], wanted: QuotaStatus, now: str) -> Patch:
    """What makes an object say some parts of a status."""
    annotations = {
        annotation.key: annotation.render(written(getattr(wanted, name)))
        for name, annotation in ANNOTATIONS.items()
        if (name, "") in parts
    }
    status: dict[str, object] = {}
    if _USED in parts:
        # A merge patch leaves what it does not name: what is used no longer is named with 0.
        named = sorted(resource for name, resource in parts if name == _USED[0] and resource)
        status["used"] = {**dict.fromkeys(named, "0"), **written(wanted.used)}
    if parts & _TOLD_AS_CONDITIONS:
        status["conditions"] = [
            {
                "type": USABLE,
                "status": "False" if wanted.complaint else "True",
                "reason": "Malformed" if wanted.complaint else "WellFormed",
                "message": wanted.complaint,
                "lastTransitionTime": now,
            },
            {
                "type": OVERUSED,
                "status": "True" if wanted.overuse else "False",
                "reason": "MoreThanItsShare" if wanted.overuse else "WithinItsShare",
                "message": wanted.overuse,
                "lastTransitionTime": now,
            },
        ]
    meta = quota.metadata
    body: dict[str, object] = {"metadata": {"uid": meta.uid, **({"annotations": annotations} if annotations else {})}}
    if status:
        body["status"] = status
    # The definition of this kind has no subresource for it.
    return Patch(ELASTIC_QUOTAS, meta.name, body, meta.namespace)


def built_in(quotas: Quotas, namespace: str, most: Mapping[str, ResourceList]) -> Iterator[Create]:
    """The objects of the quotas that are always there, where they have none. `most`: the max of those that have one, by
    name."""
    for name in BUILT_IN:
        if name in quotas.forest.specs:
            continue
        body: dict[str, object] = {
            "apiVersion": f"{ELASTIC_QUOTAS.group}/{ELASTIC_QUOTAS.version}",
            "kind": ELASTIC_QUOTAS.kind,
            "metadata": {"name": name, "namespace": namespace},
        }
        if name == names.QUOTA_ROOT:
            labels = {names.LABEL_QUOTA_IS_PARENT: "true", names.LABEL_QUOTA_ALLOW_LENT_RESOURCE: "false"}
            body["metadata"] = {"name": name, "namespace": namespace, "labels": labels}
        else:
            body["spec"] = {"max": {key: str(amount) for key, amount in sorted(most[name].items())}}
        yield Create(ELASTIC_QUOTAS, name, body, namespace)


def _some(amounts: Mapping[str, int]) -> Amounts:
    return {key: amount for key, amount in amounts.items() if amount}
