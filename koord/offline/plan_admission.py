"""Admission of the new pods of a plan, fast enough for tens of thousands of pods.

The API server's own part (`arrival`) is done once for all pods that share a spec. Most pods concern no rule: a check of
their labels is enough. All others go through admission as on a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from koord.admission.device_resources import GPU_RESOURCES
from koord.admission.hook import is_asked_about
from koord.admission.profiles import CompiledProfile
from koord.admission.request import Gates, Json, Refused, Request
from koord.admission.review import completed, pod_denial
from koord.admission.typed import pod as typed_pod
from koord.api.configuration.features import ManagerGate
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import Pod, PodSpec
from koord.api.kubernetes.pod_admission import PodRefused
from koord.api.protocol import names
from koord.api.protocol.annotations.quota import IS_PARENT
from koord.api.text.manifest import Manifest
from koord.offline.admit import facts_of
from koord.offline.arrival import Arrivals

_BATCH: Final = frozenset({names.RESOURCE_BATCH_CPU, names.RESOURCE_BATCH_MEMORY, *names.OLD_RESOURCES})
_CHECKED: Final = _BATCH | GPU_RESOURCES


class _Arrived(NamedTuple):
    """A spec after the API server completed it, with its annotations. `given` is kept so that its id is not reused."""

    spec: PodSpec
    notes: Mapping[str, str]
    refusal: str
    given: PodSpec


class PlanAdmission:
    """Admission with the facts of a set of manifests. Chance is derived from the pods' names."""

    def __init__(self, items: Iterable[Manifest], gates: Gates, seed: int) -> None:
        items = tuple(items)
        self._facts, self._gates, self._seed = facts_of(items), gates, seed
        self._demands_labels = self._facts.enhanced.enable and gates[ManagerGate.ENABLE_POD_ENHANCED_VALIDATOR]
        self._has_trees = bool(self._facts.trees.nodes_of) and gates[ManagerGate.MULTI_QUOTA_TREE]
        self._namespaces: dict[str, tuple[bool, tuple[CompiledProfile, ...]]] = {}
        self._is_special_spec: dict[int, tuple[bool, PodSpec]] = {}
        self._specs: dict[bytes, PodSpec] = {}
        self._arrivals = Arrivals(items, self._facts.priority_classes.values())
        self._arrived: dict[tuple[int, str], _Arrived] = {}

    def admitted(self, pod: Pod, data: Json) -> tuple[Pod, str]:
        """A pod as it would be stored, and why it would be refused. A pod that is already in a cluster is unchanged."""
        metadata = pod.metadata
        if metadata.uid:
            return pod, ""
        arrived = self._arrived.get((id(pod.spec), metadata.namespace))
        if arrived is None:
            arrived = self._arrive(pod, data)
        if arrived.refusal:
            return pod, arrived.refusal
        if arrived.notes:
            metadata = replace(metadata, annotations={**metadata.annotations, **arrived.notes})
        pod = replace(pod, spec=arrived.spec, metadata=metadata)
        here = self._namespaces.get(metadata.namespace)
        if here is None:
            here = self._namespaces[metadata.namespace] = self._profiles_in(metadata.namespace)
        asked, profiles = here
        if not asked:
            return pod, ""
        if (
            self._has_trees
            or self._is_in_parent(metadata)
            or self._is_special(pod.spec)
            or names.ANNOTATION_EXTENDED_RESOURCE_SPEC in metadata.annotations
            or any(profile.pods.matches(metadata.labels) for profile in profiles)
        ):
            return self._reviewed(pod, data)
        if not self._is_to_be_checked(pod):
            return pod, ""
        return pod, pod_denial(pod, self._facts, self._gates)

    def _arrive(self, pod: Pod, data: Json) -> _Arrived:
        """A spec as the API server would complete it in a namespace."""
        namespace = pod.metadata.namespace
        try:
            completed_pod = self._arrivals.completed({"metadata": {}, "spec": data.get("spec")}, namespace)
            notes = completed_pod["metadata"].get("annotations") or {}
            arrived = _Arrived(self._typed(completed_pod).spec, notes, "", pod.spec)
        except (PodRefused, Refused) as refusal:
            arrived = _Arrived(pod.spec, {}, str(refusal), pod.spec)
        self._arrived[id(pod.spec), namespace] = arrived
        return arrived

    def _reviewed(self, pod: Pod, data: Json) -> tuple[Pod, str]:
        """All steps: the API server, koord's changes, the API server again, koord's validation."""
        metadata = pod.metadata
        try:
            seen = self._arrivals.completed(data, metadata.namespace)
            request = Request("CREATE", "pods", object=seen, name=metadata.name, uid=metadata.key)
            answer = completed(request, self._facts, self._gates, self._seed)
            if not answer.allowed:
                return pod, answer.message
            if answer.object is not None and answer.object is not seen:
                pod = self._typed(self._arrivals.completed(answer.object, metadata.namespace))
        except PodRefused as refusal:
            return pod, str(refusal)
        return pod, pod_denial(pod, self._facts, self._gates)

    def _profiles_in(self, namespace: str) -> tuple[bool, tuple[CompiledProfile, ...]]:
        """Whether admission reviews the pods of a namespace at all, and the profiles that select the namespace."""
        labels = self._facts.namespaces.get(namespace, {})
        profiles = (profile for profile in self._facts.profiles if profile.namespaces.matches(labels))
        return is_asked_about(namespace, labels), tuple(profiles)

    def _is_in_parent(self, meta: ObjectMeta) -> bool:
        """Whether a pod is in a parent quota, which rules may refuse."""
        quotas = self._facts.quotas
        label = meta.labels.get(names.LABEL_QUOTA_NAME, "")
        quota = quotas.get(quotas.name_for(label, meta.namespace, default=True)) if quotas else None
        return quota is not None and IS_PARENT.read(quota.metadata)

    def _is_special(self, spec: PodSpec) -> bool:
        """Whether it uses resources that rules check. Pods of one template share their spec."""
        cached = self._is_special_spec.get(id(spec))
        if cached is None:
            containers = (*spec.containers, *spec.init_containers)
            lists = (part for c in containers for part in (c.resources.requests, c.resources.limits))
            special = any(not _CHECKED.isdisjoint(amounts) for amounts in (*lists, spec.overhead))
            # Kept with the spec, so that its id is not reused.
            cached = self._is_special_spec[id(spec)] = (special, spec)
        return cached[0]

    def _is_to_be_checked(self, pod: Pod) -> bool:
        metadata = pod.metadata
        if names.LABEL_QOS_CLASS in metadata.labels or names.ANNOTATION_RESERVE_POD in metadata.annotations:
            return True
        return self._demands_labels

    def _typed(self, obj: Json) -> Pod:
        """As its type. Pods with equal specs share the spec of the first."""
        pod = typed_pod(obj)
        text = msgspec.json.encode(obj.get("spec"))
        return replace(pod, spec=self._specs.setdefault(text, pod.spec))
