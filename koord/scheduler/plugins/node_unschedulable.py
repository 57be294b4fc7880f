"""NodeUnschedulable: a cordoned node takes only pods that tolerate it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np
from msgspec.structs import replace

from koord.api.kubernetes.node import Taint
from koord.api.kubernetes.pod import Toleration
from koord.api.kubernetes.taints import tolerates
from koord.api.kubernetes.words import TaintEffect, TaintKey, TolerationOperator
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers
from koord.scheduler.framework.change import Change
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Reason, Row

CORDONED: Final = Taint(TaintKey("node.kubernetes.io/unschedulable"), TaintEffect("NoSchedule"))


class NodeUnschedulable(Plugin):
    name = "NodeUnschedulable"
    wakes_on = Reason.NODE | Reason.UNSCHEDULABLE

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.SPEC

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return any(tolerates(toleration, CORDONED) for toleration in ask.spec.tolerations)

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        return None if self.key(ask, cluster) is True else _Schedulable(cluster)


class _Schedulable(Judge):
    filters_on = Reason.NODE | Reason.UNSCHEDULABLE

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def fixes(self, ask: Ask, row: Row) -> list[Change]:
        # A cordoned node has the taint too, mostly: it goes with the cordon, and so does what tolerates it.
        node, pod = self._cluster.nodes[row], ask.pod
        taints = tuple(taint for taint in node.spec.taints if taint.key != CORDONED.key)
        open_ = replace(node, spec=replace(node.spec, unschedulable=False, taints=taints))
        toleration = Toleration(CORDONED.key, TolerationOperator.EXISTS, "", CORDONED.effect)
        tolerant = replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, toleration)))
        return [
            Change("the node uncordoned", node=open_),
            Change(f"a toleration for cordoned nodes ({CORDONED.key})", pod=tolerant, size=2),
        ]

    def feasible(self, cells: Cells) -> Numbers:
        return cells["unschedulable"]

    def reasons(self, mask: int) -> list[str]:
        return ["node(s) were unschedulable"]

    def unresolvable(self, masks: Array, rows: Array) -> Array:
        return np.ones(len(rows), np.bool_)
