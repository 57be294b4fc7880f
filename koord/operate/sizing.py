"""What right-sizing would save: Recommendations against what workloads request at the moment, as nodes to do without.

That is no amount over time as what was lent is: it holds for as long as requests stay as they are.
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
    return Sizing(name, sum(each.cores for each in listed), sum(each.gib for each in listed))


def nodes(whole: Sizing, part: Sizing, size: NodeSize) -> float:
    """Nodes that a part of the whole would free: a node goes only when both of its resources are free, so the scarcer
    of the two counts, for the whole as for its parts."""
    if whole.cores / size.cores <= whole.gib / size.gib:
        return part.cores / size.cores
    return part.gib / size.gib
