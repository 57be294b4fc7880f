"""NodeResourcesFit: a pod's requests must fit into what is left of a node; nodes score by how full they would be.

    feasible:  request <= allocatable - requested, for every resource that the pod asks for; and one more pod
    score:     sum(weight_r * score_r) / sum(weight_r)
        LeastAllocated              (capacity - used) * 100 / capacity
        MostAllocated               used * 100 / capacity
        RequestedToCapacityRatio    a line through the shape's points, at used * 100 / capacity
Used counts the pod, and for cpu and memory the usual amounts where containers name none. Resources that a node does not
have, and extended ones that the pod does not ask for, are left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from msgspec.structs import replace

from koord.api.configuration.scheduler_args import FitScoringStrategy, NodeResourcesFitArgs, is_extended_resource
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.names import RESOURCE_GPU_SHARED
from koord.api.text.quantity import amount as amount_of
from koord.api.text.quantity import render
from koord.scheduler.core.queue import ClusterEvent
from koord.scheduler.framework.amount_scores import LEAST_ALLOCATED, MOST_ALLOCATED, Ratio, ScoreShape
from koord.scheduler.framework.amounts import AmountJudge, Share
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import One
from koord.scheduler.framework.change import Change, asking_for_less, listed, smaller
from koord.scheduler.framework.judge import Judge, Need
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.framework.queueing import Queueing
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import Amounts, non_zero_of, requests_of
from koord.scheduler.state.table import MOST_OF_A_POD, Reason, Row

CPU: Final = "cpu"
MEMORY: Final = "memory"
ONE_MORE_POD: Final = Need(("allocatable", "pods"), "pod count", 1, lasts=False)
_NATIVE: Final = frozenset({CPU, MEMORY, "ephemeral-storage"})


class NodeResourcesFit(Plugin):
    name = "NodeResourcesFit"
    wakes_on = Reason.NODE | Reason.ALLOCATABLE | Reason.FREED

    def __init__(self, args: NodeResourcesFitArgs | None = None) -> None:
        self._args = (args or NodeResourcesFitArgs()).completed()
        self.queueing = Queueing(helps=self._helps)
        self._weighed: ClusterEvent | None = None
        self._there: dict[str, int] | None = None

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.SPEC

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return ask.requests, ask.non_zero, None if ask.spec.resources is None else _by_containers(ask)

    def _helps(self, ask: Ask, event: ClusterEvent, cluster: Cluster) -> bool:
        """Whether the node concerned could take the pod if it were empty, and has more of something that it wants."""
        if event is not self._weighed:
            self._weighed, self._there = event, _whole(event, cluster)
        there = self._there
        if there is None:
            return True
        wants_it = not event.grown or "pods" in event.grown
        for name, amount in ask.requests:
            if amount > there.get(name, 0) and not self._is_ignored(name):
                return False
            wants_it = wants_it or name in event.grown
        return wants_it

    def compile(self, ask: Ask, cluster: Cluster) -> Judge:
        for name, _ in ask.requests:
            cluster.resource(name)
        needed = tuple((name, amount) for name, amount in ask.requests if not self._is_ignored(name))
        strategy = self._args.scoring_strategy
        requests, non_zero = _by_containers(ask)
        asked, shares = dict(requests), []
        for resource in strategy.resources:
            cluster.resource(resource.name)
            if resource.name in _NATIVE or asked.get(resource.name):
                adds = _adds(resource.name, asked, non_zero)
                shares.append(Share(("allocatable", resource.name), used_column(resource.name), adds, resource.weight))
        return _Fit(cluster, needed, shares, _shape(strategy))

    def _is_ignored(self, name: str) -> bool:
        """Resources of vendors can be left to someone else. Over how many cards a request is spread is no amount."""
        if name == RESOURCE_GPU_SHARED:
            return True
        args = self._args
        named = name in args.ignored_resources or name.partition("/")[0] in args.ignored_resource_groups
        return named and is_extended_resource(name)


def _whole(event: ClusterEvent, cluster: Cluster) -> dict[str, int] | None:
    """All that the node has with which something happened; None where it is not known which."""
    subject = event.subject
    if isinstance(subject, Node):
        row = cluster.table.row_of.get(subject.metadata.name)
    else:
        row = cluster.table.row_of.get(subject.spec.node_name) if isinstance(subject, Pod) else None
    if row is None:
        return None
    columns = cluster.table.columns.items()
    return {key[1]: column.item(row) for key, column in columns if isinstance(key, tuple) and key[0] == "allocatable"}


class _Fit(AmountJudge):
    def __init__(self, cluster: Cluster, requests: Amounts, shares: Sequence[Share], shape: ScoreShape) -> None:
        needs = [Need(("allocatable", name), ("requested", name), amount) for name, amount in requests]
        super().__init__(cluster.table, [ONE_MORE_POD, *needs], shares, shape)
        self._cluster, self._requests = cluster, requests

    def reasons(self, mask: int) -> list[str]:
        reasons = ["Too many pods"] if mask & 1 else []
        return reasons + [f"Insufficient {name}" for i, (name, _) in enumerate(self._requests, 1) if mask & (1 << i)]

    def fixes(self, ask: Ask, row: Row) -> list[Change]:
        """A pod that asks for less, or a node that has more."""
        pods, *others = self.left(One(self.columns(), row))
        free = {name: int(left) for (name, _), left in zip(self._requests, others, strict=True)}
        short = {name: amount for name, amount in self._requests if free[name] < amount}
        free["pods"] = int(pods)
        changes = []
        if short and min(free[name] for name in short) > 0:
            pod = smaller(ask.pod, {name: free[name] for name in short})
            if pod is not None:
                parts = [1 - free[name] / asked for name, asked in short.items()]
                requests = {name: (free[name], asked) for name, asked in short.items()}
                changes.append(asking_for_less(pod, requests, size=1 + sum(parts)))
        more = {name: asked - free[name] for name, asked in short.items()}
        if free["pods"] < 1:
            more["pods"] = 1 - free["pods"]
        if not more:
            return []
        node = self._cluster.nodes[row]
        has = node.status.allocatable
        wanted = {name: amount_of(name, has.get(name, 0)) + added for name, added in more.items()}
        if max(wanted.values()) > MOST_OF_A_POD:
            # No node has that much.
            return changes
        grown = {name: render(name, amount) for name, amount in wanted.items()}
        words = [
            f"room for {added} more pod{'s' if added > 1 else ''}"
            if name == "pods"
            else f"{render(name, added)} more {name}"
            for name, added in more.items()
        ]
        changed = replace(node, status=replace(node.status, allocatable={**has, **grown}))
        asked_in_all = {**dict(self._requests), "pods": 1}
        size = 1 + sum(added / asked_in_all[name] for name, added in more.items())
        return [*changes, Change(f"{listed(words)} there", node=changed, size=size)]


def _shape(strategy: FitScoringStrategy) -> ScoreShape:
    if strategy.type == "RequestedToCapacityRatio":
        ratio = strategy.requested_to_capacity_ratio
        return Ratio(tuple((point.utilization, point.score * 10) for point in ratio.shape) if ratio else ())
    return MOST_ALLOCATED if strategy.type == "MostAllocated" else LEAST_ALLOCATED


def _by_containers(ask: Ask) -> tuple[Amounts, tuple[int, int]]:
    """What counts for the score: kube-scheduler overlooks there what a new pod states for itself as a whole."""
    if ask.spec.resources is None:
        return ask.requests, ask.non_zero
    pod = replace(ask.pod, spec=replace(ask.spec, resources=None))
    return requests_of(pod), non_zero_of(pod)


def used_column(name: str) -> Hashable:
    """What counts as used of a resource when nodes are compared."""
    return {CPU: "non-zero cpu", MEMORY: "non-zero memory"}.get(name, ("requested", name))


def _adds(name: str, asked: dict[str, int], non_zero: tuple[int, int]) -> int:
    return {CPU: non_zero[0], MEMORY: non_zero[1]}.get(name, asked.get(name, 0))
