"""Has kidled look for idle pages, where the kernel has it: without that, cold memory is not known.

Every five seconds, and so that a cgroup's figure includes all below it.
"""

from __future__ import annotations

from typing import Final

from koord.agent import wish
from koord.agent.host.system_knobs import KIDLED_HIERARCHY, KIDLED_PERIOD
from koord.agent.qos.decision import NOTHING, StrategyDecision
from koord.agent.qos.strategy import Sight, Strategy, Turn
from koord.agent.state import NodeState
from koord.agent.wish import Wish
from koord.api.configuration.features import AgentGate

NAME: Final = "cold_memory"
SCAN_EVERY_S: Final = 5
_WHY: Final = "cold memory is told by kidled"
_WISHES: Final = StrategyDecision(
    (
        Wish(wish.NODE, KIDLED_PERIOD, SCAN_EVERY_S, NAME, _WHY),
        Wish(wish.NODE, KIDLED_HIERARCHY, 1, NAME, _WHY),
    )
)


def decide(state: NodeState) -> StrategyDecision | None:
    if state.slo is None:
        return None
    return NOTHING if state.is_colocation_off else _WISHES


def _decide(sight: Sight, held: None, memory: None) -> Turn[None]:
    return Turn(decide(sight.state), None)


STRATEGY: Final[Strategy[None, None]] = Strategy(NAME, (AgentGate.COLD_PAGE_COLLECTOR,), None, _decide)
