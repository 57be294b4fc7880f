"""What keeps a reservation from being placed and used at all, for people: on the object, and in a plan."""

from __future__ import annotations

from koord.api.kubernetes.pod import Pod, PodTemplateSpec
from koord.api.kubernetes.resources import pod_requests
from koord.api.machinery.faults import BadInput
from koord.api.protocol.crd.reservation import Reservation
from koord.scheduler.plugins.reservation import owners


def fault_of(reservation: Reservation, template: PodTemplateSpec | None = None) -> str:
    """The first thing that is wrong with it; empty where nothing is. `template`: its own, where somebody has read
    it."""
    spec = reservation.spec
    if not spec.template:
        return "spec.template: must be a pod template with a spec; there is nothing to reserve"
    if not spec.owners:
        return "spec.owners: must have at least one entry; nobody could use it"
    if not (spec.ttl or spec.expires):
        return "spec.ttl: must be a duration, or spec.expires a time"
    found = owners.faults(spec.owners)
    if found:
        return found
    try:
        requests = pod_requests(Pod(spec=(template or spec.pod_template).spec))
    except BadInput as error:
        return str(error)
    negative = sorted(name for name, amount in requests.items() if amount < 0)
    return f"spec.template.spec: requests of {', '.join(negative)} must not be negative" if negative else ""
