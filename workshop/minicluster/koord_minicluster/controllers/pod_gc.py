"""Pod garbage collection: finished pods beyond a limit, and pods that no other component will remove.

Finished pods beyond a number are deleted, the oldest first. A pod whose node is gone, or that was deleted before it was
bound, has no kubelet to remove it: it is removed at once. So is a terminating pod on a node with the out-of-service
taint, and a terminating pod with a grace period of zero and no finalizers: the API server stopped before it removed
the pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from koord.api.kinds import PODS
from koord.api.kubernetes.core import Node, Pod
from koord.api.kubernetes.words import TaintKey
from koord_minicluster.controllers.actions import Action, Patch, delete
from koord_minicluster.controllers.node_lifecycle import ready
from koord_minicluster.controllers.taint_eviction import disrupted

FINISHED_KEPT: Final = 12_500
QUARANTINE_S: Final = 40.0
"""How long a node must have been gone, since it may only be in the process of being replaced."""


def finished_too_many(finished: Sequence[Pod], kept: int) -> list[Action]:
    surplus = len(finished) - kept
    if surplus <= 0:
        return []
    oldest = sorted(finished, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.key))
    return [delete(PODS, pod.metadata, grace_s=0) for pod in oldest[:surplus]]


def lost(pod: Pod, now_s: float) -> list[Action]:
    """A pod whose node is gone: marked as failed, so that its controller can count it, and removed."""
    if pod.is_finished:
        return [delete(PODS, pod.metadata, grace_s=0)]
    return [*_failed(pod, "Its node no longer exists.", now_s), delete(PODS, pod.metadata, grace_s=0)]


def leaving(pod: Pod, node: Node | None, now_s: float) -> list[Action]:
    """A terminating pod that no other component will remove."""
    if pod.metadata.deletion_timestamp is None:
        return []
    if pod.metadata.deletion_grace_period_seconds == 0:
        # The API server removes it as soon as it has no finalizers.
        return [] if pod.metadata.finalizers else [delete(PODS, pod.metadata, grace_s=0)]
    if not pod.spec.node_name:
        return [delete(PODS, pod.metadata, grace_s=0)]
    if node is None or ready(node) == "True":
        return []
    if any(taint.key == TaintKey.OUT_OF_SERVICE for taint in node.spec.taints):
        return [*_failed(pod, "Its node is out of service.", now_s), delete(PODS, pod.metadata, grace_s=0)]
    return []


def _failed(pod: Pod, message: str, now_s: float) -> list[Action]:
    if pod.is_finished:
        return []
    marks = disrupted(pod, "DeletionByPodGC", message, now_s)
    meta = pod.metadata
    return [*marks, Patch(PODS, meta.namespace, meta.name, {"status": {"phase": "Failed"}}, "status", gone_ok=True)]
