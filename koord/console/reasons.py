"""Why pods are pending, grouped: each reason once, with how many pods it keeps waiting and for how long.

The scheduler says which plugin rejects most nodes (`GET /apis/v1/pending`). Where it cannot be asked, the reason of the
pod's condition counts, which names no plugin. Texts are never parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from koord.console.numbers import duration
from koord.console.rows import PodRow
from koord.console.shapes import ReasonGroup

TITLES: Final[Mapping[str, str]] = {
    "NodeResourcesFit": "not enough CPU, memory or pods left on a node",
    "NodeResourcesFitLent": "not enough lent CPU or memory",
    "LoadAwareScheduling": "nodes are too busy",
    "NodeAffinity": "no node has the labels that they ask for",
    "TaintToleration": "nodes have taints that they do not tolerate",
    "NodeUnschedulable": "nodes are cordoned",
    "NodeName": "the node that they name does not fit",
    "NodePorts": "host ports are taken",
    "NodeNUMAResource": "no NUMA node has the CPUs that they ask for",
    "DeviceShare": "not enough GPUs or other devices",
    "Reservation": "the reservation that they need has no room",
    "Coscheduling": "their gang is not complete, or does not fit",
    "ElasticQuota": "their quota is used up",
    "InterPodAffinity": "other pods attract or repel them",
    "PodTopologySpread": "they must be spread, and no place keeps the spread",
    "VolumeBinding": "their volumes have no place",
    "VolumeZone": "their volumes are in other zones",
    "VolumeRestrictions": "their volumes are in use",
    "NodeVolumeLimits": "nodes have no room for more volumes",
    "NetworkTopology": "the network around no node fits them",
    "Unschedulable": "they fit on no node",
    "QuotaExceeded": "their quota is used up",
    "SchedulingGated": "they wait for a gate, or for their gang",
    "SchedulerError": "the scheduler met an error",
    "NotTried": "no scheduler has tried them yet",
}
NOT_TRIED: Final = "NotTried"
LENT: Final = ("batch", "mid")


class Reason(msgspec.Struct, frozen=True):
    """Why one pod is pending."""

    code: str
    plugin: str
    nodes: int | None
    "How many nodes the plugin rejects; None if that was not said."
    since_at_s: float

    @property
    def title(self) -> str:
        return TITLES.get(self.code) or f"rejected by {self.code}"


class SchedulerReason(msgspec.Struct, rename="camel"):
    """One pod of the scheduler's list: what is read of it."""

    uid: str
    code: str = ""
    plugin: str = ""
    nodes: int = 0
    since_at_s: float = 0.0


def reason_of(pod: PodRow, by_uid: Mapping[str, SchedulerReason]) -> Reason:
    told = by_uid.get(pod.uid)
    if told is None:
        return Reason(pod.reason or NOT_TRIED, "", None, pod.since_at_s)
    code = told.plugin or told.code
    if code == "NodeResourcesFit" and pod.band in LENT:
        code = "NodeResourcesFitLent"
    return Reason(code, told.plugin, told.nodes, told.since_at_s or pod.since_at_s)


def groups_of(
    pods: Iterable[tuple[PodRow, Reason]], now_s: float, may_list: Callable[[str], bool]
) -> list[ReasonGroup]:
    """The largest first."""
    by_code: dict[str, list[tuple[PodRow, Reason]]] = {}
    for pod, reason in pods:
        by_code.setdefault(reason.code, []).append((pod, reason))
    groups = []
    for code, members in by_code.items():
        oldest = min(pod.created_at_s for pod, _ in members)
        shown = sorted((pod for pod, _ in members if may_list(pod.namespace)), key=lambda pod: pod.created_at_s)
        groups.append(
            ReasonGroup(
                reason=code,
                plugin=members[0][1].plugin,
                title=members[0][1].title,
                pods=len(members),
                oldest_s=max(0, int(now_s - oldest)),
                examples=tuple(pod.key for pod in shown[:3]),
            )
        )
    return sorted(groups, key=lambda group: (-group.pods, group.reason))


def pending_sentence(groups: list[ReasonGroup], total: int) -> str:
    if not total:
        return "No pod is pending."
    count = "1 pod is" if total == 1 else f"{total:,} pods are"
    oldest = max(group.oldest_s for group in groups)
    largest = groups[0]
    why = largest.title if largest.pods == total else f"{largest.pods:,} of them: {largest.title}"
    return f"{count} pending, the oldest for {duration(oldest)}; {why}."
