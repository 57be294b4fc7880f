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


@dataclass(frozen=True, slots=True)
class Decision:
    writes: tuple[Write, ...] = ()
    evictions: tuple[Eviction, ...] = ()


NOTHING = Decision()
