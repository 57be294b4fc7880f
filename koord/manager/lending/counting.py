"""What the pods of a node take from batch, added up by a policy.

Usage that was measured of a pod which is not there, or has ended, counts as measured: it was there a moment ago.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from koord.api.protocol.priority import PriorityClass
from koord.manager.lending.policy import PodTotals, Policy
from koord.manager.node_state import Amounts, MetricRow, PodRow, PodUsage

_LOW: Final = (PriorityClass.BATCH.value, PriorityClass.FREE.value)


def dangling(pods: Iterable[PodRow], measured: Mapping[str, PodUsage]) -> dict[str, PodUsage]:
    """Usage of pods above batch that are not there, or have ended."""
    there = {pod.key for pod in pods if pod.active}
    return {key: usage for key, usage in measured.items() if key not in there and usage.priority not in _LOW}


def pod_totals(pods: Iterable[PodRow], metric: MetricRow, policy: Policy) -> PodTotals:
    """What pods above batch take, added up."""
    reported, count = metric.pods, policy.count
    cpu = memory = measured_cpu = measured_memory = 0
    with_usage = without_usage = seen = 0
    for pod in pods:
        if not pod.active:
            continue
        usage = reported.get(pod.key)
        if usage is not None:
            seen += 1
        if not pod.above_batch:
            continue
        if usage is None:
            without_usage += 1
        else:
            with_usage += 1
        pod_cpu, pod_memory, pod_measured_cpu, pod_measured_memory = count(pod, usage)
        cpu += pod_cpu
        memory += pod_memory
        measured_cpu += pod_measured_cpu
        measured_memory += pod_measured_memory
    gone = dangling(pods, reported) if policy.counts_gone and seen < len(reported) else {}
    for usage in gone.values():
        cpu += usage.cpu_milli
        memory += usage.memory_bytes
        measured_cpu += usage.cpu_milli
        measured_memory += usage.memory_bytes
    return PodTotals(Amounts(cpu, memory), Amounts(measured_cpu, measured_memory), with_usage, without_usage, len(gone))
