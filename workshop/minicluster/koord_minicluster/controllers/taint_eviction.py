"""Taint eviction: when must a pod leave a node that drives pods away?

Every NoExecute taint must be tolerated; the first toleration that covers it counts. It may be for a time, from when
the taint was set; of several taints the earliest end holds. A pod that does not tolerate one of them goes at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from koord.api.kinds import PODS
from koord.api.kubernetes.core import Pod
from koord.api.kubernetes.node import Taint
from koord.api.kubernetes.taints import tolerates
from koord.api.kubernetes.words import TaintEffect
from koord.api.text.timestamp import TimestampError, from_seconds, parse_timestamp
from koord_minicluster.controllers.actions import Action, Patch, Plan, delete


def drives_away(taints: Sequence[Taint]) -> list[Taint]:
    return [taint for taint in taints if taint.effect == TaintEffect.NO_EXECUTE]


def leave_at_s(pod: Pod, taints: Sequence[Taint], seen_s: float) -> float | None:
    """When the pod must have gone; None where it may stay. `seen_s` stands for a taint that has no time."""
    deadline_s: float | None = None
    for taint in drives_away(taints):
        covering = next((t for t in pod.spec.tolerations if tolerates(t, taint)), None)
        if covering is None:
            return 0.0
        if covering.toleration_seconds is None:
            continue
        at_s = _added_s(taint, seen_s) + max(0, covering.toleration_seconds)
        deadline_s = at_s if deadline_s is None else min(deadline_s, at_s)
    return deadline_s


def decide(pod: Pod, taints: Sequence[Taint], seen_s: float, now_s: float) -> Plan:
    if pod.metadata.deletion_timestamp is not None:
        return Plan()
    deadline_s = leave_at_s(pod, taints, seen_s)
    if deadline_s is None:
        return Plan()
    if deadline_s > now_s:
        return Plan(again_in_s=deadline_s - now_s)
    actions = disrupted(pod, "DeletionByTaintManager", "Its node drives pods away.", now_s)
    return Plan((*actions, delete(PODS, pod.metadata)))


def disrupted(pod: Pod, reason: str, message: str, now_s: float) -> list[Action]:
    """Sets a condition on the pod that says it was disrupted: Jobs may count disruptions differently from failures."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": from_seconds(now_s),
    }
    meta = pod.metadata
    body = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
    return [Patch(PODS, meta.namespace, meta.name, body, "status", gone_ok=True)]


def _added_s(taint: Taint, seen_s: float) -> float:
    try:
        return parse_timestamp(taint.time_added) if taint.time_added else seen_s
    except TimestampError:
        return seen_s
