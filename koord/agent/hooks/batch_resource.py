"""Batch resources: kubelet does not know them, so their shares, quota and memory limit are set here.

A pod has the sums of its containers; a resource that some container does not limit has no limit at all. A container
without batch resources is kubelet's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from koord.agent import wish
from koord.agent.hooks.hook import Hook
from koord.agent.hooks.ratio import normalization_ratio, normalized
from koord.agent.host.convert import MOST_MEMORY_BYTES, UNLIMITED, quota_of_milli, shares_of_milli
from koord.agent.host.knobs import CPU_QUOTA, CPU_SHARES, MEMORY_LIMIT
from koord.agent.pods import BATCH_CPU, BATCH_MEMORY, AgentContainer, AgentPod
from koord.agent.state import NodeState
from koord.agent.wish import Target, Wish
from koord.api.configuration.features import AgentGate
from koord.api.protocol.priority import QoSClass

NAME: Final = "batch_resource"
_WHY: Final = "batch resources of the pod's spec"


def _for_pod(state: NodeState, pod: AgentPod) -> Iterator[Wish]:
    if _has_batch(pod):
        limits = [container.limits for container in pod.containers]
        requests = sum(container.requests.get(BATCH_CPU, 0) for container in pod.containers)
        yield from _wishes(state, wish.pod(pod.uid), requests, _sum(limits, BATCH_CPU), _sum(limits, BATCH_MEMORY))


def _for_container(state: NodeState, pod: AgentPod, container: AgentContainer) -> Iterator[Wish]:
    if _has_batch(pod) and _names_batch(container):
        yield from _wishes(
            state,
            wish.container(pod.uid, container.name),
            container.requests.get(BATCH_CPU, 0),
            container.limits.get(BATCH_CPU, UNLIMITED),
            container.limits.get(BATCH_MEMORY, UNLIMITED),
        )


def _wishes(state: NodeState, target: Target, request: int, cpu: int, memory: int) -> Iterator[Wish]:
    yield Wish(target, CPU_SHARES, shares_of_milli(request), NAME, _WHY)
    yield Wish(target, CPU_QUOTA, _quota(state, cpu), NAME, _WHY)
    yield Wish(target, MEMORY_LIMIT, min(memory, MOST_MEMORY_BYTES) if memory > 0 else UNLIMITED, NAME, _WHY)


def _quota(state: NodeState, limit_milli: int) -> int:
    if state.holds_back_by_quota:
        # All of best effort has one quota then; smaller ones below would waste a part of it.
        return UNLIMITED
    return normalized(quota_of_milli(limit_milli), normalization_ratio(state))


def _sum(limits: Iterable[Mapping[str, int]], resource: str) -> int:
    values = [limits_of_one.get(resource, 0) for limits_of_one in limits]
    return sum(values) if all(value > 0 for value in values) else UNLIMITED


def _has_batch(pod: AgentPod) -> bool:
    return pod.qos is QoSClass.BE and any(map(_names_batch, pod.containers))


def _names_batch(container: AgentContainer) -> bool:
    return any(name in container.requests or name in container.limits for name in (BATCH_CPU, BATCH_MEMORY))


HOOK: Final = Hook(NAME, AgentGate.BATCH_RESOURCE, for_pod=_for_pod, for_container=_for_container)
