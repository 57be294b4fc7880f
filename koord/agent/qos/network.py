"""Network: by tc classes and limits, or by files for Terway. What a gate asks for is loaded with it, and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from koord.agent.qos.strategy import Reader, Sight, Strategy, Turn
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate

if TYPE_CHECKING:
    from koord.agent.host.network.look import NetworkSeen


def _look_at_interfaces(reader: Reader, memory: NodeState | None) -> NetworkSeen | None:
    """None where it is not time yet: interfaces come and go seldom."""
    if memory is reader.state and not reader.is_thorough:
        return None
    from koord.agent.qos.network_classes import look_at

    return look_at(reader.cgroups, reader.state)


def _decide_classes(sight: Sight, seen: NetworkSeen | None, memory: NodeState | None) -> Turn[NodeState | None]:
    if seen is None:
        return Turn(None, memory)
    from koord.agent.qos.network_classes import decide

    return Turn(decide(sight.state, seen), sight.state)


def _is_terway_there(reader: Reader, memory: None) -> bool:
    from koord.agent.host.terway_knobs import HOME

    return reader.cgroups.files.exists(HOME)


def _decide_terway(sight: Sight, is_there: bool, memory: None) -> Turn[None]:
    from koord.agent.qos.terway import decide

    return Turn(decide(sight.state, is_there), None)


CLASSES: Final[Strategy[NodeState | None, NetworkSeen | None]] = Strategy(
    "network", (AgentGate.TC_NETWORK_QOS,), None, _decide_classes, _look_at_interfaces
)
TERWAY: Final[Strategy[None, bool]] = Strategy(
    "terway", (AgentGate.TERWAY_QOS,), None, _decide_terway, _is_terway_there
)
