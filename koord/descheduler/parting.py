"""How a pod leaves its node when a job moves it: after a notice if the pod asks for it, and after its replacement if
its Deployment asks for that.

`koord.descheduler.migration` asks before it evicts a pod. The result is patches, for the pod and for its Deployment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.workloads import Deployment
from koord.api.protocol.annotations.load import EVICT_REASON, EVICT_TRIGGER
from koord.api.protocol.annotations.notice import EVICTION_ASKED_BY
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.protocol.eviction_notice import Asker, Go, Tell, Verdict, asked_by, concerns, decide, is_of, withdrawal
from koord.api.protocol.names import CREATED_BY_DESCHEDULER
from koord.descheduler.scale_first import Scene, record_of, undo, unmark

KEPT_S: Final = 30.0
"""The part of a job's time that is reserved for the steps after a notice: the eviction and the replacement."""
BY_HAND: Final = "PodMigrationJob"
"""The eviction reason if no plugin requested the move."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """The Deployment of a pod, where it asks for a replacement first."""

    deployment: Deployment
    is_changing: bool = False
    "Whether it is rolling out."
    autoscaled: bool = False
    "Whether a HorizontalPodAutoscaler sets its replicas, or that is unknown."


@dataclass(frozen=True, slots=True)
class Change:
    """A patch of the pod, its status or its Deployment."""

    of: Literal["Pod", "PodStatus", "Deployment"]
    namespace: str
    name: str
    patch: Mapping[str, Any]
    event_text: str = ""
    "The text for the pod's event."


def asker_of(job: PodMigrationJob) -> Asker:
    trigger = EVICT_TRIGGER.read(job.metadata, "PodMigrationJob") or BY_HAND
    reason = EVICT_REASON.read(job.metadata, "PodMigrationJob") or "a user asked to move the pod"
    return Asker(CREATED_BY_DESCHEDULER, trigger, reason, job.metadata.name)


def verdict_on(job: PodMigrationJob, pod: Pod, left_s: float, now_s: float) -> Verdict | None:
    """Whether the pod goes now. `left_s`: how long the job may still take. None: there is no time left to tell it."""
    if not concerns(pod.metadata):
        return Go("no notice")
    asker = asker_of(job)
    can_wait_s = left_s - KEPT_S
    if can_wait_s > 0 or any(is_of(asked, asker) for asked in asked_by(pod.metadata, now_s)):
        return decide(pod, asker, now_s, can_wait_s)
    return Go("ready") if isinstance(decide(pod, asker, now_s), Go) else None


def telling(pod: Pod, verdict: Verdict, by: Asker) -> tuple[Change, ...]:
    if not isinstance(verdict, Tell):
        return ()
    meta = pod.metadata
    return (Change("PodStatus", meta.namespace, meta.name, verdict.patch, by.message if verdict.is_new else ""),)


def scene_of(
    job: PodMigrationJob, scaling: Scaling, old: Pod | None, replacement: Pod | None, *, started: bool
) -> Scene:
    changing, autoscaled = scaling.is_changing, scaling.autoscaled
    return Scene(job.metadata.uid, scaling.deployment, old, replacement, started, changing, autoscaled)


def taken_back(job: PodMigrationJob, pod: Pod | None, scaling: Scaling | None, now_s: float) -> tuple[Change, ...]:
    """What a job that ends without moving its pod puts back: notice, deletion cost and replica. `pod`: the very one."""
    changes: list[Change] = []
    if pod is not None:
        meta, asker = pod.metadata, asker_of(job)
        # Another job may move the same pod for the same reason by now: its notice stands.
        gave_it = any(is_of(asked, asker) and asked.about == asker.about for asked in EVICTION_ASKED_BY.read(meta))
        withdrawn = withdrawal(pod, asker, now_s) if gave_it else None
        if withdrawn is not None:
            changes.append(Change("PodStatus", meta.namespace, meta.name, withdrawn))
    record = None if scaling is None else record_of(scaling.deployment)
    if scaling is not None and record is None and pod is not None and _has_scaled(job):
        # The Deployment was scaled back, and its controller removed another pod, or a pod ended by itself.
        patch = unmark(pod, None)
        return (*changes, Change("Pod", pod.metadata.namespace, pod.metadata.name, patch)) if patch else tuple(changes)
    if scaling is None or record is None or record.job != job.metadata.uid:
        return tuple(changes)
    if pod is not None and (patch := unmark(pod, record)) is not None:
        changes.append(Change("Pod", pod.metadata.namespace, pod.metadata.name, patch))
    patch = undo(scaling.deployment, job.metadata.uid)
    if patch is not None:
        meta = scaling.deployment.metadata
        changes.append(Change("Deployment", meta.namespace, meta.name, patch))
    return tuple(changes)


def _has_scaled(job: PodMigrationJob) -> bool:
    return any(condition.type == "ScaledFirst" for condition in job.status.conditions)
