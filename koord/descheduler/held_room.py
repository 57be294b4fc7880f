"""The reservation that holds room for a job's replacement, and what happens if the pod of another job takes it.

A reservation is for the next pod of a workload, whichever that is: the replacements of two moved pods cannot be told
apart before they come. So the replacement of one pod may use the room that another job holds. Then both jobs trade:

    A  its pod is gone, and no pod uses its own room          A goes on with the room of B, and its user
    B  its pod is still there, and its room is used           B takes over the room that A leaves

Each writes only its own job, and the second follows from what the first wrote. A job refers to its room in
`spec.reservationOptions.reservationRef`; whose the room is, its owner reference says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from koord.api.kinds import POD_MIGRATION_JOBS
from koord.api.kubernetes.meta import OwnerReference
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.protocol.crd.reservation import Reservation, ReservationPhase

CREATED_BY: Final = {"app.kubernetes.io/created-by": "koord-descheduler"}
_DUE: Final = ("Eviction", "ScaledFirst")
"""Conditions of jobs whose replacement comes, if their pod goes; by the second, before that."""


@dataclass(frozen=True, slots=True)
class Sibling:
    """Another job that moves a pod of the same workload."""

    job: PodMigrationJob
    reservation: Reservation | None
    "The one that it refers to."
    left: Reservation | None
    "The one that was made for it, if it refers to another."
    pod_stays: bool
    "Whether its pod exists and is not being deleted."


def reservation_name(job: PodMigrationJob) -> str:
    """The reservation that a job refers to; before that, the name that its own will have."""
    options = job.spec.reservation_options
    if options is not None and options.reservation_ref is not None:
        return options.reservation_ref.name
    return job.metadata.uid


def job_of(reservation: Reservation) -> OwnerReference | None:
    """The job that a reservation is for; None if no job made it."""
    meta = reservation.metadata
    if any(meta.labels.get(key) != value for key, value in CREATED_BY.items()):
        return None
    return next((owner for owner in meta.owner_references if owner.kind == POD_MIGRATION_JOBS.kind), None)


def is_own(job: PodMigrationJob, reservation: Reservation) -> bool:
    """Whether a job made this reservation, or took it over: then it goes with the job."""
    owner = job_of(reservation)
    if owner is None:
        return reservation.metadata.name == job.metadata.uid
    return owner.uid == job.metadata.uid


def awaits_replacement(job: PodMigrationJob, *, pod_stays: bool) -> bool:
    """Whether a replacement will come for this job."""
    due = {condition.type for condition in job.status.conditions if condition.type in _DUE}
    return not job.is_over and ("ScaledFirst" in due or ("Eviction" in due and not pod_stays))


def taken_instead(job: PodMigrationJob, siblings: Sequence[Sibling]) -> Reservation | None:
    """For A: the room of another job that a pod uses, while the pod of that job is still there."""
    rooms = []
    for sibling in siblings:
        room = sibling.reservation
        if room is None or not room.status.current_owners or job_of(room) is None or sibling.job.is_over:
            continue
        if not sibling.pod_stays or awaits_replacement(sibling.job, pod_stays=True):
            continue
        name = room.metadata.name
        if not any(other is not sibling and reservation_name(other.job) == name for other in siblings):
            rooms.append(room)
    return min(rooms, key=lambda room: room.metadata.name, default=None)


def left_by_taker(reservation: Reservation, siblings: Sequence[Sibling]) -> Reservation | None:
    """For B: the room that was made for the job that goes on with B's."""
    for sibling in siblings:
        left = sibling.left
        if reservation_name(sibling.job) != reservation.metadata.name or left is None:
            continue
        if left.status.phase is ReservationPhase.AVAILABLE and not left.status.current_owners:
            return left
    return None


def will_be_traded(siblings: Sequence[Sibling]) -> bool:
    """For B: whether there is an A that has yet to write that it goes on with B's room."""
    return any(
        awaits_replacement(sibling.job, pod_stays=sibling.pod_stays)
        and sibling.reservation is not None
        and not sibling.reservation.status.current_owners
        and job_of(sibling.reservation) is not None
        for sibling in siblings
    )


def is_held_for_nobody(reservation: Reservation, owner: PodMigrationJob, jobs: Sequence[PodMigrationJob]) -> bool:
    """Whether no pod uses a reservation, or will use it. `owner`: the job that it is for. `jobs`: all jobs that refer
    to it, or to the reservation that its owner refers to."""
    used = reservation.status.phase is ReservationPhase.SUCCEEDED or bool(reservation.status.current_owners)
    return owner.is_over and not used and all(job.is_over for job in jobs)
