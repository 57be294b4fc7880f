"""What the status of a Reservation says, and when it ends: functions of the object, its owners and the time.

Pending         it has no node yet; nothing ends it
Available       it has a node; `allocated` and `currentOwners` follow the pods that came out of it
Succeeded       it is for one owner, and that owner is placed
Failed          it has a node, and has expired, or the node is gone
deleted         a day after its end, with a node or without, or when its node is gone
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from koord.api.kinds import RESERVATIONS
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts, pod_requests
from koord.api.machinery.faults import BadInput
from koord.api.machinery.struct import EMPTY
from koord.api.protocol.annotations.reservation import RESERVATION_RESIZE_ALLOCATABLE
from koord.api.protocol.crd.reservation import Reservation, ReservationPhase
from koord.api.text.quantity import ResourceList, render
from koord.api.text.stored import stored_duration, stored_timestamp
from koord.api.text.timestamp import from_seconds
from koord.scheduler.framework.writes import Delete, Patch
from koord.scheduler.plugins.reservation.reserve_pod import ENDED, allocatable_of, as_owners_ask

SCHEDULED: Final = "Scheduled"
READY: Final = "Ready"
EXPIRED: Final = "Expired"
RESIZE_PENDING: Final = "ResizePending"
"""A condition that is set as long as a reservation does not reserve what its spec asks for."""
DEFERRED: Final = "Deferred"
NODE_GONE_S: Final = 3.0
"""A node that has been unknown for this long is gone."""


class Owner(msgspec.Struct, frozen=True):
    """A pod on a node that came out of a reservation, as the API server has it."""

    uid: str
    namespace: str
    name: str
    node: str
    requests: Mapping[str, int] = EMPTY

    @staticmethod
    def of(pod: Pod) -> Owner:
        meta = pod.metadata
        try:
            requests = pod_requests(pod)
        except BadInput:
            requests = {}
        return Owner(meta.uid, meta.namespace, meta.name, pod.spec.node_name, requests)

    @property
    def reference(self) -> dict[str, str]:
        return {"namespace": self.namespace, "name": self.name, "uid": self.uid}


class Surroundings(msgspec.Struct, frozen=True):
    """What matters for a reservation beside itself."""

    owners: Sequence[Owner] = ()
    node_is_gone: bool = False
    reserved: ResourceList | None = None
    "What it reserves, if the object must say so differently."
    pending: str | None = None
    "Why it does not reserve what it is asked to; empty: it does; None: unknown."


def made_available(reservation: Reservation, node: str, now_s: float) -> Patch:
    """What binds a reservation to a node."""
    now = from_seconds(now_s)
    status = {
        "phase": str(ReservationPhase.AVAILABLE),
        "nodeName": node,
        "allocatable": dict(allocatable_of(reservation)),
        "conditions": [_condition(SCHEDULED, "True", "Scheduled", now), _condition(READY, "True", "Available", now)],
    }
    return status_patch(reservation, status)


def status_of_unusable(reservation: Reservation, fault: str, now_s: float) -> dict[str, Any]:
    """The status of a reservation that is unusable; empty if it already says so."""
    for condition in reservation.status.conditions:
        if condition.type == SCHEDULED and condition.status == "False" and condition.message == fault:
            return {}
    return {"conditions": [_condition(SCHEDULED, "False", "Invalid", from_seconds(now_s), fault)]}


def status_of(reservation: Reservation, around: Surroundings, now_s: float) -> dict[str, Any]:
    """What a reservation should say that it does not say, as a part of its status."""
    status = reservation.status
    if status.phase in ENDED or not status.node_name:
        return {}
    wanted: dict[str, Any] = {}
    reserved = status.allocatable if around.reserved is None else around.reserved
    if amounts(reserved) != amounts(status.allocatable):
        wanted["allocatable"] = {**dict.fromkeys(status.allocatable), **reserved}
    owners = sorted((owner for owner in around.owners if owner.node == status.node_name), key=lambda owner: owner.uid)
    counted = as_owners_ask(reserved) if owners else ()
    allocated = {name: sum(owner.requests.get(name, 0) for owner in owners) for name in counted}
    allocated = {name: amount for name, amount in allocated.items() if amount}
    if allocated != amounts(status.allocated):
        said = {name: render(name, amount) for name, amount in sorted(allocated.items())}
        wanted["allocated"] = {**dict.fromkeys(status.allocated), **said}
    current = [(reference.namespace, reference.name, reference.uid) for reference in status.current_owners]
    if current != [(owner.namespace, owner.name, owner.uid) for owner in owners]:
        wanted["currentOwners"] = [owner.reference for owner in owners]
    conditions = _with_pending(reservation, around.pending, now_s)
    if conditions is not None:
        wanted["conditions"] = conditions
    if reservation.spec.allocate_once and owners:
        used_by = f"used by pod {owners[0].namespace}/{owners[0].name}"
        return wanted | _ended(reservation, ReservationPhase.SUCCEEDED, "Succeeded", used_by, now_s)
    due_s = expires_s(reservation)
    if due_s is not None and due_s < now_s:
        message = f"expired at {from_seconds(due_s)}"
        return wanted | _ended(reservation, ReservationPhase.FAILED, EXPIRED, message, now_s)
    if around.node_is_gone:
        message = f"node {status.node_name} is gone"
        return wanted | _ended(reservation, ReservationPhase.FAILED, EXPIRED, message, now_s)
    return wanted


def expires_s(reservation: Reservation) -> float | None:
    """When a reservation with a node ends; None: never."""
    spec, meta = reservation.spec, reservation.metadata
    lives_s = stored_duration(spec.ttl) if spec.ttl else None
    if lives_s == 0:
        return None
    made_s = stored_timestamp(meta.creation_timestamp)
    ttl_ends_s = None if lives_s is None or made_s is None else made_s + lives_s
    return min((time_s for time_s in (stored_timestamp(spec.expires), ttl_ends_s) if time_s is not None), default=None)


def ended_s(reservation: Reservation) -> float | None:
    """When a reservation ended: when it failed, or was last seen to have succeeded. Where it does not say so: when it
    last said anything."""
    times = [reservation.metadata.creation_timestamp]
    for condition in reservation.status.conditions:
        if condition.type == READY and condition.status == "False":
            failed = reservation.status.phase is ReservationPhase.FAILED
            said = (
                condition.last_transition_time
                if failed
                else condition.last_probe_time or condition.last_transition_time
            )
            if (ended := stored_timestamp(said)) is not None:
                return ended
        times.append(condition.last_transition_time)
    return max((time_s for time in times if (time_s := stored_timestamp(time)) is not None), default=None)


def is_garbage(reservation: Reservation, now_s: float, *, node_is_gone: bool, kept_s: float) -> bool:
    if reservation.status.phase not in ENDED:
        return False
    since_s = ended_s(reservation)
    return node_is_gone or (since_s is not None and now_s - since_s > kept_s)


def deleted(reservation: Reservation) -> Delete:
    return Delete(RESERVATIONS, reservation.metadata.name, reservation.metadata.uid)


def status_patch(reservation: Reservation, status: dict[str, Any]) -> Patch:
    meta = reservation.metadata
    return Patch(RESERVATIONS, meta.name, {"metadata": {"uid": meta.uid}, "status": status}, subresource="status")


def annotated(reservation: Reservation, said: Mapping[str, str | None]) -> Patch:
    meta = reservation.metadata
    return Patch(RESERVATIONS, meta.name, {"metadata": {"uid": meta.uid, "annotations": dict(said)}})


def target_of(reservation: Reservation) -> ResourceList | None:
    """What a reservation's annotation asks it to reserve; None if there is none, or it is invalid."""
    if not RESERVATION_RESIZE_ALLOCATABLE.is_on(reservation.metadata):
        return None
    try:
        return allocatable_of(reservation)
    except BadInput:
        return None


def resize_fault(reservation: Reservation) -> str:
    """Why a reservation's resize request is invalid; empty if there is none, or it is valid."""
    try:
        if RESERVATION_RESIZE_ALLOCATABLE.is_on(reservation.metadata):
            allocatable_of(reservation)
    except BadInput as error:
        return f"cannot be resized: {error}"
    return ""


def in_words(resources: ResourceList) -> str:
    return ", ".join(f"{name} {text}" for name, text in sorted(resources.items()))


def _with_pending(reservation: Reservation, pending: str | None, now_s: float) -> list[dict[str, Any]] | None:
    """All conditions, if the one about its size must change; None if it need not."""
    said = next((condition for condition in reservation.status.conditions if condition.type == RESIZE_PENDING), None)
    if pending is None or pending == ("" if said is None else said.message):
        return None
    others = [
        msgspec.to_builtins(condition)
        for condition in reservation.status.conditions
        if condition.type != RESIZE_PENDING
    ]
    if not pending:
        return others
    since = from_seconds(now_s) if said is None or not said.last_transition_time else said.last_transition_time
    condition = _condition(RESIZE_PENDING, "True", DEFERRED, from_seconds(now_s), pending)
    return [*others, {**condition, "lastTransitionTime": since}]


def _ended(
    reservation: Reservation, phase: ReservationPhase, reason: str, message: str, now_s: float
) -> dict[str, Any]:
    now = from_seconds(now_s)
    others = [
        msgspec.to_builtins(condition)
        for condition in reservation.status.conditions
        if condition.type not in (READY, RESIZE_PENDING)
    ]
    return {"phase": str(phase), "conditions": [*others, _condition(READY, "False", reason, now, message)]}


def _condition(type_: str, status: str, reason: str, now: str, message: str = "") -> dict[str, Any]:
    condition = {"type": type_, "status": status, "reason": reason, "lastProbeTime": now, "lastTransitionTime": now}
    return {**condition, "message": message} if message else condition
