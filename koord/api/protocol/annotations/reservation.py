"""Reservations, preemption and several schedulers, as pods and reservations say it in labels and annotations.

The rule to know: the mere presence of `reservation-affinity`, even empty, means that a pod must come out of a
reservation; hence the difference between None and an empty `ReservationAffinity`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from koord.api.kubernetes.meta import ObjectReference
from koord.api.kubernetes.pod import Toleration
from koord.api.kubernetes.resources import amounts
from koord.api.kubernetes.taints import toleration_faults
from koord.api.machinery.faults import BadInput, Fault
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol import names
from koord.api.protocol.annotations.forms import INT64, SWITCH, TEXT, json_list, json_object, one_of
from koord.api.protocol.annotations.value import POD_OR_RESERVATION, Annotation, Label, Value
from koord.api.protocol.crd.reservation import ReservationOwner
from koord.api.text.quantity import ResourceList
from koord.api.text.selector import NodeSelectorTerm, node_selector_faults

RESERVATION: Final = ("Reservation",)


class ReservationAffinitySelector(Struct):
    """Terms over a reservation's labels; one must match."""

    reservation_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class ReservationAffinity(Struct):
    """Which reservations a pod may use. With a name, the rest does not count."""

    name: str = ""
    required_during_scheduling_ignored_during_execution: ReservationAffinitySelector | None = None
    reservation_selector: Mapping[str, str] = EMPTY
    tolerations: tuple[Toleration, ...] = ()


class ReservationAllocated(Struct):
    """The reservation that a pod came out of."""

    name: str = ""
    uid: str = ""


class ExactMatch(Struct):
    """Resources where a pod must request exactly what the reservation has."""

    resource_names: tuple[str, ...] = ()


class RestrictedOptions(Struct):
    """Resources where a pod gets no more than is reserved. None named: all that are reserved."""

    resources: tuple[str, ...] = ()


class ResizeAllocatable(Struct):
    resources: ResourceList = EMPTY


def _resize_faults(resize: ResizeAllocatable) -> Iterator[Fault]:
    for name, written in resize.resources.items():
        try:
            if amounts({name: written})[name] < 0:
                yield Fault(f"resources[{name}]", f"must not be negative, as {written} is")
        except BadInput as error:
            yield Fault(f"resources[{name}]", str(error))


class SchedulingHint(Struct):
    """Where another system thinks that a pod should go: only on `node_names`, first on the preferred ones."""

    node_names: tuple[str, ...] = ()
    preferred_node_names: tuple[str, ...] = ()
    extensions: Mapping[str, Any] = EMPTY


def _affinity_faults(affinity: ReservationAffinity) -> Iterator[Fault]:
    required = affinity.required_during_scheduling_ignored_during_execution
    for i, term in enumerate(required.reservation_selector_terms if required else ()):
        at = f"requiredDuringSchedulingIgnoredDuringExecution.reservationSelectorTerms[{i}]"
        for fault in node_selector_faults(term):
            yield fault.under(at)


def _idle_tolerations(affinity: ReservationAffinity) -> Iterator[Fault]:
    for fault in toleration_faults(affinity.tolerations):
        yield fault.under("tolerations")


RESERVATION_AFFINITY: Final = Annotation(
    names.ANNOTATION_RESERVATION_AFFINITY,
    json_object(ReservationAffinity, _affinity_faults, idle=_idle_tolerations),
    None,
    empty=ReservationAffinity(),
)
RESERVATION_ALLOCATED: Final = Annotation(
    names.ANNOTATION_RESERVATION_ALLOCATED, json_object(ReservationAllocated, by_program=True), None
)
RESERVATION_IGNORED: Final = Label(names.LABEL_RESERVATION_IGNORED, SWITCH, False, bad=False)
EXACT_MATCH_RESERVATION: Final = Annotation(
    names.ANNOTATION_EXACT_MATCH_RESERVATION, json_object(ExactMatch), ExactMatch()
)
RESERVATION_RESTRICTED_OPTIONS: Final = Annotation(
    names.ANNOTATION_RESERVATION_RESTRICTED_OPTIONS,
    json_object(RestrictedOptions),
    RestrictedOptions(),
    on=("Reservation", "Pod"),
)
RESERVATION_RESIZE_ALLOCATABLE: Final = Annotation(
    names.ANNOTATION_RESERVATION_RESIZE_ALLOCATABLE,
    json_object(ResizeAllocatable, _resize_faults),
    None,
    on=RESERVATION,
)
RESERVATION_ORDER: Final = Label(names.LABEL_RESERVATION_ORDER, INT64, 0, on=RESERVATION, bad=0)
"""The lowest goes first; 0 leaves the choice to the score."""
PRE_ALLOCATION_REQUIRED: Final = Label(names.LABEL_PRE_ALLOCATION_REQUIRED, SWITCH, False, on=RESERVATION, bad=False)
IS_PRE_ALLOCATABLE: Final = Label(names.LABEL_IS_PRE_ALLOCATABLE, SWITCH, False, bad=False)
PRE_ALLOCATABLE_PRIORITY: Final = Annotation(names.ANNOTATION_PRE_ALLOCATABLE_PRIORITY, INT64, 0)

OPERATING_MODE: Final = Label(
    names.LABEL_OPERATING_MODE, one_of("Runnable", "Reservation"), "Runnable", on=POD_OR_RESERVATION
)
RESERVATION_OWNERS: Final = Annotation(names.ANNOTATION_RESERVATION_OWNERS, json_list(ReservationOwner), ())
RESERVATION_CURRENT_OWNER: Final = Annotation(
    names.ANNOTATION_RESERVATION_CURRENT_OWNER, json_object(ObjectReference, by_program=True), None
)

PREEMPTION_POLICY: Final = Label(
    names.LABEL_PREEMPTION_POLICY, one_of("Never", "PreemptLowerPriority"), "Never", bad="Never"
)
DISABLE_PREEMPTIBLE: Final = Label(names.LABEL_DISABLE_PREEMPTIBLE, SWITCH, False, bad=False)
SCHEDULER_NAME: Final = Label(names.LABEL_SCHEDULER_NAME, TEXT, "")
ORIGINAL_SCHEDULER_NAME: Final = Annotation(names.ANNOTATION_ORIGINAL_SCHEDULER_NAME, TEXT, "")
SCHEDULING_HINT: Final = Annotation(
    names.ANNOTATION_SCHEDULING_HINT,
    json_object(SchedulingHint),
    None,
    old_keys=(names.OLD_ANNOTATION_SCHEDULING_HINT,),
)

VALUES: Final[tuple[Value[Any, Any], ...]] = (
    RESERVATION_AFFINITY,
    RESERVATION_ALLOCATED,
    RESERVATION_IGNORED,
    EXACT_MATCH_RESERVATION,
    RESERVATION_RESTRICTED_OPTIONS,
    RESERVATION_RESIZE_ALLOCATABLE,
    RESERVATION_ORDER,
    PRE_ALLOCATION_REQUIRED,
    IS_PRE_ALLOCATABLE,
    PRE_ALLOCATABLE_PRIORITY,
    OPERATING_MODE,
    RESERVATION_OWNERS,
    RESERVATION_CURRENT_OWNER,
    PREEMPTION_POLICY,
    DISABLE_PREEMPTIBLE,
    SCHEDULER_NAME,
    ORIGINAL_SCHEDULER_NAME,
    SCHEDULING_HINT,
)
