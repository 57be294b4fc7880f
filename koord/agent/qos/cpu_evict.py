"""CPU eviction: when holding best-effort pods back no longer helps, some of them go.

Three reasons, in this order: best-effort pods get too little of what they asked for and use all of it (satisfaction;
with the policy `adaptive`, too little of what they want: `starvation`); more was requested of a band than the node has
for it (allocatable); the node as a whole is too busy (usage).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from koord.agent.guests import requested_milli
from koord.agent.pods import BATCH_CPU, CPU, MID_CPU, AgentPod
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
from koord.agent.qos.peer_evict import peer_tasks
from koord.agent.qos.starvation import starvation_tasks
from koord.agent.qos.strategy import Sight
from koord.agent.series import names
from koord.agent.series.samples import Samples, Window
from koord.api.configuration.features import AgentGate
from koord.api.configuration.slo_defaults import CPU_EVICT_BE_USAGE_THRESHOLD_PERCENT, EVICT_LOWER_MARGIN_PERCENT
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy
from koord.api.protocol.priority import QoSClass

NAME: Final = "cpu_evict"
COOL_DOWN_S: Final = 20.0
NOTICE_S: Final = 60.0
"""Best effort starves until then, and services do not notice: a minute is bearable."""
COLLECT_INTERVAL_S: Final = 1.0
_HIGHEST_LOWER_PERCENT: Final = 60

_RESOURCES: Final = Resources(CPU, MID_CPU, BATCH_CPU)

_BEST_EFFORT: Final = (names.BE_CPU_REQUEST, names.BE_CPU_LIMIT, names.BE_CPU)


def _satisfaction(sight: Sight, strategy: ResourceThresholdStrategy) -> Iterator[Task]:
    if sight.state.safety_mark_percent is not None:
        # Requests are sold by use then: how they compare with a limit says nothing.
        yield from starvation_tasks(sight, NAME)
        return
    if sight.state.peer_policy is not None:
        yield from peer_tasks(sight)
        return
    state, samples, now_s = sight.state, sight.samples, sight.now_s
    lower = strategy.cpu_evict_be_satisfaction_lower_percent or 0
    upper = strategy.cpu_evict_be_satisfaction_upper_percent or 0
    if not (0 < lower <= _HIGHEST_LOWER_PERCENT and 0 < upper < 100 and upper >= lower):
        return
    window_s = max(COLLECT_INTERVAL_S, float(strategy.cpu_evict_time_window_seconds or 0))
    windows_of = [samples.window(series, now_s, window_s) for series in _BEST_EFFORT]
    windows = [window for window in windows_of if window is not None and _is_enough(window, window_s)]
    just_now = [samples.last(series, now_s, 2 * COLLECT_INTERVAL_S) for series in _BEST_EFFORT]
    last = [value for value in just_now if value is not None]
    if len(windows) < len(_BEST_EFFORT) or len(last) < len(_BEST_EFFORT):
        return
    threshold = strategy.cpu_evict_be_usage_threshold_percent or CPU_EVICT_BE_USAGE_THRESHOLD_PERCENT
    sold = state.allocatable.get(BATCH_CPU, -1) if strategy.cpu_evict_policy == "evictByAllocatable" else None
    sold = 1 if sold == 0 else sold
    if sold is not None and sold >= 0:
        # What YARN has is not in the node's allocatable, but its containers are among those that request.
        sold += requested_milli(state.guests)
    # What holds on average must also hold now: best effort that has just become satisfied is left alone.
    needs = [
        to_release(request, limit if sold is None else sold, used, lower, upper, threshold)
        for request, limit, used in (
            tuple(window.mean for window in windows),
            tuple(last),
        )
    ]
    if min(needs) > 0:
        feature = str(AgentGate.BE_CPU_EVICT)
        # Only labelled pods: a pod that is best effort for Kubernetes alone did not opt in.
        candidates = [
            pod
            for pod in state.pods.values()
            if pod.labelled_qos is QoSClass.BE and _frees(pod) > 0 and may_be_evicted(pod, feature)
        ]
        candidates.sort(key=lambda pod: _by_priority_then_use(pod, samples, now_s))
        candidates = [*(guest for guest in state.guests.values() if _frees(guest) > 0), *candidates]
        request, limit, _ = (window.mean for window in windows)
        why = f"best-effort pods have {limit:.0f}m of the {request:.0f}m of CPU that they asked for"
        yield Task(feature, Account("request", BATCH_CPU), min(needs), candidates, _frees, why)


def to_release(
    request: float, limit: float, used: float, lower_percent: int, upper_percent: int, usage_percent: int
) -> int:
    """Milli-cores of requests that have to go, so that the remaining pods get the upper share of their requests."""
    if limit <= 0 or request <= 0:
        return 0
    if limit >= 1000 and used * 100 < limit * usage_percent:
        return 0
    rate = limit / request
    return 0 if rate > lower_percent / 100 else int(request * (upper_percent / 100 - rate))


def _is_enough(window: Window, seconds: float) -> bool:
    return len(window.values) * COLLECT_INTERVAL_S >= seconds // 3


def _frees(pod: AgentPod) -> int:
    """What of the sum of requests is this pod's."""
    return pod.requests.get(BATCH_CPU, 0) if pod.labelled_qos is QoSClass.BE and pod.is_active else 0


def _by_priority_then_use(pod: AgentPod, samples: Samples, now_s: float) -> tuple[int, float, str]:
    used = samples.last(names.pod_cpu(pod.uid), now_s, 2 * COLLECT_INTERVAL_S) or 0.0
    return order_of(pod.priority or 0, used, _frees(pod), pod.key)


def order_of(priority: int, used_milli: float, request_milli: float, key: str) -> tuple[int, float, str]:
    """Of the least priority first, those that use most of their request."""
    return priority, -used_milli / max(request_milli, 1), key


def _allocatable(sight: Sight, strategy: ResourceThresholdStrategy) -> Iterator[Task]:
    return allocatable_tasks(
        sight.state,
        str(AgentGate.CPU_ALLOCATABLE_EVICT),
        _RESOURCES,
        strategy.cpu_allocatable_evict_threshold_percent,
        strategy.cpu_allocatable_evict_lower_percent,
        strategy.allocatable_evict_priority_threshold,
    )


def _usage(sight: Sight, strategy: ResourceThresholdStrategy) -> Iterator[Task]:
    state, samples, now_s = sight.state, sight.samples, sight.now_s
    threshold, highest = strategy.cpu_evict_threshold_percent, strategy.evict_enabled_priority_threshold
    if threshold is None or highest is None:
        return
    lower = strategy.cpu_evict_lower_percent
    lower = threshold - EVICT_LOWER_MARGIN_PERCENT if lower is None else lower
    window_s = max(COLLECT_INTERVAL_S, float(strategy.cpu_evict_time_window_seconds or 0))
    used = samples.mean(names.NODE_CPU, now_s, window_s)
    if lower >= threshold or used is None or state.capacity_cpu_milli <= 0:
        return
    percent = int(used * 100 / state.capacity_cpu_milli)
    if percent < threshold:
        return
    feature = str(AgentGate.CPU_EVICT)
    measured = {
        uid: int(value)
        for uid in state.pods
        if (value := samples.mean(names.pod_cpu(uid), now_s, window_s)) is not None
    }
    pods = [pod for uid, pod in state.pods.items() if uid in measured and is_offered(pod, feature, highest)]
    pods.sort(key=by_importance(lambda pod: measured[pod.uid]))
    need = state.capacity_cpu_milli * (percent - lower) // 100
    why = f"the node's CPU usage is {percent}%, at or above {threshold}%"
    yield Task(feature, Account("usage", CPU), need, pods, lambda pod: measured.get(pod.uid, 0), why)


STRATEGY: Final = eviction_strategy(
    NAME,
    COOL_DOWN_S,
    (
        Reason(AgentGate.BE_CPU_EVICT, _satisfaction),
        Reason(AgentGate.CPU_ALLOCATABLE_EVICT, _allocatable),
        Reason(AgentGate.CPU_EVICT, _usage),
    ),
    cools_at_start=True,
    notice_s=NOTICE_S,
)
