"""Which pods to evict, when several reasons ask for it at once.

Each reason is a `Task`: an amount to release, from these pods in this order. A pod that goes helps every task that
counts what it holds, also one that would not have chosen it, and one that was evicted a moment ago and still runs
counts as released. So no pod is evicted for what another eviction already releases. A pod whose eviction the API
refused comes last for a while: a budget that protects one pod must not keep the node from helping itself. A pod that
was given notice comes first: as long as the reason lasts the same pods are chosen, and no other pod goes instead.

A strategy of evictions is a list of reasons, each with its gate, and a time for which it waits after it evicted a pod.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from koord.agent.pods import AgentPod
from koord.agent.qos.decision import NOTHING, Eviction, StrategyDecision
from koord.agent.qos.strategy import NEVER, Sight, Strategy, Turn
from koord.api.configuration.features import AgentGate
from koord.api.protocol import names
from koord.api.protocol.annotations.pod_qos import EVICTION_ENABLED, EVICTION_POLICY, EVICTION_PRIORITY
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy
from koord.api.protocol.priority import DEFAULT_PRIORITY, SubPriorityError, sub_priority

PENDING_RELEASE_S: Final = 120.0
"""How long an evicted pod counts as leaving."""
REFUSED_LATELY_S: Final = 60.0
"""How long a pod whose eviction was refused comes after all others."""
WANTED_S: Final = 30.0
"""A pod with notice can stay if no strategy wanted it evicted for this long, which exceeds any strategy's cool-down."""


class Account(NamedTuple):
    """What is released: a resource, by usage or by requests."""

    of: str
    resource: str


@dataclass(frozen=True, slots=True)
class Task:
    feature: str
    account: Account
    need: int
    candidates: Sequence[AgentPod]
    "In the order in which they go."
    frees: Callable[[AgentPod], int]
    "What any pod's leaving gives to the account: zero for one that was not counted."
    why: str
    is_emergency: bool = False


def evictions(
    strategy: str,
    tasks: Sequence[Task],
    leaving: Collection[AgentPod],
    refused: Collection[str] = (),
    noticed: Collection[str] = (),
    notice_s: float = 0.0,
) -> tuple[Eviction, ...]:
    """`leaving`: pods that were evicted lately and are still there. `refused`: uids of those that lately might not.
    `told`: uids of those that have notice, of at most `notice_s`."""
    chosen: dict[str, Eviction] = {}
    gone = {pod.uid for pod in leaving}
    for task in tasks:
        released = sum(_worth(pod, task.account, tasks) for pod in leaving)
        released += sum(_worth(eviction.pod, task.account, tasks) for eviction in chosen.values())
        for pod in _in_order(task, refused, noticed):
            if released >= task.need:
                break
            if pod.uid in chosen or pod.uid in gone:
                continue
            waits_s = 0.0 if task.is_emergency else notice_s
            chosen[pod.uid] = Eviction(pod, strategy, task.feature, task.why, task.is_emergency, waits_s)
            released += _worth(pod, task.account, tasks)
    return tuple(chosen.values())


def _in_order(task: Task, refused: Collection[str], noticed: Collection[str]) -> Sequence[AgentPod]:
    # In an emergency neither counts: the first by importance goes.
    if not (refused or noticed) or task.is_emergency:
        return task.candidates
    return sorted(task.candidates, key=lambda pod: (pod.uid in refused, pod.uid not in noticed))


def _worth(pod: AgentPod, account: Account, tasks: Sequence[Task]) -> int:
    """What a pod's leaving gives to an account; where tasks value it differently, the most."""
    return max((task.frees(pod) for task in tasks if task.account == account), default=0)


def may_be_evicted(pod: AgentPod, feature: str) -> bool:
    """Whether the pod lets this feature evict it."""
    policy = EVICTION_POLICY.read(pod.meta)
    return pod.is_active and (policy is None or feature in policy)


def is_offered(pod: AgentPod, feature: str, highest_priority: int) -> bool:
    """Of pods of any class: those that say so, up to a priority."""
    return may_be_evicted(pod, feature) and priority_of(pod) <= highest_priority and EVICTION_ENABLED.read(pod.meta)


def priority_of(pod: AgentPod) -> int:
    """A pod without a priority has that of its band: a service that names none is not the least important."""
    return pod.priority or DEFAULT_PRIORITY[pod.band]


def by_importance(frees: Callable[[AgentPod], int]) -> Callable[[AgentPod], tuple[int, int, int, int, str]]:
    """The order of pods of any class: the least important first, among equals the one that frees most."""

    def key(pod: AgentPod) -> tuple[int, int, int, int, str]:
        priority = priority_of(pod)
        below = priority
        if pod.meta.labels.get(names.LABEL_PRIORITY):
            with suppress(SubPriorityError):
                below = sub_priority(pod.meta.labels)
        return EVICTION_PRIORITY.read(pod.meta), priority, below, -frees(pod), pod.key

    return key


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that pods are evicted for."""

    gate: AgentGate
    tasks: Callable[[Sight, ResourceThresholdStrategy], Iterable[Task]]


def eviction_strategy(
    name: str, cool_down_s: float, reasons: tuple[Reason, ...], *, cools_at_start: bool, notice_s: float
) -> Strategy[None, None]:
    """`cools_at_start`: whether it also waits after the agent's start, when little has been measured. `notice_s`: for
    how long it can wait for pods that ask for notice."""

    def decide(sight: Sight, held: None, memory: None) -> Turn[None]:
        slo = sight.state.slo
        if slo is None or slo.resource_used_threshold_with_be is None:
            return Turn(None, None)
        settings = slo.resource_used_threshold_with_be
        last_s = sight.departures.last_s.get(name, sight.started_s if cools_at_start else NEVER)
        if not settings.enable or sight.now_s - last_s < cool_down_s:
            return Turn(NOTHING, None)
        tasks = [task for reason in reasons if sight.state.gates[reason.gate] for task in reason.tasks(sight, settings)]
        here = {**sight.state.pods, **sight.state.guests}
        leaving = [pod for uid, pod in here.items() if uid in sight.departures.evicted]
        refused, noticed = sight.departures.refused, sight.departures.under_notice
        return Turn(StrategyDecision(evictions=evictions(name, tasks, leaving, refused, noticed, notice_s)), None)

    return Strategy(name, tuple(reason.gate for reason in reasons), None, decide)
