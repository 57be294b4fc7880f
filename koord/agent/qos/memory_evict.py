"""Memory eviction: memory cannot be squeezed out of a pod, so before the node runs out, some pods go.

Best-effort pods first (`BEMemoryEvict`), then what was requested above allocatable, then pods of any class that offer
themselves, up to a priority.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from koord.agent.pods import BATCH_MEMORY, MEMORY, MID_MEMORY, AgentPod
from koord.agent.qos.allocatable_evict import Resources, allocatable_tasks
from koord.agent.qos.evicting import (
    Account,
    Reason,
    Task,
    by_importance,
    eviction_strategy,
    is_offered,
    may_be_evicted,
)
from koord.agent.qos.strategy import Sight
from koord.agent.series import names
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate
from koord.api.configuration.slo_defaults import EVICT_LOWER_MARGIN_PERCENT
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy
from koord.api.protocol.priority import QoSClass

NAME: Final = "memory_evict"
COOL_DOWN_S: Final = 4.0
NOTICE_S: Final = 10.0
"""Memory runs out in seconds: no pod is waited for longer than that."""
EMERGENCY_PERCENT: Final = 95
"""From here on the kernel may kill anybody any moment: better the pod that is chosen, also against the API's word."""
FRESH_WITHIN_S: Final = 2.0

_USAGE: Final = Account("usage", MEMORY)
_RESOURCES: Final = Resources(MEMORY, MID_MEMORY, BATCH_MEMORY)


def to_release(
    state: NodeState, samples: Samples, strategy: ResourceThresholdStrategy, now_s: float
) -> tuple[int, str]:
    """Bytes that have to go, and why; nothing below the threshold or without a fresh figure."""
    threshold = strategy.memory_evict_threshold_percent
    used = samples.last(names.NODE_MEMORY, now_s, FRESH_WITHIN_S)
    if threshold is None or used is None or state.capacity_memory_bytes <= 0:
        return 0, ""
    lower = strategy.memory_evict_lower_percent
    lower = threshold - EVICT_LOWER_MARGIN_PERCENT if lower is None else lower
    percent = int(used) * 100 // state.capacity_memory_bytes
    if percent < threshold or lower >= threshold:
        return 0, ""
    why = f"the node's memory usage is {percent}%, at or above {threshold}%"
    return state.capacity_memory_bytes * (percent - lower) // 100, why


def is_emergency(state: NodeState, samples: Samples, now_s: float) -> bool:
    used = samples.last(names.NODE_MEMORY, now_s, FRESH_WITHIN_S)
    return used is not None and int(used) * 100 >= state.capacity_memory_bytes * EMERGENCY_PERCENT


def _used(state: NodeState, samples: Samples, now_s: float) -> dict[str, int]:
    values = {uid: samples.last(names.pod_memory(uid), now_s, FRESH_WITHIN_S) for uid in state.pods}
    values |= {uid: samples.last(names.guest_memory(uid), now_s, FRESH_WITHIN_S) for uid in state.guests}
    return {uid: int(value) for uid, value in values.items() if value is not None}


def _best_effort(sight: Sight, strategy: ResourceThresholdStrategy) -> Iterator[Task]:
    state, samples, now_s = sight.state, sight.samples, sight.now_s
    need, why = to_release(state, samples, strategy, now_s)
    if need <= 0:
        return
    feature = str(AgentGate.BE_MEMORY_EVICT)
    used = _used(state, samples, now_s)
    is_last_moment = is_emergency(state, samples, now_s)
    # Only labelled pods: a pod that is best effort for Kubernetes alone did not opt in.
    pods = [pod for pod in state.pods.values() if pod.labelled_qos is QoSClass.BE and pod.is_active]
    exempt = {pod.uid for pod in pods if not may_be_evicted(pod, feature)}
    if not is_last_moment:
        pods = [pod for pod in pods if pod.uid not in exempt]
    # By name, the last first, where nothing is known: a stable choice among equals.
    pods.sort(key=lambda pod: pod.key, reverse=True)
    pods.sort(key=lambda pod: (pod.uid in exempt, _order(pod, used)))
    # Containers of YARN go before pods: it runs them again by itself.
    pods = [*(guest for guest in state.guests.values() if guest.uid in used), *pods]
    yield Task(feature, _USAGE, need, pods, lambda pod: used.get(pod.uid, 0), why, is_last_moment)


def _order(pod: AgentPod, used: Mapping[str, int]) -> tuple[bool, int, int]:
    if pod.uid not in used:
        return True, 0, 0
    return False, pod.priority or 0, -used[pod.uid]


def _allocatable(sight: Sight, strategy: ResourceThresholdStrategy) -> Iterator[Task]:
    return allocatable_tasks(
        sight.state,
        str(AgentGate.MEMORY_ALLOCATABLE_EVICT),
        _RESOURCES,
        strategy.memory_allocatable_evict_threshold_percent,
        strategy.memory_allocatable_evict_lower_percent,
        strategy.allocatable_evict_priority_threshold,
    )


def _of_any_class(sight: Sight, strategy: ResourceThresholdStrategy) -> Iterator[Task]:
    state, samples, now_s = sight.state, sight.samples, sight.now_s
    need, why = to_release(state, samples, strategy, now_s)
    highest = strategy.evict_enabled_priority_threshold
    if need <= 0 or highest is None:
        return
    feature = str(AgentGate.MEMORY_EVICT)
    used = _used(state, samples, now_s)
    pods = [pod for uid, pod in state.pods.items() if uid in used and is_offered(pod, feature, highest)]
    pods.sort(key=by_importance(lambda pod: used[pod.uid]))
    yield Task(feature, _USAGE, need, pods, lambda pod: used.get(pod.uid, 0), why)


STRATEGY: Final = eviction_strategy(
    NAME,
    COOL_DOWN_S,
    (
        Reason(AgentGate.BE_MEMORY_EVICT, _best_effort),
        Reason(AgentGate.MEMORY_ALLOCATABLE_EVICT, _allocatable),
        Reason(AgentGate.MEMORY_EVICT, _of_any_class),
    ),
    cools_at_start=False,
    notice_s=NOTICE_S,
)
