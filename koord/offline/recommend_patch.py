"""The patch that makes workloads request what is recommended, for `kubectl apply --server-side`.

Server-side apply takes back what its field manager named before and names no more. So the patch for a workload names
both requests of each container, and its limits, also unchanged ones: applied again and again, it never
removes one. A limit below the new request is raised to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from koord.api.kinds import CRON_JOBS, DAEMON_SETS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS
from koord.api.protocol.crd.recommendation import Recommendation, WorkloadReference
from koord.api.text.quantity import render
from koord.offline.recommend import Advice

_API_VERSIONS: Final[Mapping[str, str]] = {
    kind.kind: kind.api_version for kind in (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, REPLICA_SETS, CRON_JOBS)
}
"""Of those that a target may leave out."""
_TEMPLATE: Final[Mapping[str, tuple[str, ...]]] = {"CronJob": ("spec", "jobTemplate", "spec", "template", "spec")}
"""By kind, where the pod spec is; elsewhere it is `spec.template.spec`."""


class Patch(NamedTuple):
    items: list[dict[str, Any]]
    left_out: list[str]
    "Which workloads should change and are not among the items, and why."


def patch(recommendations: Sequence[Recommendation], rows: Sequence[Advice]) -> Patch:
    """For each workload with a request that should change."""
    by_object: dict[tuple[str, str], list[Advice]] = {}
    for row in rows:
        by_object.setdefault((row.namespace, row.recommendation), []).append(row)
    made = Patch([], [])
    done: set[tuple[str, str, str]] = set()
    for recommendation in sorted(recommendations, key=lambda recommendation: recommendation.metadata.key):
        workload, namespace = recommendation.spec.target.workload, recommendation.metadata.namespace
        containers = by_object.get((namespace, recommendation.metadata.name), [])
        if workload is None or not any(map(_is_news, containers)):
            continue
        name = f"{namespace}/{workload.kind.lower()}/{workload.name}"
        why_not = _why_not(workload, containers)
        if (namespace, workload.kind, workload.name) in done:
            why_not = f"another Recommendation than {recommendation.metadata.name} is about it, and comes first by name"
        if why_not:
            made.left_out.append(f"{name}: {why_not}")
            continue
        done.add((namespace, workload.kind, workload.name))
        made.items.append(_item(workload, namespace, containers))
    return made


def _is_news(row: Advice) -> bool:
    return any(verdict != "keep" for verdict in row.verdict.values())


def _why_not(workload: WorkloadReference, rows: Iterable[Advice]) -> str:
    if not any(row.is_known and _is_news(row) for row in rows):
        return "neither pods nor a template with this container are known"
    if workload.kind == "Job":
        return "the template of a Job cannot be changed; make a new Job with these requests"
    if not workload.api_version and workload.kind not in _API_VERSIONS:
        return "its Recommendation must say spec.target.workload.apiVersion"
    return ""


def _item(workload: WorkloadReference, namespace: str, rows: Iterable[Advice]) -> dict[str, Any]:
    known_rows = [row for row in rows if row.is_known]
    parts = {
        "containers": [_container(row) for row in known_rows if not row.is_sidecar],
        "initContainers": [_container(row) for row in known_rows if row.is_sidecar],
    }
    body: dict[str, Any] = {field: containers for field, containers in parts.items() if containers}
    for part in reversed(_TEMPLATE.get(workload.kind, ("spec", "template", "spec"))):
        body = {part: body}
    head = {"apiVersion": workload.api_version or _API_VERSIONS[workload.kind], "kind": workload.kind}
    return {**head, "metadata": {"name": workload.name, "namespace": namespace}, **body}


def _container(row: Advice) -> dict[str, Any]:
    requests = {
        name: row.requests[name] if row.verdict[name] == "keep" else target for name, target in row.target.items()
    }
    limits = {name: max(limit, requests.get(name, 0)) for name, limit in row.limits.items()}
    written = {"requests": _written(row, requests), "limits": _written(row, limits)}
    return {
        "name": row.container,
        "resources": {field: amounts_of_field for field, amounts_of_field in written.items() if amounts_of_field},
    }


def _written(row: Advice, amounts: Mapping[str, int]) -> dict[str, str]:
    return {row.asks_for[name]: render(row.asks_for[name], amount) for name, amount in amounts.items()}
