"""A Job's pods: which have ended and how, what a failure means, and what replaces one.

A pod carries the tracking finalizer until the Job's status has counted it, so that no end goes uncounted, and none is
counted twice. A pod that is deleted before its end counts as failed, unless the Job replaces failed pods only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from koord.api.kubernetes.core import Pod
from koord.api.kubernetes.words import PodPhase
from koord.api.kubernetes.workloads import ExitCodeRequirement, Job, PodFailureRule
from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord.api.text.whole_number import INT32_MOST, natural_number
from koord.api.workloads import job_pods
from koord.api.workloads.job_pods import INDEX, INDEX_FAILURES, INDEX_IGNORED, TRACKING

BACKOFF_S: Final = 10.0
BACKOFF_CAP_S: Final = 600.0

Verdict = Literal["count", "ignore", "fail-index", "fail-job"]


def is_tracked(pod: Pod) -> bool:
    return TRACKING in pod.metadata.finalizers


def replaces_failed_only(job: Job) -> bool:
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def has_failed(job: Job, pod: Pod) -> bool:
    if pod.status.phase == PodPhase.FAILED:
        return True
    leaving = pod.metadata.deletion_timestamp is not None and pod.status.phase != PodPhase.SUCCEEDED
    return leaving and not replaces_failed_only(job)


def index_of(job: Job, pod: Pod) -> int | None:
    """The pod's completion index, if it has one that the Job has."""
    return natural_number(pod.metadata.annotations.get(INDEX, ""), (job.spec.completions or 0) - 1)


def index_failures(pod: Pod, *, ignored: bool = False) -> int:
    """How often pods of this index had failed before this one."""
    text = pod.metadata.annotations.get(INDEX_IGNORED if ignored else INDEX_FAILURES, "")
    return natural_number(text, INT32_MOST) or 0


def verdict(job: Job, pod: Pod) -> tuple[Verdict, str]:
    """What a failed pod means for its Job, and why: the first rule that matches decides."""
    policy = job.spec.pod_failure_policy
    for number, rule in enumerate(policy.rules if policy else ()):
        why = _matches(rule, pod)
        if why:
            note = f"{why}, by rule {number} of the pod failure policy"
            match rule.action:
                case "Ignore":
                    return "ignore", note
                case "FailIndex":
                    return "fail-index", note
                case "FailJob":
                    return "fail-job", note
                case _:
                    return "count", note
    return "count", ""


def _matches(rule: PodFailureRule, pod: Pod) -> str:
    who = f"pod {pod.metadata.key}"
    if rule.on_exit_codes is not None:
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
            ended = status.state.terminated
            if ended is not None and _exit_matches(rule.on_exit_codes, status.name, ended.exit_code):
                return f"container {status.name} of {who} ended with exit code {ended.exit_code}"
        return ""
    for condition in pod.status.conditions:
        if any(p.type == condition.type and p.status == condition.status for p in rule.on_pod_conditions):
            return f"{who} has condition {condition.type}"
    return ""


def _exit_matches(wanted: ExitCodeRequirement, container: str, code: int) -> bool:
    if code == 0 or (wanted.container_name is not None and wanted.container_name != container):
        return False
    return (code in wanted.values) == (wanted.operator == "In")


def finished_at_s(pod: Pod) -> float:
    """When it ended: its last container's end, else when it stopped being ready, was deleted, or was made."""
    ends = [status.state.terminated for status in pod.status.container_statuses]
    times = [_time(end.finished_at) if end is not None else None for end in ends]
    ended_s = [time_s for time_s in times if time_s is not None]
    if ended_s and len(ended_s) == len(times):
        return max(ended_s)
    ready = pod.status.condition("Ready")
    if ready is not None and ready.status == "False" and (since_s := _time(ready.last_transition_time)) is not None:
        return since_s
    deleted_s = _time(pod.metadata.deletion_timestamp)
    if deleted_s:
        return deleted_s - (pod.metadata.deletion_grace_period_seconds or 0)
    return _time(pod.metadata.creation_timestamp) or 0.0


def backoff_left_s(failures: int, last_failure_s: float, now_s: float) -> float:
    """How long to wait before the next pod: 10 s after the first failure, doubled by each, 10 minutes at most."""
    if failures == 0:
        return 0.0
    return max(0.0, min(BACKOFF_CAP_S, BACKOFF_S * 2.0 ** min(failures - 1, 16)) - (now_s - last_failure_s))


def wait_for_failures_s(job: Job, pods: Iterable[Pod], now_s: float) -> float:
    """The wait that failures since the last success demand."""
    succeeded, failed = [], []
    for pod in pods:
        if pod.status.phase == PodPhase.SUCCEEDED:
            succeeded.append(finished_at_s(pod))
        elif has_failed(job, pod):
            failed.append(finished_at_s(pod))
    last_success_s = max(succeeded, default=0.0)
    since = [time_s for time_s in failed if time_s > last_success_s]
    return backoff_left_s(len(since), max(since, default=0.0), now_s)


def restarts(pods: Iterable[Pod]) -> int:
    """How often containers of pods that still run were started again; for pods that restart by themselves."""
    return sum(
        status.restart_count
        for pod in pods
        if pod.status.phase in (PodPhase.RUNNING, PodPhase.PENDING)
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )


def last_failed(job: Job, pods: Sequence[Pod], settled: frozenset[int]) -> dict[int, Pod]:
    """For each index that is still to do, its last failed pod: it remembers how often the index has failed."""
    last_of_index: dict[int, Pod] = {}
    for pod in pods:
        index = index_of(job, pod)
        if index is None or index in settled or not is_tracked(pod) or not has_failed(job, pod):
            continue
        last = last_of_index.get(index)
        if last is None or _failure_order(pod) >= _failure_order(last):
            last_of_index[index] = pod
    return last_of_index


def _failure_order(pod: Pod) -> tuple[int, float]:
    return index_failures(pod) + index_failures(pod, ignored=True), finished_at_s(pod)


def new_pod(job: Job, index: int | None, replaces: Pod | None = None) -> dict[str, Any]:
    """A pod of the Job. `replaces`: the failed pod of its index, which remembers the failures so far."""
    if replaces is None:
        return job_pods.new_pod(job, index)
    failures, ignored = index_failures(replaces), index_failures(replaces, ignored=True)
    if verdict(job, replaces)[0] == "ignore":
        return job_pods.new_pod(job, index, failures, ignored + 1)
    return job_pods.new_pod(job, index, failures + 1, ignored)


def _time(text: str | None) -> float | None:
    try:
        return parse_timestamp(text) if text else None
    except TimestampError:
        return None
