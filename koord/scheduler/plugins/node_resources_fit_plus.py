"""NodeResourcesFitPlus: each resource says for itself whether nodes with more of it left are better, or fuller ones.

    score = sum(weight_r * s_r) // sum(weight_r)    over configured resources that the pod asks for; 100 without any
    s_r     LeastAllocated: (capacity - used) * 100 // capacity    MostAllocated: min(used, capacity) * 100 // capacity

GPU pods can so be packed on few nodes while the others are spread. A node that lacks a resource scores 0 for it.
"""

from __future__ import annotations

from collections.abc import Hashable

from koord.api.configuration.scheduler_args import NodeResourcesFitPlusArgs
from koord.api.kubernetes.resources import NON_ZERO_REQUESTS, amounts
from koord.api.text.stored import stored_amount
from koord.scheduler.framework.amount_scores import Mixed
from koord.scheduler.framework.amounts import AmountJudge, Share
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.plugins.node_resources_fit import used_column
from koord.scheduler.state.cluster import Cluster


class NodeResourcesFitPlus(Plugin):
    name = "NodeResourcesFitPlus"

    def __init__(self, args: NodeResourcesFitPlusArgs | None = None) -> None:
        self._args = (args or NodeResourcesFitPlusArgs()).completed()

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.SPEC

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        """What it adds to each of the resources that count, by name."""
        return tuple((name, _adds(ask, name)) for name, asked in ask.requests if asked and name in self._args.resources)

    def compile(self, ask: Ask, cluster: Cluster) -> Judge:
        shares, most = [], []
        for name, asked in ask.requests:
            counts = self._args.resources.get(name)
            if counts is not None and asked:
                cluster.resource(name)
                shares.append(Share(("allocatable", name), used_column(name), _adds(ask, name), counts.weight))
                most.append(counts.type == "MostAllocated")
        return AmountJudge(cluster.table, shares=shares, shape=Mixed(tuple(most)))


def _adds(ask: Ask, name: str) -> int:
    """What a pod adds: its containers and sidecars together, or the largest of its init containers where that is more.
    Containers that do not say how much cpu or memory they want count with the usual amounts."""
    spec, missing = ask.spec, NON_ZERO_REQUESTS.get(name, 0)
    total = sum(amounts(container.resources.requests).get(name, missing) for container in spec.containers)
    for container in spec.init_containers:
        wanted = amounts(container.resources.requests).get(name, missing)
        total = total + wanted if container.is_sidecar else max(total, wanted)
    return stored_amount(total + amounts(spec.overhead).get(name, 0))
