"""When a node must be looked at again although nothing happens.

A report that goes stale, and a small difference that waits for its time, are no events: without this a silent node
would go on lending what nobody has measured.
"""

from __future__ import annotations

from koord.api.slo_config_types import ColocationStrategy
from koord.manager.node_resource.freshness import stale_at_s
from koord.manager.node_resource.state import NodeState
from koord.manager.node_resource.writing import gate_opens_s

AFTER_S: float = 0.5
"""Both bounds are inclusive: a moment later they are passed."""


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
