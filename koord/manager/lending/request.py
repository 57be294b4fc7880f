"""Policy `request`: pods above batch take what they ask for, whatever they use.

capacity - margin - reserved - requested(pods above batch)
"""

from __future__ import annotations

from typing import Final

from koord.manager.lending.policy import Count, PodTotals, Policy, Resource, pods_above_batch
from koord.manager.node_state import PodRow, PodUsage


def _count(pod: PodRow, usage: PodUsage | None) -> Count:
    return Count(pod.cpu_milli, pod.memory_bytes)


def _summary(taken: PodTotals) -> str:
    return f"requested by {pods_above_batch(taken.pods_measured + taken.pods_unmeasured)}"


def _remark(pod: PodRow, usage: PodUsage | None, resource: Resource) -> str:
    return "not measured yet: counts as requested" if usage is None else ""


POLICY: Final = Policy(
    "request",
    count=_count,
    count_in_zone=_count,
    counts_gone=False,
    counts_system=False,
    summary=_summary,
    remark=_remark,
)
