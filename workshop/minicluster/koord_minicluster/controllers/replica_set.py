"""ReplicaSet: keeps exactly `replicas` pods of a template.

Pods that have finished or are terminating do not count. If there are too few, pods are created. If there are too many,
pods are deleted in the order of `pods.deleted_first`. One decision changes at most `BURST` pods, so that no decision
uses a stale view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from koord.api.kinds import PODS
from koord.api.kubernetes.core import Pod
from koord.api.kubernetes.meta import Condition
from koord.api.kubernetes.workloads import ReplicaSet, ReplicaSetStatus
from koord.api.text.timestamp import from_seconds
from koord.api.workloads.replica_sets import pod_of_replica_set
from koord_minicluster.controllers import conditions
from koord_minicluster.controllers.actions import Create, Delete, delete
from koord_minicluster.controllers.pods import (
    deleted_first,
    is_active,
    is_available,
    is_ready,
    is_terminating,
    next_available_in_s,
)

BURST: Final = 500


def scale(rs: ReplicaSet, owned: Sequence[Pod], related: Sequence[Pod], now_s: float) -> list[Create] | list[Delete]:
    """The pods to make or to delete. `related` are the pods of all ReplicaSets of the same owner."""
    if rs.metadata.deletion_timestamp is not None:
        return []
    active = [pod for pod in owned if is_active(pod)]
    surplus = len(active) - rs.spec.replicas
    if surplus < 0:
        return [Create(PODS, rs.metadata.namespace, pod_of_replica_set(rs))] * min(-surplus, BURST)
    if surplus == 0:
        return []
    ranked = active if len(active) == surplus else deleted_first(active, related, now_s)
    return [delete(PODS, pod.metadata) for pod in ranked[: min(surplus, BURST)]]


def status(rs: ReplicaSet, owned: Sequence[Pod], failure: tuple[str, str] | None, now_s: float) -> ReplicaSetStatus:
    """The new status. `failure` is the reason and message of a create or delete that was refused just now."""
    active = [pod for pod in owned if is_active(pod)]
    labels: Mapping[str, str] = (rs.spec.template.get("metadata") or {}).get("labels") or {}
    current: tuple[Condition, ...] = conditions.without(rs.status.conditions, "ReplicaFailure")
    if failure is not None:
        reason, message = failure
        old = conditions.find(rs.status.conditions, "ReplicaFailure")
        since = old.last_transition_time if old is not None else from_seconds(now_s)
        new = Condition("ReplicaFailure", "True", last_transition_time=since, reason=reason, message=message)
        current = (*current, new)
    return ReplicaSetStatus(
        observed_generation=rs.metadata.generation,
        replicas=len(active),
        fully_labeled_replicas=sum(labels.items() <= pod.metadata.labels.items() for pod in active),
        ready_replicas=sum(map(is_ready, active)),
        available_replicas=sum(is_available(pod, rs.spec.min_ready_seconds, now_s) for pod in active),
        terminating_replicas=sum(map(is_terminating, owned)),
        conditions=current,
    )


def look_again_in_s(rs: ReplicaSet, owned: Sequence[Pod], now_s: float) -> float | None:
    """When a pod that is ready now will have been so for long enough."""
    return next_available_in_s((p for p in owned if is_active(p)), rs.spec.min_ready_seconds, now_s)
