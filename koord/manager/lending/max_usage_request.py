"""Policy `maxUsageRequest`: each pod above batch takes what it uses or what it asks for, whichever is more.

    capacity - margin - max(system, reserved) - sum of max(requested, used) over pods above batch

A pod that was not measured yet does not count on the node, and counts with its request in a zone, as the protocol says.
"""

from __future__ import annotations

from typing import Final

from koord.manager.lending.policy import Count, PodTotals, Policy, Resource, gone, pods_above_batch
from koord.manager.node_state import PodRow, PodUsage


def _count(pod: PodRow, usage: PodUsage | None) -> Count:
    return Count(0, 0) if usage is None else _larger(pod, usage)


def _count_in_zone(pod: PodRow, usage: PodUsage | None) -> Count:
    return Count(pod.cpu_milli, pod.memory_bytes) if usage is None else _larger(pod, usage)


def _larger(pod: PodRow, usage: PodUsage) -> Count:
    cpu, memory = usage.cpu_milli, usage.memory_bytes
    cpu_is_firm, memory_is_firm = pod.cpu_milli > cpu, pod.memory_bytes > memory
    return Count(
        pod.cpu_milli if cpu_is_firm else cpu,
        pod.memory_bytes if memory_is_firm else memory,
        0 if cpu_is_firm else cpu,
        0 if memory_is_firm else memory,
    )


def _summary(taken: PodTotals) -> str:
    said = f"used or requested, whichever is more, by {pods_above_batch(taken.pods_measured)}"
    if taken.pods_unmeasured:
        said += f"; {taken.pods_unmeasured} not measured yet left out"
    return said + gone(taken)


def _remark(pod: PodRow, usage: PodUsage | None, resource: Resource) -> str:
    return "not measured yet: left out by maxUsageRequest" if usage is None else ""


POLICY: Final = Policy(
    "maxUsageRequest",
    count=_count,
    count_in_zone=_count_in_zone,
    counts_gone=True,
    counts_system=True,
    summary=_summary,
    remark=_remark,
)
