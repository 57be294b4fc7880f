"""What a plugin of the descheduler is.

    propose(turn, memory)    pods that should move, through `turn.ask`, those that should go first before others
    keeps(pod)               a filter: why a pod stays where it is; None where it may move
    rank(pod)                a sorter: pods of lower rank move first, before koord's own order

A plugin has one or more of the three, and leaves the others out. It keeps nothing from round to round: what it must
know then is its memory, which `propose` gets and gives back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from koord.api.kubernetes.pod import Pod
from koord.descheduler.sight import Sight
from koord.scheduler.state.table import Array

Point: TypeAlias = Literal["deschedule", "balance"]
Rank: TypeAlias = int | float


@dataclass(frozen=True, slots=True)
class Proposal:
    """A pod that should move, and why."""

    pod: Pod
    by: str
    "The plugin."
    reason: str
    to: str = ""
    "The node that the pod would go to now; empty if no node would take it."

    @property
    def node(self) -> str:
        return self.pod.spec.node_name


@dataclass(frozen=True, slots=True)
class NodeAssessment:
    """How a plugin classified a node, with its usage before and after the turn."""

    class_: str
    has: Mapping[str, int]
    usage: Mapping[str, int]
    after: Mapping[str, int]
    "When all that may move has moved."


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms a plugin lets a pod go."""

    among: Array | None = None
    "The rows that may take it; None: all."
    must_fit: bool = False
    "It stays where none of them takes it."
    nowhere: str = "no other node would take it"
    looks_on: bool = False
    "The plugin only says what it would do (its own dryRun)."


ANYHOW = Terms()


@dataclass(slots=True)
class Turn:
    """One plugin's turn in a round."""

    sight: Sight
    nodes: Sequence[str]
    "Names of the ready nodes that its profile covers."
    interval_s: float
    at_once: bool
    "What takes several rounds counts in the first, as if everything had been like this for long."
    never: Callable[[Pod], str | None]
    "Why the profile's filters keep a pod where it is, whatever else moves; None where they do not."
    not_now: Callable[[Pod], str | None]
    "Why a pod must wait; None where it may move now."
    ask: Callable[[Proposal, Terms], Proposal | None]
    "Have a pod moved. What comes of it, with its new place; None where it stays for now, which is noted with why."
    nodes_seen: dict[str, NodeAssessment] = field(default_factory=dict)
    "How it classified nodes, for reports."
    deletion_costs: dict[str, int] = field(default_factory=dict)
    "What deleting pods should cost from now on, by their keys."
    cordons: list[str] = field(default_factory=list)
    "Nodes that are to take no pods while theirs move."


class Plugin:
    """Subclasses have a name, and say at which point they propose."""

    name: str = ""
    point: Point = "balance"
    cools: bool = False
    "Whether it moves pods because their node is used too much. The node then takes no pods of their band for a while."

    propose: Callable[[Turn, Any], Any] | None = None
    keeps: Callable[[Pod], str | None] | None = None
    rank: Callable[[Pod], Rank] | None = None
