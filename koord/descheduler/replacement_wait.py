"""After the pod has left: the replacement uses the reservation and becomes ready, then the job is complete.

Where no pod will use the reservation (it holds nothing, or the workload is whole without it), the job is complete too.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from koord.api.kubernetes.meta import ObjectReference
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests
from koord.api.machinery.faults import BadInput
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.protocol.crd.reservation import Reservation, ReservationPhase
from koord.descheduler.evictable import is_available
from koord.descheduler.held_room import is_own
from koord.descheduler.job_status import condition_of, created_s, is_true, time_s, with_condition
from koord.descheduler.migration_step import AGAIN_S, DropReservation, MigrationState, Step, succeeded

UNUSED_S: Final = 15.0
"""How long a job whose pod is gone and whose workload is whole waits for a pod that uses its reservation."""


def await_replacement(job: PodMigrationJob, state: MigrationState, reservation: Reservation, now_s: float) -> Step:
    owners = reservation.status.current_owners
    if not owners and _holds_nothing(reservation):
        # No pod uses an empty reservation. The scheduler has shown that a node would take the pod, which is enough.
        return _without_it(job, reservation, "", now_s)
    if not owners and state.whole is not None and has_waited(job, "Eviction", now_s):
        came = came_elsewhere(job, state, now_s)
        if came is not None:
            meta = came.metadata
            ref = ObjectReference(namespace=meta.namespace, name=meta.name, uid=meta.uid)
            job = replace(job, status=replace(job.status, pod_ref=ref, node_name=came.spec.node_name))
        said = "its workload has all of its pods, and none of them uses the reservation"
        return _without_it(job, reservation, said, now_s)
    if not owners and not is_true(job, "ReservationBound"):
        message = f"waiting for a pod to use reservation {reservation.metadata.name}"
        if reservation.status.phase is ReservationPhase.FAILED:
            cause = message_of(reservation) or "its room is lost"
            message = f"reservation {reservation.metadata.name} has failed ({cause}): waiting for a pod on any node"
        waiting = with_condition(job, "PodBoundReservation", False, "WaitForPodBindReservation", message, now_s)
        return Step(waiting, again_s=AGAIN_S)
    if owners:
        owner = owners[0]
        ref = ObjectReference(namespace=owner.namespace, name=owner.name, uid=owner.uid)
        job = replace(job, status=replace(job.status, pod_ref=ref))
    job = with_condition(job, "PodBoundReservation", True, "", "", now_s)
    return await_ready(with_condition(job, "ReservationBound", True, "", "", now_s), state, now_s)


def _without_it(job: PodMigrationJob, reservation: Reservation, said: str, now_s: float) -> Step:
    """The pod has moved, and no pod will use the reservation."""
    done = succeeded(job, now_s).job
    drop = (DropReservation(reservation.metadata.name),) if is_own(job, reservation) else ()
    return Step(replace(done, status=replace(done.status, message=said)), drop)


def has_waited(job: PodMigrationJob, since: str, now_s: float) -> bool:
    """Whether a condition is so old that a pod that uses the reservation would have come by now."""
    condition = condition_of(job, since)
    return condition is not None and now_s - time_s(condition.last_transition_time, now_s) >= UNUSED_S


def came_elsewhere(job: PodMigrationJob, state: MigrationState, now_s: float) -> Pod | None:
    """The pod that came for the one that goes, if it did not need the reservation: the newest, since the job began."""
    began_s = created_s(job, now_s)
    new = [pod for pod in state.whole or () if time_s(pod.metadata.creation_timestamp, 0.0) >= began_s]
    new = [pod for pod in new if pod.metadata.uid != job.spec.pod_ref.uid]
    return max(new, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name), default=None)


def _holds_nothing(reservation: Reservation) -> bool:
    """Whether a reservation was made for a pod that requests nothing."""
    try:
        asked = pod_requests(Pod(spec=reservation.spec.pod_template.spec))
    except BadInput:
        return False
    return not any(asked.values())


def await_ready(job: PodMigrationJob, state: MigrationState, now_s: float) -> Step:
    """A replacement that is gone already counts as ready: its workload makes another, and the room was there."""
    if state.bound is not None and not is_available(state.bound):
        name = state.bound.metadata.key
        return Step(
            with_condition(job, "BoundPodReady", False, "WaitForBoundPodReady", f"{name} is not ready", now_s),
            again_s=AGAIN_S,
        )
    return succeeded(with_condition(job, "BoundPodReady", True, "", "", now_s), now_s)


def message_of(reservation: Reservation) -> str:
    return next((condition.message for condition in reservation.status.conditions if condition.message), "")
