"""PodDisruptionBudgets: how many pods may be evicted right now?

    allowed = healthy - desired,  where  desired = minAvailable  or  expected - maxUnavailable

Percentages, and `maxUnavailable`, are of the size that the pods' owners are asked to have, not of the pods that happen
to be there; both round up. A pod whose eviction was granted is not healthy, even before its deletion is seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from koord.api.kinds import POD_DISRUPTION_BUDGETS
from koord.api.kubernetes.core import Pod
from koord.api.kubernetes.meta import Condition
from koord.api.kubernetes.policy import PodDisruptionBudget, PodDisruptionBudgetStatus
from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord_minicluster.controllers import conditions
from koord_minicluster.controllers.actions import Action, Plan
from koord_minicluster.controllers.pods import is_active, is_ready
from koord_minicluster.controllers.share import share
from koord_minicluster.controllers.status_patch import status_change, status_patch

GRANT_S: Final = 120.0
"""After so long, a granted eviction that deleted nothing is taken as not having happened."""


@dataclass(frozen=True, slots=True)
class Expected:
    """How many pods there should be, and how many of them healthy; or why that cannot be told."""

    pods: int
    healthy: int
    fault: str = ""


def needs_sizes(budget: PodDisruptionBudget) -> bool:
    """Whether the sizes of the pods' owners are needed: not for a plain number of available pods."""
    return not isinstance(budget.spec.min_available, int)


def expected(budget: PodDisruptionBudget, pods: Sequence[Pod], sizes: Mapping[str, int | None]) -> Expected:
    """`sizes` are of the pods' owners, by name; None where one has no size. Pods without an owner do not count."""
    spec = budget.spec
    if spec.max_unavailable is None and isinstance(spec.min_available, int):
        return Expected(len(pods), spec.min_available)
    sizeless = sorted(name for name, size in sizes.items() if size is None)
    if sizeless:
        return Expected(0, 0, f"{', '.join(sizeless)} has no size; use minAvailable with a number")
    total = sum(size for size in sizes.values() if size is not None)
    try:
        if spec.max_unavailable is not None:
            return Expected(total, max(0, total - share(spec.max_unavailable, total, round_up=True)))
        if spec.min_available is not None:
            return Expected(total, share(spec.min_available, total, round_up=True))
    except ValueError as error:
        return Expected(0, 0, str(error))
    return Expected(len(pods), 0)


def decide(budget: PodDisruptionBudget, pods: Sequence[Pod], wanted: Expected, now_s: float) -> Plan:
    """`pods` are those that the budget selects and that have not ended."""
    granted, forget_in_s = _granted(budget, pods, now_s)
    old = budget.status
    if wanted.fault:
        current = conditions.with_condition(
            old.conditions, "DisruptionAllowed", "False", "SyncFailed", wanted.fault, now_s
        )
        new = PodDisruptionBudgetStatus(
            old.observed_generation,
            0,
            old.current_healthy,
            old.desired_healthy,
            old.expected_pods,
            granted,
            _at(current, budget),
        )
        return Plan(tuple(_patch(budget, new)), forget_in_s)
    healthy = sum(is_active(pod) and is_ready(pod) and pod.metadata.name not in granted for pod in pods)
    allowed = max(0, healthy - wanted.healthy) if wanted.pods > 0 else 0
    word, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    current = conditions.with_condition(old.conditions, "DisruptionAllowed", word, reason, "", now_s)
    new = PodDisruptionBudgetStatus(
        budget.metadata.generation, allowed, healthy, wanted.healthy, wanted.pods, granted, _at(current, budget)
    )
    return Plan(tuple(_patch(budget, new)), forget_in_s)


def _granted(
    budget: PodDisruptionBudget, pods: Sequence[Pod], now_s: float
) -> tuple[dict[str, str | None], float | None]:
    """Evictions that still count, and when the next of them no longer does."""
    there = {pod.metadata.name: pod for pod in pods}
    kept: dict[str, str | None] = {}
    waits_s: list[float] = []
    for name, since in budget.status.disrupted_pods.items():
        pod = there.get(name)
        left_s = _time(since) + GRANT_S - now_s
        if pod is not None and pod.metadata.deletion_timestamp is None and left_s > 0:
            kept[name] = since
            waits_s.append(left_s)
    return kept, min(waits_s, default=None)


def _at(current: tuple[Condition, ...], budget: PodDisruptionBudget) -> tuple[Condition, ...]:
    """This condition says for which generation it holds."""
    generation = budget.metadata.generation
    return tuple(
        Condition(c.type, c.status, generation, c.last_transition_time, c.reason, c.message)
        if c.type == "DisruptionAllowed"
        else c
        for c in current
    )


def _patch(budget: PodDisruptionBudget, new: PodDisruptionBudgetStatus) -> list[Action]:
    """Based on the version read, because the eviction API counts down in the same status."""
    change: dict[str, Any] = status_change(budget.status, new)
    if "disruptedPods" in change:
        gone = {name: None for name in budget.status.disrupted_pods if name not in new.disrupted_pods}
        change["disruptedPods"] = {**new.disrupted_pods, **gone}
    return [*status_patch(POD_DISRUPTION_BUDGETS, budget.metadata, change, locked=True)]


def _time(text: str | None) -> float:
    try:
        return parse_timestamp(text) if text else 0.0
    except TimestampError:
        return 0.0
