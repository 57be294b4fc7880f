"""NodeName: a pod that names its node can go nowhere else."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Reason, Row


class NodeName(Plugin):
    name = "NodeName"
    wakes_on = Reason.NODE

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.SPEC

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return ask.spec.node_name

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        return _Named(ask.spec.node_name, cluster) if ask.spec.node_name else None


class _Named(Judge):
    def __init__(self, node: str, cluster: Cluster) -> None:
        self._node, self._cluster = node, cluster

    def only(self) -> list[Row]:
        row = self._cluster.table.row_of.get(self._node)
        return [] if row is None else [row]

    def reasons(self, mask: int) -> list[str]:
        return ["node(s) didn't match the requested node name"]

    def unresolvable(self, masks: Array, rows: Array) -> Array:
        return np.ones(len(rows), np.bool_)
