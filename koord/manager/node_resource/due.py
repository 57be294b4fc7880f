"""When a node must be looked at again although nothing happens.

A report that goes stale, and a small difference that waits for its time, are no events: without this a silent node
would go on lending what nobody has measured.
"""

from __future__ import annotations

from typing import Final

from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.manager.lending.freshness import stale_at_s
from koord.manager.node_resource.state import NodeState
from koord.manager.node_resource.writing import WriteDecision, gate_opens_s

AFTER_S: Final = 0.5
"""Both bounds are inclusive: a moment later they are passed."""
FIRST_REPORT_S: Final = 30.0
"""How long a new node is given to report before it is written on it that it does not."""


def look_again_s(
    state: NodeState, strategy: ColocationStrategy, *, pending: bool, written_s: float | None, now_s: float
) -> float | None:
    """The moment at which to look again; None where only an event can change anything.

    `pending` says that something differs and waits for the time gate.
    """
    moments = []
    until_s = stale_at_s(state, strategy)
    if until_s is not None and until_s >= now_s:
        moments.append(until_s)
    if pending and written_s is not None:
        moments.append(max(now_s, gate_opens_s(strategy, written_s)))
    return min(moments) + AFTER_S if moments else None


def wait_for_report_s(state: NodeState, decision: WriteDecision, *, seen_s: float, now_s: float) -> float | None:
    """How long to put off a write that would say no more than that a new node has not reported; None to write it.

    A node is about to report when it comes, and that is written anyway.
    """
    if decision.patch is None or state.reported_s is not None or any(each.beyond for each in decision.comparisons):
        return None
    left_s = seen_s + FIRST_REPORT_S - now_s
    return left_s if left_s > 0 else None
