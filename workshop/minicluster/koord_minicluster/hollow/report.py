"""What a modelled node reports of its usage: the status of its NodeMetric.

As a node agent does: usage is the average over a window, and for longer windows there are percentiles, left out while
samples span less than half of a window. What prod pods asked for beyond their peak (with a margin) may be lent out:

    reclaimable = max(0, requests(prod) - peak(prod) * 1.1)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from koord.agent.lending.learner import LendingOutlook
from koord.agent.report.lending_metric import lending_metric
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts, pod_requests
from koord.api.machinery.struct import EMPTY
from koord.api.protocol.crd.node_metric import (
    AggregatedUsage,
    BestEffortMetric,
    NodeMetricInfo,
    NodeMetricStatus,
    PeakMetric,
    PodMetricInfo,
    ReclaimableMetric,
    ResourceMap,
)
from koord.api.protocol.priority import PriorityClass, priority_class, qos_class
from koord.api.protocol.report_policy import LONGER_WINDOWS_S, ReportPolicy
from koord.api.text.duration import from_seconds as duration
from koord.api.text.quantity import render
from koord.api.text.timestamp import from_seconds as timestamp
from koord_minicluster.hollow.load_model import NodeUsage, PodShape, Usage

SAMPLE_S: Final = 15.0
MARGIN_PERCENT: Final = 110
PAGE_BYTES: Final = 4096
PERCENTILES: Final[Mapping[str, int]] = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}

_ZERO: Final = Usage()


@dataclass(frozen=True, slots=True)
class Sample:
    time_s: float
    total: Usage
    system: Usage
    prod: Usage
    pods: Mapping[str, Usage]


@dataclass(slots=True)
class History:
    """A node's recent samples, the newest last."""

    keep_s: float = max(LONGER_WINDOWS_S)
    samples: deque[Sample] = field(default_factory=deque)

    def add(self, sample: Sample) -> None:
        self.samples.append(sample)
        while self.samples[0].time_s < sample.time_s - self.keep_s:
            self.samples.popleft()

    def within(self, window_s: float) -> list[Sample]:
        if not self.samples:
            return []
        since = self.samples[-1].time_s - window_s
        return [sample for sample in self.samples if sample.time_s >= since]


def sample_times(last_s: float | None, now_s: float, report_s: float = SAMPLE_S) -> list[float]:
    """When to sample so that the history has one point each 15 s, however seldom reports are made; and one for each
    report that is made sooner."""
    if last_s is None or SAMPLE_S > now_s - last_s >= report_s:
        return [now_s]
    missed = min(int((now_s - last_s) // SAMPLE_S), int(max(LONGER_WINDOWS_S) // SAMPLE_S))
    return [now_s - SAMPLE_S * steps for steps in reversed(range(missed))]


def sample_of(pods: Sequence[tuple[Pod, PodShape]], usage: NodeUsage, time_s: float) -> Sample:
    prod = sum(
        (used for (pod, _), used in zip(pods, usage.pods, strict=True) if priority_class(pod) is PriorityClass.PROD),
        _ZERO,
    )
    by_pod = {shape.uid: used for (_, shape), used in zip(pods, usage.pods, strict=True)}
    return Sample(time_s, usage.total, usage.system, prod, by_pod)


def node_metric_status(
    pods: Sequence[Pod],
    history: History,
    policy: ReportPolicy,
    now_s: float,
    lending: LendingOutlook | None = None,
    best_effort: BestEffortMetric | None = None,
) -> NodeMetricStatus:
    """The report. `pods` are those that run on the node; `lending` is what it has learned."""
    recent = history.within(policy.window_s)
    peak = _with_margin(_peak(history))
    requested = _prod_requests(pods)
    free = Usage(
        max(0, requested.cpu_milli - peak.cpu_milli),
        max(0, requested.memory_bytes - peak.memory_bytes),
    )
    return NodeMetricStatus(
        update_time=timestamp(now_s),
        node_metric=NodeMetricInfo(
            node_usage=_map(_average([sample.total for sample in recent])),
            aggregated_node_usages=_aggregated(history, policy.longer_s, lambda sample: sample.total),
            system_usage=_map(_average([sample.system for sample in recent])),
            aggregated_system_usages=_aggregated(history, policy.longer_s, lambda sample: sample.system),
        ),
        pods_metric=tuple(
            _pod_metric(pod, [sample.pods[pod.metadata.uid] for sample in recent if pod.metadata.uid in sample.pods])
            for pod in sorted(pods, key=lambda pod: pod.metadata.key)
        ),
        prod_reclaimable_metric=ReclaimableMetric(_map(free)),
        prod_peak_metric=PeakMetric(_map(_with_margin(_peak(history, system=True)))),
        lending_metric=None if lending is None else lending_metric(lending, {pod.metadata.uid for pod in pods}),
        best_effort_metric=best_effort,
    )


def _pod_metric(pod: Pod, used: Sequence[Usage]) -> PodMetricInfo:
    usage = _average(used)
    return PodMetricInfo(
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        pod_usage=_map(usage),
        priority=priority_class(pod),
        qos=qos_class(pod),
        extensions={"containers": by_container(pod, usage)} if len(pod.spec.containers) > 1 else EMPTY,
    )


def by_container(pod: Pod, usage: Usage) -> dict[str, Mapping[str, str]]:
    """A pod's usage dealt to its containers in proportion to their requests, else evenly."""
    requests = [amounts(container.resources.requests, capped=True) for container in pod.spec.containers]
    cpu = _dealt(usage.cpu_milli, [request.get("cpu", 0) for request in requests])
    memory = _dealt(usage.memory_bytes, [request.get("memory", 0) for request in requests])
    return {
        container.name: _quantities(Usage(cpu_milli, memory_bytes))
        for container, cpu_milli, memory_bytes in zip(pod.spec.containers, cpu, memory, strict=True)
    }


def _dealt(amount: int, weights: Sequence[int]) -> list[int]:
    weights = weights if any(weights) else [1] * len(weights)
    return [amount * weight // sum(weights) for weight in weights]


def _aggregated(
    history: History, windows_s: Sequence[float], part: Callable[[Sample], Usage]
) -> tuple[AggregatedUsage, ...]:
    windows = []
    for window_s in windows_s:
        samples = history.within(window_s)
        if len(samples) < 2 or samples[-1].time_s - samples[0].time_s < window_s / 2:
            continue
        usages = [part(sample) for sample in samples]
        cpu, memory = sorted(u.cpu_milli for u in usages), sorted(u.memory_bytes for u in usages)
        usage = {"avg": _map(_average(usages))}
        for name, percent in PERCENTILES.items():
            usage[name] = _map(Usage(_percentile(cpu, percent), _percentile(memory, percent)))
        windows.append(AggregatedUsage(usage, duration(window_s)))
    return tuple(windows)


def _percentile(ordered: Sequence[int], percent: int) -> int:
    """The smallest value that `percent` of all do not exceed."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def _average(usages: Sequence[Usage]) -> Usage:
    if not usages:
        return _ZERO
    total = sum(usages, _ZERO)
    return Usage(total.cpu_milli // len(usages), total.memory_bytes // len(usages))


def _peak(history: History, *, system: bool = False) -> Usage:
    used = [sample.prod + sample.system if system else sample.prod for sample in history.samples]
    return Usage(
        max((usage.cpu_milli for usage in used), default=0), max((usage.memory_bytes for usage in used), default=0)
    )


def _with_margin(usage: Usage) -> Usage:
    return Usage(usage.cpu_milli * MARGIN_PERCENT // 100, usage.memory_bytes * MARGIN_PERCENT // 100)


def _prod_requests(pods: Sequence[Pod]) -> Usage:
    total = _ZERO
    for pod in pods:
        if priority_class(pod) is PriorityClass.PROD:
            requests = pod_requests(pod, capped=True)
            total += Usage(requests.get("cpu", 0), requests.get("memory", 0))
    return total


def _map(usage: Usage) -> ResourceMap:
    return ResourceMap(_quantities(usage))


def _quantities(usage: Usage) -> dict[str, str]:
    """Memory in whole pages, as a kernel counts it."""
    pages = usage.memory_bytes - usage.memory_bytes % PAGE_BYTES
    return {"cpu": render("cpu", usage.cpu_milli), "memory": render("memory", pages)}
