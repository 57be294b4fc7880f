"""ScarceResourceAvoidance: pods that do not need scarce resources leave the nodes that have them to those that do.

    D = kinds of resources that the node has and the pod does not ask for;  S = those of D that are scarce
    score = 100 * (|D| - |S|) // |D|, and 100 where D or S is empty

Which ones are scarce is an argument: GPUs, say.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from koord.api.configuration.scheduler_args import ScarceResourceAvoidanceArgs
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers
from koord.scheduler.framework.judge import Judge, Shortcuts
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.state.cluster import PODS, Cluster, allocatable_of
from koord.scheduler.state.table import Column, Reason, Row
from koord.scheduler.state.watchers import Index

KINDS: Final = Column("resource kinds", np.int64, Reason.ALLOCATABLE)


class ResourceKinds(Index):
    """How many kinds of resources each node has. How many pods it takes is none."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        cluster.table.declare(KINDS)
        for row in cluster.nodes:
            self.node_put(row)

    def node_put(self, row: Row) -> None:
        has = allocatable_of(self.cluster.nodes[row])
        self.cluster.table.set(KINDS.name, row, sum(1 for name, amount in has.items() if amount > 0 and name != PODS))


class ScarceResourceAvoidance(Plugin):
    name = "ScarceResourceAvoidance"

    def __init__(self, args: ScarceResourceAvoidanceArgs | None = None) -> None:
        given = (args or ScarceResourceAvoidanceArgs()).completed()
        self._scarce = tuple(dict.fromkeys(name for name in given.resources if name != PODS))

    def attach(self, cluster: Cluster) -> None:
        cluster.index(ResourceKinds)

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.SPEC

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return _asked(ask)

    def compile(self, ask: Ask, cluster: Cluster) -> Judge:
        asked = _asked(ask)
        left = tuple(name for name in self._scarce if name not in asked)
        for name in (*asked, *left):
            cluster.resource(name)
        return _Avoiding(asked, left)


def _asked(ask: Ask) -> tuple[str, ...]:
    return tuple(name for name, amount in ask.requests if amount and name != PODS)


class _Avoiding(Judge):
    scores_on = Reason.NODE | Reason.ALLOCATABLE
    shortcuts = Shortcuts(gains={})

    def __init__(self, asked: Sequence[str], scarce: Sequence[str]) -> None:
        self._asked = [("allocatable", name) for name in asked]
        self._scarce = [("allocatable", name) for name in scarce]

    def score(self, cells: Cells) -> Numbers:
        unused: Numbers = cells[KINDS.name]
        for column in self._asked:
            unused = unused - (cells[column] > 0)
        scarce: Numbers = 0 * unused
        for column in self._scarce:
            scarce = scarce + (cells[column] > 0)
        is_free = (unused == 0) | (scarce == 0)
        return is_free * 100 + (1 - is_free) * ((unused - scarce) * 100 // (unused + (unused == 0)))
