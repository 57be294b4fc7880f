"""What may be wrong with objects that the scheduler reads, beyond what an API server would refuse.

The scheduler uses a faulty object without the faulty part, and reports the fault: as an event on a cluster, as a
warning in `koord plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.codec import DecodeError
from koord.api.machinery.faults import Fault
from koord.api.protocol.annotations.value import AnnotationError, Value
from koord.api.protocol.crd.reservation import Reservation
from koord.scheduler.annotations import READ
from koord.scheduler.plugins.devices.inventory import faults as device_faults
from koord.scheduler.plugins.devices.templates import faults as template_faults
from koord.scheduler.plugins.gang_rules import group_faults
from koord.scheduler.plugins.numa.report_faults import faults as report_faults
from koord.scheduler.plugins.reservation.usable import faults as reservation_faults


def _of_reservation(reservation: Reservation) -> Iterator[Fault]:
    yield from reservation_faults(reservation)
    try:
        meta = reservation.spec.pod_template.metadata
    except DecodeError:
        return
    for value in _READ_ON[kinds.PODS] if meta.annotations else ():
        if value.key in meta.annotations and not value.check(meta) and (error := value.idle(meta)):
            for fault in error.faults:
                yield Fault(f"spec.template.metadata.annotations[{error.key}]", f"{fault}; it has no effect")


ANNOTATED: Final[tuple[Kind[Any], ...]] = (
    kinds.NODES,
    kinds.PODS,
    kinds.NODE_RESOURCE_TOPOLOGIES,
    kinds.DEVICES,
    kinds.ELASTIC_QUOTAS,
    kinds.POD_GROUPS,
    kinds.RESERVATIONS,
)
"""Kinds whose labels and annotations the scheduler reads."""
FAULTS: Final[Mapping[Kind[Any], Callable[[Any], Iterable[Fault]]]] = {
    kinds.DEVICES: device_faults,
    kinds.NODE_RESOURCE_TOPOLOGIES: report_faults,
    kinds.CONFIG_MAPS: template_faults,
    kinds.POD_GROUPS: group_faults,
    kinds.RESERVATIONS: _of_reservation,
}
"""What else may be wrong. Of ConfigMaps, those that plugins name."""


_READ_ON: Final = {kind: [value for value in READ if kind.kind in value.on] for kind in ANNOTATED}


def faults_of(kind: Kind[Any], obj: Any) -> Iterator[str]:
    """All that is wrong with an object, in words."""
    meta: ObjectMeta = obj.metadata
    if kind in ANNOTATED and (meta.annotations or meta.labels):
        for value in _READ_ON[kind]:
            if error := value.check(meta):
                yield _said(value, error)
    if kind in FAULTS:
        yield from map(str, FAULTS[kind](obj))


def idle_parts_of(kind: Kind[Any], obj: Any) -> Iterator[str]:
    """Parts of an object's annotations that have no effect, in words."""
    meta: ObjectMeta = obj.metadata
    if kind in ANNOTATED and meta.annotations:
        for value in _READ_ON[kind]:
            if value.key in meta.annotations and not value.check(meta) and (error := value.idle(meta)):
                yield f"{_said(value, error)}; it has no effect"


def _said(value: Value[Any, Any], error: AnnotationError) -> str:
    return f"{type(value).__name__.lower()} {error.key}: {'; '.join(map(str, error.faults))}"
