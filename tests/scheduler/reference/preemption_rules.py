"""Preemption, plainly: one node at a time, one pod at a time, by copies of the cluster.

`preempt` says of every node who would have to go, or why that would not help, and which nodes may be chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from msgspec.structs import replace as changed

from koord.api.configuration.scheduler_config import SchedulerProfile
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.policy import PodDisruptionBudget
from koord.api.text.selector import NOTHING, SelectorError, compile_labels
from koord.api.text.timestamp import parse_timestamp
from tests.scheduler.reference import cycle
from tests.scheduler.reference.cluster import Cluster, Verdict

LATER: Final = float("inf")
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
NO_HELP: Final = "Preemption is not helpful for scheduling"


@dataclass(frozen=True)
class Victims:
    keys: tuple[str, ...]
    "The most important first."
    violations: int
    priorities: tuple[int, ...]
    starts_s: tuple[float, ...]


@dataclass(frozen=True)
class Preemption:
    """The victims, by node that might help."""

    candidates: Mapping[str, Victims]
    best: frozenset[str]
    "Any of these may be chosen."
    message: str


def priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def start_s(pod: Pod) -> float:
    """A pod that has not started starts now."""
    return parse_timestamp(pod.status.start_time) if pod.status.start_time else LATER


def more_important_first(pods: Iterable[Pod]) -> list[Pod]:
    """By priority desc, start time asc; names only so that there is an order."""
    return sorted(pods, key=lambda pod: (-priority(pod), start_s(pod), pod.metadata.key))


def preempt(
    pod: Pod,
    cluster: Cluster,
    profile: SchedulerProfile | None = None,
    budgets: Sequence[PodDisruptionBudget] = (),
    nominated: Sequence[tuple[Pod, str]] = (),
) -> Preemption:
    """For a pod that fits nowhere. `nominated` are other pods, each with the node that it was promised."""
    verdicts = {
        node.metadata.name: verdict(pod, node.metadata.name, cluster, profile, nominated) for node in cluster.nodes
    }
    candidates: dict[str, Victims] = {}
    reasons: list[str] = []
    for node, said in verdicts.items():
        if said.code != "unsched":
            reasons.append(NO_HELP)
            continue
        found = on_node(pod, node, cluster, profile, budgets, nominated)
        if isinstance(found, Victims):
            candidates[node] = found
        else:
            reasons += found
    if candidates:
        return Preemption(candidates, frozenset(_best(candidates)), "")
    counted = sorted(f"{number} {reason}" for reason, number in Counter(reasons).items())
    return Preemption({}, frozenset(), f"preemption: 0/{len(verdicts)} nodes are available: {', '.join(counted)}.")


def verdict(
    pod: Pod, node: str, cluster: Cluster, profile: SchedulerProfile | None, nominated: Sequence[tuple[Pod, str]]
) -> Verdict:
    """With the pods that were promised this node and are no less important, and, if there are any, without them."""
    added = [
        _on(other, node)
        for other, promised in nominated
        if promised == node and priority(other) >= priority(pod) and other.metadata.uid != pod.metadata.uid
    ]
    if added:
        first = cycle.feasible(pod, with_pods(cluster, (*cluster.pods, *added)), profile)[node]
        if not first:
            return first
    return cycle.feasible(pod, cluster, profile)[node]


def on_node(
    pod: Pod,
    node: str,
    cluster: Cluster,
    profile: SchedulerProfile | None,
    budgets: Sequence[PodDisruptionBudget],
    nominated: Sequence[tuple[Pod, str]],
) -> Victims | tuple[str, ...]:
    """The victims on a node, or why no eviction helps."""
    here = cluster.pods_on(cluster.node(node))
    lower = more_important_first(other for other in here if priority(other) < priority(pod))
    if not lower:
        return (NO_VICTIMS,)
    names = {other.metadata.key for other in lower}
    staying = [other for other in cluster.pods if other.metadata.key not in names]
    empty = verdict(pod, node, with_pods(cluster, staying), profile, nominated)
    if not empty:
        return empty.reasons
    violating = violations(lower, budgets)
    victims: list[Pod] = []
    number = 0
    for first in (True, False):
        for other, violates in zip(lower, violating, strict=True):
            if violates is not first:
                continue
            if verdict(pod, node, with_pods(cluster, [*staying, other]), profile, nominated):
                staying.append(other)
            else:
                victims.append(other)
                number += violates
    victims = more_important_first(victims)
    return Victims(
        tuple(other.metadata.key for other in victims),
        number,
        tuple(priority(other) for other in victims),
        tuple(start_s(other) for other in victims),
    )


def violations(pods: Sequence[Pod], budgets: Sequence[PodDisruptionBudget]) -> list[bool]:
    """Which of some pods would violate a budget, if they went one after the other."""
    left = [budget.status.disruptions_allowed for budget in budgets]
    found = []
    for pod in pods:
        violates = False
        for i, budget in enumerate(budgets):
            if means(budget, pod) and pod.metadata.name not in budget.status.disrupted_pods:
                left[i] -= 1
                violates = violates or left[i] < 0
        found.append(violates)
    return found


def means(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """No selector, or an empty one, means no pod here; and nothing means a pod without labels."""
    selector = budget.spec.selector
    if selector is None or not pod.metadata.labels or budget.metadata.namespace != pod.metadata.namespace:
        return False
    if not selector.match_labels and not selector.match_expressions:
        return False
    try:
        return compile_labels(selector, absent=NOTHING).matches(pod.metadata.labels)
    except SelectorError:
        return False


def _best(candidates: Mapping[str, Victims]) -> list[str]:
    """One rule after the other, as long as there is more than one node."""
    left = list(candidates)
    rules = (
        lambda found: found.violations,
        lambda found: found.priorities[0],
        lambda found: sum(priority + 2**31 for priority in found.priorities),
        lambda found: len(found.keys),
        lambda found: (
            -min(
                start
                for start, priority in zip(found.starts_s, found.priorities, strict=True)
                if priority == max(found.priorities)
            )
        ),
    )
    for rule in rules:
        least = min(rule(candidates[node]) for node in left)
        left = [node for node in left if rule(candidates[node]) == least]
    return left


def with_pods(cluster: Cluster, pods: Iterable[Pod]) -> Cluster:
    return replace(cluster, pods=tuple(pods), _memory={})


def _on(pod: Pod, node: str) -> Pod:
    return changed(pod, spec=changed(pod.spec, node_name=node))
