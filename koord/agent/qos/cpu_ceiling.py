"""How much CPU best-effort pods may use right now by the policy `adaptive`: below the mark by what was learned.

    allowed = max(0, min(mark - margin - services' mean of the last 30 s, mark - services just now))

and never less than a floor, if one is set. The mean costs less margin than the last second would, and the second part
takes back at once what services need beyond the margin.
"""

from __future__ import annotations

from dataclasses import dataclass

from koord.agent.lending.learner import capacity_of
from koord.agent.lending.learning import LendingMemory, margin
from koord.agent.lending.protection import REACTION_S, ceiling_milli
from koord.agent.qos.cpu_budget import FRESH_WITHIN_S
from koord.agent.series import names
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState


@dataclass(frozen=True, slots=True)
class CpuCeiling:
    """In milli-cores."""

    capacity: int
    mark: float
    margin: float
    services: float
    "Mean of the last 30 s."
    services_now: float
    allowed: int

    def __str__(self) -> str:
        said = f"mark {self.mark:.0f}m - margin {self.margin:.0f}m - services {self.services:.0f}m"
        if self.services_now > self.services + self.margin:
            said = f"mark {self.mark:.0f}m - services just now {self.services_now:.0f}m"
        return f"{said} = {self.allowed}m"


def cpu_ceiling(
    state: NodeState, memory: LendingMemory, samples: Samples, min_percent: int | None, now_s: float, over_s: float
) -> CpuCeiling | None:
    """None where services' usage is not known. `over_s`: seconds of the mean that counts as now; without it, the last
    second's."""
    just_now = samples.last(names.SERVICES_CPU, now_s, FRESH_WITHIN_S)
    mean = samples.mean(names.SERVICES_CPU, now_s, REACTION_S)
    if just_now is None or mean is None:
        return None
    if over_s:
        just_now = samples.mean(names.SERVICES_CPU, now_s, over_s) or just_now
    capacity = capacity_of(state)
    kept_free = margin(memory, capacity)
    allowed = min(ceiling_milli(kept_free, mean, capacity), ceiling_milli(0.0, just_now, capacity))
    floor = state.capacity_cpu_milli * min_percent // 100 if min_percent else 0
    allowed_milli = max(int(allowed), floor)
    return CpuCeiling(state.capacity_cpu_milli, capacity.mark_milli, kept_free, mean, just_now, allowed_milli)
