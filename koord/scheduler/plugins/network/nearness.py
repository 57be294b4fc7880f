"""Pods that want to be near to others in the network, and are in no gang that says where: a score.

A node is the better the more of the others run on it; among equals, the more run in its block, and so on up to the
cluster. Nodes are ranked by that among those that would do: the first gets 100, the last 0.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from koord.scheduler.framework.facet import KeepsGroups
from koord.scheduler.framework.judge import Judge
from koord.scheduler.plugins.network.network import Network
from koord.scheduler.state.table import Array, Changes

BEST: Final = 100


class Near(Judge):
    def __init__(self, network: Network, selector: str) -> None:
        self.facets = (_Nearness(network, selector),)


class _Nearness(KeepsGroups):
    """Rows grouped by how many of the others are on them, and in each domain above them; group 0 is outside of the
    tree."""

    normalised = True

    def __init__(self, network: Network, selector: str) -> None:
        self._network, self._selector = network, selector
        self._followed: tuple[object, int] | None = None
        self._groups = np.zeros(0, np.int64)
        self._ranks: list[tuple[int, ...]] = [()]
        "For each group, the numbers that rank it."

    def refresh(self, changed: Changes | None) -> bool:
        tree, network = self._network.tree(), self._network
        followed, self._followed = self._followed, (tree, network.moves)
        if changed is not None and followed is not None and followed[0] is tree and followed[1] == network.moves:
            return False
        self._groups, self._ranks = np.zeros(network.cluster.table.capacity, np.int64), [()]
        if isinstance(tree, str) or self._selector not in network.near:
            return True
        sums = tree.summed(network.near_to(self._selector))
        ways = np.stack([sums[level][tree.ancestors(level)] for level in range(len(sums) - 1, -1, -1)], axis=1)
        distinct, number = np.unique(ways, axis=0, return_inverse=True)
        self._groups[network.rows] = number.reshape(-1) + 1
        self._ranks += [tuple(way) for way in distinct.tolist()]
        return True

    @property
    def size(self) -> int:
        return len(self._ranks)

    def table(self, candidates: Array | None) -> Array:
        worth = np.zeros(self.size, np.int64)
        asked = [domain for domain in range(self.size) if candidates is None or candidates[domain]]
        asked.sort(key=lambda domain: self._ranks[domain])
        for rank, group in enumerate(asked):
            worth[group] = BEST * rank // (len(asked) - 1) if len(asked) > 1 else 0
        return worth
