"""Whom to move first: the least important pods, by the order that all parts of the descheduler share.

Lower classes first (free, batch, mid, prod), then by priority, QoS, what a deletion and an eviction cost, and the
time of the last saved work; callers break ties by usage, and then the younger pod comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.pod_costs import deletion_cost
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.annotations.load import EVICTION_COST
from koord.api.protocol.annotations.notice import CHECKPOINTED_AT
from koord.api.protocol.priority import PriorityClass, QoSClass, kube_qos, priority_class, qos_class
from koord.api.text.timestamp import TimestampError, parse_timestamp

Importance: TypeAlias = tuple[int, int, int, int, int, int, float]

_CLASSES: Final[Mapping[PriorityClass, int]] = {
    PriorityClass.FREE: 1,
    PriorityClass.BATCH: 2,
    PriorityClass.MID: 3,
    PriorityClass.PROD: 4,
    PriorityClass.NONE: 5,
}
_KUBE_QOS: Final[Mapping[KubeQoS, int]] = {KubeQoS.BEST_EFFORT: 1, KubeQoS.BURSTABLE: 2, KubeQoS.GUARANTEED: 3}
_QOS: Final[Mapping[QoSClass, int]] = {
    QoSClass.BE: 1,
    QoSClass.LS: 2,
    QoSClass.LSR: 3,
    QoSClass.LSE: 4,
    QoSClass.SYSTEM: 4,
    QoSClass.NONE: 5,
}


def importance(pod: Pod) -> Importance:
    """Lower goes first."""
    says = pod.metadata.annotations
    return (
        *roughly(pod),
        _KUBE_QOS[kube_qos(pod)],
        _QOS[qos_class(pod)],
        deletion_cost(pod) if says else 0,
        EVICTION_COST.read(pod.metadata) if says else 0,
        # The pod with the latest checkpoint loses least. Pods without checkpoints come after the others.
        -(CHECKPOINTED_AT.read(pod.metadata) or 0.0) if says else 0.0,
    )


def roughly(pod: Pod) -> tuple[int, int]:
    """What importance begins with."""
    return (_CLASSES[priority_class(pod)], pod.spec.priority or 0)


def created_s(pod: Pod) -> float:
    """When a pod was created; 0 if unknown."""
    try:
        return parse_timestamp(pod.metadata.creation_timestamp or "")
    except TimestampError:
        return 0.0
