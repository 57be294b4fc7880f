"""Policy `none`: no co-location. Nothing is lent: batch pods request CPU and memory like all others.

Beside another policy in the same run, whose resources batch pods request, its nodes get no batch pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from koord.sim.minutes import Floats, Ints, NodeColumns, NodeMinutes
from koord.sim.policies.policy import Band, Future, Lent, Settings


@dataclass(frozen=True, slots=True)
class NoLending:
    name: str = "none"
    summary: str = "no co-location: batch pods run on what services do not request"
    band: Band = "plain"
    knows_now: bool = False

    def begin(self, nodes: NodeColumns, settings: Settings) -> None:
        return None

    def after_minute(self, memory: None, minutes: NodeMinutes) -> None:
        return None

    def ceiling(self, memory: None, services_milli: Floats) -> Floats:
        return np.full_like(services_milli, np.inf)

    def lent(self, memory: None, minutes: NodeMinutes, future: Future) -> Lent | None:
        return None

    def evictions(self, memory: None, minutes: NodeMinutes, ceiling_milli: Floats) -> tuple[Ints, None]:
        return np.zeros(0, np.int64), None


POLICY: Final = NoLending()
