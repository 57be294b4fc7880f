"""Job: runs pods until enough have succeeded, or until the Job has failed.

Counting survives any crash: a finished pod's uid goes into `uncountedTerminatedPods`, then its finalizer is removed,
then the uid is folded into the counter. (A succeeded index is recorded in `completedIndexes` instead.) The status is
written first, and only on top of the version it was computed from; pods are created and deleted after it.

A Job ends in two steps: SuccessCriteriaMet or FailureTarget when its result is decided, Complete or Failed when no pod
is running and all are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from koord.api.kinds import JOBS, PODS
from koord.api.kubernetes.core import Pod
from koord.api.kubernetes.meta import Condition
from koord.api.kubernetes.words import PodPhase, RestartPolicy
from koord.api.kubernetes.workloads import Job, JobStatus, UncountedPods, template_of
from koord.api.text.timestamp import TimestampError, from_seconds, parse_timestamp
from koord.api.workloads.job_pods import TRACKING, is_indexed
from koord_minicluster.controllers import conditions, job_indexes
from koord_minicluster.controllers.actions import Action, Create, Delete, Patch, Plan, Tell, delete, sooner
from koord_minicluster.controllers.job_pods import (
    backoff_left_s,
    finished_at_s,
    has_failed,
    index_failures,
    index_of,
    is_tracked,
    last_failed,
    new_pod,
    replaces_failed_only,
    restarts,
    verdict,
    wait_for_failures_s,
)
from koord_minicluster.controllers.pods import deleted_first, is_active, is_ready, is_terminating
from koord_minicluster.controllers.status_patch import status_change, status_patch

BURST: Final = 500
MOST_UNCOUNTED: Final = 500
OWN_MANAGER: Final = "kubernetes.io/job-controller"


def is_finished(job: Job) -> bool:
    return conditions.is_true(job.status.conditions, "Complete") or conditions.is_true(job.status.conditions, "Failed")


def is_ours(job: Job) -> bool:
    """Whether no other controller is named to manage it."""
    return job.spec.managed_by in (None, "", OWN_MANAGER)


@dataclass(frozen=True, slots=True)
class End:
    """A Job's fate: SuccessCriteriaMet or FailureTarget."""

    type: str
    reason: str
    message: str

    @property
    def final(self) -> str:
        return "Complete" if self.type == "SuccessCriteriaMet" else "Failed"


@dataclass(frozen=True, slots=True)
class _Picture:
    """A Job and its pods, sorted by what they mean."""

    job: Job
    pods: tuple[Pod, ...]
    active: tuple[Pod, ...]
    completed: frozenset[int]
    "Completion indexes that have succeeded."
    failed_indexes: frozenset[int]
    succeeded: int
    failed: int

    @property
    def terminating(self) -> int:
        return sum(map(is_terminating, self.pods))


def decide(job: Job, pods: Sequence[Pod], now_s: float) -> Plan:
    if is_finished(job) or not is_ours(job):
        return Plan(tuple(_untracked(pods)) if is_finished(job) else ())
    picture = _look(job, pods)
    end = _end(picture, now_s)
    status = _status(picture, end, now_s)
    locked = status_patch(JOBS, job.metadata, status_change(job.status, status), locked=True)
    actions: list[Action] = [*locked, *_counted(picture, status, end)]
    again_in_s = _deadline_in_s(job, status, now_s)
    done = {c.type: c for c in status.conditions if c.type in ("Complete", "Failed") and c.status == "True"}
    for condition in done.values():
        word = "Completed" if condition.type == "Complete" else condition.reason
        actions.append(Tell(word, condition.message, "Normal" if condition.type == "Complete" else "Warning"))
    if end is not None:
        actions += [delete(PODS, pod.metadata) for pod in picture.active]
    elif job.metadata.deletion_timestamp is None:
        changes, wait_s = _pods_wanted(picture, now_s)
        actions += changes
        again_in_s = sooner(again_in_s, wait_s)
    return Plan(tuple(actions), again_in_s)


def expiry(job: Job, now_s: float) -> Plan:
    """A finished Job goes ttlSecondsAfterFinished after its end, its pods first."""
    ttl_s = job.spec.ttl_seconds_after_finished
    if ttl_s is None or not is_finished(job) or job.metadata.deletion_timestamp is not None:
        return Plan()
    ends = [conditions.find(job.status.conditions, type_) for type_ in ("Complete", "Failed")]
    ended_s = max(_time(end.last_transition_time) for end in ends if end is not None and end.status == "True")
    left_s = ended_s + ttl_s - now_s
    if left_s > 0:
        return Plan(again_in_s=left_s)
    meta = job.metadata
    return Plan((Delete(JOBS, meta.namespace, meta.name, meta.uid, propagation="Foreground"),))


def _look(job: Job, pods: Sequence[Pod]) -> _Picture:
    uncounted = job.status.uncounted_terminated_pods or UncountedPods()
    counted = {*uncounted.succeeded, *uncounted.failed}
    new = [pod for pod in pods if is_tracked(pod) and pod.metadata.uid not in counted]
    new_failed = [p for p in new if has_failed(job, p) and _in_range(job, p) and verdict(job, p)[0] != "ignore"]
    completed: frozenset[int] = frozenset()
    failed_indexes: frozenset[int] = frozenset()
    if is_indexed(job):
        ended = {index_of(job, pod) for pod in pods if is_tracked(pod) and pod.status.phase == PodPhase.SUCCEEDED}
        completions = job.spec.completions or 0
        completed = job_indexes.parse(job.status.completed_indexes, completions) | {i for i in ended if i is not None}
        failed_indexes = _failed_indexes(job, pods) - completed
        succeeded = len(completed)
    else:
        new_succeeded = sum(pod.status.phase == PodPhase.SUCCEEDED for pod in new)
        succeeded = job.status.succeeded + len(uncounted.succeeded) + new_succeeded
    failed = job.status.failed + len(uncounted.failed) + len(new_failed)
    active = tuple(pod for pod in pods if is_active(pod))
    return _Picture(job, tuple(pods), active, completed, failed_indexes, succeeded, failed)


def _in_range(job: Job, pod: Pod) -> bool:
    return not is_indexed(job) or index_of(job, pod) is not None


def _failed_indexes(job: Job, pods: Sequence[Pod]) -> frozenset[int]:
    limit = job.spec.backoff_limit_per_index
    if limit is None:
        return frozenset()
    failed = set(job_indexes.parse(job.status.failed_indexes, job.spec.completions or 0))
    for pod in pods:
        index = index_of(job, pod)
        if index is None or not is_tracked(pod) or not has_failed(job, pod):
            continue
        word, _ = verdict(job, pod)
        if word == "fail-index" or (word != "ignore" and index_failures(pod) >= limit):
            failed.add(index)
    return frozenset(failed)


def _end(picture: _Picture, now_s: float) -> End | None:
    """The Job's fate, if it is decided: as the status has it already, else failures before successes."""
    job = picture.job
    for type_ in ("SuccessCriteriaMet", "FailureTarget"):
        condition = conditions.find(job.status.conditions, type_)
        if condition is not None and condition.status == "True":
            return End(type_, condition.reason, condition.message)
    return _failure(picture, now_s) or _success(picture)


def _failure(picture: _Picture, now_s: float) -> End | None:
    job, spec = picture.job, picture.job.spec
    for pod in picture.pods:
        if has_failed(job, pod) and spec.pod_failure_policy is not None:
            word, why = verdict(job, pod)
            if word == "fail-job":
                return End("FailureTarget", "PodFailurePolicy", f"{why[0].upper()}{why[1:]}.")
    if picture.failed > spec.backoff_limit or _restarted_too_often(picture):
        note = f"More than {spec.backoff_limit} pods failed."
        return End("FailureTarget", "BackoffLimitExceeded", note)
    left_s = _deadline_in_s(job, job.status, now_s)
    if left_s is not None and left_s <= 0:
        note = f"The job was active for {spec.active_deadline_seconds} seconds."
        return End("FailureTarget", "DeadlineExceeded", note)
    failed = len(picture.failed_indexes)
    if spec.max_failed_indexes is not None and failed > spec.max_failed_indexes:
        note = f"{failed} indexes failed; {spec.max_failed_indexes} may."
        return End("FailureTarget", "MaxFailedIndexesExceeded", note)
    if failed and failed + len(picture.completed) >= (spec.completions or 0):
        return End("FailureTarget", "FailedIndexes", f"{failed} indexes failed.")
    return None


def _restarted_too_often(picture: _Picture) -> bool:
    spec = picture.job.spec
    if template_of(spec.template).spec.restart_policy is not RestartPolicy.ON_FAILURE:
        return False
    count = restarts(picture.pods)
    return count > 0 if spec.backoff_limit == 0 else count >= spec.backoff_limit


def _success(picture: _Picture) -> End | None:
    spec = picture.job.spec
    policy = spec.success_policy
    for number, rule in enumerate(policy.rules if policy and is_indexed(picture.job) else ()):
        wanted = picture.completed
        if rule.succeeded_indexes is not None:
            named = job_indexes.parse(rule.succeeded_indexes, spec.completions or 0)
            wanted = named & picture.completed
            if rule.succeeded_count is None and wanted != named:
                continue
        if rule.succeeded_count is None or len(wanted) >= rule.succeeded_count:
            return End("SuccessCriteriaMet", "SuccessPolicy", f"Rule {number} of the success policy is met.")
    enough = picture.succeeded > 0 if spec.completions is None else picture.succeeded >= spec.completions
    if enough and not picture.active:
        return End("SuccessCriteriaMet", "CompletionsReached", "As many pods have succeeded as were asked for.")
    return None


def _status(picture: _Picture, end: End | None, now_s: float) -> JobStatus:
    job, old = picture.job, picture.job.status
    tracked = {pod.metadata.uid for pod in picture.pods if is_tracked(pod)}
    uncounted = old.uncounted_terminated_pods or UncountedPods()
    succeeded = [uid for uid in uncounted.succeeded if uid in tracked]
    failed = [uid for uid in uncounted.failed if uid in tracked]
    counted_succeeded = old.succeeded + len(uncounted.succeeded) - len(succeeded)
    counted_failed = old.failed + len(uncounted.failed) - len(failed)
    for pod in picture.pods:
        uid = pod.metadata.uid
        if uid not in tracked or uid in uncounted.succeeded or uid in uncounted.failed:
            continue
        if len(succeeded) + len(failed) >= MOST_UNCOUNTED:
            break
        if pod.status.phase == PodPhase.SUCCEEDED:
            if not is_indexed(job):
                succeeded.append(uid)
        elif _counts_as_failed(picture, pod, end):
            failed.append(uid)
    left = UncountedPods(tuple(succeeded), tuple(failed))
    current = _conditions(picture, end, left, now_s)
    start = _start_time(job, current, now_s)
    complete = conditions.find(current, "Complete")
    return JobStatus(
        active=len(picture.active),
        ready=sum(map(is_ready, picture.active)),
        succeeded=len(picture.completed) if is_indexed(job) else counted_succeeded,
        failed=counted_failed,
        terminating=picture.terminating,
        completed_indexes=job_indexes.text(picture.completed),
        failed_indexes=job_indexes.text(picture.failed_indexes),
        uncounted_terminated_pods=left,
        start_time=start,
        completion_time=complete.last_transition_time if complete is not None else old.completion_time,
        conditions=current,
    )


def _counts_as_failed(picture: _Picture, pod: Pod, end: End | None) -> bool:
    job = picture.job
    ended_with_job = end is not None and end.final == "Failed" and pod.metadata.deletion_timestamp is not None
    if not (has_failed(job, pod) or ended_with_job) or not _in_range(job, pod):
        return False
    return not has_failed(job, pod) or verdict(job, pod)[0] != "ignore"


def _start_time(job: Job, current: tuple[Condition, ...], now_s: float) -> str | None:
    """A Job that is resumed starts again."""
    resumed = conditions.is_true(job.status.conditions, "Suspended") and not conditions.is_true(current, "Suspended")
    if job.status.start_time is None or resumed:
        return None if job.spec.suspend else from_seconds(now_s)
    return job.status.start_time


def _conditions(picture: _Picture, end: End | None, left: UncountedPods, now_s: float) -> tuple[Condition, ...]:
    job = picture.job
    current = job.status.conditions
    if end is not None:
        current = conditions.with_condition(current, end.type, "True", end.reason, end.message, now_s)
        if not picture.active and not picture.terminating and not left.succeeded and not left.failed:
            current = conditions.with_condition(current, end.final, "True", end.reason, end.message, now_s)
    elif job.spec.suspend:
        current = conditions.with_condition(
            current, "Suspended", "True", "JobSuspended", "The job is suspended.", now_s
        )
    elif conditions.is_true(current, "Suspended"):
        current = conditions.with_condition(current, "Suspended", "False", "JobResumed", "The job goes on.", now_s)
    return current


def _counted(picture: _Picture, status: JobStatus, end: End | None) -> list[Patch]:
    """Finalizers of pods that the status (as it will be by then) has, or that need no counting."""
    job = picture.job
    left = status.uncounted_terminated_pods or UncountedPods()
    noted = {*left.succeeded, *left.failed}
    full = len(noted) >= MOST_UNCOUNTED
    settled = picture.completed | picture.failed_indexes | {index_of(job, pod) for pod in picture.active} - {None}
    remembered: set[str] = set()
    if job.spec.backoff_limit_per_index is not None and end is None:
        kept = last_failed(job, picture.pods, frozenset(i for i in settled if i is not None))
        remembered = {pod.metadata.uid for pod in kept.values()}
    going = job.metadata.deletion_timestamp is not None
    removed = []
    for pod in picture.pods:
        uid = pod.metadata.uid
        if not is_tracked(pod) or (uid in remembered and not going):
            continue
        over = pod.is_finished or has_failed(job, pod)
        ended_with_job = end is not None and pod.metadata.deletion_timestamp is not None
        if going or uid in noted or (over and not full) or ended_with_job:
            removed.append(untrack(pod))
    return removed


def _untracked(pods: Sequence[Pod]) -> list[Patch]:
    return [untrack(pod) for pod in pods if is_tracked(pod)]


def untrack(pod: Pod) -> Patch:
    meta = pod.metadata
    body = {"metadata": {"uid": meta.uid, "$deleteFromPrimitiveList/finalizers": [TRACKING]}}
    return Patch(PODS, meta.namespace, meta.name, body, gone_ok=True)


def _pods_wanted(picture: _Picture, now_s: float) -> tuple[list[Action], float | None]:
    """Pods to make, or to delete, never both at once; and how long to wait before more can be made."""
    job, spec = picture.job, picture.job.spec
    if spec.suspend:
        return _given_up(picture.active), None
    if spec.completions is None:
        wanted = len(picture.active) if picture.succeeded else spec.parallelism
    else:
        wanted = max(0, min(spec.parallelism, spec.completions - picture.succeeded - len(picture.failed_indexes)))
    surplus = _surplus(picture, len(picture.active) - wanted, now_s)
    if surplus:
        return _given_up(surplus[:BURST]), None
    leaving = picture.terminating if replaces_failed_only(job) else 0
    missing = min(wanted - len(picture.active) - leaving, BURST)
    if missing <= 0:
        return [], None
    if spec.backoff_limit_per_index is None:
        wait_s = wait_for_failures_s(job, picture.pods, now_s)
        if wait_s > 0:
            return [], wait_s
    if not is_indexed(job):
        body = new_pod(job, None)
        return [Create(PODS, job.metadata.namespace, body)] * missing, None
    return _indexed_pods(picture, missing, now_s)


def _given_up(pods: Sequence[Pod]) -> list[Action]:
    """Deleted though nothing was wrong with them: without their finalizer they are not counted as failed."""
    return [*_untracked(pods), *(delete(PODS, pod.metadata) for pod in pods)]


def _indexed_pods(picture: _Picture, missing: int, now_s: float) -> tuple[list[Action], float | None]:
    """Pods for the lowest indexes that are still to do."""
    job = picture.job
    taken = {index_of(job, pod) for pod in picture.active}
    if replaces_failed_only(job):
        taken |= {index_of(job, pod) for pod in picture.pods if is_terminating(pod)}
    busy = picture.completed | picture.failed_indexes | {index for index in taken if index is not None}
    before = last_failed(job, picture.pods, busy) if job.spec.backoff_limit_per_index is not None else {}
    created: list[Action] = []
    waits_s: list[float] = []
    for index in range(job.spec.completions or 0):
        if len(created) == missing:
            break
        if index in busy:
            continue
        replaced = before.get(index)
        if replaced is not None:
            failures = index_failures(replaced) + index_failures(replaced, ignored=True) + 1
            wait_s = backoff_left_s(failures, finished_at_s(replaced), now_s)
            if wait_s > 0:
                waits_s.append(wait_s)
                continue
        created.append(Create(PODS, job.metadata.namespace, new_pod(job, index, replaced)))
    return created, min(waits_s, default=None)


def _surplus(picture: _Picture, count: int, now_s: float) -> list[Pod]:
    """Active pods to delete: first pods with an invalid or duplicate index, then in the usual deletion order."""
    job = picture.job
    ranked = deleted_first(picture.active, picture.active, now_s)
    if not is_indexed(job):
        return ranked[: max(0, count)]
    seen: set[int] = set()
    extra, rest = [], []
    for pod in reversed(ranked):
        index = index_of(job, pod)
        if index is None or index in seen:
            extra.append(pod)
        else:
            seen.add(index)
            rest.append(pod)
    return extra + list(reversed(rest))[: max(0, count - len(extra))]


def _deadline_in_s(job: Job, status: JobStatus, now_s: float) -> float | None:
    deadline_s = job.spec.active_deadline_seconds
    if deadline_s is None or job.spec.suspend or status.start_time is None:
        return None
    return _time(status.start_time) + deadline_s - now_s


def _time(text: str | None) -> float:
    try:
        return parse_timestamp(text) if text else 0.0
    except TimestampError:
        return 0.0
