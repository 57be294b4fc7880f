"""When a pod must end, how long its containers may take, and what is done with it afterwards.

A pod ends because somebody deletes it, or because it has been active for longer than `activeDeadlineSeconds`. The API
server keeps a deleted pod until its node says that all has ended: the node deletes it once more, with a grace of zero.
A deletion that already has that grace (`kubectl delete --force`) is the API server's own affair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import RestartPolicy
from koord.api.text.timestamp import parse_timestamp

DEFAULT_GRACE_S: Final = 30.0
LEAST_GRACE_S: Final = 2.0
"""Every container is asked to end before it is killed, also where its pod was deleted by force."""
TIMESTAMP_S: Final = 1.0
"""Timestamps have whole seconds: what they cut off is not taken from the grace."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a pod's containers are ended from outside, as its status tells it."""

    reason: str = ""
    message: str = ""


DELETED: Final = Ending()
DEADLINE_EXCEEDED: Final = Ending("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


def started_at(pod: Pod, now_s: float) -> float:
    """When the node took the pod on: at this moment, if it has not said so yet."""
    return float(now_s // 1) if pod.status.start_time is None else parse_timestamp(pod.status.start_time)


def deadline_s(pod: Pod, started_s: float) -> float | None:
    """When it has been active for too long; None for a pod that may run for ever."""
    allowed = pod.spec.active_deadline_seconds
    return None if allowed is None else started_s + allowed


def grace_s(pod: Pod) -> float:
    """How long its containers may take to end; a deletion may ask for another time than the pod does."""
    asked = pod.metadata.deletion_grace_period_seconds
    if asked is None:
        asked = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_S if asked is None else float(asked)


def deletion_asked_s(pod: Pod) -> float | None:
    """When its deletion was asked for; None for a pod that nobody deletes."""
    if pod.metadata.deletion_timestamp is None:
        return None
    return parse_timestamp(pod.metadata.deletion_timestamp) - float(pod.metadata.deletion_grace_period_seconds or 0)


def grace_left_s(pod: Pod, now_s: float) -> float:
    """What its containers have left of the grace, also where the node was away when the deletion was asked for."""
    whole_s, asked_s = grace_s(pod), deletion_asked_s(pod)
    left_s = whole_s if asked_s is None else min(whole_s, asked_s + whole_s + TIMESTAMP_S - now_s)
    return max(left_s, LEAST_GRACE_S)


@dataclass(frozen=True, slots=True)
class Farewell:
    """What to write about a deleted pod once its containers have ended: `tell` its status, then `remove` it."""

    tell: bool
    remove: bool


def farewell(pod: Pod) -> Farewell:
    """Somebody may count how the pod ended (a Job, mostly), and sees it only now. With no grace left, only its
    finalizers hold a pod: the API removes it when they are gone."""
    is_held = bool(pod.metadata.finalizers)
    is_counted = is_held or pod.spec.restart_policy != RestartPolicy.ALWAYS
    is_asked_for = pod.metadata.deletion_grace_period_seconds == 0 and is_held
    return Farewell(tell=is_counted and not pod.is_finished, remove=not is_asked_for)
