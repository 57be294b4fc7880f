"""What a strategy decides in a round: all settings that it wants, and the pods that it wants evicted or moved.

A strategy that lacks data makes no decision (None): then nothing changes. A strategy that is switched off wants
nothing, and its changes are restored.
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
    "Whether its processes are killed if the API refuses the eviction: the node is about to run out of memory."
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
    """A setting that cannot be applied, and why."""

    doing: str
    "As the end of `cannot ...`."
    why: str
    pod: AgentPod | None = None
    "The pod that it concerns; None: the node."


@dataclass(frozen=True, slots=True)
class StrategyDecision:
    wishes: tuple[Wish, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    findings: tuple[Finding, ...] = ()
    "Findings about pods that are slowed down."
    moves: tuple[Move, ...] = ()
    signals: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    "By pod and name, what the last window showed, for reports and metrics."
    asks: tuple[AgentPod, ...] = ()
    "Pods whose replicas on other nodes it would like to compare them with."
    problems: tuple[Problem, ...] = ()
    usual_signals: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    "As `signals`, of services without a suspect: usual values are learnt from these."


NOTHING = StrategyDecision()
