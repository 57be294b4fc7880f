"""Whether a node takes a pod that is bound to it, as kubelet decides.

A pod with a node's name in its spec bypasses every scheduler. A pod that does not fit beside the node's admitted pods
is rejected: it fails with a reason (OutOfcpu, OutOfpods), never runs, and does not count.
"""

from __future__ import annotations

from collections.abc import Iterable

from koord.api.configuration.scheduler_args import is_extended_resource
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests, stored_amounts
from koord.api.kubernetes.words import PodPhase
from koord.api.text.quantity import ResourceList
from koord_minicluster.kubelet.pod_status import Json, ending_told
from koord_minicluster.kubelet.termination import Ending

_FIRST = ("pods", "cpu", "memory", "ephemeral-storage")
"""A rejection names the first resource that is short, in this order; all others come behind."""


def rejection(pod: Pod, admitted: Iterable[Pod], allocatable: ResourceList) -> Ending | None:
    """Why the node rejects the pod; None if it fits beside the `admitted` ones. An extended resource that the node does
    not have is not checked: it may belong to the whole cluster."""
    capacity = stored_amounts(allocatable)
    wanted = _counted(pod)
    used: dict[str, int] = {}
    for other in admitted:
        for name, amount in _counted(other).items():
            used[name] = used.get(name, 0) + amount
    for name in sorted(wanted, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)):
        if not wanted[name] or (name not in capacity and is_extended_resource(name)):
            continue
        if used.get(name, 0) + wanted[name] > capacity.get(name, 0):
            short = f"requested: {wanted[name]}, used: {used.get(name, 0)}, capacity: {capacity.get(name, 0)}"
            return Ending(f"OutOf{name}", f"Pod was rejected: Node didn't have enough resource: {name}, {short}")
    return None


def rejected(pod: Pod, why: Ending) -> Json:
    """The status of a pod that its node rejects."""
    return {"metadata": {"uid": pod.metadata.uid}, "status": {"phase": PodPhase.FAILED, **ending_told(why)}}


class Admission:
    """Decides once for each pod. A pod with a start time was admitted, by this process or the one before it; the pods
    that this process has admitted count from that moment on, before the API server has their start time."""

    def __init__(self) -> None:
        self._uids: set[str] = set()

    def rejection(self, pod: Pod, on_node: Iterable[Pod], allocatable: ResourceList) -> Ending | None:
        """`on_node`: all pods that are bound to the pod's node, itself included or not."""
        if self._is_admitted(pod):
            return None
        others = (
            other
            for other in on_node
            if other.metadata.uid != pod.metadata.uid and not other.is_finished and self._is_admitted(other)
        )
        why = rejection(pod, others, allocatable)
        if why is None:
            self._uids.add(pod.metadata.uid)
        return why

    def forget(self, pod: Pod) -> None:
        """The pod is gone or has finished."""
        self._uids.discard(pod.metadata.uid)

    def _is_admitted(self, pod: Pod) -> bool:
        return pod.status.start_time is not None or pod.metadata.uid in self._uids


def _counted(pod: Pod) -> dict[str, int]:
    return {**pod_requests(pod, capped=True), "pods": 1}
