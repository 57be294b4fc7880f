"""What collectors that sample keep between rounds: open counters and rings, sources, and the last result."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from koord.agent.host.cold.reading import ColdSource
    from koord.agent.host.perf import Group, SwitchRing

NEVER: Final = float("-inf")


@dataclass(slots=True)
class CpiSampling:
    began_s: float = NEVER
    groups: dict[str, Group] = field(default_factory=dict)
    "By pod, while they count."
    is_there: bool | None = None
    "Whether this machine counts cycles; None: not checked yet."


@dataclass(slots=True)
class SwitchSampling:
    ended_s: float = NEVER
    rings: list[SwitchRing] = field(default_factory=list)
    "While they record."
    turn: int = 0
    "Which CPUs come next."
    is_there: bool | None = None
    samples: deque[tuple[float, Mapping[str, Mapping[str, float]]]] = field(default_factory=deque)
    "The last ones, and when they ended."
    held: Mapping[str, Mapping[str, float]] | None = None
    "By pod and neighbour, the share of its waiting in which the neighbour held its CPU; None without samples."


@dataclass(slots=True)
class ColdSampling:
    source: ColdSource | None = None
    is_asked: bool = False
    "Whether it was looked for a source."
    complaint: str = ""
    "The last logged complaint."
