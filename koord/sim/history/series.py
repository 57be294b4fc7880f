"""Prometheus' series to lines of a recording: usage by koord's agents, requests and sizes by kube-state-metrics.

Series come page by page, each with the points of a page of time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from koord.api.protocol import names
from koord.sim.history.rows import Lines, NodeFacts, PodFacts, Use

POD_CPU: Final = 'koordlet_pod_usage{resource="cpu"}'
POD_MEMORY: Final = 'koordlet_pod_usage{resource="memory"}'
NODE_CPU: Final = 'koordlet_node_usage{resource="cpu"}'
REQUESTS: Final = "sum by (namespace, pod, resource) (kube_pod_container_resource_requests)"
CREATED: Final = "max by (namespace, pod) (kube_pod_created)"
CAPACITY: Final = 'max by (node, resource) (kube_node_status_capacity{resource=~"cpu|memory"})'
LENT: Final = "max by (pod_namespace, pod_name, resource) (koordlet_lent_to_pod{what='requested'})"
BEST_EFFORT: Final = (names.PRIORITY_CLASS_BATCH, names.PRIORITY_CLASS_FREE)
MILLI: Final = 1000

Points: TypeAlias = Sequence[tuple[float, float]]
LabelledPoints: TypeAlias = Sequence[tuple[Mapping[str, str], Points]]


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """What the queries above gave for a page of time."""

    pod_cpu: LabelledPoints
    pod_memory: LabelledPoints
    node_cpu: LabelledPoints
    requests: LabelledPoints
    created: LabelledPoints
    lent: LabelledPoints
    capacity: LabelledPoints


def add_page(
    lines: Lines, page: MetricsPage, pods: Mapping[str, PodFacts], nodes: Mapping[str, NodeFacts]
) -> tuple[float, ...]:
    """Adds the lines of a page, in the order of time. `pods` and `nodes`: what the API knows, for pods and nodes that
    metrics say nothing about. Returns the times of its samples."""
    facts = {**pods, **_facts_of_pods(page)}
    memory = {_pod(labels): dict(points) for labels, points in page.pod_memory}
    uses = []
    used_by_pods: dict[tuple[str, float], float] = defaultdict(float)
    for labels, points in page.pod_cpu:
        pod, node = _pod(labels), labels.get("node", "")
        is_batch = labels.get("qos") == "BE" or labels.get("priority") in BEST_EFFORT
        for time_s, cores in points:
            used_by_pods[node, time_s] += cores
            bytes_ = memory.get(pod, {}).get(time_s)
            memory_bytes = None if bytes_ is None else round(bytes_)
            uses.append(Use(round(time_s), pod, node, is_batch, max(0, round(cores * MILLI)), memory_bytes))
    for use in sorted(uses, key=lambda use: (use.time_s, use.pod)):
        lines.add_use(use, facts.get(use.pod))
    sizes = {**nodes, **_facts_of_nodes(page, nodes)}
    of_nodes = []
    for labels, points in page.node_cpu:
        name = labels.get("node", "")
        for time_s, cores in points:
            if name in sizes:
                system = max(0, round((cores - used_by_pods[name, time_s]) * MILLI))
                of_nodes.append((round(time_s), name, sizes[name], system))
    for time_s, name, size, system in sorted(of_nodes, key=lambda line: line[:2]):
        lines.add_node(time_s, name, size, system)
    return tuple(sorted({float(use.time_s) for use in uses}))


def _pod(labels: Mapping[str, str]) -> str:
    return f"{labels.get('pod_namespace', '')}/{labels.get('pod_name', '')}"


def _facts_of_pods(page: MetricsPage) -> dict[str, PodFacts]:
    requested: dict[str, dict[str, float]] = defaultdict(dict)
    for labels, points in page.requests:
        if points:
            pod = f"{labels.get('namespace', '')}/{labels.get('pod', '')}"
            requested[pod][labels.get("resource", "")] = points[-1][1]
    for labels, points in page.lent:
        if points:
            requested[_pod(labels)][labels.get("resource", "")] = points[-1][1]
    created = {
        f"{labels.get('namespace', '')}/{labels.get('pod', '')}": points[-1][1]
        for labels, points in page.created
        if points
    }
    first_s = {_pod(labels): points[0][0] for labels, points in page.pod_cpu if points}
    return {
        pod: PodFacts(
            arrival_s=round(created.get(pod, first_s.get(pod, 0.0))),
            request_cpu_milli=round(resources.get("cpu", 0) * MILLI),
            request_memory_bytes=round(resources.get("memory", 0)),
        )
        for pod, resources in requested.items()
    }


def _facts_of_nodes(page: MetricsPage, nodes: Mapping[str, NodeFacts]) -> dict[str, NodeFacts]:
    sizes: dict[str, dict[str, float]] = defaultdict(dict)
    for labels, points in page.capacity:
        if points:
            sizes[labels.get("node", "")][labels.get("resource", "")] = points[-1][1]
    return {
        name: NodeFacts(round(size["cpu"] * MILLI), round(size["memory"]), nodes[name].pool if name in nodes else "")
        for name, size in sizes.items()
        if size.get("cpu", 0) > 0 and size.get("memory", 0) > 0
    }
