"""What people are told of a move as events, from how its job was and how it is now: Koordinator's reasons and words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from koord.api.kubernetes.words import ConditionStatus
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob, PodMigrationJobCondition, PodMigrationJobPhase
from koord.descheduler.held_room import reservation_name

ACTION: Final = "Migrating"


@dataclass(frozen=True, slots=True)
class Told:
    reason: str
    note: str
    type: Literal["Normal", "Warning"] = "Normal"


def told(before: PodMigrationJob, after: PodMigrationJob) -> list[Told]:
    """One for each condition that is new, and one for the end."""
    old = {each.type: each for each in before.status.conditions}
    found = [
        _of_condition(after, each)
        for each in after.status.conditions
        if each.type not in old or _differs(old[each.type], each)
    ]
    if after.is_over and not before.is_over:
        if after.status.phase is PodMigrationJobPhase.SUCCEEDED:
            found.append(Told("Complete", "the move is complete"))
        else:
            found.append(Told(after.status.reason, after.status.message or after.status.reason, "Warning"))
    return found


def _differs(before: PodMigrationJobCondition, after: PodMigrationJobCondition) -> bool:
    return (before.status, before.reason, before.message) != (after.status, after.reason, after.message)


def _of_condition(job: PodMigrationJob, condition: PodMigrationJobCondition) -> Told:
    is_true = condition.status is ConditionStatus.TRUE
    if is_true:
        reservation = reservation_name(job)
        note = {
            "ReservationCreated": f'Successfully create Reservation "{reservation}"',
            "ReservationScheduled": f'Assigned Reservation "{reservation}" to node "{job.status.node_name}"',
            "Eviction": f'Pod "{job.spec.pod_ref.namespace}/{job.spec.pod_ref.name}" has been evicted',
            "PodBoundReservation": f'Pod "{_new_pod(job)}" uses Reservation "{reservation}"',
            "BoundPodReady": f'Pod "{_new_pod(job)}" is ready',
        }.get(condition.type, condition.message or condition.type)
        return Told(condition.reason or condition.type, note)
    reason = condition.reason or condition.type
    failed = reason in ("FailedEvict", "FailedCreateReservation", "Unschedulable")
    return Told(reason, condition.message or reason, "Warning" if failed else "Normal")


def _new_pod(job: PodMigrationJob) -> str:
    ref = job.status.pod_ref
    return f"{ref.namespace}/{ref.name}" if ref is not None else ""
