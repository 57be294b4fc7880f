"""Crane, Tencent's: allocatable less a reserve and the larger of what is forecast and what is measured.

    elastic = max(0, allocatable * (1 - reserve%) - max(forecast, measured))     16 cores, 10%, 6.2, 7.0 -> 7.4

The forecast is what services used in this hour and the next one, in the mean of the last 3 days, the larger of both,
and 20% more: Crane's DSP predictor leaves out all that is faster than an hour, too. Before a day of history, what is
measured counts alone.

A NodeQOS rule watches the use of the whole node, with Crane's counters. Above 1 - reserve% the node is disabled for new
batch, and until 5 minutes after it was restored; elastic pods are throttled to what the watermark leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from koord.agent.lending.peers.detection import Counters, detect
from koord.agent.lending.peers.hours import NO_HOURS, Hours, same_hours, with_minute
from koord.agent.lending.peers.policy import BatchPod, Line, Lines, Load, PeerNode, share

RESERVE_PERCENT: Final = 10.0
MARGIN: Final = 0.2
HISTORY_HOURS: Final = 72
COOL_DOWN_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class CraneMemory:
    at_s: float = 0.0
    cpu: Hours = NO_HOURS
    bytes: Hours = NO_HOURS
    services_milli: float = 0.0
    services_bytes: float = 0.0
    requested_milli: float = 0.0
    triggered: int = 0
    restored: int = 0
    disabled_until_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Crane:
    name: str = "crane"
    summary: str = "Tencent's: allocatable less a reserve of 10% and the larger of forecast and use"
    memory_type: type[CraneMemory] = CraneMemory

    def after_minute(self, memory: CraneMemory, load: Load, node: PeerNode) -> CraneMemory:
        watermark, _ = share(node.cpu_percent, 100 - RESERVE_PERCENT, node.cpu_milli)
        is_above = load.services_milli + load.batch_milli > watermark
        counters, event = detect(Counters(memory.triggered, memory.restored), is_above=is_above)
        until_s = memory.disabled_until_s if event != "Triggered" else load.at_s + COOL_DOWN_S
        return CraneMemory(
            at_s=load.at_s,
            cpu=with_minute(memory.cpu, load.at_s, load.services_milli, HISTORY_HOURS),
            bytes=with_minute(memory.bytes, load.at_s, load.services_memory_bytes, HISTORY_HOURS),
            services_milli=load.services_milli,
            services_bytes=load.services_memory_bytes,
            requested_milli=load.batch_request_milli,
            triggered=counters.triggered,
            restored=counters.restored,
            disabled_until_s=until_s,
        )

    def cpu(self, memory: CraneMemory, node: PeerNode) -> Lines:
        watermark, why = share(node.cpu_percent, 100 - RESERVE_PERCENT, node.cpu_milli)
        lines = (
            Line("start", "allocatable", watermark, why),
            _taken(memory.services_milli, memory.cpu),
            Line("atLeast", "nothing", 0.0),
        )
        if memory.at_s >= memory.disabled_until_s:
            return lines
        why = f"disabled for {memory.disabled_until_s - memory.at_s:.0f} s more: the node passed the watermark"
        return (*lines, Line("atMost", "allocated", memory.requested_milli, why))

    def memory_bytes(self, memory: CraneMemory, node: PeerNode) -> Lines:
        watermark, why = share(node.memory_percent, 100 - RESERVE_PERCENT, node.memory_bytes)
        return (
            Line("start", "allocatable", watermark, why),
            _taken(memory.services_bytes, memory.bytes),
            Line("atLeast", "nothing", 0.0),
        )

    def box(self, memory: CraneMemory, services_milli: float, node: PeerNode) -> Lines:
        watermark, why = share(node.cpu_percent, 100 - RESERVE_PERCENT, node.cpu_milli)
        return (
            Line("start", "watermark", watermark, why),
            Line("minus", "services", services_milli, "used by all that is not elastic"),
            Line("atLeast", "nothing", 0.0),
        )

    def why_evict(self, memory: CraneMemory, node: PeerNode) -> str:
        """Throttling closes every gap of CPU, so nothing is left for eviction."""
        return ""

    def to_evict(
        self, memory: CraneMemory, pods: Sequence[BatchPod], node: PeerNode
    ) -> tuple[Sequence[str], CraneMemory]:
        return (), memory


def forecast(hours: Hours) -> float | None:
    """For the coming hour; None before a day of history."""
    if not hours.has_a_day:
        return None
    days = same_hours(hours.means)
    this, following = (sum(of_day[place] for of_day in days) / len(days) for place in (0, 1))
    return (1 + MARGIN) * max(this, following)


def _taken(measured: float, hours: Hours) -> Line:
    expected = forecast(hours)
    if expected is None:
        return Line("minus", "services", measured, "measured in the last minute; no forecast before a day of history")
    if expected <= measured:
        return Line(
            "minus", "services", measured, f"measured in the last minute, more than the forecast {expected:.0f}"
        )
    return Line("minus", "forecast", expected, f"for the coming hour, more than the {measured:.0f} that are measured")


POLICY: Final = Crane()
