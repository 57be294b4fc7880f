"""Koordinator's policies of batch resources, `koord.manager.lending.batch` for all nodes at once.

    usage            capacity - margin - system - used by services
    request          the same; of memory: capacity - margin - requested by services
    maxUsageRequest  capacity - margin - system - sum of max(requested, used) over services

The margin is what `cpuReclaimThresholdPercent` and `memoryReclaimThresholdPercent` leave. Usage is the mean of the
minutes that a NodeMetric reports. Nodes have no reservation here. Batch is suppressed and evicted by `suppression`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy
from koord.manager.lending.batch import LENT, LentResource, kept
from koord.sim.minutes import Floats, Ints, NodeColumns, NodeMinutes
from koord.sim.policies import suppression
from koord.sim.policies.policy import Band, Future, Lent, Settings
from koord.sim.policies.reports import Report, means, remember, report
from koord.sim.policies.suppression import BatchMinutes, batch_minutes

Counted: TypeAlias = Literal["usage", "request", "maxUsageRequest"]
"""What of services counts."""


@dataclass(frozen=True, slots=True)
class KoordinatorMemory:
    capacity: Floats
    capacity_bytes: Floats
    strategy: ColocationStrategy
    thresholds: ResourceThresholdStrategy
    report: Report
    "System, services without it, their requests, and the larger of both by service: of CPU, then of memory."
    batch: BatchMinutes


@dataclass(frozen=True, slots=True)
class Koordinator:
    name: str
    summary: str
    cpu: Counted = "usage"
    memory: Counted = "usage"
    band: Band = "batch"
    knows_now: bool = False

    def begin(self, nodes: NodeColumns, settings: Settings) -> KoordinatorMemory:
        return KoordinatorMemory(
            capacity=nodes.cpu_milli.astype(np.float64),
            capacity_bytes=nodes.memory_bytes.astype(np.float64),
            strategy=settings.colocation,
            thresholds=settings.thresholds,
            report=report(len(nodes), 8, settings.colocation),
            batch=batch_minutes(len(nodes), settings.thresholds),
        )

    def after_minute(self, memory: KoordinatorMemory, minutes: NodeMinutes) -> KoordinatorMemory:
        remember(
            memory.report,
            minutes.system_milli,
            minutes.services_milli - minutes.system_milli,
            minutes.services_request_milli,
            minutes.services_peak_milli,
            minutes.system_memory_bytes,
            minutes.services_memory_bytes - minutes.system_memory_bytes,
            minutes.services_request_memory_bytes,
            minutes.services_peak_memory_bytes,
        )
        return memory

    def ceiling(self, memory: KoordinatorMemory, services_milli: Floats) -> Floats:
        return suppression.ceiling(memory.capacity, services_milli, memory.thresholds)

    def lent(self, memory: KoordinatorMemory, minutes: NodeMinutes, future: Future) -> Lent:
        reported = np.floor(means(memory.report))
        cpu, memory_bytes = reported[:, :4], reported[:, 4:]
        is_known = minutes.reported & (memory.report.minutes > 0)
        lent_cpu = _lent(LENT[0], memory.capacity, cpu, self.cpu, memory.strategy)
        lent_memory = _lent(LENT[1], memory.capacity_bytes, memory_bytes, self.memory, memory.strategy)
        return Lent(
            np.where(is_known, lent_cpu, np.nan),
            np.where(is_known, lent_memory, np.nan),
            measured_milli=_measured(cpu, self.cpu),
            measured_bytes=_measured(memory_bytes, self.memory),
        )

    def evictions(
        self, memory: KoordinatorMemory, minutes: NodeMinutes, ceiling_milli: Floats
    ) -> tuple[Ints, KoordinatorMemory]:
        rows, batch = suppression.evictions(memory.batch, minutes, ceiling_milli, memory.capacity, memory.thresholds)
        return rows, replace(memory, batch=batch)


def _lent(
    lent: LentResource, capacity: Floats, reported: Floats, counted: Counted, strategy: ColocationStrategy
) -> Floats:
    system, used, requested, peak = reported.T
    kept_percent = kept(strategy, lent)
    left: Floats = capacity - np.trunc(capacity * (kept_percent / 100))
    match counted:
        case "request":
            left = left - requested
        case "maxUsageRequest":
            left = left - system - peak
        case "usage":
            left = left - system - used
    limit_percent: int | None = getattr(strategy, lent.limit)
    if limit_percent is not None:
        left = np.minimum(left, np.trunc(capacity * (limit_percent / 100)))
    lent_amount: Floats = np.maximum(np.minimum(left, capacity), 0.0)
    return lent_amount


def _measured(reported: Floats, counted: Counted) -> Floats:
    """What of the figure goes up and down with usage. By maxUsageRequest the system's alone: which services use more
    than they request is not in the columns."""
    system: Floats = reported[:, 0]
    used: Floats = reported[:, 1]
    match counted:
        case "request":
            return np.zeros_like(system)
        case "maxUsageRequest":
            return system
        case "usage":
            return system + used


USAGE: Final = Koordinator("usage", "Koordinator's default: what services do not use, less a fixed margin")
REQUEST: Final = Koordinator(
    "request", "Koordinator's: CPU as usage, memory that services do not request", memory="request"
)
MAX_USAGE_REQUEST: Final = Koordinator(
    "maxUsageRequest",
    "Koordinator's: what services neither use nor request, less a fixed margin",
    cpu="maxUsageRequest",
    memory="maxUsageRequest",
)
