"""What Recommendations say against what workloads request: what to change, what that saves, and the patch that does it.

Within 10% of what is requested a recommendation says "keep": a roll-out costs more than it would bring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from koord.api import kinds
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts
from koord.api.kubernetes.workloads import template_of
from koord.api.protocol.crd.recommendation import Recommendation, RecommendedContainerStatus
from koord.api.protocol.recommendation_target import Target, target_of
from koord.api.text.manifest import Manifests
from koord.api.text.quantity import render
from koord.manager.recommend.pods import ContainerFacts, PodFacts, facts_of

KEEP_PERCENT: Final = 10
RESOURCES: Final[tuple[str, ...]] = ("cpu", "memory")
KINDS: Final = (kinds.RECOMMENDATIONS, kinds.PODS)
"""What is asked of a running cluster."""
_SCALED: Final = (kinds.DEPLOYMENTS, kinds.STATEFUL_SETS)
_TEMPLATE: Final[Mapping[str, tuple[str, ...]]] = {"CronJob": ("spec", "jobTemplate", "spec", "template", "spec")}
"""By kind, where the pod spec is; elsewhere it is `spec.template.spec`."""


class Advice(msgspec.Struct, frozen=True, rename="camel"):
    """One container of one workload."""

    namespace: str
    recommendation: str
    workload: str
    "As in deployment/web; empty for a selector."
    container: str
    pods: int
    requests: dict[str, int]
    "Now, in milli-cores and bytes; what is not requested is absent."
    limits: dict[str, int]
    target: dict[str, int]
    lower: dict[str, int]
    upper: dict[str, int]
    verdict: dict[str, str]
    "By resource: keep, lower, raise, or set where nothing is requested."
    saving: dict[str, int]
    "Of all pods together; negative where more is needed."
    confidence: int
    judged_hours: int
    under_hours: int
    note: str
    "What is wrong, if something is."


def advice(manifests: Manifests, namespace: str = "", workload: str = "") -> list[Advice]:
    """For each container with a recommendation; and one line for each object without any.

    `workload` as in deployment/web, or the name alone.
    """
    listed = [each for each in manifests.of(kinds.RECOMMENDATIONS) if namespace in ("", each.metadata.namespace)]
    found = advised(listed, manifests.of(kinds.PODS), partial(_by_template, manifests=manifests))
    return [row for row in found if workload in ("", row.workload, row.workload.partition("/")[2])]


Otherwise: TypeAlias = Callable[[Target], tuple[int, dict[str, ContainerFacts]]]
"""How many pods a workload without pods would have, and its containers by name."""


def _unknown(target: Target) -> tuple[int, dict[str, ContainerFacts]]:
    return 0, {}


def advised(
    recommendations: Iterable[Recommendation], pods: Iterable[Pod], otherwise: Otherwise = _unknown
) -> list[Advice]:
    running = [facts_of(each) for each in pods if not each.is_finished]
    found: list[Advice] = []
    for each in sorted(recommendations, key=lambda each: each.metadata.key):
        found += _advised(each, running, otherwise)
    return found


def total(rows: Iterable[Advice]) -> dict[str, int]:
    """What following all of it saves."""
    saved = dict.fromkeys(RESOURCES, 0)
    for row in rows:
        for resource, amount in row.saving.items():
            saved[resource] += amount
    return saved


def patch(recommendations: Sequence[Recommendation], rows: Sequence[Advice]) -> dict[str, Any]:
    """A List for `kubectl apply --server-side`, with only the requests that should change."""
    by_object: dict[tuple[str, str], list[Advice]] = {}
    for row in rows:
        by_object.setdefault((row.namespace, row.recommendation), []).append(row)
    items = []
    for each in recommendations:
        workload = each.spec.target.workload
        changed = [
            _changes(row) for row in by_object.get((each.metadata.namespace, each.metadata.name), ()) if _is_news(row)
        ]
        if workload is None or not changed:
            continue
        body: dict[str, Any] = {"containers": changed}
        for part in reversed(_TEMPLATE.get(workload.kind, ("spec", "template", "spec"))):
            body = {part: body}
        head = {"apiVersion": workload.api_version or "apps/v1", "kind": workload.kind}
        items.append({**head, "metadata": {"name": workload.name, "namespace": each.metadata.namespace}, **body})
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _is_news(row: Advice) -> bool:
    return any(verdict != "keep" for verdict in row.verdict.values())


def _changes(row: Advice) -> dict[str, Any]:
    wanted = {name: render(name, row.target[name]) for name, verdict in row.verdict.items() if verdict != "keep"}
    # A limit below the request would be refused.
    short = {name: wanted[name] for name, limit in row.limits.items() if name in wanted and limit < row.target[name]}
    return {"name": row.container, "resources": {"requests": wanted, **({"limits": short} if short else {})}}


def _advised(each: Recommendation, pods: Sequence[PodFacts], otherwise: Otherwise) -> Iterable[Advice]:
    target = target_of(each)
    concerned = [pod for pod in pods if pod.is_of(target)]
    number, containers = len(concerned), {c.name: c for pod in concerned for c in pod.containers}
    if not concerned:
        number, containers = otherwise(target)
    told = each.status.pod_status.container_statuses if each.status.pod_status is not None else ()
    note = "; ".join(f"{c.type}: {c.message}" for c in each.status.conditions if c.status == "True")
    if not told:
        note = note or "FetchingHistory: the manager has not looked yet"
        yield _row(each, RecommendedContainerStatus(), number, None, note)
    for status in told:
        yield _row(each, status, number, containers.get(status.container_name), note)


def _by_template(target: Target, manifests: Manifests) -> tuple[int, dict[str, ContainerFacts]]:
    """Of a workload whose pods are not among the manifests."""
    for kind in _SCALED:
        for workload in manifests.of(kind):
            meta = workload.metadata
            if target.workload == (meta.namespace, kind.kind, meta.name):
                pod = facts_of(Pod(spec=template_of(workload.spec.template).spec))
                return workload.spec.replicas, {each.name: each for each in pod.containers}
    return 0, {}


def _row(
    each: Recommendation, status: RecommendedContainerStatus, number: int, now: ContainerFacts | None, note: str
) -> Advice:
    workload = each.spec.target.workload
    target = amounts(status.resources, capped=True)
    requested = {"cpu": now.cpu_milli, "memory": now.memory_bytes} if now is not None else {}
    requests = {name: amount for name, amount in requested.items() if amount}
    bounds = {"cpu": now.limit_milli, "memory": now.limit_bytes} if now is not None else {}
    verdict = {name: _verdict(requests.get(name), target[name]) for name in RESOURCES if name in target}
    return Advice(
        each.metadata.namespace,
        each.metadata.name,
        "" if workload is None else f"{workload.kind.lower()}/{workload.name}",
        status.container_name,
        number,
        requests,
        {name: amount for name, amount in bounds.items() if amount},
        target,
        amounts(status.lower_bound, capped=True),
        amounts(status.upper_bound, capped=True),
        verdict,
        {
            name: (requests[name] - target[name]) * number
            for name, said in verdict.items()
            if said != "keep" and name in requests
        },
        status.confidence,
        status.judged_hours,
        status.under_provisioned_hours,
        note,
    )


def _verdict(now: int | None, target: int) -> str:
    if now is None:
        return "set"
    if abs(now - target) * 100 <= now * KEEP_PERCENT:
        return "keep"
    return "lower" if target < now else "raise"
