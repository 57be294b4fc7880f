"""A first-fit binder: puts pending pods on nodes while no scheduler runs.

It knows requests, the number of pods, node selectors, required node affinity and taints; nothing else. The search for a
node begins behind the one chosen last, so that pods spread over equal nodes and a search is short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from koord.api.node import Node, Taint
from koord.api.pod import Pod, Toleration
from koord.api.resources import amounts, pod_requests
from koord.api.selector import NodeMatcher, compile_nodes, match_labels
from koord.api.taints import tolerates
from koord.api.words import SchedulerName, TaintEffect, TaintKey

SCHEDULERS: Final[frozenset[str]] = frozenset({SchedulerName.DEFAULT, SchedulerName.KOORD})
KEEPS_OFF: Final = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)
_CORDON: Final = Taint(TaintKey.UNSCHEDULABLE, TaintEffect.NO_SCHEDULE)


def is_pending(pod: Pod) -> bool:
    """Whether the pod waits for this binder."""
    return (
        not pod.spec.node_name
        and pod.spec.scheduler_name in SCHEDULERS
        and not pod.spec.scheduling_gates
        and pod.metadata.deletion_timestamp is None
        and not pod.is_finished
    )


def order(pod: Pod) -> tuple[int, str, str]:
    """Pending pods go in this order: the more important ones first, then the older ones."""
    return -(pod.spec.priority or 0), pod.metadata.creation_timestamp or "", pod.metadata.key


@dataclass(slots=True)
class Room:
    """A node, and what its pods have taken of it."""

    node: Node
    allocatable: Mapping[str, int]
    taken: dict[str, int] = field(default_factory=dict)

    def lacks(self, request: Mapping[str, int]) -> str | None:
        """The first resource that the node has too little of for this request."""
        return next(
            (
                name
                for name, amount in request.items()
                if amount and self.taken.get(name, 0) + amount > self.allocatable.get(name, 0)
            ),
            None,
        )


@dataclass(slots=True)
class Rooms:
    """All nodes and the pods on them, kept by telling it of each change."""

    rooms: dict[str, Room] = field(default_factory=dict)
    pods: dict[str, tuple[str, Mapping[str, int]]] = field(default_factory=dict)
    _taken: dict[str, dict[str, int]] = field(default_factory=dict)
    _last: int = 0

    def put_node(self, node: Node) -> None:
        taken = self._taken.setdefault(node.metadata.name, {})
        self.rooms[node.metadata.name] = Room(node, amounts(node.status.allocatable), taken)

    def drop_node(self, name: str) -> None:
        self.rooms.pop(name, None)

    def put_pod(self, pod: Pod) -> None:
        """The pod is on its node, if it is on one and still needs it."""
        key = pod.metadata.key
        self.drop_pod(key)
        if pod.spec.node_name and not pod.is_finished:
            self.take(key, pod.spec.node_name, request_of(pod))

    def take(self, key: str, node: str, request: Mapping[str, int]) -> None:
        self.pods[key] = node, request
        taken = self._taken.setdefault(node, {})
        for name, amount in request.items():
            taken[name] = taken.get(name, 0) + amount

    def drop_pod(self, key: str) -> None:
        node, request = self.pods.pop(key, ("", {}))
        taken = self._taken.get(node, {})
        for name, amount in request.items():
            taken[name] -= amount

    def place(self, pod: Pod) -> Placement:
        """The first node that fits, from behind the last one; or why there is none."""
        wish, request = _Wish.of(pod), request_of(pod)
        rooms = list(self.rooms.values())
        reasons: Counter[str] = Counter()
        for step in range(len(rooms)):
            at = (self._last + 1 + step) % len(rooms)
            room = rooms[at]
            reason = wish.refused_by(room.node)
            if reason is None and (short := room.lacks(request)) is not None:
                reason = "Too many pods" if short == "pods" else f"Insufficient {short}"
            if reason is None:
                self._last = at
                return Placement(room.node.metadata.name)
            reasons[reason] += 1
        told = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items())) or "there are no nodes"
        return Placement(None, f"0/{len(rooms)} nodes are available: {told}.")


@dataclass(frozen=True, slots=True)
class Placement:
    node: str | None
    reason: str = ""


def request_of(pod: Pod) -> dict[str, int]:
    """What the pod takes of a node: its requests, and one of the number of pods."""
    return {**pod_requests(pod), "pods": 1}


@dataclass(frozen=True, slots=True)
class _Wish:
    """What a pod says about nodes."""

    selector: Mapping[str, str]
    affinity: NodeMatcher | None
    tolerations: tuple[Toleration, ...]

    @staticmethod
    def of(pod: Pod) -> _Wish:
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
        required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
        return _Wish(
            pod.spec.node_selector,
            compile_nodes(required) if required is not None else None,
            pod.spec.tolerations,
        )

    def refused_by(self, node: Node) -> str | None:
        labels = node.metadata.labels
        if self.selector and not match_labels(self.selector).matches(labels):
            return "node(s) didn't match Pod's node affinity/selector"
        if self.affinity is not None and not self.affinity.matches(labels, node.metadata.name):
            return "node(s) didn't match Pod's node affinity/selector"
        taints = (*node.spec.taints, _CORDON) if node.spec.unschedulable else node.spec.taints
        for taint in taints:
            if taint.effect in KEEPS_OFF and not any(tolerates(t, taint) for t in self.tolerations):
                if taint.key == TaintKey.UNSCHEDULABLE:
                    return "node(s) were unschedulable"
                return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
        return None
