"""Evicting the pod of a job: with notice if it asks for that, and only while the room for its replacement is held.

That a pod will be evicted is written before it is, so that a pod that is gone is known to be gone because of the job.
"""

from __future__ import annotations

import math
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.annotations.load import JOB_NODE, SOFT_EVICTION, evict_policy
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.protocol.crd.reservation import Reservation, ReservationPhase
from koord.api.protocol.eviction_notice import Go
from koord.api.text.timestamp import from_seconds
from koord.descheduler.held_room import left_by_taker, will_be_traded
from koord.descheduler.job_status import (
    awaits_leave,
    cause_of,
    condition_of,
    created_s,
    is_true,
    reason_of,
    referring_to,
    trigger_of,
    ttl_of,
    with_condition,
    with_notes,
)
from koord.descheduler.migration_step import (
    AGAIN_S,
    SOON_S,
    EvictPod,
    MigrationState,
    Policy,
    Step,
    TakeOverReservation,
    failed,
)
from koord.descheduler.parting import asker_of, telling, verdict_on

TAKEN: Final = "another pod has taken the reservation"


def evict(job: PodMigrationJob, state: MigrationState, args: MigrationControllerArgs, now_s: float) -> Step | None:
    """What evicting takes; None once the pod is gone."""
    if is_true(job, "Eviction"):
        return None
    pod, begun = state.pod, condition_of(job, "Eviction")
    if not state.has_pod_of(job):
        noticed = condition_of(job, "Notice")
        if begun is None and (noticed is None or noticed.reason != "Given"):
            return failed(job, state, "MissingPod", "the pod is gone, or another has its name", now_s)
        said = f"pod {job.spec.pod_ref.namespace}/{job.spec.pod_ref.name} is gone"
        return Step(with_condition(job, "Eviction", True, "EvictComplete", said, now_s), again_s=0.0)
    assert pod is not None
    if pod.metadata.deletion_timestamp is not None and begun is not None:
        return Step(evicting(job, pod, now_s), again_s=AGAIN_S)
    if state.reservation is not None and state.reservation.status.phase is ReservationPhase.SUCCEEDED:
        return reservation_taken(job, state, state.reservation, now_s)
    if state.must_stay and awaits_leave(job):
        held = replace(job.status, reason="Waiting", message=state.must_stay)
        return Step(replace(job, status=held), again_s=AGAIN_S)
    policy = _policy(pod, job, args)
    waiting = None if policy == "SoftEviction" else notice(job, pod, args, now_s)
    if waiting is not None:
        return waiting
    if begun is None:
        return Step(evicting(job, pod, now_s), again_s=0.0)
    if policy == "SoftEviction" and SOFT_EVICTION.key in pod.metadata.annotations:
        return Step(evicting(job, pod, now_s), again_s=AGAIN_S)
    meta, given = pod.metadata, job.spec.delete_options
    options = args.default_delete_options if given is None else msgspec.to_builtins(given, str_keys=True)
    action = EvictPod(meta.namespace, meta.name, meta.uid, policy, options, reason_of(job), trigger_of(job))
    return Step(evicting(job, pod, now_s), (action,), AGAIN_S)


def notice(job: PodMigrationJob, pod: Pod, args: MigrationControllerArgs, now_s: float) -> Step | None:
    """What notice takes; None once the pod may go."""
    ttl_s = ttl_of(job, args)
    left_s = ttl_s - (now_s - created_s(job, now_s)) if ttl_s else math.inf
    verdict = verdict_on(job, pod, left_s, now_s)
    if isinstance(verdict, Go):
        return None
    if verdict is None:
        said = "the pod asks for notice, and the job has no time left to give it"
        return Step(
            with_condition(job, "Notice", False, "TooLate", said, now_s), again_s=min(AGAIN_S, max(0.1, left_s))
        )
    said = f"the pod is told to go at {from_seconds(verdict.until_s)}, or when it says that it is ready"
    noticed = with_condition(job, "Notice", False, "Given", said, now_s)
    return Step(noticed, telling(pod, verdict, asker_of(job)), min(AGAIN_S, max(0.1, verdict.until_s - now_s)))


def evicting(job: PodMigrationJob, pod: Pod, now_s: float) -> PodMigrationJob:
    """The job with the condition that its pod is being evicted, in Koordinator's words."""
    job = with_notes(job, {JOB_NODE.key: pod.spec.node_name})
    said = f'Pod "{pod.metadata.key}" evicted from node "{pod.spec.node_name}" {cause_of(job)}'
    return with_condition(job, "Eviction", False, "Evicting", said, now_s)


def _policy(pod: Pod, job: PodMigrationJob, args: MigrationControllerArgs) -> Policy:
    """As the pod says, else the job, else the configuration; a label that cannot be understood says nothing."""
    try:
        policy = evict_policy(pod.metadata, job.metadata)
    except AnnotationError:
        policy = None
    return cast(Policy, policy or args.eviction_policy)


def reservation_taken(job: PodMigrationJob, state: MigrationState, reservation: Reservation, now_s: float) -> Step:
    """Another pod uses the room while the pod is still there: the room of the job that this pod came for will do."""
    left = left_by_taker(reservation, state.siblings)
    if left is not None:
        taken = referring_to(job, left)
        status = replace(taken.status, node_name=left.status.node_name)
        return Step(replace(taken, status=status), (TakeOverReservation(left.metadata.name),), SOON_S)
    if will_be_traded(state.siblings):
        return Step(job, again_s=SOON_S)
    return failed(job, state, "ForbiddenMigratePod", TAKEN, now_s)
