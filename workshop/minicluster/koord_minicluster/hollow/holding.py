"""How a modelled node protects its services: it does what an agent would do, as far as the node's NodeSLO enables it.

Best-effort pods are limited to what services leave below a threshold (the agent's own formula, `CpuBudget`). If they
get too little of their requests for a while, some of them are evicted (the agent's `to_release`), the least important
first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from koord.agent.qos.cpu_budget import CpuBudget
from koord.agent.qos.cpu_evict import COOL_DOWN_S, to_release
from koord.api.configuration.slo_defaults import CPU_EVICT_BE_USAGE_THRESHOLD_PERCENT, THRESHOLD_STRATEGY
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy
from koord_minicluster.hollow.load_model import Asked, Band, Limit, PodShape

WINDOW_S: Final = 10.0
"""How long best effort must have had too little CPU, unless the NodeSLO sets another window."""


def limit_of(strategy: ResourceThresholdStrategy | None, capacity_milli: int) -> Limit:
    """What best-effort pods may use of a node with this NodeSLO."""

    def limit(services_milli: int, system_milli: int) -> int | None:
        if strategy is None or not strategy.enable:
            return None
        percent = strategy.cpu_suppress_threshold_percent
        if percent is None:
            percent = THRESHOLD_STRATEGY.cpu_suppress_threshold_percent or 0
        floor = capacity_milli * (strategy.cpu_suppress_min_percent or 0) // 100
        return CpuBudget(capacity_milli, percent, services_milli, 0, system_milli, floor).allowed

    return limit


class Leaving(NamedTuple):
    """A pod to evict, and the reason."""

    pod: Pod
    why: str


class _Look(NamedTuple):
    time_s: float
    request: int
    limit: int
    used: int


@dataclass(slots=True)
class Patience:
    """One node's best-effort usage over the last looks, and when it last evicted a pod."""

    looks: deque[_Look] = field(default_factory=deque)
    evicted_s: float = float("-inf")

    def evictions(
        self,
        strategy: ResourceThresholdStrategy | None,
        pods: Sequence[tuple[Pod, PodShape]],
        asked: Asked,
        now_s: float,
    ) -> list[Leaving]:
        """The pods to evict now. The shortage must exist both on average and at the last look: pods that have just been
        satisfied stay."""
        held = [pod_and_shape for pod_and_shape in pods if pod_and_shape[1].band is Band.BEST_EFFORT]
        if strategy is None or not strategy.enable or asked.limit_milli is None or not held:
            self.looks.clear()
            return []
        window_s = float(strategy.cpu_evict_time_window_seconds or WINDOW_S)
        request = sum(shape.request.cpu_milli for _, shape in held)
        self.looks.append(_Look(now_s, request, asked.limit_milli, asked.best_effort_got_milli))
        while self.looks[0].time_s < now_s - window_s:
            self.looks.popleft()
        if now_s - self.looks[0].time_s < window_s / 2 or now_s - self.evicted_s < COOL_DOWN_S:
            return []
        need = min(self._release(strategy, self.looks), self._release(strategy, [self.looks[-1]]))
        if need <= 0:
            return []
        self.evicted_s = now_s
        self.looks.clear()
        return _least_important(held, need, f"best-effort pods have {asked.limit_milli}m of the {request}m of CPU")

    @staticmethod
    def _release(strategy: ResourceThresholdStrategy, looks: Sequence[_Look]) -> int:
        count = len(looks)
        return to_release(
            sum(look.request for look in looks) / count,
            sum(look.limit for look in looks) / count,
            sum(look.used for look in looks) / count,
            strategy.cpu_evict_be_satisfaction_lower_percent or 0,
            strategy.cpu_evict_be_satisfaction_upper_percent or 0,
            strategy.cpu_evict_be_usage_threshold_percent or CPU_EVICT_BE_USAGE_THRESHOLD_PERCENT,
        )


def _least_important(held: Sequence[tuple[Pod, PodShape]], need_milli: int, why: str) -> list[Leaving]:
    """The pods to evict. Among equal priorities, the pod that started last goes first."""
    leaving: list[Leaving] = []
    for pod, shape in sorted(
        held,
        key=lambda pod_and_shape: (
            pod_and_shape[0].spec.priority or 0,
            -pod_and_shape[1].started_s,
            pod_and_shape[1].key,
        ),
    ):
        if need_milli <= 0:
            break
        leaving.append(Leaving(pod, f"BECPUEvict: {why} that they asked for"))
        need_milli -= shape.request.cpu_milli
    return leaving
