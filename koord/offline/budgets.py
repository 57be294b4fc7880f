"""How many pods of a PodDisruptionBudget may be disturbed, where no controller has said so.

A budget from a cluster has that in its status. A budget from a manifest has only its spec: then its pods
count as healthy if they have a node and are not being deleted.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.policy import PodDisruptionBudget, PodDisruptionBudgetStatus
from koord.api.text.selector import NOTHING, SelectorError, compile_labels
from koord.api.text.whole_number import natural_number


def counted(budget: PodDisruptionBudget, pods: Iterable[Pod]) -> PodDisruptionBudget:
    """A budget with what it allows now."""
    if budget.status != PodDisruptionBudgetStatus():
        return budget
    try:
        matcher = compile_labels(budget.spec.selector, absent=NOTHING)
    except SelectorError:
        return budget
    mine = [
        pod
        for pod in pods
        if pod.metadata.namespace == budget.metadata.namespace
        and not pod.is_finished
        and matcher.matches(pod.metadata.labels)
    ]
    healthy = sum(1 for pod in mine if pod.spec.node_name and pod.metadata.deletion_timestamp is None)
    spec, expected = budget.spec, len(mine)
    if spec.max_unavailable is not None:
        desired = max(0, expected - _number(spec.max_unavailable, expected))
    elif spec.min_available is not None:
        desired = _number(spec.min_available, expected)
    else:
        desired = 1
    status = PodDisruptionBudgetStatus(
        disruptions_allowed=max(0, healthy - desired),
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
    )
    return replace(budget, status=status)


def _number(value: int | str, whole: int) -> int:
    """A number, or a part of a whole, rounded up."""
    if isinstance(value, int):
        return value
    return -(-whole * (natural_number(value.removesuffix("%")) or 0) // 100)
