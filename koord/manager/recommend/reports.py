"""What a NodeMetric reports about the pods that need a recommendation, by container."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from koord.api.kubernetes.resources import amounts
from koord.api.machinery.struct import Struct
from koord.api.protocol.crd.node_metric import NodeMetric, PodMetricInfo
from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord.manager.recommend.history import Amounts
from koord.manager.recommend.pods import PodFacts


class ContainerUsage(NamedTuple):
    pod: str
    container: str
    used: Amounts


class UsageReport(Struct):
    node: str
    uid: str
    version: str
    updated_s: float | None
    "By the node's clock; None where it never reported."
    usage: tuple[ContainerUsage, ...]


def usage_report(metric: NodeMetric, pod: Callable[[str], PodFacts | None]) -> UsageReport:
    """`pod` knows those that are wanted, by key; nothing is read of the others."""
    usages: list[ContainerUsage] = []
    for pod_metric in metric.status.pods_metric:
        key = f"{pod_metric.namespace}/{pod_metric.name}"
        facts = pod(key)
        if facts is not None:
            usages += _by_container(key, facts, pod_metric)
    meta = metric.metadata
    return UsageReport(meta.name, meta.uid, meta.resource_version, _seconds(metric.status.update_time), tuple(usages))


def _by_container(key: str, pod: PodFacts, metric: PodMetricInfo) -> Iterator[ContainerUsage]:
    """The usage of a pod with one container is that of the container; other pods need a report for each container."""
    if len(pod.containers) == 1:
        used = _used(metric.pod_usage.resources)
        if used is not None:
            yield ContainerUsage(key, pod.containers[0].name, used)
        return
    named = metric.extensions.get("containers")
    for container in pod.containers:
        own = _used(named.get(container.name)) if isinstance(named, Mapping) else None
        if own is not None:
            yield ContainerUsage(key, container.name, own)


def _used(resources: object) -> Amounts | None:
    """None where an amount is missing, cannot be read or is negative: half a sample is none."""
    if not isinstance(resources, Mapping):
        return None
    try:
        amounts_used = amounts({name: resources[name] for name in ("cpu", "memory")}, capped=True)
    except (KeyError, TypeError, ValueError):
        return None
    used = Amounts(amounts_used["cpu"], amounts_used["memory"])
    return used if min(used) >= 0 else None


def _seconds(time: str | None) -> float | None:
    try:
        return parse_timestamp(time) if time else None
    except TimestampError:
        return None


def is_plausible(used: Amounts, capacity_cpu_milli: int, capacity_bytes: int) -> bool:
    """No container uses more than its node has: a wrong report would spoil a peak for days."""
    return used.cpu_milli <= capacity_cpu_milli and used.memory_bytes <= capacity_bytes
