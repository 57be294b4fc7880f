"""Quotas as their objects say them: for `koord top quotas`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from koord.admission.quota_topology import QuotaTopology
from koord.api.protocol import names
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.scheduler.plugins.quota.spec import QuotaSpec, quota_spec
from koord.scheduler.plugins.quota.status import said_by


class QuotaTop(msgspec.Struct, frozen=True, rename="camel"):
    """One quota, in the order of its tree. Amounts are milli-cores of cpu and plain units of everything else."""

    quota: str
    namespace: str
    parent: str
    tree: str
    depth: int
    "How far below the root it is."
    is_parent: bool
    used: dict[str, int]
    request: dict[str, int]
    runtime: dict[str, int]
    min: dict[str, int]
    max: dict[str, int]
    problem: str = ""
    "What the scheduler, or its object, says is wrong with it."


def quotas_of(objects: Iterable[ElasticQuota]) -> list[QuotaTop]:
    """All quotas, each below its parent, siblings by name. Those whose parents are not there come last."""
    by_name = {obj.metadata.name: (quota_spec(obj), obj) for obj in objects}
    below: dict[str, list[str]] = {}
    for name, (spec, _) in sorted(by_name.items()):
        parent = spec.parent if spec.parent in by_name and name != names.QUOTA_ROOT else ""
        below.setdefault(parent, []).append(name)
    seen: set[str] = set()

    def walk(name: str, depth: int) -> Iterator[QuotaTop]:
        if name in seen:
            return
        seen.add(name)
        yield _top(*by_name[name], depth)
        for child in below.get(name, ()):
            yield from walk(child, depth + 1)

    rows = [row for name in below.get("", ()) for row in walk(name, 0)]
    # Quotas whose parents form a circle have no parent.
    return rows + [row for name in sorted(by_name) for row in walk(name, 0)]


def quota_of_pods(objects: Iterable[ElasticQuota]) -> Callable[[str, str], str]:
    """The name of a pod's quota, by its label and its namespace; empty where no quota counts it."""
    topology = QuotaTopology.of(objects)

    def quota_of(label: str, namespace: str) -> str:
        name = topology.name_for(label, namespace, default=True) if topology else label
        return "" if topology and topology.get(name) is None else name

    return quota_of


def _top(spec: QuotaSpec, quota: ElasticQuota, depth: int) -> QuotaTop:
    status = said_by(quota)
    return QuotaTop(
        spec.name,
        spec.namespace,
        spec.parent,
        spec.tree,
        depth,
        spec.is_parent,
        dict(status.used),
        dict(status.request),
        dict(status.runtime),
        dict(spec.bounds.min),
        dict(spec.bounds.max),
        status.complaint or spec.fault or status.overuse,
    )
