"""What an agent tells of who slows a pod down, in the extension `slowedBy` of that pod's metrics.

Agents write it into their NodeMetric, the manager learns pairs of workloads from it. A victim is always a workload of
the namespace of the pod that tells it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Final

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.owners import Workload, workloads_of
from koord.api.machinery.codec import convert
from koord.api.machinery.faults import BadInput
from koord.api.machinery.struct import Struct
from koord.api.protocol.crd.interference_pair import PairedWorkload
from koord.api.protocol.crd.node_metric import PodMetricInfo
from koord.api.text.timestamp import TimestampError, parse_timestamp

SLOWED_BY: Final = "slowedBy"
MOST_OF_A_POD: Final = 8
"""Blames: more of one pod are not read."""


class Verdict(StrEnum):
    NAMED = "named"
    "The neighbour clearly caused it."
    HELPED = "helped"
    "The victim was better once the neighbour was held back or gone."
    CLEARED = "cleared"
    "Holding the neighbour back did not help: it was another one."


class Blame(Struct):
    at: str
    "When it was found."
    verdict: Verdict
    victim: PairedWorkload
    culprit: PairedWorkload
    signal: str = ""

    @property
    def at_s(self) -> float:
        return parse_timestamp(self.at)


def paired(meta: ObjectMeta) -> PairedWorkload | None:
    """The workload of a pod, the topmost that its names tell; None if no controller creates it again."""
    return paired_of(workloads_of(meta))


def paired_of(workloads: Sequence[Workload]) -> PairedWorkload | None:
    if not workloads:
        return None
    top = workloads[-1]
    return PairedWorkload(top.namespace, top.kind, top.name)


def blames_in(pod: PodMetricInfo) -> Iterator[Blame]:
    """The blames of one pod. A blame that cannot be read, or names another namespace's victim, is skipped."""
    reported: Any = pod.extensions.get(SLOWED_BY)
    if not isinstance(reported, list | tuple):
        return
    for slowing in reported[:MOST_OF_A_POD]:
        try:
            blame = convert(Blame, slowing)
            parse_timestamp(blame.at)
        except (BadInput, TimestampError):
            continue
        if blame.victim.namespace == pod.namespace and blame.victim != blame.culprit:
            yield blame
