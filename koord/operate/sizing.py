"""What right-sizing would save: Recommendations compared with current requests, as a number of nodes.

Unlike lent resources, this is not an amount over time: it holds until requests change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from koord.operate.worth import NodeSize


@dataclass(frozen=True, slots=True)
class Sizing:
    """Of all pods of a workload together. Negative where a workload needs more than it requests."""

    workload: str
    "As in shop/deployment/web."
    cores: float
    gib: float


def summed(sizings: Iterable[Sizing], name: str = "all") -> Sizing:
    listed = list(sizings)
    return Sizing(name, sum(sizing.cores for sizing in listed), sum(sizing.gib for sizing in listed))


def nodes(whole: Sizing, part: Sizing, size: NodeSize) -> float:
    """Nodes that a part of the whole would free: a node goes only when both of its resources are free, so the scarcer
    of the two counts, for the whole as for its parts."""
    if whole.cores / size.cores <= whole.gib / size.gib:
        return part.cores / size.cores
    return part.gib / size.gib
