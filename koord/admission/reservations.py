"""Admission of Reservations: profiles for the pod template, and warnings of what is misspelt in it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from koord.admission import strategic_merge
from koord.admission.colocation_profile import with_profiles
from koord.admission.hook import Hook
from koord.admission.plain import labels_of, part
from koord.admission.profiles import drawn
from koord.admission.request import Json
from koord.admission.resource import AdmissionResource
from koord.admission.rule import CREATE, Mutating, RuleContext
from koord.api.builtin_schemas import POD_TEMPLATE, builtin
from koord.api.configuration.features import ManagerGate
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import PodTemplateSpec
from koord.api.machinery.faults import Fault, unknown_field
from koord.api.machinery.struct import Struct
from koord.api.machinery.unknown_fields import unknown_with_valid
from koord.api.protocol import names
from koord.api.protocol.misspelt_keys import misspelt_keys

MOST_NAMED: Final = 16
"""Unknown fields of one template that are named in warnings."""


class _ReservedSpec(Struct):
    template: PodTemplateSpec | None = None


class _Reserved(Struct):
    """The fields of a Reservation that rules use. Its schema checks all others."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _ReservedSpec = _ReservedSpec()


def _hooks(namespace: str) -> Iterator[Hook]:
    yield Hook(
        name="mreservation-create.koordinator.sh",
        path=names.WEBHOOK_MUTATE_RESERVATION,
        mutating=True,
        gate=ManagerGate.RESERVATION_MUTATING_WEBHOOK,
        operations=("CREATE",),
        resource="reservations",
        object_type="reservation",
        fails_closed=True,
        timeout_s=5,
        group="scheduling.koordinator.sh",
        version="v1alpha1",
    )


def _profiles_of_reservation(context: RuleContext, reservation: Json) -> Json:
    labels = labels_of(reservation)
    matched = [profile for profile in context.facts.profiles if profile.pods.matches(labels)]
    for profile in matched:
        context.warnings += profile.faults
    template = part(reservation, "spec").get("template")
    context.warnings += (f"{fault}; it has no effect" for fault in _misspelt(reservation, template))
    return with_profiles(
        reservation,
        drawn(matched, context.request, context.seed),
        context.facts.priority_classes,
        spec=("spec", "template", "spec") if template is not None else (),
        shape=strategic_merge.RESERVATION,
    )


def _misspelt(reservation: Json, template: object) -> Iterator[Fault]:
    """Fields of the template that pod templates do not have, which its definition leaves open, and keys."""
    yield from misspelt_keys(part(reservation, "metadata"))
    if isinstance(template, dict):
        unknown = unknown_with_valid(builtin(POD_TEMPLATE), template, "spec.template")
        yield from (unknown_field(path, valid) for path, valid in islice(unknown, MOST_NAMED))
        yield from misspelt_keys(part(template, "metadata"), "spec.template.metadata")


RESOURCE: Final = AdmissionResource(
    "reservations",
    _Reserved,
    _hooks,
    mutating=(Mutating("ClusterColocationProfile", "reservations", CREATE, run=_profiles_of_reservation),),
)
