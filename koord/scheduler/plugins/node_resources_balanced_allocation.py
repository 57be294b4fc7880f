"""NodeResourcesBalancedAllocation: prefers nodes whose resources would be used to the same degree.

    fraction_r = min(1, (requested + pod) / allocatable)
    score = int((1 - sigma) * 100), sigma the fractions' standard deviation (of two: half their distance)
It looks at real requests. A pod that asks for nothing is not scored.
"""

from __future__ import annotations

from collections.abc import Hashable

from koord.api.configuration.scheduler_args import NodeResourcesBalancedAllocationArgs
from koord.scheduler.framework.amount_scores import BALANCED
from koord.scheduler.framework.amounts import AmountJudge, Share
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.state.cluster import Cluster


class NodeResourcesBalancedAllocation(Plugin):
    name = "NodeResourcesBalancedAllocation"

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None = None) -> None:
        self._args = (args or NodeResourcesBalancedAllocationArgs()).completed()

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.SPEC

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return ask.requests

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        asked = dict(ask.requests)
        names = [resource.name for resource in self._args.resources]
        if not any(asked.get(name) for name in names):
            return None
        wanted = [name for name in names if name in ("cpu", "memory", "ephemeral-storage") or asked.get(name)]
        for name in wanted:
            cluster.resource(name)
        shares = [Share(("allocatable", name), ("requested", name), asked.get(name, 0)) for name in wanted]
        return AmountJudge(cluster.table, shares=shares, shape=BALANCED)
