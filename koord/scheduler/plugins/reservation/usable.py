"""What is wrong with a reservation, for people: on the object, and in a plan.

`fault_of` says what keeps it from being placed and used at all, `faults` what has another effect than it seems to.
"""

from __future__ import annotations

from collections.abc import Iterator

from koord.api.kubernetes.pod import Pod, PodTemplateSpec
from koord.api.kubernetes.resources import pod_requests
from koord.api.kubernetes.taints import taint_faults, toleration_faults
from koord.api.machinery.codec import DecodeError
from koord.api.machinery.faults import BadInput, Fault
from koord.api.protocol.crd.reservation import Reservation
from koord.api.text.stored import stored_duration
from koord.scheduler.plugins.reservation import owners


def fault_of(reservation: Reservation, template: PodTemplateSpec | None = None) -> str:
    """The first fault of a reservation; empty if there is none. `template`: its own, if already parsed."""
    spec = reservation.spec
    if not spec.template:
        return "spec.template: must be a pod template with a spec; there is nothing to reserve"
    if not spec.owners:
        return "spec.owners: must have at least one entry; no pod could use it"
    if not (spec.ttl or spec.expires):
        return "spec.ttl: must be a duration, or spec.expires a time"
    fault = owners.faults(spec.owners)
    if fault:
        return fault
    try:
        requests = pod_requests(Pod(spec=(template or spec.pod_template).spec))
    except BadInput as error:
        return str(error)
    negative = sorted(name for name, amount in requests.items() if amount < 0)
    return f"spec.template.spec: requests of {', '.join(negative)} must not be negative" if negative else ""


def faults(reservation: Reservation) -> Iterator[Fault]:
    """Values that an API server accepts, and that are surely mistakes."""
    spec = reservation.spec
    lives_s = stored_duration(spec.ttl) if spec.ttl else None
    if lives_s is not None and lives_s < 0:
        yield Fault("spec.ttl", f"is {spec.ttl}, so it expires at once; it must be more than 0, or 0 for no end")
    for fault in taint_faults(spec.taints):
        yield fault.under("spec.taints")
    try:
        tolerations = spec.pod_template.spec.tolerations
    except DecodeError:
        return
    for fault in toleration_faults(tolerations):
        yield fault.under("spec.template.spec.tolerations")
