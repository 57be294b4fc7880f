"""What this node has learned about lending, from minute to minute, and the figures that it reports.

Every node learns, whatever policy is in force, so that a switch can be previewed and begins with history. Only while
batch is held below the ceiling do scale and more move.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from koord.agent.lending.learning import (
    AWAY_S,
    LendingFigures,
    LendingMemory,
    after_minute,
    ceiling,
    figures,
    services_most_bytes,
)
from koord.agent.lending.measuring import minute_of
from koord.agent.lending.minute import MARK_PERCENT, Capacity
from koord.agent.lending.peers.learned import PeerLearned, PeerOutlook
from koord.agent.lending.peers.learned import outlook as peer_outlook
from koord.agent.lending.peers.learning import learned, peer_node
from koord.agent.lending.protection import REACTION_S
from koord.agent.series import names
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate

FRESH_WITHIN_S: float = 180.0
"""An older minute is not reported: nothing is lent by it, whatever stopped the learning."""


@dataclass(frozen=True, slots=True)
class LendingOutlook:
    """What the node says of lending."""

    figures: LendingFigures
    memory: LendingMemory
    is_in_force: bool
    ceiling_milli: float | None
    "None where services were not measured a moment ago."
    services_memory_bytes: float
    peer: PeerOutlook | None = None
    "By the policy of another system that owns the node."


@dataclass(slots=True)
class Learner:
    memory: LendingMemory = field(default_factory=LendingMemory)
    "What checkpoints keep. Its time is everybody's, since it outlives the machine's uptime."
    learned_s: float | None = None
    "When it last changed, in the time of samples; None: not by this agent."
    peer: PeerLearned | None = None
    "For the policy of another system, where one owns the node."

    def learn(self, state: NodeState, samples: Samples, now_s: float, at_s: float) -> bool:
        """One minute; whether there was one. `now_s` is in the time of samples."""
        minute = minute_of(state, samples, dict(self.memory.counted), now_s, at_s)
        if minute is None:
            return False
        self.memory = after_minute(self.memory, minute, capacity_of(state), is_in_force=is_in_force(state))
        self.peer = learned(self.peer, state, minute, samples, now_s)
        self.learned_s = now_s
        return True

    def outlook(self, state: NodeState, samples: Samples, now_s: float, at_s: float) -> LendingOutlook | None:
        """None without a recent minute. What a predecessor learned a short time ago counts."""
        memory = self.memory
        if memory.at_s is None or not memory.minutes:
            return None
        if self.learned_s is None:
            if not 0 <= at_s - memory.at_s <= AWAY_S:
                return None
        elif now_s - self.learned_s > FRESH_WITHIN_S:
            return None
        services = samples.mean(names.SERVICES_CPU, now_s, REACTION_S)
        said = outlook_of(memory, capacity_of(state), services, is_in_force=is_in_force(state))
        if self.peer is None or state.peer_policy is None or self.peer.policy != state.peer_policy.name:
            return said
        return replace(said, peer=peer_outlook(self.peer, peer_node(state), services))


def outlook_of(
    memory: LendingMemory, capacity: Capacity, services_30s_milli: float | None, *, is_in_force: bool
) -> LendingOutlook:
    ceiling_milli = None if services_30s_milli is None else ceiling(memory, services_30s_milli, capacity)
    most_bytes = services_most_bytes(memory)
    return LendingOutlook(figures(memory, capacity), memory, is_in_force, ceiling_milli, most_bytes)


def capacity_of(state: NodeState) -> Capacity:
    return Capacity(state.capacity_cpu_milli, state.safety_mark_percent or MARK_PERCENT)


def is_in_force(state: NodeState) -> bool:
    """Whether batch is held below the ceiling."""
    return state.safety_mark_percent is not None and state.gates[AgentGate.BE_CPU_SUPPRESS]
