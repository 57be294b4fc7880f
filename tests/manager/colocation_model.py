"""Scheduler, node_resource and agents of a small cluster, in virtual time: the decisions themselves, on modelled usage.

Each tick agents look, pods that wait are tried; every third tick nodes report, and what they lend is worked out again.
Whoever is evicted comes back as a new pod of the same workload.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration
from koord.api.configuration.slo_config import SloConfig
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.annotations.load import LAST_EVICTIONS
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.crd.node_slo import NodeSLO
from koord.api.text.quantity import render
from koord.api.text.timestamp import from_seconds
from koord.manager.node_resource.plugins import calculate, choose
from koord.manager.node_resource.prepare import prepare
from koord.manager.node_resource.writing import decide
from koord.manager.node_state import NodeState, metric_row, node_facts, pod_row
from koord.offline.would_evict import would_evict
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.profiles import profiles_of
from koord.scheduler.state.cluster import Cluster
from tests.manager.builders import NOW_S, config_of

GI = 1024**3
TICK_S = 20.0
CPU_MILLI, MEMORY = 16_000, 64 * GI


@dataclass
class Job:
    """A batch workload of one pod: what it asks for, and what it really uses."""

    name: str
    cpu_milli: int
    memory: int
    uses_memory: int
    generation: int = 0
    node: str = ""

    def pod(self) -> Pod:
        asked = {"kubernetes.io/batch-cpu": str(self.cpu_milli), "kubernetes.io/batch-memory": str(self.memory)}
        return _pod(self.name, f"{self.name}-{self.generation}", self.node, 5500, "BE", asked)


@dataclass
class Eviction:
    at_s: float
    job: str
    node: str
    alone: int
    "How many batch pods the node had."


@dataclass
class World:
    dice: random.Random
    nodes: int = 3
    config: SchedulerConfiguration = SHIPPED
    slo: SloConfig = field(
        default_factory=lambda: config_of(
            {"colocation-config": {"enable": True}, "resource-threshold-config": {"clusterStrategy": {"enable": True}}}
        )
    )
    jobs: list[Job] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    placements: list[tuple[float, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.now_s = NOW_S
        self.cluster = Cluster()
        self.cluster.now_s = self.now_s
        profiles = profiles_of(self.config)
        (profile,) = profiles.profiles.values()
        self.engine = Engine(self.cluster, profile)
        self.plugins: list[Any] = list(profiles.plugins())
        self.objects: dict[str, Node] = {}
        self.written_s: dict[str, float] = {}
        self.service: dict[str, tuple[float, float]] = {}
        "By node, the share of CPU and memory that its services use."
        for i in range(self.nodes):
            has = {"cpu": render("cpu", CPU_MILLI), "memory": str(MEMORY), "pods": "110"}
            name = f"n{i}"
            node = convert(Node, {"metadata": {"name": name}, "status": {"capacity": has, "allocatable": has}})
            self._put(node)
            self.service[name] = (self.dice.uniform(0.1, 0.5), self.dice.uniform(0.1, 0.4))
            spec = self.slo.for_node({}, {}).node_slo
            for plugin in self.plugins:
                if hasattr(plugin, "put_node_slo"):
                    plugin.put_node_slo(NodeSLO(ObjectMeta(name=name), spec))

    def run(self, ticks: int, *, steady: bool = False) -> None:
        for tick in range(ticks):
            self.now_s += TICK_S
            self.cluster.now_s = self.now_s
            if not steady:
                self._change_load()
            if tick % 3 == 0:
                for name in self.objects:
                    self._report(name)
            for name in self.objects:
                self._agent(name)
            for job in self.jobs:
                if not job.node:
                    self._schedule(job)

    def on(self, node: str) -> list[Job]:
        return [job for job in self.jobs if job.node == node]

    def _change_load(self) -> None:
        for name, (cpu, memory) in self.service.items():
            jump = 0.25 if self.dice.random() < 0.03 else 0.03
            self.service[name] = (
                min(0.9, max(0.05, cpu + self.dice.uniform(-jump, jump))),
                min(0.7, max(0.05, memory + self.dice.uniform(-jump, jump))),
            )
        for job in self.jobs:
            # Some use more than they ask for: no limit holds memory back.
            job.uses_memory = max(GI // 4, int(job.uses_memory * self.dice.uniform(0.97, 1.035)))

    def _metric(self, name: str) -> NodeMetric:
        cpu, memory = self.service[name]
        service = {"cpu": f"{int(cpu * CPU_MILLI)}m", "memory": str(int(memory * MEMORY))}
        jobs = self.on(name)
        # The agent holds best effort back so that CPU stays below its threshold.
        left = max(0, int(CPU_MILLI * 0.65) - int(cpu * CPU_MILLI))
        wanted = sum(job.cpu_milli for job in jobs)
        part = min(1.0, left / wanted) if wanted else 0.0
        used = [(job, int(job.cpu_milli * part)) for job in jobs]
        node = {
            "cpu": f"{int(cpu * CPU_MILLI) + sum(each for _, each in used)}m",
            "memory": str(int(memory * MEMORY) + sum(job.uses_memory for job in jobs)),
        }
        pods = [_usage(f"service-{name}", "koord-prod", service)]
        pods += [
            _usage(job.name, "koord-batch", {"cpu": f"{each}m", "memory": str(job.uses_memory)}) for job, each in used
        ]
        status = {
            "updateTime": from_seconds(self.now_s),
            "nodeMetric": {"nodeUsage": {"resources": node}, "systemUsage": {"resources": {"cpu": "0", "memory": "0"}}},
            "podsMetric": pods,
        }
        return convert(NodeMetric, {"metadata": {"name": name}, "status": status})

    def _pods(self, name: str) -> Iterator[Pod]:
        asked = {"cpu": "12", "memory": str(48 * GI)}
        yield _pod(f"service-{name}", f"service-{name}", name, 9500, "LS", asked)
        yield from (job.pod() for job in self.on(name))

    def _report(self, name: str) -> None:
        metric = self._metric(name)
        for plugin in self.plugins:
            if hasattr(plugin, "put_node_metric"):
                plugin.put_node_metric(metric)
        node = node_facts(self.objects[name])
        state = NodeState(node, [pod_row(pod) for pod in self._pods(name)], metric_row(metric))
        settings = self.slo.for_node({}, {})
        prepared = prepare(node, calculate(state, self.slo, settings, choose(), self.now_s))
        decision = decide(node, prepared, settings.colocation, self.written_s.get(name), self.now_s)
        if decision.status:
            assert decision.patch is not None
            self.written_s[name] = self.now_s
            status, lent = self.objects[name].status, decision.patch["status"]
            changed = replace(
                status,
                capacity={**status.capacity, **lent.get("capacity", {})},
                allocatable={**status.allocatable, **lent.get("allocatable", {})},
            )
            self._put(replace(self.objects[name], status=changed))

    def _agent(self, name: str) -> None:
        """The agent's own decision; what it notes on the node comes first."""
        node, slo = self.objects[name], self.slo.for_node({}, {}).node_slo
        gone = would_evict(node, {}, self._pods(name), self._metric(name), slo, self.now_s)
        jobs = {f"default/{job.name}": job for job in self.on(name)}
        if not gone:
            return
        said = {LAST_EVICTIONS.key: json.dumps({"koord-batch": from_seconds(self.now_s)})}
        self._put(replace(node, metadata=replace(node.metadata, annotations=said)))
        for each in gone:
            job = jobs[each.pod]
            self.evictions.append(Eviction(self.now_s, job.name, name, len(jobs)))
            self.cluster.remove_pod(each.pod)
            job.node, job.generation = "", job.generation + 1

    def _schedule(self, job: Job) -> None:
        placement = self.engine.place(Ask(job.pod()))
        if placement.node is not None:
            job.node = placement.node
            self.placements.append((self.now_s, job.name, placement.node))

    def _put(self, node: Node) -> None:
        self.objects[node.metadata.name] = node
        self.cluster.put_node(node)


def _usage(name: str, priority: str, used: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "namespace": "default", "priority": priority, "podUsage": {"resources": used}}


def _pod(name: str, uid: str, node: str, priority: int, qos: str, asked: dict[str, str]) -> Pod:
    container = {"name": "main", "resources": {"requests": asked}}
    return convert(
        Pod,
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": uid,
                "labels": {"koordinator.sh/qosClass": qos},
            },
            "spec": {"nodeName": node, "priority": priority, "containers": [container]},
            "status": {"phase": "Running" if node else "Pending"},
        },
    )
