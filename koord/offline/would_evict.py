"""Whom agents would evict and hold back by other settings: their own decisions, asked with what nodes report.

A report's averages stand for the present. Which features an agent has switched on is not in the cluster, so all are
asked; each eviction names the feature that it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from koord.agent.host.topology import Topology
from koord.agent.pods import AgentPod
from koord.agent.qos import cpu_evict, memory_evict
from koord.agent.qos.cpu_budget import FRESH_WITHIN_S, cpu_budget
from koord.agent.qos.strategy import Sight
from koord.agent.series import names
from koord.agent.series.samples import Samples, Series
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate
from koord.api.configuration.overlay import overlay
from koord.api.configuration.slo_defaults import THRESHOLD_STRATEGY, default_node_slo, effective_qos_strategy
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts, pod_limits, pod_requests
from koord.api.protocol.crd.node_metric import NodeMetric, ResourceMap
from koord.api.protocol.crd.node_slo import NodeSLOSpec
from koord.api.protocol.priority import kube_qos, priority_class, qos_class, raw_qos_class

_ALL_ON: Final = dict.fromkeys(AgentGate, True)


class WouldEvict(msgspec.Struct, frozen=True, rename="camel"):
    pod: str
    node: str
    by: str
    "The agent's feature."
    why: str


def would_evict(
    node: Node,
    allocatable: Mapping[str, int],
    pods: Iterable[Pod],
    metric: NodeMetric,
    slo: NodeSLOSpec,
    now_s: float,
) -> tuple[WouldEvict, ...]:
    """`allocatable` is what the node has by the settings in question, `slo` those settings."""
    info, settings = metric.status.node_metric, slo.resource_used_threshold_with_be
    if info is None or settings is None or not settings.enable:
        return ()
    state = _state(node, allocatable, pods, slo)
    samples = _samples(state, metric, now_s)
    evictions: dict[str, WouldEvict] = {}
    for strategy in (cpu_evict.STRATEGY, memory_evict.STRATEGY):
        decision, _ = strategy.decide(Sight(state, samples, now_s), None, strategy.memory)
        for gone in decision.evictions if decision is not None else ():
            evictions.setdefault(gone.pod.uid, WouldEvict(gone.pod.key, node.metadata.name, gone.by, gone.why))
    return tuple(evictions.values())


def held_back_milli(node: Node, pods: Iterable[Pod], metric: NodeMetric, slo: NodeSLOSpec, now_s: float) -> int:
    """How much of the CPU that best-effort pods use now an agent would keep from them by these settings."""
    strategy = slo.resource_used_threshold_with_be
    if metric.status.node_metric is None or strategy is None or not strategy.enable:
        return 0
    state = _state(node, {}, pods, slo)
    samples = _samples(state, metric, now_s)
    threshold = strategy.cpu_suppress_threshold_percent or THRESHOLD_STRATEGY.cpu_suppress_threshold_percent or 0
    budget = cpu_budget(state, samples, threshold, strategy.cpu_suppress_min_percent, now_s)
    if budget is None:
        return 0
    best_effort = [uid for uid, pod in state.pods.items() if pod.is_best_effort]
    used = sum(samples.last(names.pod_cpu(uid), now_s, FRESH_WITHIN_S) or 0 for uid in best_effort)
    return max(0, int(used) - budget.allowed)


def _samples(state: NodeState, metric: NodeMetric, now_s: float) -> Samples:
    samples = Samples()
    if metric.status.node_metric is not None:
        _add(samples, names.NODE_CPU, names.NODE_MEMORY, metric.status.node_metric.node_usage, now_s)
    by_key = {pod.key: uid for uid, pod in state.pods.items()}
    for pod_metric in metric.status.pods_metric:
        uid = by_key.get(f"{pod_metric.namespace}/{pod_metric.name}")
        if uid is not None:
            _add(samples, names.pod_cpu(uid), names.pod_memory(uid), pod_metric.pod_usage, now_s)
    return samples


def _state(node: Node, allocatable: Mapping[str, int], pods: Iterable[Pod], slo: NodeSLOSpec) -> NodeState:
    in_force = overlay(default_node_slo(), slo)
    has = amounts(node.status.capacity or node.status.allocatable)
    return NodeState(
        node=node,
        capacity_cpu_milli=has.get("cpu", 0),
        capacity_memory_bytes=has.get("memory", 0),
        allocatable=allocatable,
        slo=in_force,
        qos=effective_qos_strategy(in_force.resource_qos_strategy),
        pods={pod.metadata.uid or pod.metadata.key: _pod(pod) for pod in pods if not pod.is_finished},
        topology=Topology(()),
        driver=CgroupDriver.SYSTEMD,
        gates=_ALL_ON,
    )


def _pod(pod: Pod) -> AgentPod:
    meta = pod.metadata
    if not meta.uid:
        # Agents know pods by their uid, which a manifest need not have.
        meta = msgspec.structs.replace(meta, uid=meta.key)
    return AgentPod(
        meta=meta,
        phase=pod.status.phase,
        labelled_qos=raw_qos_class(meta.labels),
        qos=qos_class(pod),
        kube_qos=kube_qos(pod),
        priority=pod.spec.priority,
        band=priority_class(pod),
        directory="",
        containers=(),
        requests=pod_requests(pod),
        limits=pod_limits(pod),
        started=pod.status.start_time,
    )


def _add(samples: Samples, cpu: Series, memory: Series, usage: ResourceMap, now_s: float) -> None:
    used = amounts(usage.resources)
    samples.add(cpu, now_s, used.get("cpu", 0))
    samples.add(memory, now_s, used.get("memory", 0))
