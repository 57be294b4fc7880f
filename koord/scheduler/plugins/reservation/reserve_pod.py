"""The pod that stands for a Reservation: queued while that is pending, on a node once it is Available, then gone.

It is made from the template. Labels and annotations of the Reservation come over those of the template. Once there is
a `status.allocatable`, that is what it asks for. A template may be the copy of a running pod: what that pod got (its
CPUs, devices, reservation) is not what the reservation has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import Container, Pod, PodCondition, PodSpec, PodStatus, ResourceRequirements
from koord.api.kubernetes.resources import amounts, pod_requests
from koord.api.kubernetes.words import ConditionStatus, PodConditionType, PodPhase
from koord.api.machinery.codec import DecodeError
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.protocol.annotations.reservation import RESERVATION_RESIZE_ALLOCATABLE
from koord.api.protocol.crd.reservation import Reservation, ReservationPhase
from koord.api.text.quantity import ResourceList, render
from koord.scheduler.plugins.reservation.usable import fault_of
from koord.scheduler.state.stand_ins import stand_in_name

_GOT: Final = frozenset(
    {names.ANNOTATION_RESOURCE_STATUS, names.ANNOTATION_DEVICE_ALLOCATED, names.ANNOTATION_RESERVATION_ALLOCATED}
)
HIGHEST: Final = 2147483647
ENDED: Final = (ReservationPhase.SUCCEEDED, ReservationPhase.FAILED)
_SCHEDULED: Final = "Scheduled"


def reserve_pod(reservation: Reservation) -> Pod:
    """A reservation that has ended, or that cannot be understood, is a pod that has finished: it holds nothing."""
    meta, status = reservation.metadata, reservation.status
    try:
        template = reservation.spec.pod_template
    except DecodeError:
        return Pod(metadata=_meta(reservation, ObjectMeta()), status=PodStatus(phase=PodPhase.FAILED))
    pod_meta = _meta(reservation, template.metadata)
    spec = template.spec
    if fault_of(reservation, template):
        return Pod(metadata=pod_meta, spec=spec, status=PodStatus(phase=PodPhase.FAILED))
    if spec.node_name:
        pod_meta = replace(
            pod_meta, annotations={**pod_meta.annotations, names.ANNOTATION_RESERVATION_NODE: spec.node_name}
        )
    spec = replace(spec, node_name="", priority=_priority(meta, spec))
    try:
        reserved = as_owners_ask(status.allocatable) if status.node_name else {}
        spec = _sized(Pod(metadata=pod_meta, spec=spec), reserved or allocatable_of(reservation))
    except BadInput:
        # The code that decides about it meets the same error, and reports it.
        pass
    if status.phase in ENDED:
        return Pod(metadata=pod_meta, spec=spec, status=PodStatus(phase=PodPhase.SUCCEEDED))
    return Pod(
        metadata=pod_meta,
        spec=replace(spec, node_name=status.node_name),
        status=PodStatus(conditions=_conditions(reservation)),
    )


def allocatable_of(reservation: Reservation) -> ResourceList:
    """What a reservation reserves: what its template asks for, but for what its annotation says instead. An explicit 0
    stays: owners of a Restricted one get none of that."""
    requests = pod_requests(Pod(spec=reservation.spec.pod_template.spec))
    allocatable: dict[str, str] = {name: render(name, amount) for name, amount in sorted(requests.items())}
    resize = RESERVATION_RESIZE_ALLOCATABLE.read(reservation.metadata, "Reservation")
    if resize is not None:
        allocatable |= {name: render(name, amount) for name, amount in sorted(amounts(resize.resources).items())}
    return as_owners_ask(allocatable)


def as_owners_ask(resources: ResourceList) -> ResourceList:
    """Resources by the names that owners ask for: the webhook gives a pod gpu-core and gpu-memory-ratio for
    `koordinator.sh/gpu`, which is short for both."""
    percent = resources.get(names.RESOURCE_GPU)
    if percent is None:
        return resources
    others = {name: amount for name, amount in resources.items() if name != names.RESOURCE_GPU}
    return {names.RESOURCE_GPU_CORE: percent, names.RESOURCE_GPU_MEMORY_RATIO: percent, **others}


def _meta(reservation: Reservation, template: ObjectMeta) -> ObjectMeta:
    meta = reservation.metadata
    said = {key: value for key, value in template.annotations.items() if key not in _GOT}
    marks: dict[str, str] = {names.ANNOTATION_RESERVE_POD: "true", names.ANNOTATION_RESERVATION_NAME: meta.name}
    return ObjectMeta(
        name=stand_in_name("Reservation", meta.name),
        namespace=template.namespace or "default",
        uid=meta.uid,
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
        labels={**template.labels, **meta.labels},
        annotations={**said, **meta.annotations, **marks},
        owner_references=template.owner_references,
    )


def _priority(meta: ObjectMeta, spec: PodSpec) -> int:
    if spec.priority is not None:
        return spec.priority
    try:
        return int(meta.labels.get(names.LABEL_PRIORITY, ""))
    except ValueError:
        return HIGHEST


def _sized(pod: Pod, wanted: ResourceList) -> PodSpec:
    """A spec that asks for other amounts; the same where they are the same."""
    if _some(amounts(wanted)) == _some(pod_requests(pod)):
        return pod.spec
    ports = tuple(port for container in pod.spec.containers for port in container.ports)
    container = Container(name="reservation", ports=ports, resources=ResourceRequirements(requests=wanted))
    return replace(pod.spec, containers=(container,), init_containers=(), resources=None, overhead={})


def _some(listed: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in listed.items() if amount}


def _conditions(reservation: Reservation) -> tuple[PodCondition, ...]:
    for condition in reservation.status.conditions:
        if condition.type == _SCHEDULED and condition.status is not None:
            status = ConditionStatus(condition.status)
            since = condition.last_transition_time
            return (PodCondition(PodConditionType.SCHEDULED, status, condition.reason, condition.message, since),)
    return ()
