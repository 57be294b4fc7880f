"""What a strategy decides in a round: all that it wants written, and whom it wants gone.

A strategy that lacks data decides nothing at all (None): then everything stays as it is. One that is switched off
wants nothing, and what it had changed is put back.
"""

from __future__ import annotations

from dataclasses import dataclass

from koord.agent.executor.write import Write
from koord.agent.pods import AgentPod


@dataclass(frozen=True, slots=True)
class Eviction:
    pod: AgentPod
    by: str
    "The feature."
    why: str
    is_emergency: bool = False
    "Whether its processes are to be killed where the API does not let it go: the node is about to run out of memory."


@dataclass(frozen=True, slots=True)
class Decision:
    writes: tuple[Write, ...] = ()
    evictions: tuple[Eviction, ...] = ()


NOTHING = Decision()
