"""CPU normalisation of services: their quotas shrink by the node's ratio."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from koord.agent.executor.write import Write
from koord.agent.hooks.hook import Hook
from koord.agent.hooks.ratio import normalization_ratio, normalized
from koord.agent.host.convert import UNLIMITED, quota_of_milli
from koord.agent.host.knobs import CPU_QUOTA
from koord.agent.pods import CPU, AgentContainer, AgentPod
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate
from koord.api.protocol.annotations.cpu import RESOURCE_STATUS
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.priority import QoSClass

NAME: Final = "cpu_normalization"
_WHY: Final = "the node's CPU normalization ratio"


def _concerns(pod: AgentPod) -> bool:
    """Services that share CPUs."""
    if pod.labelled_qos not in (QoSClass.LS, QoSClass.NONE) or pod.is_best_effort:
        return False
    try:
        return not RESOURCE_STATUS.read(pod.meta).cpuset
    except AnnotationError:
        return True


def _quotas(state: NodeState, pod: AgentPod) -> Iterator[tuple[str, int, int]]:
    """Directory, normalised quota, and the quota that kubelet sets."""
    ratio = normalization_ratio(state)
    if ratio is None or not _concerns(pod):
        return
    limits = [(each.directory, each.limits.get(CPU, 0)) for each in pod.containers]
    for directory, limit in limits:
        if directory and limit > 0:
            yield directory, normalized(quota_of_milli(limit), ratio), quota_of_milli(limit)
    # Those to come count too, as they do for kubelet: v1 takes no child with more than its parent has.
    if all(limit > 0 for _, limit in limits):
        own = quota_of_milli(pod.limits.get(CPU, 0))
        yield pod.directory, normalized(own, ratio), own


def _for_pod(state: NodeState, pod: AgentPod) -> Iterator[Write]:
    for directory, quota, own in _quotas(state, pod):
        if directory == pod.directory and quota != UNLIMITED:
            yield Write(CPU_QUOTA, directory, quota, NAME, _WHY, own=own)


def _for_container(state: NodeState, pod: AgentPod, container: AgentContainer) -> Iterator[Write]:
    for directory, quota, own in _quotas(state, pod):
        if directory == container.directory:
            yield Write(CPU_QUOTA, directory, quota, NAME, _WHY, own=own)


HOOK: Final = Hook(NAME, AgentGate.CPU_NORMALIZATION, for_pod=_for_pod, for_container=_for_container)
