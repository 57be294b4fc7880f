"""FragmentationAware: where requests fill a node's resources unevenly, move the pod that makes it most uneven.

    unevenness = standard deviation of requested / allocatable over some resources (cpu and memory)

A node with most of its CPU asked for and most of its memory free can take nothing more. One pod a node and round goes:
the one that lowers the deviation most, if by enough, and if another node takes it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from koord.api.configuration.descheduler_args import FragmentationAwareArgs
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts
from koord.descheduler.plugin import Plugin, Proposal, Terms, Turn
from koord.descheduler.selection import Selection
from koord.scheduler.framework.ask import Ask
from koord.scheduler.state.table import Array


class FragmentationAware(Plugin):
    name = "FragmentationAware"

    def __init__(self, args: FragmentationAwareArgs) -> None:
        self._args = args
        self._selection = Selection.of(args)

    def propose(self, turn: Turn, memory: None) -> None:
        if self._args.paused:
            return
        nodes = self._selection.nodes_of(turn.sight, turn.nodes)
        here = turn.sight.places.rows(nodes)
        for name in nodes:
            self._even_out(turn, name, here)

    def _even_out(self, turn: Turn, name: str, here: Array) -> None:
        args, sight = self._args, turn.sight
        has = amounts(sight.nodes[name].status.allocatable, capped=True)
        pods = sight.pods_on.get(name, ())
        requests = [dict(Ask(pod).requests) for pod in pods]
        total = {resource: sum(request.get(resource, 0) for request in requests) for resource in args.resources}
        before = unevenness(total, has, args.resources)
        if before <= args.imbalance_threshold:
            return
        gains: list[tuple[float, Pod]] = []
        for pod, request in zip(pods, requests, strict=True):
            without = {resource: total[resource] - request.get(resource, 0) for resource in args.resources}
            gain = before - unevenness(without, has, args.resources)
            if gain > args.min_improvement_threshold and self._selection.has_pod(pod) and turn.never(pod) is None:
                gains.append((gain, pod))
        for gain, pod in sorted(gains, key=lambda gain: (-gain[0], gain[1].metadata.key)):
            waits = turn.not_now(pod) is not None
            if not args.node_fit or waits or sight.places.would_take(pod, here):
                reason = f"fragmentation reduction: stdBefore={before:.4f} stdAfter={before - gain:.4f} gain={gain:.4f}"
                terms = Terms(here, must_fit=args.node_fit, looks_on=args.dry_run)
                turn.ask(Proposal(pod, self.name, reason), terms)
                return


def unevenness(requested: Mapping[str, int], has: Mapping[str, int], resources: Sequence[str]) -> float:
    """The standard deviation of what is asked for of each resource that the node has."""
    shares = [requested.get(resource, 0) / has[resource] for resource in resources if has.get(resource)]
    if not shares:
        return 0.0
    mean = sum(shares) / len(shares)
    return math.sqrt(sum((share - mean) ** 2 for share in shares) / len(shares))
