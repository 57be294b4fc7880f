"""Why a pod was moved, for which component, and where its replacement went: from jobs, events and annotations.

Asked by `koord explain POD`, also of pods that are gone: as far as the API still has jobs and events about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from koord.api.kubernetes.core import Event
from koord.api.kubernetes.meta import ObjectReference
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.annotations.load import EVICT_REASON, EVICT_TRIGGER, SOFT_EVICTION
from koord.api.protocol.annotations.notice import EVICTION_DEADLINE, EVICTION_READY
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob, PodMigrationJobPhase
from koord.api.protocol.eviction_notice import asked_by, is_ready
from koord.api.text.duration import from_seconds
from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord.offline.deschedule import Descheduled

ENDS: Final = frozenset(
    {
        *("Preempted", "QuotaOverused", "Descheduled", "evictPodSuccess", "EvictionNotice"),
        *("Evicted", "TaintManagerEviction"),
    }
)
"""Reasons of events that say why a pod goes: the scheduler's, the descheduler's, the agent's, Kubernetes' own."""
_MOST_NAMED: Final = 3


def moves_of(
    key: str, pods: Sequence[Pod], jobs: Iterable[PodMigrationJob], events: Iterable[Event], now_s: float
) -> tuple[str, ...]:
    """Sentences, the oldest first. `pods`: all of the pod's namespace, `events`: those about the pod."""
    pod = next((pod for pod in pods if pod.metadata.key == key), None)
    dated: list[tuple[float, str]] = []
    ended_s: float | None = None
    for job in jobs:
        if _key(job.spec.pod_ref) == key:
            dated.append((_created_s(job), _moved(job, pods)))
        elif job.status.pod_ref is not None and _key(job.status.pod_ref) == key:
            dated.append((_created_s(job), _replaces(job)))
    for event in events:
        if event.reason in ENDS and _key(event.regarding) == key:
            at_s = _seconds(event.event_time or event.deprecated_last_timestamp)
            dated.append((at_s, _said(event)))
            if pod is None or pod.metadata.uid != event.regarding.uid:
                ended_s = max(at_s, ended_s or 0.0)
    sentences = [sentence for _, sentence in sorted(dated)]
    if ended_s is not None:
        sentences += _successors(key, pods, ended_s)
    return (*sentences, *(() if pod is None else _notices(pod, now_s)))


def would_move(key: str, decided: Descheduled) -> tuple[str, ...]:
    """What a descheduler would do with a pod now: one sentence, or none where it leaves the pod alone."""
    for migration in decided.migrations:
        if migration.pod == key:
            where = f" to {migration.to}" if migration.to else ""
            when = "now" if migration.allowed else f"later: {migration.why}"
            move = f"would move it from {migration.from_}{where}, {when}. {migration.reason}"
            return (f"the descheduler ({migration.by}) {move}",)
    return ()


def _moved(job: PodMigrationJob, pods: Sequence[Pod]) -> str:
    """One sentence about a job whose pod this is, or was."""
    status, name = job.status, job.metadata.name
    asked = f"{_asked(job)} to move it (PodMigrationJob {name})"
    if status.phase is PodMigrationJobPhase.SUCCEEDED:
        new = status.pod_ref
        if new is None:
            return f"{asked}: it was evicted"
        node = next((pod.spec.node_name for pod in pods if pod.metadata.key == _key(new)), "") or status.node_name
        return f"{asked}: it was replaced by {_key(new)} on {node or 'no node yet'}"
    if status.phase in (PodMigrationJobPhase.FAILED, PodMigrationJobPhase.ABORTED):
        return f"{asked}: {status.phase.value}, {status.reason}: {status.message}".rstrip(": ")
    where = f", to {status.node_name}" if status.node_name else ""
    step = f"{status.status or status.phase.value or 'Pending'}{f': {status.message}' if status.message else ''}"
    return f"{asked}{where}: {step}"


def _replaces(job: PodMigrationJob) -> str:
    return f"it replaces {_key(job.spec.pod_ref)}: {_asked(job)} to move that pod (PodMigrationJob {job.metadata.name})"


def _asked(job: PodMigrationJob) -> str:
    trigger = EVICT_TRIGGER.read(job.metadata, "PodMigrationJob")
    reason = EVICT_REASON.read(job.metadata, "PodMigrationJob")
    who = f"koord-descheduler ({trigger})" if trigger else "somebody"
    return f"{who} asked{f', because {reason},' if reason else ''}"


def _said(event: Event) -> str:
    when = event.event_time or event.deprecated_last_timestamp or ""
    return f"{when.partition('.')[0].removesuffix('Z')}Z {event.reporting_controller}: {event.note} ({event.reason})"


def _successors(key: str, pods: Sequence[Pod], ended_s: float) -> list[str]:
    """Pods of the same workload that came since, as far as names tell."""
    stem = f"{key.rpartition('-')[0]}-"
    since = [
        pod
        for pod in pods
        if (pod.metadata.key == key or (pod.metadata.generate_name and pod.metadata.key.startswith(stem)))
        and _seconds(pod.metadata.creation_timestamp) >= int(ended_s)
    ]
    if not since:
        return []
    named = [f"{pod.metadata.key} on {pod.spec.node_name or 'no node yet'}" for pod in since[:_MOST_NAMED]]
    more = f" and {len(since) - _MOST_NAMED} more" if len(since) > _MOST_NAMED else ""
    return [f"since then its workload has made {', '.join(named)}{more}"]


def _notices(pod: Pod, now_s: float) -> list[str]:
    meta = pod.metadata
    sentences = []
    for entry in asked_by(meta, now_s):
        left_s = max(0.0, parse_timestamp(entry.deadline) - now_s)
        about = f", for {entry.about}" if entry.about else ""
        sentences.append(
            f"{entry.by} asked it to go ({entry.reason}{about}): {entry.message}; it has notice until {entry.deadline},"
            f" for another {from_seconds(int(left_s))}"
        )
    if sentences and is_ready(meta):
        sentences.append("it says that it is ready to go")
    elif sentences:
        deadline = meta.annotations.get(EVICTION_DEADLINE.key, "")
        sentences.append(f"it goes earlier if it says that it is ready: {EVICTION_READY.key}={deadline}")
    try:
        wish = SOFT_EVICTION.read(meta)
    except AnnotationError:
        wish = None
    if wish is not None:
        since = f" since {wish.timestamp}" if wish.timestamp else ""
        why = f" ({wish.reason})" if wish.reason else ""
        sentences.append(f"{wish.initiator or 'a user'} asks its operator{since} to take it away{why}")
    return sentences


def _key(ref: ObjectReference) -> str:
    return f"{ref.namespace}/{ref.name}"


def _created_s(job: PodMigrationJob) -> float:
    return _seconds(job.metadata.creation_timestamp)


def _seconds(text: str | None) -> float:
    try:
        return parse_timestamp(text or "")
    except TimestampError:
        return 0.0
