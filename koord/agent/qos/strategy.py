"""The shape of a strategy: a name, the gates that switch it on, its memory, what it looks at, and what it decides.

A strategy is a value, and holds nothing. Its memory is handed in and comes back changed; what it needs to know of the
host beyond usage is read by `look`, so that `decide` is a plain function of what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar

from koord.agent.executor.ledger import Ledger
from koord.agent.host.cgroups import Cgroups
from koord.agent.interference.hours import Usual
from koord.agent.lending.learning import LendingMemory
from koord.agent.lending.peers.learned import PeerLearned
from koord.agent.qos.decision import StrategyDecision
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate

M = TypeVar("M")
H = TypeVar("H")

NEVER: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class Departures:
    """Evictions that were asked for lately, by all strategies together."""

    evicted: Set[str] = frozenset()
    "Uids of pods that are on their way out."
    refused: Set[str] = frozenset()
    "Uids of pods that the API lately did not let go."
    under_notice: Set[str] = frozenset()
    "Uids of pods that have notice, and are waited for."
    last_s: dict[str, float] = field(default_factory=dict)
    "By strategy, when it last evicted a pod."
    unmoved: Set[str] = frozenset()
    "Uids of pods whose move could not be asked for lately."


@dataclass(frozen=True, slots=True)
class Sight:
    """The input of every strategy."""

    state: NodeState
    samples: Samples
    now_s: float
    departures: Departures = field(default_factory=Departures)
    started_s: float = NEVER
    "When the agent began."
    seed: int = 0
    replicas: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    "By uid of a pod and name of a signal, what its replicas on other nodes report; of pods that were asked about."
    usual: Mapping[str, Mapping[str, Usual]] = field(default_factory=dict)
    "By uid of a pod and name of a signal, what is usual at this hour of the day."
    lending: LendingMemory = field(default_factory=LendingMemory)
    "What the node has learned about lending."
    peer: PeerLearned | None = None
    "What it has learned for the policy of another system, where one owns the node."
    switches: Mapping[str, Mapping[str, float]] | None = None
    "By victim and neighbour, the share of its waiting in which the neighbour held the CPU; None without samples."


@dataclass(frozen=True, slots=True)
class Reader:
    """The host, for what a strategy has to know before it decides."""

    cgroups: Cgroups
    state: NodeState
    now_s: float
    is_thorough: bool = False
    "Whether it is time to check settings that only the agent should change."
    changed: Set[str] = frozenset()
    "Directories that the agent wrote to in the round before."
    ledger: Ledger | None = None
    "What the agent, or one before it, has changed."


class Turn(NamedTuple, Generic[M]):
    decision: StrategyDecision | None
    "None decides nothing: nothing changes."
    memory: M


def _looks_at_nothing(reader: Reader, memory: Any) -> Any:
    return None


@dataclass(frozen=True, slots=True)
class Strategy(Generic[M, H]):
    name: str
    gates: tuple[AgentGate, ...]
    "Any of them switches it on."
    memory: M
    "Before its first round."
    decide: Callable[[Sight, H, M], Turn[M]]
    look: Callable[[Reader, M], H] = _looks_at_nothing

    def is_on(self, state: NodeState) -> bool:
        return any(state.gates[gate] for gate in self.gates)
