"""Batch resources: how much of a node is lent to batch pods right now.

    usage            capacity - margin - max(system, reserved) - used(pods above batch)
    request          capacity - margin - reserved              - requested(pods above batch)      (memory only)
    maxUsageRequest  capacity - margin - max(system, reserved) - max(requested, used) of each pod above batch

each at least 0, and at most batch{CPU,Memory}ThresholdPercent of capacity where that is set. A pod that was not
measured yet counts with its request (but for maxUsageRequest, where it does not count: so the protocol has it); a pod
that owns its CPUs (LSE) counts with all of them; what was measured of a pod that is not there counts as measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Final, Literal, NamedTuple, TypeAlias

from koord.api.configuration.slo_config import NodeSettings
from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.protocol import names
from koord.api.protocol.priority import PriorityClass, QoSClass
from koord.manager.node_resource.freshness import distrust, reason
from koord.manager.node_resource.outcome import Outcome
from koord.manager.node_resource.settings import given, setting
from koord.manager.node_resource.state import BATCH, Amounts, MetricRow, NodeFacts, NodeState, PodRow, PodUsage
from koord.manager.node_resource.terms import Term, figure, of_percent

NAME: Final = "BatchResource"

Policy: TypeAlias = Literal["usage", "request", "maxUsageRequest"]

_LOW: Final = (PriorityClass.BATCH.value, PriorityClass.FREE.value)


class Share(NamedTuple):
    """What a pod above batch takes from batch, by each policy."""

    request_cpu: int
    request_memory: int
    used_cpu: int
    used_memory: int
    largest_cpu: int
    largest_memory: int


class Taken(NamedTuple):
    """What all pods above batch take together, and how they were counted."""

    request: Amounts
    used: Amounts
    used_measured: Amounts
    "How much of `used` was measured: the rest was asked for."
    largest: Amounts
    largest_measured: Amounts
    measured: int
    unmeasured: int
    dangling: int
    "Pods that were measured but are not there."


def share_of(pod: PodRow, usage: PodUsage | None) -> Share:
    """What one pod above batch takes."""
    cpu, memory = pod.cpu_milli, pod.memory_bytes
    if usage is None:
        return Share(cpu, memory, cpu, memory, 0, 0)
    used_cpu, used_memory = usage.cpu_milli, usage.memory_bytes
    return Share(
        cpu,
        memory,
        cpu if pod.qos is QoSClass.LSE else used_cpu,
        used_memory,
        cpu if cpu > used_cpu else used_cpu,
        memory if memory > used_memory else used_memory,
    )


def dangling(pods: Iterable[PodRow], measured: Mapping[str, PodUsage]) -> dict[str, PodUsage]:
    """What was measured of pods above batch that are not there, or have ended: they were there a moment ago."""
    there = {pod.key for pod in pods if pod.active}
    return {key: usage for key, usage in measured.items() if key not in there and usage.priority not in _LOW}


def taken(pods: Iterable[PodRow], metric: MetricRow) -> Taken:
    """What pods above batch take, added up."""
    measured = metric.pods
    request_cpu = request_memory = used_cpu = used_memory = largest_cpu = largest_memory = 0
    firm_cpu = firm_memory = firm_largest_cpu = firm_largest_memory = 0
    with_usage = without_usage = seen = 0
    for pod in pods:
        if not pod.active:
            continue
        usage = measured.get(pod.key)
        if usage is not None:
            seen += 1
        if not pod.above_batch:
            continue
        share = share_of(pod, usage)
        request_cpu += share[0]
        request_memory += share[1]
        used_cpu += share[2]
        used_memory += share[3]
        largest_cpu += share[4]
        largest_memory += share[5]
        if usage is None:
            without_usage += 1
            firm_cpu += share[2]
            firm_memory += share[3]
            continue
        with_usage += 1
        if pod.qos is QoSClass.LSE:
            firm_cpu += share[2]
        if share[4] > usage.cpu_milli:
            firm_largest_cpu += share[4]
        if share[5] > usage.memory_bytes:
            firm_largest_memory += share[5]
    gone = dangling(pods, measured) if seen < len(measured) else {}
    gone_cpu = sum(usage.cpu_milli for usage in gone.values())
    gone_memory = sum(usage.memory_bytes for usage in gone.values())
    used = Amounts(used_cpu + gone_cpu, used_memory + gone_memory)
    largest = Amounts(largest_cpu + gone_cpu, largest_memory + gone_memory)
    return Taken(
        Amounts(request_cpu, request_memory),
        used,
        Amounts(used.cpu_milli - firm_cpu, used.memory_bytes - firm_memory),
        largest,
        Amounts(largest.cpu_milli - firm_largest_cpu, largest.memory_bytes - firm_largest_memory),
        with_usage,
        without_usage,
        len(gone),
    )


def host_usage(metric: MetricRow, above: PriorityClass) -> Amounts:
    """What applications outside of Kubernetes use that come before a band."""
    cpu = memory = 0
    for each in metric.host:
        if each.is_above(above):
            cpu += each.used.cpu_milli
            memory += each.used.memory_bytes
    return Amounts(cpu, memory)


def system_used(metric: MetricRow, above: PriorityClass) -> Amounts:
    """What the node itself uses, with what runs beside Kubernetes and comes before a band."""
    return metric.system + host_usage(metric, above) if metric.host else metric.system


def cpu_policy(strategy: ColocationStrategy) -> Policy:
    return "maxUsageRequest" if strategy.cpu_calculate_policy == "maxUsageRequest" else "usage"


def memory_policy(strategy: ColocationStrategy) -> Policy:
    if strategy.memory_calculate_policy == "request":
        return "request"
    return "maxUsageRequest" if strategy.memory_calculate_policy == "maxUsageRequest" else "usage"


class Lent(NamedTuple):
    """One of the two resources: its name, its part of amounts, and the settings that decide about it."""

    resource: str
    of: Callable[[Amounts], int]
    policy: Callable[[ColocationStrategy], Policy]
    threshold: str
    "Setting: share of the node that may be used in all."
    limit: str
    "Setting: share of the node that may be lent at most."


LENT: Final = (
    Lent(
        names.RESOURCE_BATCH_CPU,
        attrgetter("cpu_milli"),
        cpu_policy,
        "cpu_reclaim_threshold_percent",
        "batch_cpu_threshold_percent",
    ),
    Lent(
        names.RESOURCE_BATCH_MEMORY,
        attrgetter("memory_bytes"),
        memory_policy,
        "memory_reclaim_threshold_percent",
        "batch_memory_threshold_percent",
    ),
)


def calculate(state: NodeState, settings: NodeSettings, now_s: float) -> Outcome:
    strategy = settings.colocation
    why_not = distrust(state, strategy, now_s)
    if why_not:
        return Outcome(NAME, deleted=BATCH, note=why_not, reason=reason(state))
    metric = state.metric
    assert metric is not None
    pods = taken(state.pods, metric)
    system = system_used(metric, PriorityClass.BATCH)
    return Outcome(
        NAME,
        tuple(
            figure(each.resource, _terms(each, state.node, system, pods, strategy), each.policy(strategy))
            for each in LENT
        ),
    )


def _terms(lent: Lent, node: NodeFacts, system: Amounts, pods: Taken, strategy: ColocationStrategy) -> list[Term]:
    policy, of = lent.policy(strategy), lent.of
    capacity, used, reserved = of(node.capacity), of(system), of(node.reserved)
    kept_percent: int = 100 - given(getattr(strategy, lent.threshold))
    limit_percent: int | None = getattr(strategy, lent.limit)
    kept_why = f"{kept_percent}% ({setting(strategy, lent.threshold)})"
    terms = [
        Term("start", "capacity", capacity),
        Term("minus", "safetyMargin", of_percent(capacity, kept_percent), kept_why),
    ]
    if policy == "request":
        asked = _pods(pods.measured + pods.unmeasured)
        terms.append(Term("minus", "reserved", reserved))
        terms.append(Term("minus", "pods", of(pods.request), f"requested by {asked}"))
    else:
        if used >= reserved:
            why = "used by what is no pod" + _more_than(reserved, "reserved")
            terms.append(Term("minus", "system", used, why, measured=used))
        else:
            terms.append(Term("minus", "reserved", reserved, f"reserved, more than the {used} that the system uses"))
        if policy == "usage":
            terms.append(Term("minus", "pods", of(pods.used), _used_by(pods), of(pods.used_measured)))
        else:
            terms.append(Term("minus", "pods", of(pods.largest), _largest_of(pods), of(pods.largest_measured)))
    if limit_percent is not None:
        limit_why = f"{limit_percent}% of capacity ({setting(strategy, lent.limit)})"
        terms.append(Term("atMost", "limit", of_percent(capacity, limit_percent), limit_why))
    terms.append(Term("atLeast", "nothing", 0))
    return terms


def _pods(number: int) -> str:
    return "1 pod above batch" if number == 1 else f"{number} pods above batch"


def _more_than(other: int, what: str) -> str:
    return f", more than the {other} {what}" if other else ""


def _used_by(counted: Taken) -> str:
    said = f"used by {_pods(counted.measured)}"
    if counted.unmeasured:
        said += f"; requested by {counted.unmeasured} not measured yet"
    return said + _gone(counted)


def _largest_of(counted: Taken) -> str:
    said = f"used or requested, whichever is more, by {_pods(counted.measured)}"
    if counted.unmeasured:
        said += f"; {counted.unmeasured} not measured yet left out"
    return said + _gone(counted)


def _gone(counted: Taken) -> str:
    return f"; used by {counted.dangling} measured before it went" if counted.dangling else ""
