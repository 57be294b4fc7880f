"""From the samples of a node to its minute: what the policy `adaptive` learns from on a real kernel.

Batch is what runs in the best-effort directory: pods, containers of YARN (guests), best-effort host applications. A
minute with samples from less than half of it does not count: an agent that was held up has not seen the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from koord.agent.guests import APPLICATION
from koord.agent.hooks.ratio import normalization_ratio
from koord.agent.host_applications import host_applications
from koord.agent.lending.counting import CountedPod, counted_total
from koord.agent.lending.minute import MINUTE_S, Minute, PodMinute, batch_wanted
from koord.agent.lending.protection import REACTION_S, rise
from koord.agent.pods import BATCH_CPU, AgentPod
from koord.agent.qos.cpu_budget import is_best_effort_application
from koord.agent.series import names
from koord.agent.series.samples import Samples, Series
from koord.agent.state import NodeState
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.annotations.cpu import NODE_RESERVATION
from koord.api.text.quantity import value
from koord.api.text.timestamp import TimestampError, parse_timestamp

LEAST_SPAN_S: Final = MINUTE_S / 2
OLD_S: Final = float(24 * 3600)
"""The age of a pod whose start is unknown."""


def minute_of(
    state: NodeState, samples: Samples, counted: dict[str, CountedPod], now_s: float, at_s: float
) -> Minute | None:
    """The minute that ends now. `now_s` is in the time of samples, `at_s` in everybody's; `counted` is what pods
    counted for before it."""
    times, services = samples.since(names.SERVICES_CPU, now_s - MINUTE_S - REACTION_S)
    last = [milli for time_s, milli in zip(times, services, strict=True) if time_s > now_s - MINUTE_S]
    if not last or times[-1] - max(times[0], now_s - MINUTE_S) < LEAST_SPAN_S:
        return None
    used = samples.mean(names.BE_CPU, now_s, MINUTE_S) or 0.0
    return Minute(
        at_s=at_s,
        services_milli=sum(last) / len(last),
        rise_milli=rise(times, services, now_s) or 0.0,
        services_memory_bytes=_services_memory(state, samples, now_s),
        batch_used_milli=used,
        batch_wanted_milli=_wanted(state, samples, used, counted, now_s),
        pods=dict(_pods(state, samples, now_s, at_s)),
    )


def _wanted(state: NodeState, samples: Samples, used: float, counted: dict[str, CountedPod], now_s: float) -> float:
    throttled = samples.mean(names.BE_THROTTLED, now_s, MINUTE_S) or 0.0
    cpus = state.cpus * 1000.0
    if not state.holds_back_by_quota:
        cpus = samples.mean(names.BE_CPU_LIMIT, now_s, MINUTE_S) or cpus
    return batch_wanted(used, throttled, cpus, counted_total(counted))


def _pods(state: NodeState, samples: Samples, now_s: float, at_s: float) -> Iterator[tuple[str, PodMinute]]:
    ratio = max(normalization_ratio(state) or 1.0, 1.0)
    for pod, series in batch_pods(state):
        used = samples.mean(series, now_s, MINUTE_S)
        if used is not None:
            # Requests are in CPUs of the cluster's reference.
            yield pod.uid, PodMinute(pod.requests.get(BATCH_CPU, 0) / ratio, used, age_s(pod.started, at_s))
    for name in _applications(state):
        used = samples.mean(names.host_application_cpu(name), now_s, MINUTE_S)
        if used is not None:
            yield application_key(name), PodMinute(0.0, used, OLD_S)


def batch_pods(state: NodeState) -> Iterator[tuple[AgentPod, Series]]:
    """With where their CPU is found."""
    for uid, pod in state.pods.items():
        if pod.kube_qos is KubeQoS.BEST_EFFORT and pod.is_present:
            yield pod, names.pod_cpu(uid)
    for uid, guest in state.guests.items():
        yield guest, names.guest_cpu(uid)


def application_key(name: str) -> str:
    """The key of a host application among pods."""
    return f"application/{name}"


def _applications(state: NodeState) -> Iterable[str]:
    """Those that run as batch. YARN's containers are known one by one."""
    return [
        application.name
        for application in host_applications(state.slo)
        if is_best_effort_application(application) and not (application.name == APPLICATION.name and state.guests)
    ]


def age_s(started: str | None, at_s: float) -> float:
    """A pod that does not say when it started is about to."""
    try:
        return max(at_s - parse_timestamp(started), 0.0) if started else 0.0
    except TimestampError:
        return OLD_S


def _services_memory(state: NodeState, samples: Samples, now_s: float) -> float:
    """The highest of the minute: the node's less that of batch, and what is reserved for a system that does not use it.
    All samples of a round have its time."""
    from_s = now_s - MINUTE_S
    batch: dict[float, float] = {}
    for series in _memory_of_batch(state):
        for time_s, used in zip(*samples.since(series, from_s), strict=True):
            batch[time_s] = batch.get(time_s, 0.0) + used
    node = zip(*samples.since(names.NODE_MEMORY, from_s), strict=True)
    most = max((used - batch.get(time_s, 0.0) for time_s, used in node), default=0.0)
    system = samples.mean(names.SYSTEM_MEMORY, now_s, MINUTE_S) or 0.0
    return max(most, 0.0) + max(reserved_memory_bytes(state) - system, 0.0)


def _memory_of_batch(state: NodeState) -> Iterator[Series]:
    for uid, pod in state.pods.items():
        if pod.kube_qos is KubeQoS.BEST_EFFORT:
            yield names.pod_memory(uid)
    yield from map(names.guest_memory, state.guests)
    yield from map(names.host_application_memory, _applications(state))


def reserved_memory_bytes(state: NodeState) -> int:
    """Kept from pods: by kubelet (capacity less allocatable), or by the node's annotation."""
    by_kubelet = state.capacity_memory_bytes - state.allocatable.get("memory", state.capacity_memory_bytes)
    return max(by_kubelet, value(NODE_RESERVATION.read(state.node.metadata).resources.get("memory", 0)), 0)
