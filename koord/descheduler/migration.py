"""PodMigrationJob: the next step of moving one pod, from what can be seen of it now.

    Pending -> Running -> [reservation made -> scheduled] -> pod evicted -> [replacement bound -> ready] -> Succeeded

A step is a function of the job and of what it is about; it keeps nothing, so that any process can take the next one
after any other ended. Whatever it asks for may be done twice: a reservation has the job's own name, and a pod is
evicted by its uid. That a pod is to be evicted is written down before it is, so that a pod which is gone is known to be
gone because of the job. A job that ends in failure leaves no reservation behind, and no notice and no extra replica
(`koord.descheduler.parting`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.kinds import RESERVATIONS
from koord.api.kubernetes.meta import ObjectReference
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests
from koord.api.kubernetes.words import ConditionStatus
from koord.api.machinery.faults import BadInput
from koord.api.protocol.annotations.load import (
    EVICT_REASON,
    EVICT_TRIGGER,
    JOB_NODE,
    JOB_WORKLOAD,
    PASSED_ARBITRATION,
    SOFT_EVICTION,
    evict_policy,
)
from koord.api.protocol.annotations.reservation import RESERVATION_ORDER
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.pod_migration_job import (
    PodMigrateReservationOptions,
    PodMigrationJob,
    PodMigrationJobCondition,
    PodMigrationJobPhase,
    PodMigrationJobStatus,
)
from koord.api.protocol.crd.reservation import Reservation, ReservationPhase
from koord.api.protocol.eviction_notice import Go
from koord.api.text.stored import stored_duration
from koord.api.text.timestamp import TimestampError, from_seconds, parse_timestamp
from koord.descheduler.evictable import is_available
from koord.descheduler.held_room import (
    Sibling,
    awaits_replacement,
    is_own,
    left_by_taker,
    reservation_name,
    taken_instead,
    will_be_traded,
)
from koord.descheduler.limiter import went_of
from koord.descheduler.moves import is_let_through
from koord.descheduler.parting import Change, Scaling, asker_of, scene_of, taken_back, telling, verdict_on
from koord.descheduler.scale_first import EvictOld, GiveUp, PatchDeployment, PatchPod, Wait, is_wanted, plan, record_of

AGAIN_S: Final = 3.0
"""How long until a job that waits is looked at again, should nothing be heard."""
SOON_S: Final = 0.3
"""The same after a change of the job's own, of which nothing may be heard."""
KEPT_AFTER_TTL_S: Final = 300.0
KEPT_S: Final = 1800.0
"""How long jobs without a time to live are kept."""
UNUSED_S: Final = 15.0
"""How long after its pod is gone a job whose workload is whole waits for a pod that uses its reservation."""
TAKEN: Final = "another pod has taken the reservation"
_ITS_END: Final = ("Eviction", "Notice", "ScaledFirst")
"""Conditions of a job that has begun to make its pod go."""
Policy: TypeAlias = Literal["Eviction", "Delete", "SoftEviction"]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a job is about, as it is now."""

    pod: Pod | None
    "Whatever has the name of the pod."
    reservation: Reservation | None = None
    bound: Pod | None = None
    "The pod that uses the reservation."
    wait_s: float = 0.0
    "How long until limits let another pod go."
    scaling: Scaling | None = None
    "Its Deployment, where pods are replaced before they go."
    siblings: tuple[Sibling, ...] = ()
    "Other jobs that move pods of the same workload."
    workload: str = ""
    "The uid of its workload."
    whole: tuple[Pod, ...] | None = None
    "The pods of its workload, if that has as many as it wants, all on nodes, and none of them uses the reservation."
    must_stay: str = ""
    "Why the pod must not leave just now: too many others of its workload are away."


@dataclass(frozen=True, slots=True)
class MakeReservation:
    """Of the pod, or of the job's template; see `reservation_for`."""

    name: str


@dataclass(frozen=True, slots=True)
class DropReservation:
    name: str


@dataclass(frozen=True, slots=True)
class OrderReservation:
    """A reservation that the user made comes before others from now on: it gets its order."""

    name: str


@dataclass(frozen=True, slots=True)
class TakeOverReservation:
    """The room that another job left is this job's from now on, and goes with it."""

    name: str


@dataclass(frozen=True, slots=True)
class EvictPod:
    namespace: str
    name: str
    uid: str
    policy: Policy
    delete_options: Mapping[str, Any]
    reason: str = ""
    "Why, for the pod's event."
    trigger: str = ""
    "Who asked: a plugin, or nobody of the descheduler."


Action: TypeAlias = MakeReservation | DropReservation | OrderReservation | TakeOverReservation | EvictPod | Change


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be written and done. Actions come first; where one fails, `refused` says what is written instead."""

    job: PodMigrationJob
    actions: tuple[Action, ...] = ()
    again_s: float | None = None
    "When to look again, where nothing may be heard before. None: when something changes."


def step(job: PodMigrationJob, seen: Seen, args: MigrationControllerArgs, now_s: float) -> Step:
    """The next step of a job. One that has not passed arbitration can only be too late."""
    if job.is_over:
        return Step(job, _leftovers(job, seen, now_s))
    if job.spec.paused:
        return Step(job)
    ttl_s = ttl_of(job, args)
    left_s = ttl_s - (now_s - created_s(job, now_s))
    if ttl_s and left_s <= 0:
        waited_for = f": {job.status.message}" if job.status.message else ""
        return _failed(job, seen, "Timeout", f"Abort job caused by timeout{waited_for}", now_s)
    if job.status.phase is not PodMigrationJobPhase.RUNNING:
        passed = PASSED_ARBITRATION.read(job.metadata, "PodMigrationJob")
        if not is_let_through(job) and not (passed and seen.pod is None):
            return Step(job, again_s=left_s if ttl_s else None)
        return _begin(job, seen, now_s)
    if seen.wait_s > 0 and not _condition(job, "Eviction"):
        at = from_seconds(math.ceil(now_s + seen.wait_s))
        why = f"others of its workload or namespace have moved lately (objectLimiters): it may go at {at}"
        waiting = replace(job.status, reason="Waiting", message=why)
        return Step(replace(job, status=waiting), again_s=max(seen.wait_s, AGAIN_S))
    only = seen.scaling is not None and seen.scaling.autoscaled and seen.scaling.deployment.spec.replicas == 1
    if only and not _condition(job, "Eviction"):
        why = "it is the only replica, and a HorizontalPodAutoscaler sets their number"
        return _failed(job, seen, "ForbiddenMigratePod", why, now_s)
    if _is_direct(job, seen, args) and not _scales_first(job, seen):
        return _evict(job, seen, args, now_s) or _succeeded(job, now_s)
    return _reserve_first(job, seen, args, now_s)


def is_forgotten(job: PodMigrationJob, args: MigrationControllerArgs, now_s: float) -> bool:
    """Whether a job is so old that it is removed."""
    ttl_s, went = ttl_of(job, args), went_of(job)
    if went is not None and now_s - went.at_s < args.longest_window_s:
        # The limiters go by it.
        return False
    return now_s - created_s(job, now_s) >= (ttl_s + KEPT_AFTER_TTL_S if ttl_s else KEPT_S)


def ttl_of(job: PodMigrationJob, args: MigrationControllerArgs) -> float:
    """Seconds; 0: a job may take as long as it takes."""
    return max(0.0, stored_duration(args.default_job_ttl if job.spec.ttl is None else job.spec.ttl))


def _is_direct(job: PodMigrationJob, seen: Seen, args: MigrationControllerArgs) -> bool:
    """Whether a pod goes without room for another: so it was asked for, or nothing would make another."""
    if (job.spec.mode or args.default_job_mode) == "EvictDirectly":
        return True
    if seen.pod is not None and _is_still_there(job, seen):
        return bool(seen.pod.spec.node_name) and seen.pod.metadata.controller is None
    return _condition(job, "Eviction") is not None and _condition(job, "ReservationCreated") is None


def _begin(job: PodMigrationJob, seen: Seen, now_s: float) -> Step:
    ref = job.spec.pod_ref
    if not ref.namespace or not ref.name:
        return _failed(job, seen, "InvalidPodRef", "spec.podRef must have a namespace and a name", now_s)
    pod = seen.pod
    if pod is None or (ref.uid and pod.metadata.uid != ref.uid):
        return _failed(job, seen, "MissingPod", f"there is no pod {ref.namespace}/{ref.name} to move", now_s)
    spec = replace(job.spec, pod_ref=replace(ref, uid=pod.metadata.uid))
    job = _noted(job, {JOB_WORKLOAD.key: seen.workload, JOB_NODE.key: pod.spec.node_name})
    return Step(replace(job, spec=spec, status=replace(job.status, phase=PodMigrationJobPhase.RUNNING)), again_s=0.0)


def _noted(job: PodMigrationJob, notes: Mapping[str, str]) -> PodMigrationJob:
    """A job with what is known of its pod, for when that is gone."""
    annotations = {**job.metadata.annotations, **{key: value for key, value in notes.items() if value}}
    return replace(job, metadata=replace(job.metadata, annotations=annotations))


def _reserve_first(job: PodMigrationJob, seen: Seen, args: MigrationControllerArgs, now_s: float) -> Step:
    name = reservation_name(job)
    reservation = seen.reservation
    if reservation is None:
        if _is_true(job, "ReservationBound"):
            return _await_ready(job, seen, now_s)
        if _is_true(job, "ReservationCreated"):
            return _failed(job, seen, "MissingReservation", f"reservation {name} is gone", now_s)
        if not _is_still_there(job, seen):
            return _failed(job, seen, "MissingPod", "the pod is gone", now_s)
        if job.spec.reservation_options is not None and job.spec.reservation_options.reservation_ref is not None:
            return _failed(job, seen, "MissingReservation", f"there is no reservation {name}", now_s)
        return Step(job, (MakeReservation(name),), AGAIN_S)
    job = _with_reference(_with(job, "ReservationCreated", True, "", "", now_s), reservation)
    if not is_own(job, reservation) and not RESERVATION_ORDER.read(reservation.metadata, "Reservation"):
        return Step(job, (OrderReservation(name),), AGAIN_S)
    if not _is_still_there(job, seen) and not any(_condition(job, each) for each in _ITS_END):
        return _failed(job, seen, "MissingPod", "the pod is gone, or another has its name", now_s)
    if not reservation.status.current_owners and awaits_replacement(job, pod_stays=_stays(job, seen)):
        other = taken_instead(job, seen.siblings)
        if other is not None:
            return Step(_referring_to(job, other), again_s=0.0)
    waiting, has_left = _unscheduled(job, seen, reservation, now_s), _has_left(job, seen)
    if waiting is not None and not has_left:
        return waiting
    node, for_itself = reservation.status.node_name, _owner_is_the_pod(job, reservation)
    if not (for_itself or has_left) and _is_on(job, seen, node):
        return _failed(job, seen, "ForbiddenMigratePod", f"the reservation is on the pod's own node {node}", now_s)
    if node:
        job = replace(job, status=replace(job.status, node_name=node))
        job = _with(job, "ReservationScheduled", True, "", "", now_s)
    if for_itself:
        return _the_pod_itself(job, seen, reservation, now_s)
    if seen.scaling is not None and _scales_first(job, seen):
        return _scale_first(job, seen, seen.scaling, reservation, args, now_s)
    return _evict(job, seen, args, now_s) or _await_replacement(job, seen, reservation, now_s)


def _unscheduled(job: PodMigrationJob, seen: Seen, reservation: Reservation, now_s: float) -> Step | None:
    """What to do while a reservation holds no room; None once it does, or is used."""
    status = reservation.status
    if status.phase is ReservationPhase.SUCCEEDED:
        return None
    if status.phase in (ReservationPhase.AVAILABLE, ReservationPhase.WAITING):
        return None if status.node_name else Step(job, again_s=AGAIN_S)
    if status.phase is ReservationPhase.FAILED:
        expired = any(each.reason == "Expired" for each in status.conditions)
        reason = "ReservationExpired" if expired else "Unschedulable"
        return _failed(job, seen, reason, _words(reservation) or "the reservation has failed", now_s)
    said = next((each for each in status.conditions if each.reason == "Unschedulable"), None)
    if said is not None:
        job = _with(job, "ReservationScheduled", False, said.reason, said.message, now_s)
    return Step(job, again_s=AGAIN_S)


def _the_pod_itself(job: PodMigrationJob, seen: Seen, reservation: Reservation, now_s: float) -> Step:
    """A pod that could not be scheduled has the reservation to itself: it need not be evicted."""
    pod = seen.pod
    if pod is not None and pod.spec.node_name:
        return _succeeded(_with(job, "PodScheduled", True, "", "", now_s), now_s)
    used_by = {owner.uid for owner in reservation.status.current_owners}
    if reservation.status.phase is ReservationPhase.SUCCEEDED and job.spec.pod_ref.uid not in used_by:
        return _failed(job, seen, "ForbiddenMigratePod", TAKEN, now_s)
    return Step(job, again_s=AGAIN_S)


def _taken_away(job: PodMigrationJob, seen: Seen, reservation: Reservation, now_s: float) -> Step:
    """Another pod uses the room while the pod is still there: the room of the job that this pod came for will do."""
    left = left_by_taker(reservation, seen.siblings)
    if left is not None:
        taken = _referring_to(job, left)
        status = replace(taken.status, node_name=left.status.node_name)
        return Step(replace(taken, status=status), (TakeOverReservation(left.metadata.name),), SOON_S)
    if will_be_traded(seen.siblings):
        return Step(job, again_s=SOON_S)
    return _failed(job, seen, "ForbiddenMigratePod", TAKEN, now_s)


def awaits_leave(job: PodMigrationJob) -> bool:
    """Whether a job runs and has not started to make its pod leave."""
    is_running = job.status.phase is PodMigrationJobPhase.RUNNING and not job.spec.paused
    return is_running and not any(_condition(job, type_) for type_ in _ITS_END)


def starts_to_leave(job: PodMigrationJob, after: PodMigrationJob) -> bool:
    """Whether a step is the first that makes a job's pod go. It must not be taken if the pod must stay."""
    return awaits_leave(job) and any(_condition(after, type_) for type_ in _ITS_END)


def gives_up_late(job: PodMigrationJob, after: PodMigrationJob) -> bool:
    """Whether a step ends a job in failure after the job started to evict its pod. The pod must be read again before
    that: it may have left."""
    failed = after.status.phase is PodMigrationJobPhase.FAILED
    return failed and not job.is_over and _condition(job, "Eviction") is not None


def _evict(job: PodMigrationJob, seen: Seen, args: MigrationControllerArgs, now_s: float) -> Step | None:
    """What evicting takes; None once the pod is gone."""
    if _is_true(job, "Eviction"):
        return None
    pod, begun = seen.pod, _condition(job, "Eviction")
    if not _is_still_there(job, seen):
        told = _condition(job, "Notice")
        if begun is None and (told is None or told.reason != "Given"):
            return _failed(job, seen, "MissingPod", "the pod is gone, or another has its name", now_s)
        said = f"pod {job.spec.pod_ref.namespace}/{job.spec.pod_ref.name} is gone"
        return Step(_with(job, "Eviction", True, "EvictComplete", said, now_s), again_s=0.0)
    assert pod is not None
    if pod.metadata.deletion_timestamp is not None and begun is not None:
        return Step(_evicting(job, pod, now_s), again_s=AGAIN_S)
    if seen.reservation is not None and seen.reservation.status.phase is ReservationPhase.SUCCEEDED:
        return _taken_away(job, seen, seen.reservation, now_s)
    if seen.must_stay and awaits_leave(job):
        held = replace(job.status, reason="Waiting", message=seen.must_stay)
        return Step(replace(job, status=held), again_s=AGAIN_S)
    policy = _policy(pod, job, args)
    waiting = None if policy == "SoftEviction" else _notice(job, pod, args, now_s)
    if waiting is not None:
        return waiting
    if begun is None:
        return Step(_evicting(job, pod, now_s), again_s=0.0)
    if policy == "SoftEviction" and SOFT_EVICTION.key in pod.metadata.annotations:
        return Step(_evicting(job, pod, now_s), again_s=AGAIN_S)
    meta, given = pod.metadata, job.spec.delete_options
    options = args.default_delete_options if given is None else msgspec.to_builtins(given, str_keys=True)
    action = EvictPod(meta.namespace, meta.name, meta.uid, policy, options, reason_of(job), trigger_of(job))
    return Step(_evicting(job, pod, now_s), (action,), AGAIN_S)


def _notice(job: PodMigrationJob, pod: Pod, args: MigrationControllerArgs, now_s: float) -> Step | None:
    """What notice takes; None once the pod may go."""
    ttl_s = ttl_of(job, args)
    left_s = ttl_s - (now_s - created_s(job, now_s)) if ttl_s else math.inf
    verdict = verdict_on(job, pod, left_s, now_s)
    if isinstance(verdict, Go):
        return None
    if verdict is None:
        said = "the pod asks for notice, and the job has no time left to give it"
        return Step(_with(job, "Notice", False, "TooLate", said, now_s), again_s=min(AGAIN_S, max(0.1, left_s)))
    said = f"the pod is told to go at {from_seconds(verdict.until_s)}, or when it says that it is ready"
    told = _with(job, "Notice", False, "Given", said, now_s)
    return Step(told, telling(pod, verdict, asker_of(job)), min(AGAIN_S, max(0.1, verdict.until_s - now_s)))


def _scales_first(job: PodMigrationJob, seen: Seen) -> bool:
    """Whether the replacement comes before the old pod goes; so it stays once that has begun."""
    if seen.scaling is None:
        return False
    return _condition(job, "ScaledFirst") is not None or is_wanted(
        seen.scaling.deployment, autoscaled=seen.scaling.autoscaled
    )


def _scale_first(
    job: PodMigrationJob,
    seen: Seen,
    scaling: Scaling,
    reservation: Reservation,
    args: MigrationControllerArgs,
    now_s: float,
) -> Step:
    """The replacement uses the reservation and is ready, then its workload gives the old pod up."""
    record = record_of(scaling.deployment)
    begun = _condition(job, "ScaledFirst") is not None or (record is not None and record.job == job.metadata.uid)
    if not begun and reservation.status.current_owners:
        return _taken_away(job, seen, reservation, now_s)
    old = seen.pod if _stays(job, seen) else None
    replacement = seen.bound
    if replacement is None and _has_waited(job, "ScaledFirst", now_s):
        replacement = _came_elsewhere(job, seen, now_s)
    scene = scene_of(job, scaling, old, replacement, begun=begun)
    taken = plan(scene, now_s)
    meta = scaling.deployment.metadata
    if isinstance(taken, PatchDeployment):
        scaled = _with(job, "ScaledFirst", False, "Scaling", taken.what, now_s)
        return Step(scaled, (Change("Deployment", meta.namespace, meta.name, taken.patch),), SOON_S)
    if isinstance(taken, Wait):
        waiting = _with(job, "ScaledFirst", False, "WaitForReplacement", taken.why, now_s) if begun else job
        return Step(waiting, again_s=AGAIN_S if taken.again_s is None else min(AGAIN_S, taken.again_s))
    if isinstance(taken, GiveUp):
        return _failed(job, seen, "ScaleFirstFailed", taken.why, now_s)
    # The reservation has its pod, as it should: nobody has taken it away.
    apart = dataclasses.replace(seen, reservation=None)
    if isinstance(taken, PatchPod) and old is not None:
        waiting_step = _notice(job, old, args, now_s)
        if waiting_step is not None:
            return waiting_step
        evicting = _evicting(job, old, now_s)
        return Step(evicting, (Change("Pod", old.metadata.namespace, old.metadata.name, taken.patch),), SOON_S)
    done = job if isinstance(taken, EvictOld) else _with(job, "ScaledFirst", True, "Replaced", "", now_s)
    return _evict(done, apart, args, now_s) or _await_replacement(done, seen, reservation, now_s)


def _evicting(job: PodMigrationJob, pod: Pod, now_s: float) -> PodMigrationJob:
    """That the pod is to go, in the words that Koordinator's users know. It may have a node by now."""
    job = _noted(job, {JOB_NODE.key: pod.spec.node_name})
    said = f'Pod "{pod.metadata.key}" evicted from node "{pod.spec.node_name}" {cause_of(job)}'
    return _with(job, "Eviction", False, "Evicting", said, now_s)


def _policy(pod: Pod, job: PodMigrationJob, args: MigrationControllerArgs) -> Policy:
    """As the pod says, else the job, else the configuration; a label that cannot be understood says nothing."""
    try:
        found = evict_policy(pod.metadata, job.metadata)
    except AnnotationError:
        found = None
    return cast(Policy, found or args.eviction_policy)


def reason_of(job: PodMigrationJob) -> str:
    return EVICT_REASON.read(job.metadata, "PodMigrationJob")


def cause_of(job: PodMigrationJob) -> str:
    """Why a pod goes, at the end of a sentence. Jobs that people make by hand need not have a reason."""
    reason = reason_of(job)
    return f'by the reason "{reason}"' if reason else f"by the PodMigrationJob {job.metadata.name}"


def trigger_of(job: PodMigrationJob) -> str:
    return EVICT_TRIGGER.read(job.metadata, "PodMigrationJob")


def refused(job: PodMigrationJob, action: Action, why: str, now_s: float) -> PodMigrationJob:
    """The job as it is written where an action failed: it is tried again until the job is too old."""
    if isinstance(action, MakeReservation):
        return _with(job, "ReservationCreated", False, "FailedCreateReservation", why, now_s)
    if isinstance(action, EvictPod):
        return _with(job, "Eviction", False, "FailedEvict", why, now_s)
    return job


def _await_replacement(job: PodMigrationJob, seen: Seen, reservation: Reservation, now_s: float) -> Step:
    owners = reservation.status.current_owners
    if not owners and _holds_nothing(reservation):
        # Nobody uses what is nothing: the scheduler has shown that a node would take such a pod, and that is all.
        return _without_it(job, reservation, "", now_s)
    if not owners and seen.whole is not None and _has_waited(job, "Eviction", now_s):
        came = _came_elsewhere(job, seen, now_s)
        if came is not None:
            meta = came.metadata
            ref = ObjectReference(namespace=meta.namespace, name=meta.name, uid=meta.uid)
            job = replace(job, status=replace(job.status, pod_ref=ref, node_name=came.spec.node_name))
        said = "its workload has all of its pods, and none of them uses the reservation"
        return _without_it(job, reservation, said, now_s)
    if not owners and not _is_true(job, "ReservationBound"):
        message = f"waiting for a pod to use reservation {reservation.metadata.name}"
        if reservation.status.phase is ReservationPhase.FAILED:
            cause = _words(reservation) or "its room is lost"
            message = f"reservation {reservation.metadata.name} has failed ({cause}): waiting for a pod on any node"
        waiting = _with(job, "PodBoundReservation", False, "WaitForPodBindReservation", message, now_s)
        return Step(waiting, again_s=AGAIN_S)
    if owners:
        owner = owners[0]
        ref = ObjectReference(namespace=owner.namespace, name=owner.name, uid=owner.uid)
        job = replace(job, status=replace(job.status, pod_ref=ref))
    job = _with(job, "PodBoundReservation", True, "", "", now_s)
    return _await_ready(_with(job, "ReservationBound", True, "", "", now_s), seen, now_s)


def _without_it(job: PodMigrationJob, reservation: Reservation, said: str, now_s: float) -> Step:
    """The pod has moved, and nobody will use the room that was held."""
    done = _succeeded(job, now_s).job
    drop = (DropReservation(reservation.metadata.name),) if is_own(job, reservation) else ()
    return Step(replace(done, status=replace(done.status, message=said)), drop)


def _has_waited(job: PodMigrationJob, since: str, now_s: float) -> bool:
    """Whether a condition is as it is for so long that a pod which uses the reservation would have come."""
    found = _condition(job, since)
    return found is not None and now_s - _time_s(found.last_transition_time, now_s) >= UNUSED_S


def _came_elsewhere(job: PodMigrationJob, seen: Seen, now_s: float) -> Pod | None:
    """The pod that came for the one that goes, if it did not need the reservation: the newest, since the job began."""
    began_s = created_s(job, now_s)
    new = [each for each in seen.whole or () if _time_s(each.metadata.creation_timestamp, 0.0) >= began_s]
    new = [each for each in new if each.metadata.uid != job.spec.pod_ref.uid]
    return max(new, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name), default=None)


def _holds_nothing(reservation: Reservation) -> bool:
    """Whether a reservation was made for a pod that requests nothing."""
    try:
        asked = pod_requests(Pod(spec=reservation.spec.pod_template.spec))
    except BadInput:
        return False
    return not any(asked.values())


def _await_ready(job: PodMigrationJob, seen: Seen, now_s: float) -> Step:
    """A replacement that is gone already counts as ready: its workload makes another, and the room was there."""
    if seen.bound is not None and not is_available(seen.bound):
        name = seen.bound.metadata.key
        return Step(
            _with(job, "BoundPodReady", False, "WaitForBoundPodReady", f"{name} is not ready", now_s), again_s=AGAIN_S
        )
    return _succeeded(_with(job, "BoundPodReady", True, "", "", now_s), now_s)


def _is_still_there(job: PodMigrationJob, seen: Seen) -> bool:
    """Whether the pod itself is there, and not another of its name."""
    return seen.pod is not None and seen.pod.metadata.uid == job.spec.pod_ref.uid


def _has_left(job: PodMigrationJob, seen: Seen) -> bool:
    """Whether the job made its pod go, and it cannot come back: it is gone, or being deleted."""
    return _condition(job, "Eviction") is not None and not _stays(job, seen)


def _is_on(job: PodMigrationJob, seen: Seen, node: str) -> bool:
    return seen.pod is not None and _is_still_there(job, seen) and seen.pod.spec.node_name == node != ""


def _stays(job: PodMigrationJob, seen: Seen) -> bool:
    return seen.pod is not None and _is_still_there(job, seen) and seen.pod.metadata.deletion_timestamp is None


def _owner_is_the_pod(job: PodMigrationJob, reservation: Reservation) -> bool:
    return any(each.object is not None and each.object.uid == job.spec.pod_ref.uid for each in reservation.spec.owners)


def _with_reference(job: PodMigrationJob, reservation: Reservation) -> PodMigrationJob:
    """With the reservation named in the spec, where people and `kubectl get` look for it."""
    options = job.spec.reservation_options or PodMigrateReservationOptions()
    if options.reservation_ref is not None:
        return job
    return _referring_to(job, reservation)


def _referring_to(job: PodMigrationJob, reservation: Reservation) -> PodMigrationJob:
    options, meta = job.spec.reservation_options or PodMigrateReservationOptions(), reservation.metadata
    reference = ObjectReference(RESERVATIONS.api_version, RESERVATIONS.kind, name=meta.name, uid=meta.uid)
    return replace(job, spec=replace(job.spec, reservation_options=replace(options, reservation_ref=reference)))


def _leftovers(job: PodMigrationJob, seen: Seen, now_s: float) -> tuple[Action, ...]:
    """What the job made and nobody will use."""
    if job.status.phase is PodMigrationJobPhase.SUCCEEDED:
        return ()
    back = taken_back(job, seen.pod if _is_still_there(job, seen) else None, seen.scaling, now_s)
    if seen.reservation is not None and is_own(job, seen.reservation):
        return (*back, DropReservation(seen.reservation.metadata.name))
    return back


def _failed(job: PodMigrationJob, seen: Seen, reason: str, message: str, now_s: float) -> Step:
    status = replace(job.status, phase=PodMigrationJobPhase.FAILED, reason=reason, message=message)
    failed = replace(job, status=status)
    return Step(failed, _leftovers(failed, seen, now_s))


def _succeeded(job: PodMigrationJob, now_s: float) -> Step:
    status = replace(job.status, phase=PodMigrationJobPhase.SUCCEEDED, status="Complete", reason="", message="")
    return Step(replace(job, status=status))


def _condition(job: PodMigrationJob, type_: str) -> PodMigrationJobCondition | None:
    return next((each for each in job.status.conditions if each.type == type_), None)


def _is_true(job: PodMigrationJob, type_: str) -> bool:
    found = _condition(job, type_)
    return found is not None and found.status is ConditionStatus.TRUE


def _with(job: PodMigrationJob, type_: str, is_true: bool, reason: str, message: str, now_s: float) -> PodMigrationJob:
    """A job with another condition, which its status mirrors. One that says the same keeps its time."""
    value = ConditionStatus.TRUE if is_true else ConditionStatus.FALSE
    old = _condition(job, type_)
    if old is not None and (old.status, old.reason, old.message) == (value, reason, message):
        return job
    kept_time = old.last_transition_time if old is not None and old.status is value else from_seconds(now_s)
    new = PodMigrationJobCondition(type_, value, reason, message, last_transition_time=kept_time)
    conditions = job.status.conditions
    conditions = (*conditions, new) if old is None else tuple(new if each is old else each for each in conditions)
    status: PodMigrationJobStatus = replace(
        job.status, conditions=conditions, status=type_, reason=reason, message=message
    )
    return replace(job, status=status)


def _words(reservation: Reservation) -> str:
    return next((each.message for each in reservation.status.conditions if each.message), "")


def created_s(job: PodMigrationJob, now_s: float) -> float:
    return _time_s(job.metadata.creation_timestamp, now_s)


def _time_s(text: str | None, now_s: float) -> float:
    try:
        return parse_timestamp(text or "")
    except TimestampError:
        return now_s
