"""Policy `usage`, the default: pods above batch take what they use.

    capacity - margin - max(system, reserved) - used(pods above batch)

A pod that was not measured yet counts with its request. A pod that owns its CPUs (LSE) counts with all of them.
"""

from __future__ import annotations

from typing import Final

from koord.api.protocol.priority import QoSClass
from koord.manager.lending.policy import Count, PodTotals, Policy, Resource, gone, pods_above_batch
from koord.manager.node_state import PodRow, PodUsage


def _count(pod: PodRow, usage: PodUsage | None) -> Count:
    if usage is None:
        return Count(pod.cpu_milli, pod.memory_bytes)
    cpu, memory = usage.cpu_milli, usage.memory_bytes
    if pod.qos is QoSClass.LSE:
        return Count(pod.cpu_milli, memory, 0, memory)
    return Count(cpu, memory, cpu, memory)


def _summary(taken: PodTotals) -> str:
    said = f"used by {pods_above_batch(taken.pods_measured)}"
    if taken.pods_unmeasured:
        said += f"; requested by {taken.pods_unmeasured} not measured yet"
    return said + gone(taken)


def _remark(pod: PodRow, usage: PodUsage | None, resource: Resource) -> str:
    if usage is None:
        return "not measured yet: counts as requested"
    return "LSE: lends none of its CPUs" if resource == "cpu" and pod.qos is QoSClass.LSE else ""


POLICY: Final = Policy(
    "usage",
    count=_count,
    count_in_zone=_count,
    counts_gone=True,
    counts_system=True,
    summary=_summary,
    remark=_remark,
)
