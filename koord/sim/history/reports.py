"""NodeMetrics to lines of a recording: each report once, at the time that it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests
from koord.api.protocol import names
from koord.api.protocol.annotations.gang import gang_id
from koord.api.protocol.crd.node_metric import NodeMetric, ResourceMap
from koord.api.text.quantity import QuantityError, amount
from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord.sim.history.rows import Lines, NodeFacts, PodFacts, Use

LENT_CPU = (names.RESOURCE_BATCH_CPU, names.RESOURCE_MID_CPU)
LENT_MEMORY = (names.RESOURCE_BATCH_MEMORY, names.RESOURCE_MID_MEMORY)
BEST_EFFORT_BANDS = (names.PRIORITY_CLASS_BATCH, names.PRIORITY_CLASS_FREE)


def report_time_s(report: NodeMetric) -> int | None:
    """When the node wrote it; None if there is no report yet."""
    written = report.status.update_time
    if written is None or report.status.node_metric is None:
        return None
    try:
        return int(parse_timestamp(written))
    except TimestampError:
        return None


def uses_of(report: NodeMetric, time_s: int) -> Iterator[Use]:
    for pod in report.status.pods_metric:
        cpu = _used(pod.pod_usage, "cpu")
        if cpu is None:
            continue
        yield Use(
            time_s=time_s,
            pod=f"{pod.namespace}/{pod.name}",
            node=report.metadata.name,
            is_batch=pod.qos == "BE" or pod.priority in BEST_EFFORT_BANDS,
            cpu_milli=cpu,
            memory_bytes=_used(pod.pod_usage, "memory"),
        )


def system_cpu_milli(report: NodeMetric) -> int | None:
    """What the node uses outside of pods, host applications included."""
    status = report.status
    if status.node_metric is None:
        return None
    system = _used(status.node_metric.system_usage, "cpu")
    if system is None:
        return None
    return system + sum(_used(application.usage, "cpu") or 0 for application in status.host_application_metric)


def add_report(
    lines: Lines, report: NodeMetric, time_s: int, node: NodeFacts | None, pod: Callable[[str], PodFacts | None]
) -> None:
    """`pod`: what the API says about a pod, by namespace/name."""
    for use in uses_of(report, time_s):
        lines.add_use(use, pod(use.pod))
    if node is not None:
        lines.add_node(time_s, report.metadata.name, node, system_cpu_milli(report))


def facts_of_pod(pod: Pod) -> PodFacts:
    try:
        requests: Mapping[str, int] = pod_requests(pod, capped=True)
    except QuantityError:
        requests = {}
    created = pod.metadata.creation_timestamp
    lent_cpu = next((requests[name] for name in LENT_CPU if name in requests), None)
    lent_memory = next((requests[name] for name in LENT_MEMORY if name in requests), None)
    return PodFacts(
        arrival_s=int(parse_timestamp(created)) if created else 0,
        request_cpu_milli=requests.get("cpu", 0) if lent_cpu is None else lent_cpu,
        request_memory_bytes=requests.get("memory", 0) if lent_memory is None else lent_memory,
        queue=pod.metadata.labels.get(names.LABEL_QUOTA_NAME, ""),
        gang=gang_id(pod.metadata),
    )


def facts_of_node(node: Node, pool_label: str) -> NodeFacts | None:
    """None if the node does not say its size yet."""
    capacity = node.status.capacity
    try:
        cpu, memory = amount("cpu", capacity.get("cpu", "0")), amount("memory", capacity.get("memory", "0"))
    except QuantityError:
        return None
    if cpu <= 0 or memory <= 0:
        return None
    return NodeFacts(cpu, memory, node.metadata.labels.get(pool_label, "") if pool_label else "")


def _used(usage: ResourceMap, resource: str) -> int | None:
    quantity = usage.resources.get(resource)
    if quantity is None:
        return None
    try:
        return max(0, amount(resource, quantity))
    except QuantityError:
        return None
