"""NodeUnschedulable: a cordoned node takes only pods that tolerate it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from koord.api.node import Taint
from koord.api.taints import tolerates
from koord.api.words import TaintEffect, TaintKey
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.plugin import Cells, Judge, Numbers, Plugin
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Reason, Row

CORDONED: Final = Taint(TaintKey("node.kubernetes.io/unschedulable"), TaintEffect("NoSchedule"))


class NodeUnschedulable(Plugin):
    name = "NodeUnschedulable"
    wakes_on = Reason.NODE | Reason.UNSCHEDULABLE

    def keyed_by_spec(self, ask: Ask) -> bool:
        return True

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return any(tolerates(each, CORDONED) for each in ask.spec.tolerations)

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        return None if self.key(ask, cluster) is True else _Schedulable()


class _Schedulable(Judge):
    filters_on = Reason.NODE | Reason.UNSCHEDULABLE

    def feasible(self, cells: Cells) -> Numbers:
        return cells["unschedulable"]

    def reasons(self, mask: int) -> list[str]:
        return ["node(s) were unschedulable"]

    def unresolvable(self, mask: int, row: Row) -> bool:
        return True
