"""Quotas for Prometheus: every figure of every quota, under the names of the original.

Thousands of quotas have a hundred thousand series. So only the series of changed quotas are reported, and few enough at
a time that decisions need not wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias

from koord.api.kinds import ELASTIC_QUOTAS
from koord.api.kubernetes.resources import amounts
from koord.api.machinery.faults import BadInput
from koord.api.protocol.annotations import quota as protocol
from koord.scheduler.framework.controller import Measure
from koord.scheduler.plugins.quota.quotas import Quotas
from koord.scheduler.plugins.quota.spec import QuotaSpec
from koord.scheduler.plugins.quota.status import status_of
from koord.scheduler.plugins.quota.tree import Bounds

ELASTIC_QUOTA_STATUS: Final = "scheduler_elastic_quota_status"
AT_ONCE: Final = 1000
"""Quotas whose figures are reported in one go."""

Series: TypeAlias = tuple[tuple[str, str], ...]
"""The labels of a figure."""


class Measured:
    """The figures reported so far, by object."""

    def __init__(self) -> None:
        self.changed: dict[str, None] = {}
        "Objects whose quotas changed since."
        self._told: dict[str, dict[Series, int]] = {}

    def measures(self, quotas: Quotas) -> Iterator[Measure]:
        for key in list(islice(self.changed, AT_ONCE)):
            del self.changed[key]
            before, quota = self._told.pop(key, {}), quotas.objects.get(key)
            now: dict[Series, int] = {}
            if quota is not None:
                with quotas.cluster.shield.about("tell its figures", ELASTIC_QUOTAS, quota.metadata):
                    now = _figures(quotas, key, quota.metadata.name)
            if now:
                self._told[key] = now
            for series in before.keys() - now.keys():
                yield Measure(ELASTIC_QUOTA_STATUS, dict(series), None)
            for series, amount in now.items():
                if before.get(series) != amount:
                    yield Measure(ELASTIC_QUOTA_STATUS, dict(series), float(amount))


def _figures(quotas: Quotas, key: str, name: str) -> dict[Series, int]:
    """Of the quota of an object; nothing where another object of its name counts."""
    spec = quotas.forest.specs.get(name)
    if spec is None or spec.key != key:
        return {}
    series: dict[Series, int] = {}
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
            series[tuple(labels.items())] = amount
    return series


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
