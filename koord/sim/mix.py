"""The cluster of a scenario, from what the traces have.

A trace with nodes and places, as of a recording, gives its own cluster. Curves alone are packed on nodes: on each until
services request a share of its CPU. A service is then a curve of a trace, drawn by chance (one with twice the peak is
drawn twice as often, since it is twice the load), shifted by days and brought to a size. It requests its peak
times a factor, as operators do. All follows from hash(seed, number): a node or service keeps its draw however many
there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from koord.api.machinery.faults import BadInput
from koord.api.text.duration import parse_duration
from koord.api.text.quantity import value
from koord.sim.chance import chance, choice
from koord.sim.cluster import Cluster
from koord.sim.columns import no_services, no_tasks
from koord.sim.minutes import NodeColumns
from koord.sim.mix_services import drawn_services, placed_services
from koord.sim.mix_tasks import sized_tasks
from koord.sim.packing import Window, gpus_of, tasks_of
from koord.sim.scenario import TICK_S, ClusterSource, Scenario
from koord.sim.traces.trace import Trace


def build(scenario: Scenario, services: Sequence[Trace], batch: Trace | None, seed: int) -> Cluster:
    """`services`: a trace for each name in the scenario's `services.trace`, each with curves."""
    length_s = parse_duration(scenario.duration)
    if batch is not None and batch.gpu_nodes:
        return _with_gpus(scenario, batch, seed)
    if scenario.packing:
        raise BadInput(f"packing: {scenario.packing} packs GPUs, and trace {scenario.batch.trace} has none (openb has)")
    if scenario.batch.load is not None:
        raise BadInput(f"batch.load: is for traces with GPUs, and {scenario.batch.trace} has none")
    curves = [trace.services for trace in services if trace.services is not None]
    recorded = services[0].nodes if len(services) == 1 else None
    if not curves:
        raise BadInput(f"services.trace: {scenario.services.trace} has no services")
    if scenario.cluster.nodes is None:
        if recorded is None:
            raise BadInput(f"cluster.nodes: is required: trace {scenario.services.trace} has no nodes")
        nodes, system_milli = recorded, services[0].system_milli
        placed = placed_services(scenario, curves[0], nodes, length_s, seed)
    else:
        nodes, system_milli = _nodes(scenario.cluster, scenario.cluster.nodes, seed), None
        placed = drawn_services(scenario, curves, nodes, length_s, seed)
    tasks = no_tasks()
    if batch is not None:
        if batch.tasks is None:
            raise BadInput(
                f"batch.trace: {scenario.batch.trace} has no batch pods; to add those that koord ships:"
                " {trace: shipped, arrivals: saturate, pending: 20}"
            )
        tasks = sized_tasks(scenario.batch, batch.tasks, len(placed.node), length_s, seed)
    traces = [*services, *([batch] if batch is not None and all(batch is not trace for trace in services) else [])]
    repairs = tuple(repair for trace in traces for repair in trace.repairs)
    return Cluster(nodes, placed.services, placed.node, tasks, system_milli, repairs)


def _with_gpus(scenario: Scenario, trace: Trace, seed: int) -> Cluster:
    """The trace's own nodes, with pods that come and go as it has them, and without services."""
    if trace.nodes is None or not trace.gpu_pods:
        raise BadInput(f"batch.trace: {scenario.batch.trace} has no pods with GPUs")
    if scenario.batch.arrivals != "recorded" or scenario.batch.pods is not None or scenario.batch.cores:
        raise BadInput(f"batch: pods of {scenario.batch.trace} come as recorded; load alone changes it")
    load = scenario.batch.load or 1.0
    window = Window(parse_duration(scenario.warm_up), parse_duration(scenario.duration))
    return Cluster(
        nodes=replace(trace.nodes, pool=("",) * len(trace.nodes)),
        services=no_services(),
        service_node=np.zeros(0, np.int64),
        tasks=tasks_of(trace.gpu_pods, trace.gpu_nodes, load, window, TICK_S, seed),
        repairs=trace.repairs,
        gpus=gpus_of(trace.gpu_nodes),
    )


def _nodes(source: ClusterSource, count: int, seed: int) -> NodeColumns:
    cores = np.array([choice(source.cores, chance(seed, "cores", node)) for node in range(count)], np.int64)
    return NodeColumns(
        names=tuple(f"node-{node:05}" for node in range(count)),
        cpu_milli=cores * 1000,
        memory_bytes=cores * value(source.memory_per_core),
        pool=tuple(_pool(source, chance(seed, "pool", node)) for node in range(count)),
    )


def _pool(source: ClusterSource, share: float) -> str:
    if not source.pools:
        return ""
    below = np.cumsum(list(source.pools.values()))
    row = min(int(np.searchsorted(below, share, side="right")), len(source.pools) - 1)
    return list(source.pools)[row]
