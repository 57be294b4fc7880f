"""Whom to evict, when several reasons ask for it at once.

Each reason is a `Task`: so much is to be released, of these pods in this order. A pod that goes helps every task that
counts what it holds, and one that was evicted a moment ago and still runs counts as released. So nobody is evicted for
what another's leaving already gives back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from koord.agent.pods import AgentPod
from koord.agent.qos.decision import Eviction
from koord.api.annotations.pod_qos import EVICTION_ENABLED, EVICTION_POLICY, EVICTION_PRIORITY
from koord.api.priority import SubPriorityError, sub_priority

PENDING_RELEASE_S: Final = 120.0
"""For so long an evicted pod counts as on its way out."""


class Account(NamedTuple):
    """What is released: usage or requests, of which resource."""

    of: str
    resource: str


class Candidate(NamedTuple):
    pod: AgentPod
    frees: int


@dataclass(frozen=True, slots=True)
class Task:
    feature: str
    account: Account
    need: int
    candidates: Sequence[Candidate]
    "In the order in which they go."
    why: str
    is_emergency: bool = False


def evictions(tasks: Sequence[Task], on_their_way: Collection[str]) -> tuple[Eviction, ...]:
    """`on_their_way`: uids of pods that were evicted lately."""
    chosen: dict[str, Eviction] = {}
    for task in tasks:
        released = sum(_worth(uid, task.account, tasks) for uid in {*chosen, *on_their_way})
        for pod, _ in task.candidates:
            if released >= task.need:
                break
            if pod.uid in chosen or pod.uid in on_their_way:
                continue
            chosen[pod.uid] = Eviction(pod, task.feature, task.why, task.is_emergency)
            released += _worth(pod.uid, task.account, tasks)
    return tuple(chosen.values())


def _worth(uid: str, account: Account, tasks: Sequence[Task]) -> int:
    """What a pod's leaving gives to an account; where tasks value it differently, the most."""
    values = [
        candidate.frees
        for task in tasks
        if task.account == account
        for candidate in task.candidates
        if candidate.pod.uid == uid
    ]
    return max(values, default=0)


def may_be_evicted(pod: AgentPod, feature: str) -> bool:
    """Whether the pod lets this feature evict it."""
    policy = EVICTION_POLICY.read(pod.meta)
    return pod.is_active and (policy is None or feature in policy)


def is_offered(pod: AgentPod, feature: str, highest_priority: int) -> bool:
    """Of pods of any class: those that say so, up to a priority."""
    priority = pod.priority or 0
    return may_be_evicted(pod, feature) and priority <= highest_priority and EVICTION_ENABLED.read(pod.meta)


def by_importance(frees: Callable[[AgentPod], int]) -> Callable[[AgentPod], tuple[int, int, int, int, str]]:
    """The order of pods of any class: the least important first, among equals the one that frees most."""

    def key(pod: AgentPod) -> tuple[int, int, int, int, str]:
        priority = pod.priority or 0
        try:
            below = sub_priority(pod.meta.labels) or priority
        except SubPriorityError:
            below = priority
        return EVICTION_PRIORITY.read(pod.meta), priority, below, -frees(pod), pod.key

    return key
