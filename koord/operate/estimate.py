"""What co-location was worth, from the API alone: the existing pods, their start times and their current usage.

The API has no history. Deleted pods are not counted, and running pods are assumed to have always used as much as now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from koord.api.kubernetes.core import Event
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import FINISHED, Pod
from koord.api.kubernetes.resources import pod_requests
from koord.api.protocol import names
from koord.api.protocol.charged import Charged, charged_to
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.text.duration import from_seconds
from koord.api.text.quantity import QuantityError, amount
from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord.operate.worth import GIB, Span, Worth, of_spans

EVICTED: Final = "evictPodSuccess"
"""The reason in the agent's eviction events."""
CPU: Final = (names.RESOURCE_BATCH_CPU, names.RESOURCE_MID_CPU)
MEMORY: Final = (names.RESOURCE_BATCH_MEMORY, names.RESOURCE_MID_MEMORY)
SOURCE: Final = "the API"


def of_objects(
    pods: Sequence[Pod],
    nodes: Sequence[Node],
    metrics: Sequence[NodeMetric],
    events: Sequence[Event],
    now_s: float,
    window_s: float,
) -> Worth:
    usage = dict(_usage(metrics))
    spans = [span for pod in pods if (span := _span(pod, usage, now_s)) is not None]
    offers = [span for node in nodes if (span := _offer(node, now_s)) is not None]
    charged_by_key = {pod.metadata.key: charged_to(pod.metadata) for pod in pods}
    evicted: dict[Charged, int] = {}
    for event in events:
        at_s = _time_s(event.event_time or event.metadata.creation_timestamp, now_s)
        if event.reason == EVICTED and event.regarding.kind == "Pod" and at_s >= now_s - window_s:
            namespace, name = event.regarding.namespace, event.regarding.name
            charged = charged_by_key.get(f"{namespace}/{name}", Charged(namespace, "", f"pod/{name}"))
            evicted[charged] = evicted.get(charged, 0) + 1
    oldest_s = min((_time_s(event.metadata.creation_timestamp, now_s) for event in events), default=now_s)
    notes = [
        "the API has no history: pods that are gone are not counted; others are taken to have used as much as now",
        f"evictions are known of the last {from_seconds(round(now_s - oldest_s))}, as long as the cluster keeps events",
    ]
    from_s = now_s - window_s
    return of_spans(spans, offers, evicted, from_s, now_s, source=SOURCE, notes=tuple(notes))


def _span(pod: Pod, usage: Mapping[str, tuple[float, float]], now_s: float) -> Span | None:
    """None for pods that use no lent resources, or have not started."""
    try:
        requests = pod_requests(pod, capped=True)
    except QuantityError:
        return None
    cores = sum(requests.get(resource, 0) for resource in CPU) / 1000
    gib = sum(requests.get(resource, 0) for resource in MEMORY) / GIB
    if not (cores or gib) or pod.status.start_time is None:
        return None
    used_cores, used_gib = usage.get(pod.metadata.key, (0.0, 0.0))
    until_s = _ended_s(pod, now_s) if pod.status.phase in FINISHED else now_s
    from_s = _time_s(pod.status.start_time, now_s)
    return Span(charged_to(pod.metadata), from_s, until_s, cores, gib, used_cores, used_gib)


def _ended_s(pod: Pod, now_s: float) -> float:
    ends = [
        _time_s(status.state.terminated.finished_at, now_s)
        for status in pod.status.container_statuses
        if status.state.terminated is not None and status.state.terminated.finished_at
    ]
    return max(ends, default=_time_s(pod.status.start_time, now_s))


def _offer(node: Node, now_s: float) -> Span | None:
    cores = sum(_amount(node, resource) for resource in CPU) / 1000
    gib = sum(_amount(node, resource) for resource in MEMORY) / GIB
    if not (cores or gib):
        return None
    return Span(Charged("", "", ""), _time_s(node.metadata.creation_timestamp, now_s), now_s, cores, gib)


def _amount(node: Node, resource: str) -> int:
    text = node.status.allocatable.get(resource)
    try:
        return 0 if text is None else amount(resource, text)
    except QuantityError:
        return 0


def _usage(metrics: Iterable[NodeMetric]) -> Iterator[tuple[str, tuple[float, float]]]:
    for metric in metrics:
        for pod in metric.status.pods_metric:
            amounts = {}
            for resource in (names.RESOURCE_CPU, names.RESOURCE_MEMORY):
                text = pod.pod_usage.resources.get(resource)
                try:
                    amounts[resource] = 0 if text is None else amount(resource, text)
                except QuantityError:
                    amounts[resource] = 0
            cores, gib = amounts[names.RESOURCE_CPU] / 1000, amounts[names.RESOURCE_MEMORY] / GIB
            yield f"{pod.namespace}/{pod.name}", (cores, gib)


def _time_s(text: str | None, otherwise_s: float) -> float:
    try:
        return parse_timestamp(text or "")
    except TimestampError:
        return otherwise_s
