"""ScaleDownBinPack: rank pods so that scaling down empties whole nodes.

    a node's score = what would be left there / what could go, each as a weighted share of the node

Nodes with the lowest score come first, then those with fewer pods that could go; on a node the larger and the newer
pods come first. CalculateOnly writes the rank as the pods' deletion cost, which ReplicaSets respect when they shrink;
EvictDirectly moves the first `maxPodsToEvict`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from koord.api.configuration.descheduler_args import ScaleDownBinPackArgs
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.pod_costs import deletion_cost
from koord.api.kubernetes.resources import amounts
from koord.descheduler.importance import created_s
from koord.descheduler.plugin import ANYHOW, Plugin, Proposal, Turn
from koord.descheduler.selection import Selection, in_namespaces
from koord.scheduler.framework.ask import Ask

LAST: Final = 2**31 - 1
"""The cost of pods that should stay: whatever shrinks deletes them last."""


class _Node(NamedTuple):
    score: float
    number: int
    name: str
    could_go: list[tuple[float, float, str, Pod]]
    "Sorted: the larger, the newer, by name."


class ScaleDownBinPack(Plugin):
    name = "ScaleDownBinPack"

    def __init__(self, args: ScaleDownBinPackArgs) -> None:
        self._args = args
        self._selection = Selection.of(args)

    def propose(self, turn: Turn, memory: None) -> None:
        if self._args.paused:
            return
        nodes: list[_Node] = []
        stay: list[Pod] = []
        for name in self._selection.nodes_of(turn.sight, turn.nodes):
            node_found = self._look_at(turn, name, stay)
            if node_found is not None:
                nodes.append(node_found)
        ranked = [pod for node in sorted(nodes, key=lambda node: node[:3]) for *_, pod in node.could_go]
        if self._args.strategy == "EvictDirectly":
            left = self._args.max_pods_to_evict or 0
            for pod in ranked:
                if left and turn.ask(Proposal(pod, self.name, "scale-down binpack"), ANYHOW) is not None:
                    left -= 1
            return
        for rank, pod in enumerate(ranked):
            _note(turn, pod, rank)
        for pod in stay:
            _note(turn, pod, LAST)

    def _look_at(self, turn: Turn, name: str, stay: list[Pod]) -> _Node | None:
        """A node with pods that could move. If it is chosen, its other pods join `stay`."""
        selection, sight = self._selection, turn.sight
        has = amounts(sight.nodes[name].status.allocatable, capped=True)
        could_go, cannot = [], []
        going = left = 0.0
        for pod in sight.pods_on.get(name, ()):
            size = self._size(pod, has)
            if selection.has_pod(pod) and turn.never(pod) is None:
                could_go.append((-size, -created_s(pod), pod.metadata.key, pod))
                going += size
                continue
            left += size
            is_chosen = selection.has_labels_of(pod) and in_namespaces(pod.metadata.namespace, selection.namespaces)
            if is_chosen:
                cannot.append(pod)
        if not could_go:
            return None
        stay += cannot
        score = left / going if going else math.inf if left else 0.0
        return _Node(score, len(could_go), name, sorted(could_go, key=lambda could: could[:3]))

    def _size(self, pod: Pod, has: Mapping[str, int]) -> float:
        requests = dict(Ask(pod).requests)
        weights = self._args.resource_weights
        return sum(
            weight * requests.get(resource, 0) / has[resource]
            for resource, weight in weights.items()
            if has.get(resource)
        )


def _note(turn: Turn, pod: Pod, cost: int) -> None:
    if deletion_cost(pod) != cost:
        turn.deletion_costs[pod.metadata.key] = cost
