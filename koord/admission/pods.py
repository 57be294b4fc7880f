"""Admission of pods and their bindings: profiles, translated resources, quotas, devices, and who may bind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from koord.admission import (
    device_resources,
    extended_resource_spec,
    pod_colocation,
    pod_devices,
    pod_quota,
    pool_names,
    quota_tree_affinity,
    readable,
    scheduler_annotations,
    strategic_merge,
    typed,
)
from koord.admission.binding import BindingDecision
from koord.admission.cluster_facts import ClusterFacts
from koord.admission.colocation_profile import with_profiles
from koord.admission.hook import IN_PASSING, NOT_CLEANED_UP, WAITS, WAITS_S, Hook, elsewhere, in_passing
from koord.admission.plain import labels_of, part
from koord.admission.profiles import CompiledProfile, compile_profiles, drawn
from koord.admission.quota_tree_affinity import QuotaTrees
from koord.admission.recommended_requests import AppliedRecommendations, with_recommended
from koord.admission.request import FAILED, FORBIDDEN, Json, Refused
from koord.admission.resource import AdmissionResource, Lookup
from koord.admission.resource_translation import translated
from koord.admission.rule import CREATE, WRITES, Mutating, RuleContext, Validating
from koord.api import kinds
from koord.api.configuration.features import ManagerGate
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.faults import Fault
from koord.api.protocol import names
from koord.api.protocol.priority import PRIORITY_CLASS_OF_QOS, PriorityClass, qos_class, raw_priority_class

MUTATE_POD: Final = "mpod-create.koordinator.sh"


def _hooks(namespace: str) -> Iterator[Hook]:
    outside = elsewhere(namespace)
    mutate = Hook(
        name=MUTATE_POD,
        path=names.WEBHOOK_MUTATE_POD,
        mutating=True,
        gate=ManagerGate.POD_MUTATING_WEBHOOK,
        operations=("CREATE",),
        resource="pods",
        object_type="pod",
        fails_closed=True,
        timeout_s=WAITS_S,
        namespace_selector=outside,
        conditions=WAITS,
    )
    yield mutate
    yield in_passing(mutate, "mpod-create-others.koordinator.sh", conditions=IN_PASSING, per_profile=True)
    yield Hook(
        name="mpod-update.koordinator.sh",
        path=names.WEBHOOK_MUTATE_POD,
        mutating=True,
        gate=ManagerGate.POD_MUTATING_WEBHOOK,
        operations=("UPDATE",),
        resource="pods",
        object_type="pod",
        fails_closed=True,
        timeout_s=5,
        namespace_selector=outside,
        object_selector=({"key": str(names.LABEL_MUTATING_UPDATE), "operator": "In", "values": ["true"]},),
        conditions=NOT_CLEANED_UP,
    )
    validate = Hook(
        name="vpod.koordinator.sh",
        path=names.WEBHOOK_VALIDATE_POD,
        mutating=False,
        gate=ManagerGate.POD_VALIDATING_WEBHOOK,
        operations=("CREATE", "UPDATE"),
        resource="pods",
        object_type="pod",
        fails_closed=True,
        timeout_s=WAITS_S,
        namespace_selector=outside,
        conditions=(*WAITS, *NOT_CLEANED_UP),
    )
    yield validate
    yield in_passing(validate, "vpod-others.koordinator.sh", conditions=IN_PASSING)
    yield Hook(
        name="vpodbinding.koordinator.sh",
        path=names.WEBHOOK_VALIDATE_POD_BINDING,
        mutating=False,
        gate=ManagerGate.POD_VALIDATING_WEBHOOK,
        operations=("CREATE",),
        resource="pods/binding",
        object_type="pod",
        fails_closed=False,
        timeout_s=2,
        asked_with=ManagerGate.BINDING_ADMISSION_WEBHOOK,
        namespace_selector=outside,
    )


def _profiles_of_pod(context: RuleContext, pod: Json) -> Json:
    matched = matching_profiles(context.facts, labels_of(pod), context.namespace, context.warnings)
    if not matched:
        return pod
    applied = drawn(matched, context.request, context.seed)
    after = with_profiles(pod, applied, context.facts.priority_classes, spec=("spec",), shape=strategic_merge.POD)
    if any(profile.spec.patch for profile in applied):
        # A patch can turn a pod into anything: an invalid result must not be stored.
        typed.typed(Pod, after, FAILED)
    if any(profile.keeps_resources for profile in matched):
        return after
    if context.gates[ManagerGate.COLOCATION_PROFILE_SKIP_MUTATING_RESOURCES]:
        return after
    return translated(after, _class_of(context, after))


def matching_profiles(
    facts: ClusterFacts, labels: Mapping[str, str], namespace: str, warnings: list[str] | None = None
) -> list[CompiledProfile]:
    """The profiles for a pod with these labels in that namespace."""
    namespace_labels = facts.namespaces.get(namespace)
    matched = [profile for profile in facts.profiles if profile.matches(labels, namespace_labels)]
    if warnings is not None:
        for profile in matched:
            warnings += profile.faults
            if namespace_labels is None and profile.namespaces.requirements:
                who = f"ClusterColocationProfile {profile.name}"
                warnings.append(f"{who} counts as matching: namespace {namespace} is not known")
    return matched


def _class_of(context: RuleContext, pod: Json) -> PriorityClass:
    """The priority class with default. A pod's resources are looked at only where nothing else says it."""
    spec = part(pod, "spec")
    number = context.facts.priority(spec.get("priority"), spec.get("priorityClassName") or "")
    class_ = raw_priority_class(labels_of(pod), number)
    return class_ if class_ is not PriorityClass.NONE else PRIORITY_CLASS_OF_QOS[qos_class(typed.pod(pod))]


def _recommended(context: RuleContext, pod: Json) -> Json:
    return with_recommended(pod, context.namespace, context.facts.recommendations)


def _affinity_of_pod(context: RuleContext, pod: Json) -> Json:
    return quota_tree_affinity.with_affinity(pod, context.namespace, context.facts.trees)


def _in_words_of_others(context: RuleContext, pod: Json) -> Json:
    if context.gates[ManagerGate.COLOCATION_PROFILE_SKIP_MUTATING_RESOURCES]:
        return pod
    return pool_names.translated(pod)


def _not_hand_written(context: RuleContext, pod: Json) -> Json:
    return scheduler_annotations.dropped(pod, context.request, context.facts.schedulers, context.warnings)


def _by_a_scheduler(context: RuleContext) -> Iterator[Fault]:
    return scheduler_annotations.faults(context.request, context.facts.schedulers)


def _quota_of_pod(context: RuleContext) -> Iterator[Fault]:
    return pod_quota.faults(
        context.pod,
        context.old_pod if context.request.operation == "UPDATE" else None,
        context.pod.metadata.namespace or context.request.namespace,
        context.facts.quotas,
        default=not context.gates[ManagerGate.DISABLE_DEFAULT_QUOTA],
        parents_take_pods=context.gates[ManagerGate.SUPPORT_PARENT_QUOTA_SUBMIT_POD],
    )


def _not_a_reservation(context: RuleContext) -> Iterator[Fault]:
    if names.ANNOTATION_RESERVE_POD in context.pod.metadata.annotations:
        yield Fault(
            f"metadata.annotations[{names.ANNOTATION_RESERVE_POD}]",
            "must be absent: only the scheduler's own stand-ins for reservations have it",
        )


def _colocation(context: RuleContext) -> Iterator[Fault]:
    pod = context.pod
    if context.request.operation == "UPDATE":
        old = context.old_pod
        yield from pod_colocation.change_faults(
            old,
            pod,
            context.priority(old),
            context.priority(pod),
            rank_may_change=context.gates[ManagerGate.COLOCATION_PROFILE_SKIP_VALIDATING_PRIORITY],
        )
    yield from pod_colocation.faults(pod, context.priority(pod))


def _readable_pod(context: RuleContext) -> Iterable[Fault]:
    old = context.old_pod.metadata if context.request.operation == "UPDATE" else None
    context.warnings += readable.warnings("Pod", context.pod.metadata, old)
    return readable.faults(context.pod, old)


def _enhanced(context: RuleContext) -> Iterator[Fault]:
    meta = context.pod.metadata
    return context.facts.enhanced.faults(meta.labels, meta.namespace or context.request.namespace)


def _may_bind(context: RuleContext) -> Iterable[Fault]:
    request, settings = context.request, context.facts.binding
    pod = context.facts.pods.get(f"{request.namespace}/{request.name}")
    decision = settings.decide(request.user, request.namespace, pod)
    if decision not in (BindingDecision.REHEARSED, BindingDecision.DENIED):
        return ()
    denial = settings.denial(request.user, request.namespace)
    if decision is BindingDecision.DENIED:
        raise Refused([Fault("", denial)], FORBIDDEN)
    context.warnings.append(f"would be denied: {denial}")
    return ()


_created = partial(Mutating, resource="pods", operations=CREATE)

_MUTATING: Final[tuple[Mutating, ...]] = (
    _created("SchedulerAnnotations", run=_not_hand_written),
    _created("RecommendedRequests", gate=ManagerGate.RECOMMENDED_REQUESTS, run=_recommended),
    _created("PoolNames", run=_in_words_of_others),
    _created("ClusterColocationProfile", run=_profiles_of_pod),
    _created(
        "ExtendedResourceSpec",
        off_by=ManagerGate.DISABLE_EXTENDED_RESOURCE_SPEC,
        run=lambda context, pod: extended_resource_spec.annotated(pod),
    ),
    _created("MultiQuotaTree", gate=ManagerGate.MULTI_QUOTA_TREE, run=_affinity_of_pod),
    _created(
        "DeviceResourceSpec",
        off_by=ManagerGate.DISABLE_DEVICE_RESOURCE_SPEC,
        run=lambda context, pod: device_resources.completed(pod),
    ),
)

_written = partial(Validating, resource="pods", operations=WRITES)

_VALIDATING: Final[tuple[Validating, ...]] = (
    _written("SchedulerAnnotations", to_the_end=True, run=_by_a_scheduler),
    _written("ClusterReservation", run=_not_a_reservation),
    _written("ClusterColocationProfile", run=_colocation),
    _written("ElasticQuota", run=_quota_of_pod),
    _written(
        "DeviceResource",
        gate=ManagerGate.VALIDATE_POD_DEVICE_RESOURCE,
        run=lambda context: pod_devices.faults(context.pod),
    ),
    _written("ReadableAnnotations", run=_readable_pod),
    _written("EnhancedValidation", gate=ManagerGate.ENABLE_POD_ENHANCED_VALIDATOR, run=_enhanced),
    Validating(
        "BindingAdmission",
        "pods",
        CREATE,
        subresource="binding",
        gate=ManagerGate.BINDING_ADMISSION_WEBHOOK,
        run=_may_bind,
    ),
)

RESOURCE: Final = AdmissionResource(
    "pods",
    Pod,
    _hooks,
    _MUTATING,
    _VALIDATING,
    (
        Lookup("profiles", (kinds.CLUSTER_COLOCATION_PROFILES,), compile_profiles, shapes_hooks=True),
        Lookup(
            "trees",
            (kinds.ELASTIC_QUOTAS, kinds.ELASTIC_QUOTA_PROFILES),
            QuotaTrees.of,
            gate=ManagerGate.MULTI_QUOTA_TREE,
        ),
        Lookup(
            "recommendations",
            (kinds.RECOMMENDATIONS,),
            AppliedRecommendations.of,
            gate=ManagerGate.RECOMMENDED_REQUESTS,
            by_object=True,
        ),
    ),
)
