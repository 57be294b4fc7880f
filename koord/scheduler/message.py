"""What users read of a pod that fits nowhere, in the words that they know from kube-scheduler.

0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s). <what preemption does, or why it does
not help> <what a program could do about it: `koord.scheduler.suggestion`> <the smallest change that would let the pod
in: `koord.scheduler.smallest`; or what its volumes wait for: `koord.scheduler.claims`>
"""

from __future__ import annotations

from typing import Final

from koord.scheduler.claims import awaited
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Placement
from koord.scheduler.smallest import Hints

MOST_OF_AN_EVENT: Final = 1024
_CUT: Final = " ..."


def hint_for(engine: Engine, hints: Hints, ask: Ask, placement: Placement) -> str:
    """What would let a pod in that fits nowhere: a sentence, or nothing where nothing small would."""
    if placement.refusal:
        return awaited(ask, engine.cluster)
    # What it is promised does not stand in its own way.
    with engine.cluster.nominations.without(ask.key):
        return hints.of(ask, placement)


def fits_nowhere(placement: Placement, nodes: int, *more: str) -> str:
    """Why no node will do, with the number of nodes for each reason; what plugins say of it, and what would help."""
    if placement.refusal:
        why = placement.refusal
    elif not nodes:
        return "no nodes available to schedule pods"
    else:
        why = ", ".join(sorted(f"{rows} {reason}" for reason, rows in placement.rejections.items()))
    job = f"{placement.short_of}." if placement.short_of else ""
    return " ".join(part for part in (job, f"0/{nodes} nodes are available: {why}.", *more) if part)


def for_an_event(text: str) -> str:
    """As much of a text as an event may have."""
    return text if len(text) <= MOST_OF_AN_EVENT else text[: MOST_OF_AN_EVENT - len(_CUT)] + _CUT
