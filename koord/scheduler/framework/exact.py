"""Exact checks of one row: what no column can say, looked at once the row has won.

Plugins that must agree on something for the row (NUMA nodes for CPUs and devices) make offers first, which their joint
settles; then each plugin checks by itself, knowing what was agreed.
"""

from __future__ import annotations

from collections.abc import Sequence

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.judge import Joint, Objection
from koord.scheduler.framework.verdicts import Part
from koord.scheduler.state.table import Row


def exact_checks(parts: Sequence[Part], ask: Ask, row: Row) -> dict[str, object] | tuple[str, Objection]:
    """What each plugin worked out, by its name; or who objects, and why."""
    agreed: dict[Joint, object] = {}
    for joint in dict.fromkeys(part.judge.joint for part in parts if part.judge.joint is not None):
        sharing = [part for part in parts if part.judge.joint is joint]
        settled = joint.settle([part.judge.offer(ask, row) for part in sharing], ask, row)
        if isinstance(settled, Objection):
            return sharing[0].plugin.name, settled
        agreed[joint] = settled
    worked_out: dict[str, object] = {}
    for part in parts:
        shared = part.judge.joint
        found = part.judge.check(ask, row, None if shared is None else agreed[shared])
        if isinstance(found, Objection):
            return part.plugin.name, found
        worked_out[part.plugin.name] = found
    return worked_out
