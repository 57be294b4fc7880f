"""The status of a Deployment: counts, whether enough pods are available, and whether its rollout progresses.

`kubectl rollout status` waits for the condition `Progressing`: True with NewReplicaSetAvailable when done, False with
ProgressDeadlineExceeded when nothing has changed for progressDeadlineSeconds. Its update time is the last progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from koord.api.kubernetes.workloads import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from koord.api.text.timestamp import TimestampError, from_seconds, parse_timestamp
from koord_minicluster.controllers import conditions
from koord_minicluster.controllers.rollout import limits

NO_DEADLINE_S: Final = 2**31 - 1
COMPLETE: Final = "NewReplicaSetAvailable"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
PAUSED: Final = "DeploymentPaused"

Conditions = tuple[DeploymentCondition, ...]


def status(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], created: str, now_s: float
) -> DeploymentStatus:
    """`created` is the name of the new ReplicaSet where it is being made just now."""
    everything = [*old, *([new] if new else [])]
    available = sum(rs.status.available_replicas for rs in everything)
    terminating = [rs.status.terminating_replicas for rs in everything if rs.status.observed_generation]
    counted = DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(rs.status.replicas for rs in everything),
        updated_replicas=new.status.replicas if new else 0,
        ready_replicas=sum(rs.status.ready_replicas for rs in everything),
        available_replicas=available,
        unavailable_replicas=max(0, sum(rs.spec.replicas for rs in everything) - available),
        terminating_replicas=None if None in terminating else sum(n for n in terminating if n is not None),
        collision_count=deployment.status.collision_count,
    )
    current = _availability(deployment, available, now_s)
    progressed = _progress(deployment, counted, current, new.metadata.name if new else "", created, now_s)
    return _with_conditions(counted, _failures(progressed, new, old))


def complete(deployment: Deployment, now: DeploymentStatus) -> bool:
    """Whether all pods are of the new template, and of use, and nothing of the old is left."""
    replicas = deployment.spec.replicas
    return (
        now.updated_replicas == now.replicas == now.available_replicas == replicas
        and now.observed_generation >= deployment.metadata.generation
    )


def check_progress_in_s(deployment: Deployment, now: DeploymentStatus, now_s: float) -> float | None:
    """When to look whether the rollout is stuck."""
    progressing = conditions.find(now.conditions, "Progressing")
    if progressing is None or not _has_deadline(deployment) or progressing.reason in (TIMED_OUT, COMPLETE, PAUSED):
        return None
    since_s = _time(progressing.last_update_time)
    # A second more, since times are written in whole seconds.
    return max(1.0, since_s + deployment.spec.progress_deadline_seconds + 1 - now_s)


def _availability(deployment: Deployment, available: int, now_s: float) -> Conditions:
    current = deployment.status.conditions
    if available >= deployment.spec.replicas - limits(deployment).unavailable:
        return _set(current, "Available", "True", "MinimumReplicasAvailable", "Enough pods are available.", now_s)
    note = "Fewer pods are available than there must be at least."
    return _set(current, "Available", "False", "MinimumReplicasUnavailable", note, now_s)


def _progress(
    deployment: Deployment, now: DeploymentStatus, listed: Conditions, new: str, created: str, now_s: float
) -> Conditions:
    if not _has_deadline(deployment):
        return conditions.without(listed, "Progressing")
    current = conditions.find(listed, "Progressing")
    reason = current.reason if current else ""
    if deployment.spec.paused:
        if reason in (PAUSED, TIMED_OUT):
            return listed
        return _set(listed, "Progressing", "Unknown", PAUSED, "The deployment is paused.", now_s)
    if created:
        return _set(listed, "Progressing", "True", "NewReplicaSetCreated", f"Made replica set {created}.", now_s)
    if reason == PAUSED:
        return _set(listed, "Progressing", "Unknown", "DeploymentResumed", "The deployment goes on.", now_s)
    if reason == COMPLETE and now.replicas == now.updated_replicas:
        return listed
    what = f"Replica set {new}" if new else f"Deployment {deployment.metadata.name}"
    if complete(deployment, now):
        return _set(listed, "Progressing", "True", COMPLETE, f"{what} is rolled out.", now_s)
    if _moved(deployment.status, now):
        # Every move counts, also where the words stay the same.
        return _set(listed, "Progressing", "True", "ReplicaSetUpdated", f"{what} gets on.", now_s, touch=True)
    if current is None:
        return _set(listed, "Progressing", "True", "FoundNewReplicaSet", f"{what} is there.", now_s) if new else listed
    deadline_s = _time(current.last_update_time) + deployment.spec.progress_deadline_seconds
    if reason not in (TIMED_OUT, COMPLETE) and now_s > deadline_s:
        note = f"{what} has not moved for {deployment.spec.progress_deadline_seconds} seconds."
        return _set(listed, "Progressing", "False", TIMED_OUT, note, now_s)
    return listed


def _moved(before: DeploymentStatus, now: DeploymentStatus) -> bool:
    return (
        now.updated_replicas > before.updated_replicas
        or now.replicas - now.updated_replicas < before.replicas - before.updated_replicas
        or now.ready_replicas > before.ready_replicas
        or now.available_replicas > before.available_replicas
    )


def _failures(current: Conditions, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Conditions:
    """Pods that could not be made, as their ReplicaSet tells; the new one's trouble counts most."""
    for rs in (*([new] if new else []), *old):
        failure = conditions.find(rs.status.conditions, "ReplicaFailure")
        if failure is not None:
            since = failure.last_transition_time
            condition = DeploymentCondition(
                "ReplicaFailure", failure.status, failure.reason, failure.message, since, since
            )
            return (*conditions.without(current, "ReplicaFailure"), condition)
    return conditions.without(current, "ReplicaFailure")


def _set(
    current: Conditions, type_: str, status: str, reason: str, message: str, now_s: float, *, touch: bool = False
) -> Conditions:
    old = conditions.find(current, type_)
    if old is not None and old.status == status and old.reason == reason and not touch:
        return current
    now = from_seconds(now_s)
    since = old.last_transition_time if old is not None and old.status == status else now
    return (*conditions.without(current, type_), DeploymentCondition(type_, status, reason, message, now, since))


def _with_conditions(counted: DeploymentStatus, current: Conditions) -> DeploymentStatus:
    return DeploymentStatus(
        counted.observed_generation,
        counted.replicas,
        counted.updated_replicas,
        counted.ready_replicas,
        counted.available_replicas,
        counted.unavailable_replicas,
        counted.terminating_replicas,
        counted.collision_count,
        current,
    )


def _has_deadline(deployment: Deployment) -> bool:
    return deployment.spec.progress_deadline_seconds < NO_DEADLINE_S


def _time(text: str | None) -> float:
    try:
        return parse_timestamp(text) if text else 0.0
    except TimestampError:
        return 0.0
