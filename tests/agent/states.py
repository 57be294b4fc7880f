"""Nodes and pods for decisions, as small as a test needs them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from koord.agent.executor import delivery
from koord.agent.executor.write import Write
from koord.agent.host.knobs import Knob
from koord.agent.host.topology import Cpu, Topology
from koord.agent.pods import AgentPod, pods_of
from koord.agent.qos.decision import StrategyDecision
from koord.agent.qos.strategy import NEVER, Departures, Sight, Strategy
from koord.agent.series.samples import Samples, Series
from koord.agent.state import DEFAULT_GATES, Kubelet, NodeState
from koord.agent.wish import Level, Wish
from koord.api.configuration.features import AgentGate
from koord.api.configuration.slo_defaults import effective_qos_strategy
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.resources import amounts
from koord.api.kubernetes.runnable import RunnablePod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_slo import NodeSLOSpec

GIB = 1 << 30
NOW = 1000.0


def cpus(sockets: int = 1, cores: int = 4, threads: int = 2) -> Topology:
    """Numbered as Linux does: the first threads of all cores, then the second."""
    all_cores = sockets * cores
    ids = range(all_cores * threads)
    return Topology(tuple(Cpu(i, i % all_cores, i % all_cores // cores, i % all_cores // cores, 0) for i in ids))


def pod(
    name: str,
    qos: str = "",
    *,
    priority: int | None = None,
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    containers: list[dict[str, Any]] | None = None,
    conditions: Collection[str] = (),
    driver: CgroupDriver = CgroupDriver.CGROUPFS,
) -> AgentPod:
    """A running pod, whose uid is its name."""
    labelled = {**(labels or {}), **({"koordinator.sh/qosClass": qos} if qos else {})}
    resources = {"requests": dict(requests or {}), "limits": dict(limits or {})}
    specs = containers or [{"name": "main", "resources": resources}]
    statuses = [
        {"name": spec["name"], "containerID": f"containerd://{name}-{spec['name']}", "state": {"running": {}}}
        for spec in specs
    ]
    raw = {
        "metadata": {
            "namespace": "ns", "name": name, "uid": name, "labels": labelled, "annotations": dict(annotations or {})
        },
        "spec": {"containers": specs, "priority": priority},
        "status": {
            "phase": "Running",
            "containerStatuses": statuses,
            "conditions": [{"type": condition, "status": "True"} for condition in conditions],
        },
    }  # fmt: skip
    return pods_of([convert(RunnablePod, raw)], driver)[name]


def node(
    *pods: AgentPod,
    topology: Topology | None = None,
    memory: int = 64 * GIB,
    slo: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
    kubelet: Kubelet | None = None,
) -> NodeState:
    found = topology or cpus()
    spec = convert(NodeSLOSpec, dict(slo)) if slo is not None else None
    own = {"cpu": str(len(found.cpus)), "memory": str(memory), **(allocatable or {})}
    raw = {
        "metadata": {"name": "n1", "annotations": dict(annotations or {})},
        "status": {"capacity": {"cpu": str(len(found.cpus)), "memory": str(memory)}, "allocatable": own},
    }
    shown = convert(Node, raw)
    return NodeState(
        node=shown,
        capacity_cpu_milli=len(found.cpus) * 1000,
        capacity_memory_bytes=memory,
        allocatable=amounts(shown.status.allocatable),
        slo=spec,
        qos=effective_qos_strategy(spec.resource_qos_strategy if spec else None),
        pods={pod.uid: pod for pod in pods},
        topology=found,
        driver=CgroupDriver.CGROUPFS,
        kubelet=kubelet or Kubelet(),
    )


def samples(now: Mapping[Series, float]) -> Samples:
    """Each series with one sample, taken just now."""
    found = Samples()
    for series, value in now.items():
        found.add(series, NOW, value)
    return found


def delivered(state: NodeState, wishes: Iterable[Wish]) -> list[Write]:
    """Wishes with the places where their targets lie on the node."""
    where, found = delivery.places(state), []
    for wish in wishes:
        assert isinstance(wish.setting, Knob)
        directory = wish.target.name if wish.target.level is Level.CGROUP else where.get(wish.target)
        if directory is not None:
            found.append(Write(wish.setting, directory, wish.value, wish.by, wish.why, own=wish.own))
    return found


def evicting(
    strategy: Strategy[None, None],
    state: NodeState,
    used: Samples,
    gates: Mapping[AgentGate, bool],
    gone: Collection[str] = (),
    last_release_s: float = NEVER,
    now_s: float = NOW,
    refused: Collection[str] = (),
) -> StrategyDecision | None:
    """What a strategy of evictions decides. `gone`: uids of pods that are on their way; `refused`: that were kept."""
    departures = Departures(frozenset(gone), frozenset(refused), frozenset(), {strategy.name: last_release_s})
    sight = Sight(replace(state, gates={**DEFAULT_GATES, **gates}), used, now_s, departures)
    return strategy.decide(sight, None, None).decision
