"""CPU normalisation of services: their quotas shrink by the node's ratio."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from koord.agent import wish
from koord.agent.hooks.hook import Hook
from koord.agent.hooks.ratio import normalization_ratio, normalized
from koord.agent.host.convert import UNLIMITED, quota_of_milli
from koord.agent.host.knobs import CPU_QUOTA
from koord.agent.pods import CPU, AgentContainer, AgentPod
from koord.agent.state import NodeState
from koord.agent.wish import Wish
from koord.api.configuration.features import AgentGate
from koord.api.protocol.annotations.cpu import RESOURCE_STATUS
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.priority import QoSClass

NAME: Final = "cpu_normalization"
_WHY: Final = "the node's CPU normalization ratio"


def _concerns(pod: AgentPod) -> bool:
    """Services that share CPUs. One whose limits kubelet changes at this moment is left to it: on v1 its containers'
    new ones must fit into the pod's."""
    if pod.is_resizing and not pod.is_resize_deferred:
        return False
    if pod.labelled_qos not in (QoSClass.LS, QoSClass.NONE) or pod.is_best_effort:
        return False
    try:
        return not RESOURCE_STATUS.read(pod.meta).cpuset
    except AnnotationError:
        return True


def _ratio(state: NodeState, pod: AgentPod) -> float | None:
    """By which a pod's quotas shrink; None leaves them alone."""
    return normalization_ratio(state) if _concerns(pod) else None


def _for_pod(state: NodeState, pod: AgentPod) -> Iterator[Wish]:
    ratio = _ratio(state, pod)
    # Those to come count too, as they do for kubelet: v1 takes no child with more than its parent has.
    if ratio is not None and all(container.limits.get(CPU, 0) > 0 for container in pod.containers):
        own = quota_of_milli(pod.limits.get(CPU, 0))
        if own != UNLIMITED:
            yield Wish(wish.pod(pod.uid), CPU_QUOTA, normalized(own, ratio), NAME, _WHY, own=own)


def _for_container(state: NodeState, pod: AgentPod, container: AgentContainer) -> Iterator[Wish]:
    ratio, limit = _ratio(state, pod), container.limits.get(CPU, 0)
    if ratio is not None and limit > 0:
        own = quota_of_milli(limit)
        yield Wish(wish.container(pod.uid, container.name), CPU_QUOTA, normalized(own, ratio), NAME, _WHY, own=own)


HOOK: Final = Hook(NAME, AgentGate.CPU_NORMALIZATION, for_pod=_for_pod, for_container=_for_container)
