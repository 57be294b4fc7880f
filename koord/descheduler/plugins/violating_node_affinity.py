"""RemovePodsViolatingNodeAffinity: move pods off nodes that they would not be sent to today.

required...      the node matches their selector or required affinity no longer, and another node takes them
preferred...     another node that takes them has more of what they prefer
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from koord.api.configuration.descheduler_upstream_args import RemovePodsViolatingNodeAffinityArgs
from koord.api.kubernetes.pod import Pod
from koord.descheduler.node_preferences import NodePreferences, PreferenceCache, node_affinity_of
from koord.descheduler.plugin import Plugin, Proposal, Terms, Turn
from koord.descheduler.selection import Selection


class RemovePodsViolatingNodeAffinity(Plugin):
    name = "RemovePodsViolatingNodeAffinity"
    point = "deschedule"

    def __init__(self, args: RemovePodsViolatingNodeAffinityArgs) -> None:
        self._args = args
        self._selection = Selection.of_pods(args.label_selector, args.namespaces)

    def propose(self, turn: Turn, memory: None) -> None:
        wishes = PreferenceCache()
        by_weight: dict[bytes, Mapping[int, Sequence[str]]] = {}
        here = turn.sight.places.rows(turn.nodes)
        for kind in self._args.node_affinity_type:
            for name in turn.nodes:
                node = turn.sight.nodes[name]
                for pod in turn.sight.pods_on.get(name, ()):
                    if kind.startswith("required"):
                        if _requires(pod) and not wishes.of(pod).suits(node) and self._may_go(turn, pod):
                            reason = "the node no longer matches the pod's required node affinity"
                            turn.ask(Proposal(pod, self.name, reason), Terms(among=here, must_fit=True))
                    elif _prefers(pod):
                        # Pods with equal wishes share the look at all nodes.
                        alike = msgspec.msgpack.encode(node_affinity_of(pod.spec))
                        if alike not in by_weight:
                            by_weight[alike] = _by_weight(turn, wishes.of(pod))
                        self._to_a_preferred(turn, pod, wishes.of(pod).preference(node), by_weight[alike])

    def _may_go(self, turn: Turn, pod: Pod) -> bool:
        return self._selection.has_pod(pod) and turn.never(pod) is None

    def _to_a_preferred(self, turn: Turn, pod: Pod, now: int, by_weight: Mapping[int, Sequence[str]]) -> None:
        """The most preferred nodes are tried first: a move to a node that is no better would be one for nothing."""
        better = [weight for weight in by_weight if weight > now]
        if not better or not self._may_go(turn, pod):
            return
        places = turn.sight.places
        for weight in sorted(better, reverse=True):
            among = places.rows(by_weight[weight])
            if places.would_take(pod, among):
                reason = f"another node has more of what the pod prefers: a weight of {weight}, and this node {now}"
                turn.ask(Proposal(pod, self.name, reason), Terms(among=among, must_fit=True))
                return


def _by_weight(turn: Turn, mine: NodePreferences) -> Mapping[int, Sequence[str]]:
    """Nodes by how much they are preferred."""
    by_weight: dict[int, list[str]] = {}
    for name in turn.nodes:
        by_weight.setdefault(mine.preference(turn.sight.nodes[name]), []).append(name)
    return by_weight


def _requires(pod: Pod) -> bool:
    affinity = node_affinity_of(pod.spec)
    return affinity is not None and affinity.required_during_scheduling_ignored_during_execution is not None


def _prefers(pod: Pod) -> bool:
    affinity = node_affinity_of(pod.spec)
    return affinity is not None and bool(affinity.preferred_during_scheduling_ignored_during_execution)
