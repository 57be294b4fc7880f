"""The status of a PodMigrationJob: its conditions, its age, and why its pod is moved.

Everything that a job knows about itself is in its object. The steps of a move (`migration`) read and write it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.kinds import RESERVATIONS
from koord.api.kubernetes.meta import ObjectReference
from koord.api.kubernetes.words import ConditionStatus
from koord.api.protocol.annotations.load import EVICT_REASON, EVICT_TRIGGER
from koord.api.protocol.crd.pod_migration_job import (
    PodMigrateReservationOptions,
    PodMigrationJob,
    PodMigrationJobCondition,
    PodMigrationJobPhase,
    PodMigrationJobStatus,
)
from koord.api.protocol.crd.reservation import Reservation
from koord.api.text.stored import stored_duration
from koord.api.text.timestamp import TimestampError, from_seconds, parse_timestamp
from koord.descheduler.limiter import departure_of

KEPT_AFTER_TTL_S: Final = 300.0
KEPT_S: Final = 1800.0
"""How long jobs without a time to live are kept."""
LEAVING: Final = ("Eviction", "Notice", "ScaledFirst")
"""Conditions of a job that has started to make its pod leave."""


def condition_of(job: PodMigrationJob, type_: str) -> PodMigrationJobCondition | None:
    return next((condition for condition in job.status.conditions if condition.type == type_), None)


def is_true(job: PodMigrationJob, type_: str) -> bool:
    condition = condition_of(job, type_)
    return condition is not None and condition.status is ConditionStatus.TRUE


def with_condition(
    job: PodMigrationJob, type_: str, holds: bool, reason: str, message: str, now_s: float
) -> PodMigrationJob:
    """A job with a new condition, which its status mirrors. An unchanged condition keeps its time."""
    value = ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    old = condition_of(job, type_)
    if old is not None and (old.status, old.reason, old.message) == (value, reason, message):
        return job
    kept_time = old.last_transition_time if old is not None and old.status is value else from_seconds(now_s)
    new = PodMigrationJobCondition(type_, value, reason, message, last_transition_time=kept_time)
    conditions = job.status.conditions
    conditions = (
        (*conditions, new) if old is None else tuple(new if condition is old else condition for condition in conditions)
    )
    status: PodMigrationJobStatus = replace(
        job.status, conditions=conditions, status=type_, reason=reason, message=message
    )
    return replace(job, status=status)


def awaits_leave(job: PodMigrationJob) -> bool:
    """Whether a job runs and has not started to make its pod leave."""
    is_running = job.status.phase is PodMigrationJobPhase.RUNNING and not job.spec.paused
    return is_running and not any(condition_of(job, type_) for type_ in LEAVING)


def starts_to_leave(job: PodMigrationJob, after: PodMigrationJob) -> bool:
    """Whether a step is the first that makes a job's pod go. It must not be taken if the pod must stay."""
    return awaits_leave(job) and any(condition_of(after, type_) for type_ in LEAVING)


def gives_up_late(job: PodMigrationJob, after: PodMigrationJob) -> bool:
    """Whether a step ends a job in failure after the job started to evict its pod. The pod must be read again before
    that: it may have left."""
    failed = after.status.phase is PodMigrationJobPhase.FAILED
    return failed and not job.is_over and condition_of(job, "Eviction") is not None


def ttl_of(job: PodMigrationJob, args: MigrationControllerArgs) -> float:
    """Seconds; 0: a job may take as long as it takes."""
    return max(0.0, stored_duration(args.default_job_ttl if job.spec.ttl is None else job.spec.ttl))


def created_s(job: PodMigrationJob, now_s: float) -> float:
    return time_s(job.metadata.creation_timestamp, now_s)


def time_s(text: str | None, now_s: float) -> float:
    try:
        return parse_timestamp(text or "")
    except TimestampError:
        return now_s


def is_forgotten(job: PodMigrationJob, args: MigrationControllerArgs, now_s: float) -> bool:
    """Whether a job is so old that it is removed."""
    ttl_s, went = ttl_of(job, args), departure_of(job)
    if went is not None and now_s - went.at_s < args.longest_window_s:
        # The limiters still need it.
        return False
    return now_s - created_s(job, now_s) >= (ttl_s + KEPT_AFTER_TTL_S if ttl_s else KEPT_S)


def reason_of(job: PodMigrationJob) -> str:
    return EVICT_REASON.read(job.metadata, "PodMigrationJob")


def cause_of(job: PodMigrationJob) -> str:
    """Why a pod goes, at the end of a sentence. Jobs that people make by hand need not have a reason."""
    reason = reason_of(job)
    return f'by the reason "{reason}"' if reason else f"by the PodMigrationJob {job.metadata.name}"


def trigger_of(job: PodMigrationJob) -> str:
    return EVICT_TRIGGER.read(job.metadata, "PodMigrationJob")


def with_notes(job: PodMigrationJob, notes: Mapping[str, str]) -> PodMigrationJob:
    """A job with notes about its pod, for when the pod is gone."""
    annotations = {**job.metadata.annotations, **{key: value for key, value in notes.items() if value}}
    return replace(job, metadata=replace(job.metadata, annotations=annotations))


def with_reference(job: PodMigrationJob, reservation: Reservation) -> PodMigrationJob:
    """With the reservation named in the spec, where people and `kubectl get` look for it."""
    options = job.spec.reservation_options or PodMigrateReservationOptions()
    if options.reservation_ref is not None:
        return job
    return referring_to(job, reservation)


def referring_to(job: PodMigrationJob, reservation: Reservation) -> PodMigrationJob:
    options, meta = job.spec.reservation_options or PodMigrateReservationOptions(), reservation.metadata
    reference = ObjectReference(RESERVATIONS.api_version, RESERVATIONS.kind, name=meta.name, uid=meta.uid)
    return replace(job, spec=replace(job.spec, reservation_options=replace(options, reservation_ref=reference)))
