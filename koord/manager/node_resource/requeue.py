"""When a node must be reconciled again without an event.

A report that goes stale, and a small difference that waits for the time gate, cause no event. Without a requeue, a
silent node would keep lending by an old report.
"""

from __future__ import annotations

from typing import Final

from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.manager.lending.freshness import stale_at_s
from koord.manager.node_resource.writing import WriteDecision, gate_opens_s
from koord.manager.node_state import NodeState

AFTER_S: Final = 0.5
"""Both bounds are inclusive: they are passed a moment later."""
FIRST_REPORT_S: Final = 30.0
"""How long a new node may take to report before its condition says that it does not."""


def requeue_at_s(
    state: NodeState, strategy: ColocationStrategy, *, pending: bool, written_s: float | None, now_s: float
) -> float | None:
    """When to reconcile again; None if only an event can change anything.

    `pending`: a difference waits for the time gate.
    """
    moments = []
    until_s = stale_at_s(state, strategy)
    if until_s is not None and until_s >= now_s:
        moments.append(until_s)
    if pending and written_s is not None:
        moments.append(max(now_s, gate_opens_s(strategy, written_s)))
    return min(moments) + AFTER_S if moments else None


def wait_for_report_s(state: NodeState, decision: WriteDecision, *, seen_s: float, now_s: float) -> float | None:
    """How long to delay a write that would only say that a new node has not reported; None to write now.

    A new node reports soon after it joins, and that report is written anyway.
    """
    if (
        decision.patch is None
        or state.reported_s is not None
        or any(comparison.beyond for comparison in decision.comparisons)
    ):
        return None
    left_s = seen_s + FIRST_REPORT_S - now_s
    return left_s if left_s > 0 else None
