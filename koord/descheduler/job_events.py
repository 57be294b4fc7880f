"""The events of a move, from its job before and after a step: Koordinator's reasons and words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from koord.api.kubernetes.words import ConditionStatus
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob, PodMigrationJobCondition, PodMigrationJobPhase
from koord.descheduler.held_room import reservation_name

ACTION: Final = "Migrating"


@dataclass(frozen=True, slots=True)
class JobEvent:
    reason: str
    note: str
    type: Literal["Normal", "Warning"] = "Normal"


def events_of(before: PodMigrationJob, after: PodMigrationJob) -> list[JobEvent]:
    """An event for each new condition, and one for the end."""
    old = {condition.type: condition for condition in before.status.conditions}
    events = [
        _of_condition(after, condition)
        for condition in after.status.conditions
        if condition.type not in old or _differs(old[condition.type], condition)
    ]
    if after.is_over and not before.is_over:
        if after.status.phase is PodMigrationJobPhase.SUCCEEDED:
            events.append(JobEvent("Complete", "the move is complete"))
        else:
            events.append(JobEvent(after.status.reason, after.status.message or after.status.reason, "Warning"))
    return events


def _differs(before: PodMigrationJobCondition, after: PodMigrationJobCondition) -> bool:
    return (before.status, before.reason, before.message) != (after.status, after.reason, after.message)


def _of_condition(job: PodMigrationJob, condition: PodMigrationJobCondition) -> JobEvent:
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
        return JobEvent(condition.reason or condition.type, note)
    reason = condition.reason or condition.type
    failed = reason in ("FailedEvict", "FailedCreateReservation", "Unschedulable")
    return JobEvent(reason, condition.message or reason, "Warning" if failed else "Normal")


def _new_pod(job: PodMigrationJob) -> str:
    ref = job.status.pod_ref
    return f"{ref.namespace}/{ref.name}" if ref is not None else ""
