"""Network: by tc classes and limits, or by files for Terway. What a gate asks for is loaded with it, and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from koord.agent.qos.strategy import Reader, Sight, Strategy, Turn
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate

if TYPE_CHECKING:
    from koord.agent.host.network.look import NetworkSeen


class Memory(NamedTuple):
    state: NodeState | None = None
    seen: NetworkSeen | None = None


def _look_at_interfaces(reader: Reader, memory: Memory) -> NetworkSeen | None:
    """None where it is not time yet: interfaces come and go seldom."""
    if memory.state is reader.state and not reader.is_thorough:
        return None
    from koord.agent.host.network.look import NetworkSeen
    from koord.agent.qos.network_classes import look_at

    return look_at(reader.cgroups, reader.state, memory.seen or NetworkSeen(), reader.now_s)


def _decide_classes(sight: Sight, seen: NetworkSeen | None, memory: Memory) -> Turn[Memory]:
    if seen is None:
        return Turn(None, memory)
    from koord.agent.qos.network_classes import decide

    return Turn(decide(sight.state, seen), Memory(sight.state, seen))


def _is_terway_there(reader: Reader, memory: None) -> bool:
    from koord.agent.host.terway_knobs import HOME

    return reader.cgroups.files.exists(HOME)


def _decide_terway(sight: Sight, is_there: bool, memory: None) -> Turn[None]:
    from koord.agent.qos.terway import decide

    return Turn(decide(sight.state, is_there), None)


CLASSES: Final[Strategy[Memory, NetworkSeen | None]] = Strategy(
    "network", (AgentGate.TC_NETWORK_QOS,), Memory(), _decide_classes, _look_at_interfaces
)
TERWAY: Final[Strategy[None, bool]] = Strategy(
    "terway", (AgentGate.TERWAY_QOS,), None, _decide_terway, _is_terway_there
)
