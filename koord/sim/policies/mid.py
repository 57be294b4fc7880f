"""Policy `mid`, Koordinator's: `koord.manager.lending.mid` for all nodes at once, with the agent's prediction by bands.

    dynamic  max(0, min(reclaimable, capacity - used)) + midUnallocatedPercent of unallocated
    static   midStatic{CPU,Memory}ReservedPercent of capacity

each at most mid{CPU,Memory}ThresholdPercent of capacity. Reclaimable is what services request above their peak: p95 of
CPU and p98 of memory with a margin of 10%, the system's and the pods' added up. The agent's prediction by pods, which
can only lend less, needs services one by one and is left out. Mid pods are best effort here: suppressed like batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from koord.agent.lending.learning import AWAY_S
from koord.agent.predict.model import CPU_BUCKETS, CPU_PEAK, MEMORY_BUCKETS, MEMORY_PEAK, PredictionSettings
from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy
from koord.api.stats.histogram import Buckets
from koord.manager.colocation_settings import given
from koord.manager.lending.mid import LENT, LentResource
from koord.sim.minutes import Flags, Floats, Ints, NodeColumns, NodeMinutes
from koord.sim.policies import suppression
from koord.sim.policies.histograms import Histograms, add, histograms, percentiles
from koord.sim.policies.policy import Band, Future, Lent, Settings
from koord.sim.policies.reports import Report, means, remember, report
from koord.sim.policies.suppression import BatchMinutes, batch_minutes

PREDICTION: Final = PredictionSettings()


@dataclass(frozen=True, slots=True)
class BandPeaks:
    """Histograms of what the system and services used, of one resource."""

    buckets: Buckets
    half_life_s: float
    part: float
    system: Histograms
    services: Histograms

    def add(self, system: Floats, services: Floats, at_s: float, rows: Flags) -> None:
        for to, used in ((self.system, system), (self.services, services)):
            add(to, self.buckets, self.half_life_s, used, at_s, rows=rows, away_s=AWAY_S)

    @property
    def with_margin(self) -> Floats:
        system, services = (
            np.floor(percentiles(of, self.buckets, self.half_life_s, self.part)) for of in (self.system, self.services)
        )
        return np.floor((system + services) * (100 + PREDICTION.margin_percent) / 100)


@dataclass(frozen=True, slots=True)
class MidMemory:
    capacity: Floats
    capacity_bytes: Floats
    strategy: ColocationStrategy
    thresholds: ResourceThresholdStrategy
    report: Report
    "System, services without it, and all use of the node: of CPU, then of memory."
    cpu: BandPeaks
    memory: BandPeaks
    batch: BatchMinutes


@dataclass(frozen=True, slots=True)
class Mid:
    name: str = "mid"
    summary: str = "Koordinator's mid resources: requested by services and predicted not to be used"
    band: Band = "mid"
    knows_now: bool = False

    def begin(self, nodes: NodeColumns, settings: Settings) -> MidMemory:
        count = len(nodes)
        return MidMemory(
            capacity=nodes.cpu_milli.astype(np.float64),
            capacity_bytes=nodes.memory_bytes.astype(np.float64),
            strategy=settings.colocation,
            thresholds=settings.thresholds,
            report=report(count, 4, settings.colocation),
            cpu=BandPeaks(
                CPU_BUCKETS,
                PREDICTION.cpu_half_life_s,
                CPU_PEAK,
                histograms(count, CPU_BUCKETS),
                histograms(count, CPU_BUCKETS),
            ),
            memory=BandPeaks(
                MEMORY_BUCKETS,
                PREDICTION.memory_half_life_s,
                MEMORY_PEAK,
                histograms(count, MEMORY_BUCKETS),
                histograms(count, MEMORY_BUCKETS),
            ),
            batch=batch_minutes(count, settings.thresholds),
        )

    def after_minute(self, memory: MidMemory, minutes: NodeMinutes) -> MidMemory:
        is_measured = ~np.isnan(minutes.services_milli)
        services = minutes.services_milli - minutes.system_milli
        services_bytes = minutes.services_memory_bytes - minutes.system_memory_bytes
        batch_bytes = np.bincount(minutes.pods.node, minutes.pods.memory_bytes, len(memory.capacity))
        memory.cpu.add(minutes.system_milli, services, minutes.at_s, is_measured)
        memory.memory.add(minutes.system_memory_bytes, services_bytes, minutes.at_s, is_measured)
        remember(
            memory.report,
            minutes.system_milli,
            minutes.services_milli + minutes.batch_used_milli,
            minutes.system_memory_bytes,
            minutes.services_memory_bytes + batch_bytes,
        )
        return memory

    def ceiling(self, memory: MidMemory, services_milli: Floats) -> Floats:
        return suppression.ceiling(memory.capacity, services_milli, memory.thresholds)

    def lent(self, memory: MidMemory, minutes: NodeMinutes, future: Future) -> Lent:
        system, used, system_bytes, used_bytes = np.floor(means(memory.report)).T
        is_known = minutes.reported & (memory.report.minutes > 0)
        requests, request_bytes = minutes.services_request_milli, minutes.services_request_memory_bytes
        cpu, memory_bytes = LENT
        lent_cpu = _lent(cpu, memory.strategy, memory.capacity, memory.cpu, requests, system, used)
        lent_memory = _lent(
            memory_bytes, memory.strategy, memory.capacity_bytes, memory.memory, request_bytes, system_bytes, used_bytes
        )
        return Lent(np.where(is_known, lent_cpu, np.nan), np.where(is_known, lent_memory, np.nan))

    def evictions(self, memory: MidMemory, minutes: NodeMinutes, ceiling_milli: Floats) -> tuple[Ints, MidMemory]:
        rows, batch = suppression.evictions(memory.batch, minutes, ceiling_milli, memory.capacity, memory.thresholds)
        return rows, replace(memory, batch=batch)


def _lent(
    lent: LentResource,
    strategy: ColocationStrategy,
    capacity: Floats,
    peaks: BandPeaks,
    requested: Floats,
    system: Floats,
    used: Floats,
) -> Floats:
    limit = _percent(capacity, given(getattr(strategy, lent.limit)))
    if strategy.mid_reclaim_mode == "static":
        return np.minimum(_percent(capacity, given(getattr(strategy, lent.static))), limit)
    peak = peaks.with_margin
    reclaimable = np.minimum(np.maximum(capacity - peak, 0.0), np.maximum(requested - peak, 0.0))
    unallocated = np.maximum(0.0, capacity - system - requested)
    idle = np.maximum(0.0, np.minimum(reclaimable, capacity - used))
    return np.minimum(idle + _percent(unallocated, given(strategy.mid_unallocated_percent)), limit)


def _percent(amount: Floats, percent: int) -> Floats:
    return np.trunc(amount * (percent / 100))


POLICY: Final = Mid()
