"""The status of this node's NodeMetric: usage as averages over a window, and percentiles over longer ones.

What is not known is left out, never reported as zero: readers take silence for silence. A longer window is left out
while its samples span less than half of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from koord.agent.guests import requested_milli
from koord.agent.host_applications import host_applications
from koord.agent.interference.signals import Signal
from koord.agent.lending.learner import LendingOutlook
from koord.agent.pods import AgentContainer, AgentPod
from koord.agent.predict.forecast import Forecast
from koord.agent.report.lending_metric import lending_metric
from koord.agent.report.page_cache import PAGE_CACHE, CountedMemory, counted_memory
from koord.agent.report.policy_metric import policy_metric
from koord.agent.report.report import Facts, Report
from koord.agent.series import names
from koord.agent.series.samples import Samples, Series
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate
from koord.api.kinds import NODE_METRICS
from koord.api.machinery.struct import EMPTY
from koord.api.protocol.crd.device import DeviceInfo
from koord.api.protocol.crd.node_metric import (
    AggregatedUsage,
    BestEffortMetric,
    ForecastMisses,
    HostApplicationMetricInfo,
    NodeMetric,
    NodeMetricInfo,
    NodeMetricStatus,
    NUMAUsage,
    PeakMetric,
    PodMetricInfo,
    ReclaimableMetric,
    ResourceMap,
)
from koord.api.protocol.names import RESOURCE_GPU_CORE, RESOURCE_GPU_MEMORY, RESOURCE_GPU_MEMORY_RATIO
from koord.api.protocol.report_policy import ReportPolicy, policy_of
from koord.api.protocol.slowed_by import SLOWED_BY, Blame
from koord.api.text.duration import from_seconds as duration
from koord.api.text.quantity import ResourceList, render

LEAST_REPORT_S: Final = 30.0
LEAST_WINDOW_S: Final = 60.0
FORECAST_S: Final = 180.0
"An older forecast is not reported: nothing is lent by it, whatever stopped its updates."
SIGNALS: Final = "signals"
"""The extension of a pod's metrics that has its signals of suffering: agents compare replicas by it."""
PERCENTILES: Final[Mapping[str, float]] = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


def node_metric_status(
    state: NodeState,
    samples: Samples,
    policy: ReportPolicy,
    now_s: float,
    update_time: str,
    forecast: Forecast | None = None,
    blames: Mapping[str, Sequence[Blame]] = EMPTY,
    lending: LendingOutlook | None = None,
) -> NodeMetricStatus | None:
    """None while nothing was measured yet. `now_s` is in the time of the samples, `update_time` in everybody's."""
    window_s = max(policy.window_s, LEAST_WINDOW_S)
    memory = counted_memory(samples, policy.memory, now_s, window_s)
    node = _usage(samples, names.NODE_CPU, samples.mean(memory.of_node, now_s, window_s), now_s, window_s)
    if node is None:
        return None
    system = _usage(samples, names.SYSTEM_CPU, samples.mean(memory.of_system, now_s, window_s), now_s, window_s)
    pods = [_pod(state, pod, samples, memory, now_s, window_s, blames.get(pod.uid, ())) for pod in state.pods.values()]
    applications = [
        HostApplicationMetricInfo(name=app.name, usage=used, priority=app.priority, qos=app.qos)
        for app in host_applications(state.slo)
        if (
            used := _usage(
                samples,
                names.host_application_cpu(app.name),
                memory.of_application(app.name),
                now_s,
                window_s,
            )
        )
    ]
    return NodeMetricStatus(
        update_time=update_time,
        node_metric=NodeMetricInfo(
            node_usage=msgspec.structs.replace(node, devices=_gpus(state, samples, "", now_s, window_s)),
            aggregated_node_usages=_aggregated(samples, names.NODE_CPU, memory.of_node, policy.longer_s, now_s),
            system_usage=system or ResourceMap(),
            aggregated_system_usages=_aggregated(samples, names.SYSTEM_CPU, memory.of_system, policy.longer_s, now_s),
            numa_usages=_by_numa_node(state, samples, now_s, window_s),
            page_cache=memory.page_cache(),
        ),
        pods_metric=tuple(sorted((pod for pod in pods if pod), key=lambda pod: (pod.namespace, pod.name))),
        host_application_metric=tuple(sorted(applications, key=lambda app_metric: app_metric.name)),
        prod_reclaimable_metric=None if forecast is None else ReclaimableMetric(_map(*forecast.prod.reclaimable)),
        prod_peak_metric=None if forecast is None else PeakMetric(_map(*forecast.prod.peak), _misses(forecast)),
        lending_metric=None if lending is None else lending_metric(lending, state.pods, requested_milli(state.guests)),
        policy_metric=None if lending is None or lending.peer is None else policy_metric(lending.peer),
        best_effort_metric=_best_effort(samples, now_s, window_s),
    )


def _best_effort(samples: Samples, now_s: float, window_s: float) -> BestEffortMetric | None:
    """Means of the period, as all usage of the report."""
    requested = samples.mean(names.BE_CPU_REQUEST, now_s, window_s)
    limit = samples.mean(names.BE_CPU_LIMIT, now_s, window_s)
    if requested is None or limit is None:
        return None
    used = samples.mean(names.BE_CPU, now_s, window_s)
    return best_effort_metric(None if used is None else round(used), round(requested), round(limit))


def best_effort_metric(used_milli: int | None, requested_milli: int, limit_milli: int) -> BestEffortMetric:
    return BestEffortMetric(
        cpu_used=None if used_milli is None else render("cpu", used_milli),
        cpu_requested=render("cpu", requested_milli),
        cpu_limit=render("cpu", limit_milli),
        cpu_held_back=render("cpu", max(0, requested_milli - limit_milli)),
    )


def _misses(forecast: Forecast) -> ForecastMisses | None:
    misses = forecast.misses
    if not misses.minutes:
        return None
    minutes = {"cpu": misses.cpu_minutes, "memory": misses.memory_minutes}
    return ForecastMisses(misses.minutes, minutes, _map(misses.cpu_milli, misses.memory_bytes).resources)


def _by_numa_node(state: NodeState, samples: Samples, now_s: float, window_s: float) -> tuple[NUMAUsage, ...]:
    """What is not pods' is shared out in proportion to all CPU that is used on each NUMA node."""
    if len(state.topology.nodes) < 2:
        return ()
    used = {
        node: (cpu, memory)
        for node in state.topology.nodes
        if (cpu := samples.mean(names.numa_cpu(node), now_s, window_s)) is not None
        and (memory := samples.mean(names.numa_memory(node), now_s, window_s)) is not None
    }
    everything = sum(cpu for cpu, _ in used.values())
    system = samples.mean(names.SYSTEM_CPU, now_s, window_s) or 0.0
    usages = []
    for node, (cpu, memory) in used.items():
        share = system * cpu / everything if everything > 0 else 0.0
        resources = {"cpu": render("cpu", int(share))}
        usages.append(NUMAUsage(node, node_usage=_map(cpu, memory), system_usage=ResourceMap(resources)))
    return tuple(usages)


def _pod(
    state: NodeState,
    pod: AgentPod,
    samples: Samples,
    memory: CountedMemory,
    now_s: float,
    window_s: float,
    blames: Sequence[Blame],
) -> PodMetricInfo | None:
    used = _usage(samples, names.pod_cpu(pod.uid), memory.of_pod(pod.uid), now_s, window_s)
    if used is None:
        return None

    def own_usage(container: AgentContainer) -> ResourceMap | None:
        return _usage(samples, names.container_cpu(container.id), memory.of_container(container.id), now_s, window_s)

    containers = {
        container.name: own.resources for container in pod.containers if container.id and (own := own_usage(container))
    }
    return PodMetricInfo(
        name=pod.meta.name,
        namespace=pod.meta.namespace,
        pod_usage=msgspec.structs.replace(used, devices=_gpus(state, samples, pod.uid, now_s, window_s)),
        priority=pod.band,
        qos=pod.qos,
        extensions=_extensions(
            state,
            pod,
            samples,
            containers if len(containers) > 1 else {},
            memory.page_cache_of(pod),
            now_s,
            window_s,
            blames,
        ),
    )


def _extensions(
    state: NodeState,
    pod: AgentPod,
    samples: Samples,
    containers: Mapping[str, ResourceList],
    page_cache: Mapping[str, Any],
    now_s: float,
    window_s: float,
    blames: Sequence[Blame],
) -> Mapping[str, Any]:
    extensions: dict[str, Any] = {"containers": containers} if containers else {}
    if page_cache:
        extensions[PAGE_CACHE] = page_cache
    if state.gates[AgentGate.INTERFERENCE_DETECTION] or state.gates[AgentGate.INTERFERENCE_CONTROL]:
        means = {signal.key: samples.mean(names.pod_signal(pod.uid, signal.key), now_s, window_s) for signal in Signal}
        signals = {key: round(value, 3) for key, value in means.items() if value is not None}
        if signals:
            extensions[SIGNALS] = signals
    if blames:
        extensions[SLOWED_BY] = tuple(blames)
    return extensions or EMPTY


def _gpus(state: NodeState, samples: Samples, pod: str, now_s: float, window_s: float) -> tuple[DeviceInfo, ...]:
    """What is used of each GPU, by a pod or by all. Of MIG instances the driver tells the memory alone."""
    devices = []
    for gpu in state.devices.usable_gpus() if state.devices else ():
        minor = gpu.minor
        memory = samples.mean(names.gpu_memory(minor, pod), now_s, window_s)
        if memory is None:
            continue
        core = samples.mean(names.gpu_core(minor, pod), now_s, window_s)
        ratio = int(memory * 100 / max(gpu.memory_bytes, 1))
        used: dict[str, str] = {RESOURCE_GPU_MEMORY: render(RESOURCE_GPU_MEMORY, int(memory))}
        used |= {} if core is None else {RESOURCE_GPU_CORE: render(RESOURCE_GPU_CORE, int(core))}
        used[RESOURCE_GPU_MEMORY_RATIO] = render(RESOURCE_GPU_MEMORY_RATIO, ratio)
        devices.append(DeviceInfo(type="gpu", id=gpu.uuid, minor=minor, health=True, resources=used))
    return tuple(devices)


def _usage(
    samples: Samples, cpu: Series, memory_bytes: float | None, now_s: float, window_s: float
) -> ResourceMap | None:
    cpu_milli = samples.mean(cpu, now_s, window_s)
    return None if cpu_milli is None or memory_bytes is None else _map(cpu_milli, memory_bytes)


def _aggregated(
    samples: Samples, cpu: Series, memory: Series, windows_s: tuple[float, ...], now_s: float
) -> tuple[AggregatedUsage, ...]:
    windows = []
    for window_s in windows_s:
        cpus, bytes_ = samples.window(cpu, now_s, window_s), samples.window(memory, now_s, window_s)
        if cpus is None or bytes_ is None or min(cpus.span_s, bytes_.span_s) < window_s / 2:
            continue
        usage = {"avg": _map(cpus.mean, bytes_.mean)}
        usage |= {name: _map(cpus.percentile(part), bytes_.percentile(part)) for name, part in PERCENTILES.items()}
        windows.append(AggregatedUsage(usage, duration(window_s)))
    return tuple(windows)


def _map(cpu_milli: float, memory_bytes: float) -> ResourceMap:
    return ResourceMap({"cpu": render("cpu", int(cpu_milli)), "memory": render("memory", int(memory_bytes))})


def _change(facts: Facts, stored: NodeMetric | None) -> Mapping[str, Any] | None:
    """The manager creates the object: without it, no report is wanted."""
    if stored is None:
        return None
    forecast = facts.forecast
    if forecast is not None and facts.now_s - forecast.made_s > FORECAST_S:
        forecast = None
    status = node_metric_status(
        facts.state, facts.samples, _policy(stored), facts.now_s, facts.at, forecast, facts.blames, facts.lending
    )
    if status is None:
        return None
    return {"status": _named(status)}


def _named(report: msgspec.Struct) -> dict[str, Any]:
    """With null for what it leaves out: a merge patch leaves alone what it does not name, pods that are gone too."""
    fields = {field.encode_name: getattr(report, field.name) for field in msgspec.structs.fields(report)}
    said = msgspec.to_builtins(report)
    return {
        name: _named(value) if isinstance(value, msgspec.Struct) else said.get(name) for name, value in fields.items()
    }


def _policy(stored: NodeMetric | None) -> ReportPolicy:
    return policy_of(stored.spec.metric_collect_policy if stored else None, ReportPolicy())


def _every_s(stored: NodeMetric | None) -> float:
    return max(_policy(stored).report_s, LEAST_REPORT_S)


REPORT: Final = Report("usage", NODE_METRICS, _change, _every_s, idle_s=1.0, subresource="status")
