"""PodMigrationJob: the next step of moving one pod, from the job and what it is about.

    Pending -> Running -> [reservation made -> scheduled] -> pod evicted -> [replacement bound -> ready] -> Succeeded

A step keeps no state, so that any process can take the next one after any other ended. A job that ends in failure
leaves no reservation behind, no notice and no extra replica (`koord.descheduler.parting`).

    job_status         conditions and age of a job
    migration_step     the state that a step is decided from, and its actions
    eviction           making the pod leave
    replacement_wait   waiting for the pod that replaces it
"""

from __future__ import annotations

import dataclasses
import math

from msgspec.structs import replace

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.protocol.annotations.load import JOB_NODE, JOB_WORKLOAD, PASSED_ARBITRATION
from koord.api.protocol.annotations.reservation import RESERVATION_ORDER
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob, PodMigrationJobPhase
from koord.api.protocol.crd.reservation import Reservation, ReservationPhase
from koord.api.text.timestamp import from_seconds
from koord.descheduler.eviction import TAKEN, evict, evicting, notice, reservation_taken
from koord.descheduler.held_room import awaits_replacement, is_own, reservation_name, taken_instead
from koord.descheduler.job_status import (
    LEAVING,
    condition_of,
    created_s,
    is_true,
    referring_to,
    ttl_of,
    with_condition,
    with_notes,
    with_reference,
)
from koord.descheduler.migration_step import (
    AGAIN_S,
    SOON_S,
    MakeReservation,
    MigrationState,
    OrderReservation,
    Step,
    failed,
    leftovers,
    succeeded,
)
from koord.descheduler.moves import is_let_through
from koord.descheduler.parting import Change, Scaling, scene_of
from koord.descheduler.replacement_wait import await_ready, await_replacement, came_elsewhere, has_waited, message_of
from koord.descheduler.scale_first import EvictOld, GiveUp, PatchDeployment, PatchPod, Wait, is_wanted, plan, record_of


def step(job: PodMigrationJob, state: MigrationState, args: MigrationControllerArgs, now_s: float) -> Step:
    """The next step of a job. A job that has not passed arbitration can only time out."""
    if job.is_over:
        return Step(job, leftovers(job, state, now_s))
    if job.spec.paused:
        return Step(job)
    ttl_s = ttl_of(job, args)
    left_s = ttl_s - (now_s - created_s(job, now_s))
    if ttl_s and left_s <= 0:
        waited_for = f": {job.status.message}" if job.status.message else ""
        return failed(job, state, "Timeout", f"Abort job caused by timeout{waited_for}", now_s)
    if job.status.phase is not PodMigrationJobPhase.RUNNING:
        passed = PASSED_ARBITRATION.read(job.metadata, "PodMigrationJob")
        if not is_let_through(job) and not (passed and state.pod is None):
            return Step(job, again_s=left_s if ttl_s else None)
        return _begin(job, state, now_s)
    if state.wait_s > 0 and not condition_of(job, "Eviction"):
        at = from_seconds(math.ceil(now_s + state.wait_s))
        why = f"others of its workload or namespace have moved lately (objectLimiters): it may go at {at}"
        waiting = replace(job.status, reason="Waiting", message=why)
        return Step(replace(job, status=waiting), again_s=max(state.wait_s, AGAIN_S))
    only = state.scaling is not None and state.scaling.autoscaled and state.scaling.deployment.spec.replicas == 1
    if only and not condition_of(job, "Eviction"):
        why = "it is the only replica, and a HorizontalPodAutoscaler sets their number"
        return failed(job, state, "ForbiddenMigratePod", why, now_s)
    if _is_direct(job, state, args) and not _scales_first(job, state):
        return evict(job, state, args, now_s) or succeeded(job, now_s)
    return _reserve_first(job, state, args, now_s)


def _is_direct(job: PodMigrationJob, state: MigrationState, args: MigrationControllerArgs) -> bool:
    """Whether a pod is evicted without a reservation: the job says so, or the pod has no controller to replace it."""
    if (job.spec.mode or args.default_job_mode) == "EvictDirectly":
        return True
    if state.pod is not None and state.has_pod_of(job):
        return bool(state.pod.spec.node_name) and state.pod.metadata.controller is None
    return condition_of(job, "Eviction") is not None and condition_of(job, "ReservationCreated") is None


def _begin(job: PodMigrationJob, state: MigrationState, now_s: float) -> Step:
    ref = job.spec.pod_ref
    if not ref.namespace or not ref.name:
        return failed(job, state, "InvalidPodRef", "spec.podRef must have a namespace and a name", now_s)
    pod = state.pod
    if pod is None or (ref.uid and pod.metadata.uid != ref.uid):
        return failed(job, state, "MissingPod", f"there is no pod {ref.namespace}/{ref.name} to move", now_s)
    spec = replace(job.spec, pod_ref=replace(ref, uid=pod.metadata.uid))
    job = with_notes(job, {JOB_WORKLOAD.key: state.workload, JOB_NODE.key: pod.spec.node_name})
    return Step(replace(job, spec=spec, status=replace(job.status, phase=PodMigrationJobPhase.RUNNING)), again_s=0.0)


def _reserve_first(job: PodMigrationJob, state: MigrationState, args: MigrationControllerArgs, now_s: float) -> Step:
    name = reservation_name(job)
    reservation = state.reservation
    if reservation is None:
        if is_true(job, "ReservationBound"):
            return await_ready(job, state, now_s)
        if is_true(job, "ReservationCreated"):
            return failed(job, state, "MissingReservation", f"reservation {name} is gone", now_s)
        if not state.has_pod_of(job):
            return failed(job, state, "MissingPod", "the pod is gone", now_s)
        if job.spec.reservation_options is not None and job.spec.reservation_options.reservation_ref is not None:
            return failed(job, state, "MissingReservation", f"there is no reservation {name}", now_s)
        return Step(job, (MakeReservation(name),), AGAIN_S)
    job = with_reference(with_condition(job, "ReservationCreated", True, "", "", now_s), reservation)
    if not is_own(job, reservation) and not RESERVATION_ORDER.read(reservation.metadata, "Reservation"):
        return Step(job, (OrderReservation(name),), AGAIN_S)
    if not state.has_pod_of(job) and not any(condition_of(job, type_) for type_ in LEAVING):
        return failed(job, state, "MissingPod", "the pod is gone, or another has its name", now_s)
    if not reservation.status.current_owners and awaits_replacement(job, pod_stays=state.pod_stays(job)):
        other = taken_instead(job, state.siblings)
        if other is not None:
            return Step(referring_to(job, other), again_s=0.0)
    waiting, has_left = _unscheduled(job, state, reservation, now_s), state.has_left(job)
    if waiting is not None and not has_left:
        return waiting
    node, for_itself = reservation.status.node_name, _owner_is_the_pod(job, reservation)
    if not (for_itself or has_left) and state.is_on(job, node):
        return failed(job, state, "ForbiddenMigratePod", f"the reservation is on the pod's own node {node}", now_s)
    if node:
        job = replace(job, status=replace(job.status, node_name=node))
        job = with_condition(job, "ReservationScheduled", True, "", "", now_s)
    if for_itself:
        return _the_pod_itself(job, state, reservation, now_s)
    if state.scaling is not None and _scales_first(job, state):
        return _scale_first(job, state, state.scaling, reservation, args, now_s)
    return evict(job, state, args, now_s) or await_replacement(job, state, reservation, now_s)


def _unscheduled(job: PodMigrationJob, state: MigrationState, reservation: Reservation, now_s: float) -> Step | None:
    """What to do while a reservation holds no room; None once it does, or is used."""
    status = reservation.status
    if status.phase is ReservationPhase.SUCCEEDED:
        return None
    if status.phase in (ReservationPhase.AVAILABLE, ReservationPhase.WAITING):
        return None if status.node_name else Step(job, again_s=AGAIN_S)
    if status.phase is ReservationPhase.FAILED:
        expired = any(condition.reason == "Expired" for condition in status.conditions)
        reason = "ReservationExpired" if expired else "Unschedulable"
        return failed(job, state, reason, message_of(reservation) or "the reservation has failed", now_s)
    said = next((condition for condition in status.conditions if condition.reason == "Unschedulable"), None)
    if said is not None:
        job = with_condition(job, "ReservationScheduled", False, said.reason, said.message, now_s)
    return Step(job, again_s=AGAIN_S)


def _the_pod_itself(job: PodMigrationJob, state: MigrationState, reservation: Reservation, now_s: float) -> Step:
    """A pod that could not be scheduled has the reservation to itself: it need not be evicted."""
    pod = state.pod
    if pod is not None and pod.spec.node_name:
        return succeeded(with_condition(job, "PodScheduled", True, "", "", now_s), now_s)
    used_by = {owner.uid for owner in reservation.status.current_owners}
    if reservation.status.phase is ReservationPhase.SUCCEEDED and job.spec.pod_ref.uid not in used_by:
        return failed(job, state, "ForbiddenMigratePod", TAKEN, now_s)
    return Step(job, again_s=AGAIN_S)


def _owner_is_the_pod(job: PodMigrationJob, reservation: Reservation) -> bool:
    return any(
        owner.object is not None and owner.object.uid == job.spec.pod_ref.uid for owner in reservation.spec.owners
    )


def _scales_first(job: PodMigrationJob, state: MigrationState) -> bool:
    """Whether the replacement comes before the old pod leaves. That does not change once it has started."""
    if state.scaling is None:
        return False
    return condition_of(job, "ScaledFirst") is not None or is_wanted(
        state.scaling.deployment, autoscaled=state.scaling.autoscaled
    )


def _scale_first(
    job: PodMigrationJob,
    state: MigrationState,
    scaling: Scaling,
    reservation: Reservation,
    args: MigrationControllerArgs,
    now_s: float,
) -> Step:
    """The replacement uses the reservation and is ready, then its workload gives the old pod up."""
    record = record_of(scaling.deployment)
    started = condition_of(job, "ScaledFirst") is not None or (record is not None and record.job == job.metadata.uid)
    if not started and reservation.status.current_owners:
        return reservation_taken(job, state, reservation, now_s)
    old = state.pod if state.pod_stays(job) else None
    replacement = state.bound
    if replacement is None and has_waited(job, "ScaledFirst", now_s):
        replacement = came_elsewhere(job, state, now_s)
    scene = scene_of(job, scaling, old, replacement, started=started)
    taken = plan(scene, now_s)
    meta = scaling.deployment.metadata
    if isinstance(taken, PatchDeployment):
        scaled = with_condition(job, "ScaledFirst", False, "Scaling", taken.what, now_s)
        return Step(scaled, (Change("Deployment", meta.namespace, meta.name, taken.patch),), SOON_S)
    if isinstance(taken, Wait):
        waiting = with_condition(job, "ScaledFirst", False, "WaitForReplacement", taken.why, now_s) if started else job
        return Step(waiting, again_s=AGAIN_S if taken.again_s is None else min(AGAIN_S, taken.again_s))
    if isinstance(taken, GiveUp):
        return failed(job, state, "ScaleFirstFailed", taken.why, now_s)
    # The reservation has its pod, as it should: no other pod took it.
    apart = dataclasses.replace(state, reservation=None)
    if isinstance(taken, PatchPod) and old is not None:
        waiting_step = notice(job, old, args, now_s)
        if waiting_step is not None:
            return waiting_step
        leaving = evicting(job, old, now_s)
        return Step(leaving, (Change("Pod", old.metadata.namespace, old.metadata.name, taken.patch),), SOON_S)
    done = job if isinstance(taken, EvictOld) else with_condition(job, "ScaledFirst", True, "Replaced", "", now_s)
    return evict(done, apart, args, now_s) or await_replacement(done, state, reservation, now_s)
