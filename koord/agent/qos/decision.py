"""What a strategy decides in a round: all that it wants to be so, and whom it wants gone or moved.

A strategy that lacks data decides nothing at all (None): then everything stays as it is. One that is switched off
wants nothing, and what it had changed is put back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from koord.agent.interference.episode import Finding
from koord.agent.pods import AgentPod
from koord.agent.wish import Wish


@dataclass(frozen=True, slots=True)
class Eviction:
    pod: AgentPod
    strategy: str
    "Which one asked: it waits for the effect before it asks for more."
    by: str
    "The feature."
    why: str
    is_emergency: bool = False
    "Whether its processes are to be killed where the API does not let it go: the node is about to run out of memory."
    notice_s: float = 0.0
    "The longest notice that the node can give; 0 gives none."


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that had better run elsewhere: a PodMigrationJob asks for it."""

    pod: AgentPod
    by: str
    "The strategy."
    why: str


@dataclass(frozen=True, slots=True)
class Problem:
    """What cannot be done as it was asked for, and why."""

    doing: str
    "As the end of `cannot ...`."
    why: str
    pod: AgentPod | None = None
    "Whose it is; None: the node's."


@dataclass(frozen=True, slots=True)
class StrategyDecision:
    wishes: tuple[Wish, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    findings: tuple[Finding, ...] = ()
    "What there is to tell of pods that suffer."
    moves: tuple[Move, ...] = ()
    signals: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    "By pod and name, what the last window showed, for reports and metrics."
    asks: tuple[AgentPod, ...] = ()
    "Pods whose replicas on other nodes it would like to compare them with."
    problems: tuple[Problem, ...] = ()
    usual_signals: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    "As `signals`, of services that nobody is suspected to disturb: what is usual is learnt from these."


NOTHING = StrategyDecision()
