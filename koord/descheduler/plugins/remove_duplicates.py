"""RemoveDuplicates: spread pods of one owner, with the same images, over the nodes that they may run on.

A node's share is the number of these pods divided by the number of nodes that they may run on, rounded up. Pods beyond
a node's share are moved. Pods with fewer than two possible nodes stay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from koord.api.configuration.descheduler_upstream_args import RemoveDuplicatesArgs
from koord.api.kubernetes.pod import Pod
from koord.descheduler.node_preferences import PreferenceCache
from koord.descheduler.plugin import ANYHOW, Plugin, Proposal, Turn
from koord.descheduler.selection import Selection

Owner: TypeAlias = tuple[str, str, str, tuple[str, ...]]
"""Namespace, kind, name, and the images of its pods."""


@dataclass(slots=True)
class _Alike:
    """Pods of one owner."""

    number: int = 0
    beyond_the_first: dict[str, list[Pod]] = field(default_factory=dict)
    "By node."


class RemoveDuplicates(Plugin):
    name = "RemoveDuplicates"

    def __init__(self, args: RemoveDuplicatesArgs) -> None:
        self._excluded = frozenset(args.exclude_owner_kinds)
        self._selection = Selection.of_pods(None, args.namespaces)

    def propose(self, turn: Turn, memory: None) -> None:
        wishes = PreferenceCache()
        nodes = {name: turn.sight.nodes[name] for name in turn.nodes}
        for owner, alike in self._alike(turn).items():
            if not alike.beyond_the_first:
                continue
            may_land: set[str] = set()
            for pod in _differing(alike):
                landings = wishes.may_land(pod, nodes)
                if len(landings) > 1:
                    may_land.update(landings)
            if len(may_land) < 2:
                continue
            share = math.ceil(alike.number / len(may_land))
            for pods in alike.beyond_the_first.values():
                reason = f"the node has {len(pods) + 1} pods of {owner[1]} {owner[2]}, and its share is {share}"
                for pod in pods[share - 1 :]:
                    turn.ask(Proposal(pod, self.name, reason), ANYHOW)

    def _alike(self, turn: Turn) -> dict[Owner, _Alike]:
        by_owner: dict[Owner, _Alike] = {}
        for node in turn.nodes:
            met: set[tuple[Owner, ...]] = set()
            for pod in turn.sight.pods_on.get(node, ()):
                owners = self._owners(pod)
                if not owners or not self._selection.has_pod(pod) or turn.never(pod) is not None:
                    continue
                is_duplicate = owners in met
                met.add(owners)
                for owner in owners:
                    alike = by_owner.setdefault(owner, _Alike())
                    alike.number += 1
                    if is_duplicate:
                        alike.beyond_the_first.setdefault(node, []).append(pod)
        return by_owner

    def _owners(self, pod: Pod) -> tuple[Owner, ...]:
        references = pod.metadata.owner_references
        if any(reference.kind in self._excluded for reference in references):
            return ()
        images = tuple(sorted(container.image for container in pod.spec.containers))
        return tuple(
            sorted((pod.metadata.namespace, reference.kind, reference.name, images) for reference in references)
        )


def _differing(alike: _Alike) -> Sequence[Pod]:
    """One pod for each set of tolerations, selectors and affinities among them."""
    different: list[Pod] = []
    for pods in alike.beyond_the_first.values():
        for pod in pods:
            if not any(_chooses_like(pod, other) for other in different):
                different.append(pod)
    return different


def _chooses_like(pod: Pod, other: Pod) -> bool:
    one, two = pod.spec, other.spec
    return one is two or (
        one.tolerations == two.tolerations and one.node_selector == two.node_selector and (one.affinity == two.affinity)
    )
