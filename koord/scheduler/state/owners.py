"""What the pods beside a pod are: those that its Services and its controller choose.

Default spreading counts them. The selector is the conjunction of all Services of the namespace that choose the pod,
and of the ReplicaSet, StatefulSet or ReplicationController that controls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from koord.api.kubernetes.core import Service
from koord.api.kubernetes.meta import OwnerReference
from koord.api.kubernetes.workloads import ReplicaSet, ReplicationController, StatefulSet
from koord.api.text.selector import EVERYTHING, LabelMatcher, SelectorError, compile_labels, match_labels
from koord.scheduler.state.counts import Counts, Face
from koord.scheduler.state.selector_index import SelectorIndex

Workload: TypeAlias = ReplicaSet | StatefulSet | ReplicationController

REMEMBERED: Final = 1 << 16
_KINDS: Final[Mapping[type[Workload], tuple[str, str]]] = {
    ReplicaSet: ("apps/v1", "ReplicaSet"),
    StatefulSet: ("apps/v1", "StatefulSet"),
    ReplicationController: ("v1", "ReplicationController"),
}


@dataclass(frozen=True, slots=True)
class OwnerSelector:
    """A selector, and a text that is the same for equal selectors."""

    matcher: LabelMatcher
    text: str


class Owners:
    """Services and controllers of pods, by what they select."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._services: dict[tuple[str, str], Mapping[str, str]] = {}
        self._index: dict[str, SelectorIndex[str]] = {}
        self._workloads: dict[tuple[str, str, str, str], LabelMatcher | Mapping[str, str]] = {}
        self._found: dict[tuple[object, ...], OwnerSelector | Literal[False] | None] = {}
        "Selectors merged before; None if nothing selects the pod. False is never kept: it means unknown."
        self._services_at = 0

    def put_service(self, service: Service) -> None:
        """A Service was added or has changed. A Service without a selector chooses no pod."""
        namespace, name = service.metadata.namespace, service.metadata.name
        if self._services.get((namespace, name), {}) == service.spec.selector:
            return
        self.remove_service(namespace, name)
        if service.spec.selector:
            self._services[namespace, name] = service.spec.selector
            self._index.setdefault(namespace, SelectorIndex()).add(name, match_labels(service.spec.selector))
            self._counts.see(service.spec.selector)
            self._services_at += 1

    def remove_service(self, namespace: str, name: str) -> None:
        selector = self._services.pop((namespace, name), None)
        if selector is not None:
            self._index[namespace].remove(name, match_labels(selector))
            self._counts.unsee(selector)
            self._services_at += 1

    def put_workload(self, workload: Workload) -> None:
        """A ReplicaSet, StatefulSet or ReplicationController was added or has changed.

        If its selector is invalid, it is ignored, as in kube-scheduler.
        """
        selector: LabelMatcher | Mapping[str, str]
        if isinstance(workload, ReplicationController):
            selector = workload.spec.selector
        else:
            try:
                selector = compile_labels(workload.spec.selector, absent=EVERYTHING)
            except SelectorError:
                selector = EVERYTHING
        name = (workload.metadata.namespace, *_KINDS[type(workload)], workload.metadata.name)
        if self._workloads.get(name) != selector:
            self._workloads[name] = selector
            self._found.clear()

    def remove_workload(self, workload: Workload) -> None:
        name = (workload.metadata.namespace, *_KINDS[type(workload)], workload.metadata.name)
        if self._workloads.pop(name, None) is not None:
            self._found.clear()

    def selector(
        self, namespace: str, labels: Mapping[str, str], controller: OwnerReference | None
    ) -> OwnerSelector | None:
        """What chooses the pods that belong with a pod; None where nothing does."""
        services = self._services_of(self._counts.face(namespace, labels)) if self._services else ()
        owner = None if controller is None else (controller.api_version, controller.kind, controller.name)
        name = (namespace, services, owner)
        selector = self._found.get(name, False)
        if selector is False:
            if len(self._found) >= REMEMBERED:
                self._found.clear()
            workload = None if owner is None else self._workloads.get((namespace, *owner))
            selector = self._found[name] = _merged(dict(services), workload)
        return selector

    def _services_of(self, face: Face) -> tuple[tuple[str, str], ...]:
        """The labels that the Services which choose a pod ask for, sorted."""
        if face.services_at != self._services_at:
            wanted: dict[str, str] = {}
            index = self._index.get(face.namespace)
            for name in index.likely(face.labels) if index else ():
                selector = self._services[face.namespace, name]
                if selector.items() <= face.labels.items():
                    wanted.update(selector)
            face.services, face.services_at = tuple(sorted(wanted.items())), self._services_at
        return face.services


def _merged(services: dict[str, str], workload: LabelMatcher | Mapping[str, str] | None) -> OwnerSelector | None:
    if isinstance(workload, LabelMatcher):
        matcher = LabelMatcher((*match_labels(services).requirements, *workload.requirements))
    else:
        matcher = match_labels({**services, **(workload or {})})
    return OwnerSelector(matcher, str(matcher)) if matcher.requirements else None
