"""How much CPU best-effort pods may use right now by the policy of another system: its box, line by line.

A policy that has not seen a minute yet decides by what services use just now. The larger of the last second's use and
that of the last 30 s counts: a box shrinks at once, and grows slowly.
"""

from __future__ import annotations

from dataclasses import dataclass

from koord.agent.lending.peers.learned import PeerLearned
from koord.agent.lending.peers.learning import peer_node
from koord.agent.lending.peers.policy import AnyPeer, Lines, result
from koord.agent.lending.protection import REACTION_S
from koord.agent.qos.cpu_budget import FRESH_WITHIN_S
from koord.agent.series import names
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState


@dataclass(frozen=True, slots=True)
class PeerBox:
    """In milli-cores."""

    policy: str
    capacity: int
    allowed: int
    lines: Lines

    def __str__(self) -> str:
        said = " ".join(f"{_WORDS[line.op]} {line.name} {line.amount:.0f}m".lstrip() for line in self.lines)
        return f"{self.policy}: {said} = {self.allowed}m"


_WORDS = {"start": "", "minus": "-", "plus": "+", "atMost": "at most", "atLeast": "at least", "becomes": "becomes"}


def peer_box(
    state: NodeState,
    policy: AnyPeer,
    learned: PeerLearned | None,
    samples: Samples,
    min_percent: int | None,
    now_s: float,
) -> PeerBox | None:
    """None where services' usage is not known."""
    just_now = samples.last(names.SERVICES_CPU, now_s, FRESH_WITHIN_S)
    mean = samples.mean(names.SERVICES_CPU, now_s, REACTION_S)
    if just_now is None or mean is None:
        return None
    memory = learned.memory if learned is not None and learned.policy == policy.name else policy.memory_type()
    lines = policy.box(memory, max(just_now, mean), peer_node(state))
    floor = state.capacity_cpu_milli * min_percent // 100 if min_percent else 0
    return PeerBox(policy.name, state.capacity_cpu_milli, max(int(result(lines)), floor), lines)
