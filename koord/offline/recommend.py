"""What Recommendations say against what workloads request: what to change, and what that saves.

Within 10% of what is requested a recommendation says "keep": a roll-out costs more than it would bring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from koord.api import kinds
from koord.api.kubernetes.owners import Workload
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts
from koord.api.kubernetes.workloads import CronJob, DaemonSet, Deployment, PodTemplate, StatefulSet, template_of
from koord.api.machinery.codec import DecodeError
from koord.api.protocol.crd.recommendation import Recommendation, RecommendedContainerStatus
from koord.api.protocol.recommendation_target import Target, target_of
from koord.api.text.manifest import Manifests
from koord.manager.recommend.pods import NATIVE, ContainerFacts, PodFacts, facts_of

KEEP_PERCENT: Final = 10
RESOURCES: Final[tuple[str, ...]] = ("cpu", "memory")
WITH_TEMPLATE: Final[tuple[kinds.Kind[Any], ...]] = (
    kinds.DEPLOYMENTS,
    kinds.STATEFUL_SETS,
    kinds.DAEMON_SETS,
    kinds.CRON_JOBS,
)
"""Workloads whose template says what their pods would request while there are none."""


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
    "A problem, if there is one; otherwise empty."
    asks_for: dict[str, str]
    "By resource, the one that stands for it in the workload's template: itself, or that of a lower band."
    is_sidecar: bool = False
    is_known: bool = True
    "Whether its pods or its template have this container."


def advice(manifests: Manifests, namespace: str = "", workload: str = "") -> list[Advice]:
    """For each container with a recommendation; and one line for each object without any.

    `workload` as in deployment/web, or the name alone.
    """
    listed = [
        recommendation
        for recommendation in manifests.of(kinds.RECOMMENDATIONS)
        if namespace in ("", recommendation.metadata.namespace)
    ]
    rows = advised(listed, manifests.of(kinds.PODS), _templates(manifests))
    kind, slash, name = workload.rpartition("/")
    wanted = f"{kind.lower()}{slash}{name}"
    return [row for row in rows if wanted in ("", row.workload, row.workload.partition("/")[2])]


class Template(NamedTuple):
    pods: int
    "That there would be."
    containers: Mapping[str, ContainerFacts]


Templates: TypeAlias = Callable[[Target], Template | None]
"""The template of a workload; None where it is not known."""


def _unknown(target: Target) -> Template | None:
    return None


def advised(
    recommendations: Iterable[Recommendation], pods: Iterable[Pod], templates: Templates = _unknown
) -> list[Advice]:
    of_workload: dict[Workload, list[PodFacts]] = {}
    in_namespace: dict[str, list[PodFacts]] = {}
    for pod in (facts_of(pod) for pod in pods if not pod.is_finished):
        in_namespace.setdefault(pod.namespace, []).append(pod)
        for workload in pod.workloads:
            of_workload.setdefault(workload, []).append(pod)
    rows: list[Advice] = []
    for recommendation in sorted(recommendations, key=lambda recommendation: recommendation.metadata.key):
        target = target_of(recommendation)
        if target.workload is not None:
            concerned = of_workload.get(target.workload, [])
        else:
            concerned = [pod for pod in in_namespace.get(target.namespace, ()) if pod.is_of(target)]
        rows += _advised(recommendation, concerned, templates(target))
    return rows


def total(rows: Iterable[Advice]) -> dict[str, int]:
    """What following all of it saves."""
    saved = dict.fromkeys(RESOURCES, 0)
    for row in rows:
        for resource, amount in row.saving.items():
            saved[resource] += amount
    return saved


def _advised(recommendation: Recommendation, pods: Sequence[PodFacts], template: Template | None) -> Iterable[Advice]:
    """`pods`: those that it is about."""
    number, containers = len(pods), {c.name: c for pod in pods for c in pod.containers}
    if not pods and template is not None:
        number, containers = template.pods, dict(template.containers)
    statuses = (
        recommendation.status.pod_status.container_statuses if recommendation.status.pod_status is not None else ()
    )
    note = "; ".join(f"{c.type}: {c.message}" for c in recommendation.status.conditions if c.status == "True")
    if not statuses:
        note = note or "FetchingHistory: the manager has not looked yet"
        yield _row(recommendation, RecommendedContainerStatus(), number, None, None, note)
    for status in statuses:
        name = status.container_name
        written = None if template is None else template.containers.get(name)
        yield _row(recommendation, status, number, containers.get(name), written, note)


def _templates(manifests: Manifests) -> Templates:
    by_workload = {
        Workload(workload_object.metadata.namespace, kind.kind, workload_object.metadata.name): workload_object
        for kind in WITH_TEMPLATE
        for workload_object in manifests.of(kind)
    }

    def template(target: Target) -> Template | None:
        workload = None if target.workload is None else by_workload.get(target.workload)
        if workload is None:
            return None
        try:
            pod = facts_of(Pod(spec=template_of(_template(workload)).spec))
        except DecodeError as error:
            raise DecodeError(f"the pod template of {target.workload}", error.path, error.fault) from None
        pods = workload.spec.replicas if isinstance(workload, (Deployment, StatefulSet)) else 0
        return Template(pods, {container.name: container for container in pod.containers})

    return template


def _template(workload: Deployment | StatefulSet | DaemonSet | CronJob) -> PodTemplate:
    if not isinstance(workload, CronJob):
        return workload.spec.template
    job = workload.spec.job_template.get("spec")
    template = job.get("template") if isinstance(job, Mapping) else None
    return template if isinstance(template, Mapping) else {}


def _row(
    recommendation: Recommendation,
    status: RecommendedContainerStatus,
    number: int,
    now: ContainerFacts | None,
    written: ContainerFacts | None,
    note: str,
) -> Advice:
    """`now`: of pods that run; `written`: in the template."""
    workload = recommendation.spec.target.workload
    target = amounts(status.resources, capped=True)
    requested = {"cpu": now.cpu_milli, "memory": now.memory_bytes} if now is not None else {}
    requests = {name: amount for name, amount in requested.items() if amount}
    bounds = {"cpu": now.limit_milli, "memory": now.limit_bytes} if now is not None else {}
    verdict = {name: _verdict(requests.get(name), target[name]) for name in RESOURCES if name in target}
    return Advice(
        recommendation.metadata.namespace,
        recommendation.metadata.name,
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
        dict(zip(RESOURCES, NATIVE if written is None else written.asks_for, strict=True)),
        any(facts.is_sidecar for facts in (now, written) if facts is not None),
        now is not None or written is not None,
    )


def _verdict(now: int | None, target: int) -> str:
    if now is None:
        return "set"
    if abs(now - target) * 100 <= now * KEEP_PERCENT:
        return "keep"
    return "lower" if target < now else "raise"
