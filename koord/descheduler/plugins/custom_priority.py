"""CustomPriority: move pods from expensive nodes to cheaper ones.

A node belongs to the first level of `evictionOrder` that selects it; pods go to any cheaper level, small ones first.
BestEffort moves whichever fit. DrainNode moves the pods of a node only if all of them have a place, so that the node
can be given back; as many at once as limits allow. With autoCordon the node takes no new pods during that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from koord.api.configuration.descheduler_args import CustomPriorityArgs
from koord.api.kubernetes.pod import Pod
from koord.descheduler.plugin import Plugin, Proposal, Terms, Turn
from koord.descheduler.selection import Selection, chosen_by
from koord.scheduler.framework.ask import Ask
from koord.scheduler.state.table import Array

MISSES: Final = 5
"""After this number of pods in a row that do not fit, larger pods are not tried."""


class CustomPriority(Plugin):
    name = "CustomPriority"

    def __init__(self, args: CustomPriorityArgs) -> None:
        self._args = args
        self._selection = Selection.of(args)
        self._levels = tuple((level.name, chosen_by(level.node_selector)) for level in args.eviction_order)

    def propose(self, turn: Turn, memory: None) -> None:
        if self._args.paused:
            return
        nodes_of: dict[str, list[str]] = {name: [] for name, _ in self._levels}
        for name in self._selection.nodes_of(turn.sight, turn.nodes):
            labels = turn.sight.nodes[name].metadata.labels
            level = next((level for level, nodes in self._levels if nodes.matches(labels)), None)
            if level is not None:
                nodes_of[level].append(name)
        levels = [level for level, nodes in nodes_of.items() if nodes]
        for i, level in enumerate(levels[:-1]):
            cheaper = turn.sight.places.rows(node for other in levels[i + 1 :] for node in nodes_of[other])
            for node in nodes_of[level]:
                pods = self._pods(turn, node)
                if not pods:
                    continue
                if self._args.mode == "DrainNode":
                    self._drain(turn, node, level, pods, cheaper)
                else:
                    self._move_some(turn, level, pods, cheaper)

    def _pods(self, turn: Turn, node: str) -> Sequence[Pod]:
        """Those that may move, the smallest first."""
        pods = [
            pod for pod in turn.sight.pods_on.get(node, ()) if self._selection.has_pod(pod) and turn.never(pod) is None
        ]
        return sorted(pods, key=_size)

    def _move_some(self, turn: Turn, level: str, pods: Sequence[Pod], cheaper: Array) -> None:
        args, misses = self._args, 0
        reason = f"evicting from {level} priority resource to lower priority resource"
        terms = Terms(cheaper, must_fit=args.node_fit, nowhere="no cheaper node would take it", looks_on=args.dry_run)
        for pod in pods:
            waits = turn.not_now(pod) is not None
            if turn.ask(Proposal(pod, self.name, reason), terms) is not None:
                misses = 0
            elif not waits:
                misses += 1
                if misses >= MISSES:
                    return

    def _drain(self, turn: Turn, node: str, level: str, pods: Sequence[Pod], cheaper: Array) -> None:
        args = self._args
        reason = f"drain node {node} (sourcePriority={level})"
        terms = Terms(cheaper, must_fit=True, nowhere="no cheaper node would take it", looks_on=args.dry_run)
        if not turn.sight.places.would_take_all(pods, cheaper):
            return
        gone = [pod for pod in pods if turn.ask(Proposal(pod, self.name, reason), terms) is not None]
        if gone and args.auto_cordon and not args.dry_run and not turn.sight.nodes[node].spec.unschedulable:
            turn.cordons.append(node)


def _size(pod: Pod) -> tuple[int, int, str]:
    requests = dict(Ask(pod).requests)
    return (requests.get("cpu", 0), requests.get("memory", 0), pod.metadata.key)
