"""Koordinator's agent on columns: how far batch is suppressed, and which batch pods go when it starves.

    ceiling    capacity * cpuSuppressThresholdPercent% - services, at least cpuSuppressMinPercent% of capacity;
               by `cpuset` in whole CPUs and at least two, by `cfsQuota` at least 20m

The agent decides each second and grows by a tenth of the node at most, so within 10 s growth is not limited.
Eviction is the satisfaction of `koord.agent.qos.cpu_evict`: off unless both of its percentages are set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from koord.agent.qos.cpu_evict import to_release
from koord.agent.qos.cpu_suppress import FEWEST_CPUS, LEAST_QUOTA_US
from koord.api.configuration.slo_defaults import CPU_EVICT_BE_USAGE_THRESHOLD_PERCENT
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy
from koord.sim.minutes import BatchPodMinutes, Floats, Ints, NodeMinutes
from koord.sim.policies.pods import per_node

HIGHEST_LOWER_PERCENT: Final = 60


@dataclass(frozen=True, slots=True)
class BatchMinutes:
    """Requests, limit and use of batch in the last minutes: nodes x minutes x these three."""

    values: Floats
    minutes: int = 0


def batch_minutes(count: int, thresholds: ResourceThresholdStrategy) -> BatchMinutes:
    window = max(1, -(-(thresholds.cpu_evict_time_window_seconds or 0) // 60))
    return BatchMinutes(np.zeros((count, window, 3)))


def ceiling(capacity: Floats, services_milli: Floats, thresholds: ResourceThresholdStrategy) -> Floats:
    threshold = thresholds.cpu_suppress_threshold_percent
    if not thresholds.enable or threshold is None:
        return np.full_like(services_milli, np.inf)
    least = np.floor(capacity * (thresholds.cpu_suppress_min_percent or 0) / 100)
    allowed: Floats = np.maximum(np.floor(capacity * threshold / 100) - np.floor(services_milli), least)
    if thresholds.cpu_suppress_policy == "cfsQuota":
        least_quota: Floats = np.maximum(allowed, LEAST_QUOTA_US / 100)
        return least_quota
    cpus: Floats = np.maximum(np.ceil(allowed / 1000), FEWEST_CPUS)
    return np.minimum(cpus * 1000, capacity)


def evictions(
    before: BatchMinutes,
    minutes: NodeMinutes,
    ceiling_milli: Floats,
    capacity: Floats,
    thresholds: ResourceThresholdStrategy,
) -> tuple[Ints, BatchMinutes]:
    pods = minutes.pods
    requested = per_node(pods.node, pods.request_milli, len(capacity))
    last = np.stack((requested, np.minimum(ceiling_milli, capacity), minutes.batch_used_milli), axis=1)
    window = before.values.shape[1]
    before.values[:, before.minutes % window] = last
    after = BatchMinutes(before.values, before.minutes + 1)
    lower = thresholds.cpu_evict_be_satisfaction_lower_percent or 0
    upper = thresholds.cpu_evict_be_satisfaction_upper_percent or 0
    if not (thresholds.enable and 0 < lower <= HIGHEST_LOWER_PERCENT and lower <= upper < 100):
        return np.zeros(0, np.int64), after
    mean = before.values.sum(axis=1) / min(after.minutes, window)
    usage = thresholds.cpu_evict_be_usage_threshold_percent or CPU_EVICT_BE_USAGE_THRESHOLD_PERCENT
    starving = (last[:, 1] * 100 <= last[:, 0] * lower) & (mean[:, 1] * 100 <= mean[:, 0] * lower)
    chosen: list[int] = []
    for node in np.flatnonzero(starving).tolist():
        needs = [
            to_release(float(requests), float(limit), float(used), lower, upper, usage)
            for requests, limit, used in (mean[node], last[node])
        ]
        chosen.extend(_freeing(pods, np.flatnonzero((pods.node == node) & ~pods.ended), min(needs)))
    return np.array(chosen, np.int64), after


def _freeing(pods: BatchPodMinutes, rows: Ints, need_milli: int) -> list[int]:
    """Rows of pods that free that much of requests: those that use most of their request first."""
    share = pods.used_milli[rows] / np.maximum(pods.request_milli[rows], 1)
    ordered = rows[np.lexsort((pods.number[rows], -share))]
    before = np.cumsum(pods.request_milli[ordered]) - pods.request_milli[ordered]
    leaving: list[int] = ordered[before < need_milli].tolist()
    return leaving
