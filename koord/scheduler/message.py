"""What users read of a pod that fits nowhere, in the words that they know from kube-scheduler.

0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s). <what preemption does, or why it does
not help> <the smallest change that would let the pod in: `koord.scheduler.smallest.Hints`>
"""

from __future__ import annotations

from typing import Final

from koord.scheduler.framework.engine import Placement

MOST_OF_AN_EVENT: Final = 1024
_CUT: Final = " ..."


def fits_nowhere(placement: Placement, nodes: int, remedy: str = "", hint: str = "") -> str:
    """Why no node will do, with the number of nodes for each reason; what a plugin says of it, and what would help."""
    if placement.refusal:
        why = placement.refusal
    elif not nodes:
        return "no nodes available to schedule pods"
    else:
        why = ", ".join(sorted(f"{rows} {reason}" for reason, rows in placement.rejections.items()))
    return " ".join(each for each in (f"0/{nodes} nodes are available: {why}.", remedy, hint) if each)


def for_an_event(text: str) -> str:
    """As much of a text as an event may have."""
    return text if len(text) <= MOST_OF_AN_EVENT else text[: MOST_OF_AN_EVENT - len(_CUT)] + _CUT
