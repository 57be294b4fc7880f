"""New pods request what is recommended for their workload, where its Recommendation says so (`apply: admission`).

What users wrote is a first guess then: CPU and memory requests of each container follow from what earlier pods used.
Limits stay, and no request is set above one. Pods with whole cores of their own (LSR, LSE) keep their CPU. A container
that asks for resources of a lower band (batch-cpu) gets its recommendation in these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from koord.admission.plain import labels_of, part, with_annotation, with_containers
from koord.admission.request import Json
from koord.admission.resource_translation import RESOURCES as LENT
from koord.api.kubernetes.meta import OwnerReference
from koord.api.kubernetes.owners import Workload, owners
from koord.api.protocol import names
from koord.api.protocol.annotations.colocation import RECOMMENDED_BY
from koord.api.protocol.crd.recommendation import Recommendation
from koord.api.protocol.recommendation_target import Target, target_of
from koord.api.text.quantity import QuantityError, ResourceList, from_value, milli

RESOURCES: Final[tuple[str, ...]] = ("cpu", "memory")
WHOLE_CORES: Final = ("LSR", "LSE")


@dataclass(frozen=True, slots=True)
class _Applied:
    """A Recommendation that new pods follow."""

    name: str
    target: Target
    requests: Mapping[str, ResourceList]
    "By container."


@dataclass(slots=True)
class AppliedRecommendations:
    """Those that new pods follow, found by workload, or by namespace and labels."""

    _applied: dict[str, _Applied] = field(default_factory=dict)
    "By the object's key."
    _of_workload: dict[Workload, set[str]] = field(default_factory=dict)
    _in_namespace: dict[str, set[str]] = field(default_factory=dict)
    "Those that select by labels."

    @classmethod
    def of(cls, objects: Iterable[Recommendation]) -> AppliedRecommendations:
        made = cls()
        for obj in objects:
            made.put(obj)
        return made

    def put(self, recommendation: Recommendation) -> None:
        key, target = recommendation.metadata.key, target_of(recommendation)
        self.remove(key)
        containers = (
            recommendation.status.pod_status.container_statuses if recommendation.status.pod_status is not None else ()
        )
        if recommendation.spec.apply != "admission" or target.fault or not containers:
            return
        requests = {status.container_name: status.resources for status in containers}
        self._applied[key] = _Applied(recommendation.metadata.name, target, requests)
        if target.workload is not None:
            self._of_workload.setdefault(target.workload, set()).add(key)
        else:
            self._in_namespace.setdefault(target.namespace, set()).add(key)

    def remove(self, key: str) -> None:
        applied = self._applied.pop(key, None)
        if applied is None:
            return
        if applied.target.workload is not None:
            self._of_workload[applied.target.workload].discard(key)
        else:
            self._in_namespace[applied.target.namespace].discard(key)

    def find(self, pod: Json, namespace: str) -> _Applied | None:
        """Of several the first by name."""
        labels, workloads = labels_of(pod), _workloads(pod, namespace)
        keys = {key for workload in workloads for key in self._of_workload.get(workload, ())}
        keys |= {
            key
            for key in self._in_namespace.get(namespace, ())
            if self._applied[key].target.concerns(namespace, labels, workloads)
        }
        return self._applied[min(keys)] if keys else None


def with_recommended(pod: Json, namespace: str, recommendations: AppliedRecommendations) -> Json:
    """The pod with the requests that are recommended for it; the same object where none are."""
    applied = recommendations.find(pod, namespace)
    if applied is None:
        return pod
    resources = RESOURCES
    if labels_of(pod).get(names.LABEL_QOS_CLASS) in WHOLE_CORES:
        resources = tuple(resource for resource in RESOURCES if resource != "cpu")

    def changed(_: int, container: Json) -> Json:
        target = applied.requests.get(str(container.get("name", "")))
        return container if target is None else _requesting(container, target, resources)

    def sidecar(index: int, container: Json) -> Json:
        return changed(index, container) if container.get("restartPolicy") == "Always" else container

    after = with_containers(with_containers(pod, "containers", changed), "initContainers", sidecar)
    return pod if after is pod else with_annotation(after, RECOMMENDED_BY.key, applied.name)


def _workloads(pod: Json, namespace: str) -> tuple[Workload, ...]:
    for owner in part(pod, "metadata").get("ownerReferences") or ():
        if isinstance(owner, dict) and owner.get("controller"):
            reference = OwnerReference(kind=str(owner.get("kind")), name=str(owner.get("name")))
            return owners(reference, labels_of(pod), namespace)
    return ()


def _requesting(container: Json, target: ResourceList, resources: Iterable[str]) -> Json:
    given = part(container, "resources")
    requests, limits = part(given, "requests"), part(given, "limits")
    lent = next((pair for pair in LENT.values() if not (requests.keys() | limits.keys()).isdisjoint(pair)), RESOURCES)
    asked_as = dict(zip(RESOURCES, lent, strict=True))
    try:
        resources_told = {
            asked_as[name]: _told(name, asked_as[name], target[name]) for name in resources if name in target
        }
        wanted = {
            name: _at_most(amount, limits.get(name)) for name, amount in resources_told.items() if milli(amount) > 0
        }
        news = {name: amount for name, amount in wanted.items() if milli(amount) != milli(requests.get(name, "0"))}
    except QuantityError:
        # The API server refuses it, and knows best how to say so.
        return container
    if not news:
        return container
    return {**container, "resources": {**given, "requests": {**requests, **news}}}


def _told(resource: str, asked_as: str, amount: Any) -> Any:
    """CPU of a lower band is counted in whole milli-cores."""
    return from_value(milli(amount)) if resource == "cpu" and asked_as != resource else amount


def _at_most(wanted: Any, limit: Any) -> Any:
    return limit if limit is not None and milli(limit) < milli(wanted) else wanted
