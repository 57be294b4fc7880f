"""When a pod must end, how long its containers may take, and what is done with it afterwards.

A pod ends because it is deleted, or because it has been active for longer than `activeDeadlineSeconds`. The API server
keeps a deleted pod until its node reports that all containers have ended: the node deletes it again, with a grace
period of zero. A deletion with a grace period of zero (`kubectl delete --force`) is handled by the API server alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import RestartPolicy
from koord.api.text.timestamp import parse_timestamp

DEFAULT_GRACE_S: Final = 30.0
LEAST_GRACE_S: Final = 2.0
"""Every container gets a stop signal before it is killed, even if its pod was deleted by force."""
TIMESTAMP_S: Final = 1.0
"""Timestamps have whole seconds: the cut-off fraction must not shorten the grace period."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a pod's containers are ended from outside, as its status reports it."""

    reason: str = ""
    message: str = ""


DELETED: Final = Ending()
DEADLINE_EXCEEDED: Final = Ending("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


def started_at(pod: Pod, now_s: float) -> float:
    """When the node started the pod: now, if its status has no start time yet."""
    return float(now_s // 1) if pod.status.start_time is None else parse_timestamp(pod.status.start_time)


def deadline_s(pod: Pod, started_s: float) -> float | None:
    """When it has been active for too long; None for a pod that may run for ever."""
    allowed = pod.spec.active_deadline_seconds
    return None if allowed is None else started_s + allowed


def grace_s(pod: Pod) -> float:
    """How long the containers may take to end; a deletion may set another time than the pod's spec."""
    asked = pod.metadata.deletion_grace_period_seconds
    if asked is None:
        asked = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_S if asked is None else float(asked)


def deletion_asked_s(pod: Pod) -> float | None:
    """When the deletion was requested; None for a pod that is not being deleted."""
    if pod.metadata.deletion_timestamp is None:
        return None
    return parse_timestamp(pod.metadata.deletion_timestamp) - float(pod.metadata.deletion_grace_period_seconds or 0)


def grace_left_s(pod: Pod, now_s: float) -> float:
    """The rest of the grace period, also if the node was away when the deletion was requested."""
    whole_s, asked_s = grace_s(pod), deletion_asked_s(pod)
    left_s = whole_s if asked_s is None else min(whole_s, asked_s + whole_s + TIMESTAMP_S - now_s)
    return max(left_s, LEAST_GRACE_S)


@dataclass(frozen=True, slots=True)
class Farewell:
    """What to write about a deleted pod once its containers have ended: `tell` its status, then `remove` it."""

    tell: bool
    remove: bool


def farewell(pod: Pod) -> Farewell:
    """The final status is written because a controller (usually a Job) may count how the pod ended. With a grace period
    of zero only finalizers hold a pod: the API server removes it when they are gone."""
    is_held = bool(pod.metadata.finalizers)
    is_counted = is_held or pod.spec.restart_policy != RestartPolicy.ALWAYS
    is_asked_for = pod.metadata.deletion_grace_period_seconds == 0 and is_held
    return Farewell(tell=is_counted and not pod.is_finished, remove=not is_asked_for)
