"""Quotas for Prometheus: every figure of every quota, under the names of the original."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from koord.api.kubernetes.resources import amounts
from koord.api.machinery.faults import BadInput
from koord.api.protocol.annotations import quota as protocol
from koord.scheduler.framework.plugin import Measure
from koord.scheduler.plugins.quota.quotas import Quotas
from koord.scheduler.plugins.quota.spec import QuotaSpec
from koord.scheduler.plugins.quota.status import status_of
from koord.scheduler.plugins.quota.tree import Bounds

ELASTIC_QUOTA_STATUS: Final = "scheduler_elastic_quota_status"

Series: TypeAlias = tuple[tuple[str, str], ...]
"""The labels of a figure."""


def measured(quotas: Quotas, before: set[Series]) -> Iterator[Measure]:
    """All figures. `before`: the series that were told last time, which becomes those of this time."""
    told: dict[Series, int] = {}
    for spec in quotas.forest.specs.values():
        for field, listed in _fields(quotas, spec).items():
            for resource, amount in listed.items():
                labels = {
                    "name": spec.name,
                    "resource": resource,
                    "tree": spec.tree,
                    "is_parent": "true" if spec.is_parent else "false",
                    "parent": spec.parent,
                    "field": field,
                }
                told[tuple(sorted(labels.items()))] = amount
    gone = before - told.keys()
    before.clear()
    before.update(told)
    for series in gone:
        yield Measure(ELASTIC_QUOTA_STATUS, dict(series), None)
    for series, amount in told.items():
        yield Measure(ELASTIC_QUOTA_STATUS, dict(series), float(amount))


def _fields(quotas: Quotas, spec: QuotaSpec) -> dict[str, Mapping[str, int]]:
    quota, status = quotas.forest.quotas.get(spec.name), status_of(quotas, spec.key, spec.name)
    bounds = quota.bounds if quota is not None else Bounds()
    return {
        "request": status.request,
        "child-request": status.child_request,
        "used": status.used,
        "runtime": status.runtime,
        "min": bounds.min,
        "max": bounds.max,
        "sharedWeight": bounds.weight,
        "non-preemptible-request": status.fixed_request,
        "non-preemptible-used": status.fixed_used,
        "allocated": status.allocated,
        "guaranteed": status.guaranteed,
        "unschedulable-resource": _closed(quotas, spec),
    }


def _closed(quotas: Quotas, spec: QuotaSpec) -> Mapping[str, int]:
    """Of the root of a profile's tree: what is on nodes that take no pods."""
    try:
        return amounts(protocol.UNSCHEDULABLE_RESOURCE.read(quotas.objects[spec.key].metadata), capped=True)
    except BadInput:
        return {}
