"""NodeNUMAResource: gives pods CPUs of their own, and NUMA nodes by the policy of the node or the pod.

    filter      enough CPUs for the pod's bind policy; NUMA nodes with enough of everything, by the NUMA policy
    score       LeastAllocated or MostAllocated of the node, or of the NUMA nodes that the pod would use
    pre-bind    resource-status: the CPUs and the amounts by NUMA node, which the node agent carries out

Pods that ask for nothing of it only meet its score, unless some node has a policy or binds all its pods.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final

from koord.api.configuration.scheduler_args import NodeNUMAResourceArgs, ScoringStrategy
from koord.api.kinds import NODE_RESOURCE_TOPOLOGIES
from koord.api.kubernetes.node import Node
from koord.api.protocol.annotations.cpu import RESOURCE_STATUS
from koord.scheduler.core.queue import ClusterEvent
from koord.scheduler.framework.amount_scores import BALANCED, LEAST_ALLOCATED, MOST_ALLOCATED, ScoreShape
from koord.scheduler.framework.amounts import AmountJudge, Share
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.controller import Controller
from koord.scheduler.framework.judge import Judge, Refused
from koord.scheduler.framework.plugin import KeyedBy, Plugin, Taking
from koord.scheduler.framework.queueing import Queueing
from koord.scheduler.plugins.numa.allocation import Allocation
from koord.scheduler.plugins.numa.allocations import Allocations
from koord.scheduler.plugins.numa.changes import NotWhole
from koord.scheduler.plugins.numa.facts import CPU
from koord.scheduler.plugins.numa.formulas import Formulas
from koord.scheduler.plugins.numa.judge import NUMAJudge
from koord.scheduler.plugins.numa.result import patch_of
from koord.scheduler.plugins.numa.service import services_of
from koord.scheduler.plugins.numa.wants import NOT_INTEGER, Wants, asks_for_amounts, wants_of
from koord.scheduler.plugins.numa.zones import Weighed
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import Amounts
from koord.scheduler.state.table import Reason, Row

_NATIVE: Final = ("cpu", "memory", "ephemeral-storage")
_SHAPES: Final[Mapping[str, ScoreShape]] = {
    "LeastAllocated": LEAST_ALLOCATED,
    "MostAllocated": MOST_ALLOCATED,
    "BalancedAllocation": BALANCED,
}


def _helps(ask: Ask, event: ClusterEvent, cluster: Cluster) -> bool:
    """What a node says in annotations may free CPUs; what it reports of its usage does not."""
    return isinstance(event.subject, Node) or bool(event.reasons & ~int(Reason.LOAD))


class NodeNUMAResource(Plugin):
    name = "NodeNUMAResource"
    notes = Allocations
    controller: Controller
    wakes_on = Reason.NODE | Reason.LABELS | Reason.ALLOCATABLE | Reason.FREED | Reason.EXACT | Reason.LOAD
    queueing = Queueing(helps=_helps)

    def __init__(self, args: NodeNUMAResourceArgs | None = None) -> None:
        self._args = (args or NodeNUMAResourceArgs()).completed()
        self._most = self._args.numa_scoring_strategy.type == "MostAllocated"
        self._is_first = False

    def attach(self, cluster: Cluster) -> None:
        is_noted = Allocations.name in cluster.noting
        self._allocations = cluster.notes(Allocations)
        # Allocations belong to the cluster: the plugin of the first profile gets topologies for all.
        self._is_first = self._is_first or not is_noted
        self.controller = Controller(services=services_of(self._allocations))

    def takes(self) -> Iterable[Taking]:
        allocations = self._allocations
        if self._is_first:
            yield Taking(NODE_RESOURCE_TOPOLOGIES, allocations.put_report, allocations.remove_report)

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.LABELS

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return ask.requests if asks_for_amounts(ask) else self._wants(ask), self._allocations.version

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        wants, allocations = self._wants(ask), self._allocations
        if not wants.requests:
            return None
        if wants.refused == NOT_INTEGER:
            cluster.resource(CPU)
            return NotWhole(wants.cpu_milli, cluster)
        if wants.refused:
            return Refused(wants.refused)
        node_score = _weighed(self._args.scoring_strategy, wants.requests)
        for name, _, _ in node_score.resources:
            cluster.resource(name)
        if wants.is_plain and not (allocations.restricts or allocations.binds or allocations.amplifies):
            shares = [
                Share(("allocatable", name), ("requested", name), adds, weight)
                for name, adds, weight in node_score.resources
            ]
            return AmountJudge(cluster.table, shares=shares, shape=node_score.shape)
        zone_score = _weighed(self._args.numa_scoring_strategy, wants.requests)
        return NUMAJudge(
            Formulas(
                cluster,
                wants,
                allocations,
                node_score=node_score,
                zone_score=zone_score,
                most=self._most,
                view=ask.view,
            )
        )

    def _wants(self, ask: Ask) -> Wants:
        return wants_of(ask, self._args.default_cpu_bind_policy)

    def reserve(self, ask: Ask, row: Row, cluster: Cluster, checked: object) -> object:
        if isinstance(checked, Allocation):
            return checked
        # What it says of another attempt, on another node, is not so here.
        return Allocation() if RESOURCE_STATUS.key in ask.meta.annotations else None

    def pre_bind(self, ask: Ask, row: Row, cluster: Cluster, note: object) -> Mapping[str, Any] | None:
        if not isinstance(note, Allocation):
            return None
        return patch_of(ask, note, self._wants(ask), self._allocations.on[row].facts)


def _weighed(strategy: ScoringStrategy, requests: Amounts) -> Weighed:
    """Extended resources that a pod does not ask for have no say."""
    asked = dict(requests)
    weights = [(resource.name, asked.get(resource.name, 0), resource.weight) for resource in strategy.resources]
    counted = tuple(weight for weight in weights if weight[0] in _NATIVE or weight[1])
    return Weighed(_SHAPES[strategy.type], counted)
