"""What a plugin of the descheduler is: it looks at a round's nodes, and proposes pods that should move.

    propose(turn, memory)    pods that are to move, through `turn.move`, those that should go first before others

A plugin keeps nothing: what it must know from round to round is its memory, which it gets and gives back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from koord.api.kubernetes.pod import Pod
from koord.descheduler.sight import Sight


@dataclass(frozen=True, slots=True)
class Proposal:
    """A pod that should move, and why."""

    pod: Pod
    by: str
    "The plugin."
    reason: str
    to: str = ""
    "Where it would go now."

    @property
    def node(self) -> str:
        return self.pod.spec.node_name


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """How a node looked to a plugin, before its turn and after."""

    class_: str
    has: Mapping[str, int]
    usage: Mapping[str, int]
    after: Mapping[str, int]
    "When all that may move has moved."


@dataclass(slots=True)
class Turn:
    """One plugin's turn in a round."""

    sight: Sight
    nodes: Sequence[str]
    "Those that its profile looks at, ready ones alone, by name."
    interval_s: float
    never: Callable[[Pod], str | None]
    "Why the profile's filters keep a pod where it is, whatever else moves; None where they do not."
    not_now: Callable[[Pod], str | None]
    "Why a pod must wait; None where it may move now."
    move: Callable[[Proposal], None]
    "A pod that may move now is to move."
    hold: Callable[[Proposal, str], None]
    "A pod should move, and must wait."
    nodes_seen: dict[str, NodeSeen] = field(default_factory=dict)
    "What it found nodes to be, for those who look on."


class Plugin(Protocol):
    name: str

    def propose(self, turn: Turn, memory: Any) -> Any:
        """Propose what should move; the plugin's memory after that."""
