"""All rules, in the order in which they run. A new one is a file, its test, and a line here.

Mutating rules make of an object the one to be stored. Validating rules find faults; the first rule that finds some
decides. Rules of one resource see each other's work in this order; names are those that metrics and logs use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from koord.admission import (
    device_resources,
    extended_resource_spec,
    node_amplification,
    node_config,
    pod_colocation,
    pod_devices,
    pod_quota,
    quota_objects,
    quota_tree_affinity,
    readable,
    scheduler_annotations,
    slo_config,
    strategic_merge,
    typed,
)
from koord.admission.binding import BindingDecision
from koord.admission.colocation_profile import with_profiles
from koord.admission.hooks import is_cleaned_up
from koord.admission.known import Known
from koord.admission.plain import labels_of, part
from koord.admission.profiles import CompiledProfile, drawn_by
from koord.admission.recommended_requests import with_recommended
from koord.admission.request import FAILED, FORBIDDEN, Gates, Json, Operation, Refused, Request
from koord.admission.resource_translation import translated
from koord.api.configuration.features import ManagerGate
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.faults import Fault
from koord.api.protocol import names
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.api.protocol.priority import PRIORITY_CLASS_OF_QOS, PriorityClass, qos_class, raw_priority_class

CREATE: Final[tuple[Operation, ...]] = ("CREATE",)
UPDATE: Final[tuple[Operation, ...]] = ("UPDATE",)
DELETE: Final[tuple[Operation, ...]] = ("DELETE",)
WRITES: Final[tuple[Operation, ...]] = ("CREATE", "UPDATE")


@dataclass(slots=True)
class Asked:
    """One request, with all that rules may use to judge it. Typed pods are made when first asked for."""

    request: Request
    known: Known
    gates: Gates
    seed: int = 0
    warnings: list[str] = field(default_factory=list)
    _pod: Pod | None = None
    _old_pod: Pod | None = None

    @property
    def namespace(self) -> str:
        own = part(self.request.object or {}, "metadata").get("namespace")
        return own or self.request.namespace

    @property
    def pod(self) -> Pod:
        if self._pod is None:
            self._pod = typed.pod(self.request.object or {})
        return self._pod

    @property
    def old_pod(self) -> Pod:
        if self._old_pod is None:
            self._old_pod = typed.pod(self.request.old or {})
        return self._old_pod

    def priority(self, pod: Pod) -> int | None:
        return self.known.priority(pod.spec.priority, pod.spec.priority_class_name)


Mutate = Callable[[Asked, Json], Json]
Validate = Callable[[Asked], Iterable[Fault]]


@dataclass(frozen=True, slots=True)
class AdmissionRule:
    """When a rule is asked. A rule with a gate is asked while that is on, one with `off_by` while that is off."""

    name: str
    resource: str
    operations: tuple[Operation, ...]
    subresource: str = ""
    gate: ManagerGate | None = None
    off_by: ManagerGate | None = None
    to_the_end: bool = False
    "Whether it holds for pods that are being deleted, too."

    def concerns(self, request: Request, gates: Gates) -> bool:
        if request.resource != self.resource or request.subresource != self.subresource:
            return False
        if request.operation not in self.operations:
            return False
        return (self.gate is None or gates[self.gate]) and (self.off_by is None or not gates[self.off_by])


@dataclass(frozen=True, slots=True)
class Mutating(AdmissionRule):
    run: Mutate = lambda asked, obj: obj


@dataclass(frozen=True, slots=True)
class Validating(AdmissionRule):
    run: Validate = lambda asked: ()


def _profiles_of_pod(asked: Asked, pod: Json) -> Json:
    matched = matching_profiles(asked.known, labels_of(pod), asked.namespace, asked.warnings)
    if not matched:
        return pod
    drawn = _drawn(asked, matched)
    after = with_profiles(pod, drawn, asked.known.priority_classes, spec=("spec",), shape=strategic_merge.POD)
    if any(profile.spec.patch for profile in drawn):
        # A patch can make anything of a pod; what is no pod any more must not go further.
        typed.typed(Pod, after, FAILED)
    if any(profile.keeps_resources for profile in matched):
        return after
    if asked.gates[ManagerGate.COLOCATION_PROFILE_SKIP_MUTATING_RESOURCES]:
        return after
    return translated(after, _class_of(asked, after))


def matching_profiles(
    known: Known, labels: Mapping[str, str], namespace: str, warnings: list[str] | None = None
) -> list[CompiledProfile]:
    """The profiles for a pod with these labels in that namespace."""
    namespace_labels = known.namespaces.get(namespace)
    matched = [profile for profile in known.profiles if profile.matches(labels, namespace_labels)]
    if warnings is not None:
        for profile in matched:
            warnings += profile.faults
            if namespace_labels is None and profile.namespaces.requirements:
                who = f"ClusterColocationProfile {profile.name}"
                warnings.append(f"{who} counts as matching: namespace {namespace} is not known")
    return matched


def _drawn(asked: Asked, matched: list[CompiledProfile]) -> list[CompiledProfile]:
    who = drawn_by(asked.request)
    return [profile for profile in matched if profile.drawn(who, asked.seed)]


def _class_of(asked: Asked, pod: Json) -> PriorityClass:
    """The priority class with default. A pod's resources are looked at only where nothing else says it."""
    spec = part(pod, "spec")
    number = asked.known.priority(spec.get("priority"), spec.get("priorityClassName") or "")
    class_ = raw_priority_class(labels_of(pod), number)
    return class_ if class_ is not PriorityClass.NONE else PRIORITY_CLASS_OF_QOS[qos_class(typed.pod(pod))]


def _profiles_of_reservation(asked: Asked, reservation: Json) -> Json:
    labels = labels_of(reservation)
    matched = [profile for profile in asked.known.profiles if profile.pods.matches(labels)]
    for profile in matched:
        asked.warnings += profile.faults
    template = part(reservation, "spec").get("template")
    return with_profiles(
        reservation,
        _drawn(asked, matched),
        asked.known.priority_classes,
        spec=("spec", "template", "spec") if template is not None else (),
        shape=strategic_merge.RESERVATION,
    )


def _recommended(asked: Asked, pod: Json) -> Json:
    return with_recommended(pod, asked.namespace, asked.known.recommendations)


def _affinity_of_pod(asked: Asked, pod: Json) -> Json:
    return quota_tree_affinity.with_affinity(pod, asked.namespace, asked.known.trees)


def _not_hand_written(asked: Asked, pod: Json) -> Json:
    return scheduler_annotations.dropped(pod, asked.request, asked.known.schedulers, asked.warnings)


def _by_a_scheduler(asked: Asked) -> Iterator[Fault]:
    old = asked.old_pod.metadata.annotations if asked.request.operation == "UPDATE" else {}
    return scheduler_annotations.faults(asked.pod.metadata.annotations, old, asked.request, asked.known.schedulers)


def _completed_quota(asked: Asked, quota: Json) -> Json:
    return quota_objects.completed(quota, asked.known.quotas)


def _quota(asked: Asked) -> Iterator[Fault]:
    request, known = asked.request, asked.known
    new = typed.typed(ElasticQuota, _placed(asked, request.object))
    old = typed.typed(ElasticQuota, _placed(asked, request.old)) if request.operation == "UPDATE" else None
    rules = quota_objects.QuotaRules(
        keys_may_differ=asked.gates[ManagerGate.ELASTIC_QUOTA_ENABLE_UPDATE_RESOURCE_KEY],
        keeps=asked.gates[ManagerGate.ELASTIC_QUOTA_GUARANTEE_USAGE],
    )
    return quota_objects.faults(new, old, known.quotas, known.quota_pods, rules, known.namespace_denials)


def _quota_goes(asked: Asked) -> Iterable[Fault]:
    if asked.namespace in asked.known.leaving or is_cleaned_up(asked.request):
        # It goes with its namespace or its owner: to refuse that would only hold up what goes anyway.
        return ()
    old = typed.typed(ElasticQuota, _placed(asked, asked.request.old))
    return quota_objects.deletion_faults(old, asked.known.quotas, asked.known.quota_pods)


def _placed(asked: Asked, obj: Json | None) -> Json:
    """An object that names its namespace, which may be in the request alone."""
    metadata = part(obj or {}, "metadata")
    if metadata.get("namespace") or not asked.request.namespace:
        return obj or {}
    return {**(obj or {}), "metadata": {**metadata, "namespace": asked.request.namespace}}


def _quota_of_pod(asked: Asked) -> Iterator[Fault]:
    return pod_quota.faults(
        asked.pod,
        asked.old_pod if asked.request.operation == "UPDATE" else None,
        asked.pod.metadata.namespace or asked.request.namespace,
        asked.known.quotas,
        default=not asked.gates[ManagerGate.DISABLE_DEFAULT_QUOTA],
        parents_take_pods=asked.gates[ManagerGate.SUPPORT_PARENT_QUOTA_SUBMIT_POD],
    )


def _not_a_reservation(asked: Asked) -> Iterator[Fault]:
    if names.ANNOTATION_RESERVE_POD in asked.pod.metadata.annotations:
        yield Fault(
            f"metadata.annotations[{names.ANNOTATION_RESERVE_POD}]",
            "must be absent: only the scheduler's own stand-ins for reservations have it",
        )


def _colocation(asked: Asked) -> Iterator[Fault]:
    pod = asked.pod
    if asked.request.operation == "UPDATE":
        old = asked.old_pod
        yield from pod_colocation.change_faults(
            old,
            pod,
            asked.priority(old),
            asked.priority(pod),
            rank_may_change=asked.gates[ManagerGate.COLOCATION_PROFILE_SKIP_VALIDATING_PRIORITY],
        )
    yield from pod_colocation.faults(pod, asked.priority(pod))


def _readable_pod(asked: Asked) -> Iterable[Fault]:
    old = asked.old_pod.metadata if asked.request.operation == "UPDATE" else None
    asked.warnings += readable.warnings("Pod", asked.pod.metadata, old)
    return readable.faults(asked.pod, old)


def _readable_node(asked: Asked) -> Iterable[Fault]:
    new, old = (typed.typed(Node, obj or {}).metadata for obj in (asked.request.object, asked.request.old))
    asked.warnings += readable.warnings("Node", new, old if asked.request.operation == "UPDATE" else None)
    return ()


def _enhanced(asked: Asked) -> Iterator[Fault]:
    meta = asked.pod.metadata
    return asked.known.enhanced.faults(meta.labels, meta.namespace or asked.request.namespace)


def _may_bind(asked: Asked) -> Iterable[Fault]:
    request, settings = asked.request, asked.known.binding
    pod = asked.known.pods.get(f"{request.namespace}/{request.name}")
    decision = settings.decide(request.user, request.namespace, pod)
    if decision not in (BindingDecision.REHEARSED, BindingDecision.DENIED):
        return ()
    denial = settings.denial(request.user, request.namespace)
    if decision is BindingDecision.DENIED:
        raise Refused([Fault("", denial)], FORBIDDEN)
    asked.warnings.append(f"would be denied: {denial}")
    return ()


def _node_config(asked: Asked) -> Iterator[Fault]:
    request = asked.request
    labels, old = labels_of(request.object or {}), labels_of(request.old or {})
    if request.operation == "UPDATE" and labels == old:
        return
    for fault in node_config.conflicts(labels, asked.known.slo_config):
        # A machine must be able to join; what is wrong with its labels can be mended then.
        if request.operation == "CREATE":
            asked.warnings.append(str(fault))
        else:
            yield fault


def _slo_config(asked: Asked) -> Iterator[Fault]:
    request, known = asked.request, asked.known
    metadata = part(request.object or {}, "metadata")
    who = (metadata.get("namespace") or request.namespace, metadata.get("name") or request.name)
    if who != (known.config_namespace, known.slo_config_name):
        return
    old: Any = part(request.old or {}, "data") if request.operation == "UPDATE" else None
    refusal, warnings = slo_config.verdict(
        part(request.object or {}, "data"), old, known.node_labels, names_required=known.strategy_names_required
    )
    asked.warnings += warnings
    if refusal:
        yield Fault("", refusal)


_pods = partial(Mutating, resource="pods", operations=CREATE)

MUTATING: Final[tuple[Mutating, ...]] = (
    _pods("SchedulerAnnotations", run=_not_hand_written),
    _pods("RecommendedRequests", gate=ManagerGate.RECOMMENDED_REQUESTS, run=_recommended),
    _pods("ClusterColocationProfile", run=_profiles_of_pod),
    _pods(
        "ExtendedResourceSpec",
        off_by=ManagerGate.DISABLE_EXTENDED_RESOURCE_SPEC,
        run=lambda asked, pod: extended_resource_spec.annotated(pod),
    ),
    _pods("MultiQuotaTree", gate=ManagerGate.MULTI_QUOTA_TREE, run=_affinity_of_pod),
    _pods(
        "DeviceResourceSpec",
        off_by=ManagerGate.DISABLE_DEVICE_RESOURCE_SPEC,
        run=lambda asked, pod: device_resources.completed(pod),
    ),
    Mutating(
        "NodeResourceAmplificationPlugin",
        "nodes",
        UPDATE,
        subresource="status",
        run=lambda asked, node: node_amplification.amplified(node, asked.request.old),
    ),
    Mutating("ClusterColocationProfile", "reservations", CREATE, run=_profiles_of_reservation),
    Mutating("ElasticQuota", "elasticquotas", CREATE, run=_completed_quota),
)

_checked = partial(Validating, resource="pods", operations=WRITES)

VALIDATING: Final[tuple[Validating, ...]] = (
    _checked("SchedulerAnnotations", to_the_end=True, run=_by_a_scheduler),
    _checked("ClusterReservation", run=_not_a_reservation),
    _checked("ClusterColocationProfile", run=_colocation),
    _checked("ElasticQuota", run=_quota_of_pod),
    _checked(
        "DeviceResource",
        gate=ManagerGate.VALIDATE_POD_DEVICE_RESOURCE,
        run=lambda asked: pod_devices.faults(asked.pod),
    ),
    _checked("ReadableAnnotations", run=_readable_pod),
    _checked("EnhancedValidation", gate=ManagerGate.ENABLE_POD_ENHANCED_VALIDATOR, run=_enhanced),
    Validating(
        "BindingAdmission",
        "pods",
        CREATE,
        subresource="binding",
        gate=ManagerGate.BINDING_ADMISSION_WEBHOOK,
        run=_may_bind,
    ),
    Validating("SLOManagerConfigConflictForNode", "nodes", WRITES, run=_node_config),
    Validating("ReadableAnnotations", "nodes", WRITES, run=_readable_node),
    Validating("SLOConfig", "configmaps", WRITES, run=_slo_config),
    Validating("ElasticQuota", "elasticquotas", WRITES, run=_quota),
    Validating("ElasticQuota", "elasticquotas", DELETE, run=_quota_goes),
)
