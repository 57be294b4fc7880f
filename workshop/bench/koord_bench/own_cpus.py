"""How fast do pods get CPUs of their own, and NUMA nodes?

Every node has 64 CPUs in two NUMA nodes. About a quarter of them belongs to running pods, on no two nodes alike. One
workload asks for 4 CPUs in whole cores; the other for shared CPUs on nodes that keep every pod on one NUMA node. The
whole profile that koord ships is on.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import NODE_RESOURCE_TOPOLOGIES, NODES
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol import names
from koord.api.protocol.annotations.cpu import CPU_TOPOLOGY, CPUInfo, CPUTopology
from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology
from koord.scheduler.core.core import Core
from koord.scheduler.framework.ask import Ask
from koord.scheduler.profiles import profiles_of
from koord_bench.decisions import timed
from koord_bench.harness import Report

GOAL_PODS_S: Final = 1_500
CPUS: Final = 64
PROFILE: Final = "koord-scheduler"
MakesPod = Callable[..., dict[str, Any]]
_TOPOLOGY: Final = CPU_TOPOLOGY.render(
    CPUTopology(tuple(CPUInfo(id=i, core=i // 2 % 16, socket=i // 32, node=i // 32) for i in range(CPUS)))
)


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    cpu: str
    labels: Mapping[str, str]
    "Of pods."
    annotations: Mapping[str, str]
    of_nodes: Mapping[str, str]
    "Labels of all nodes."


_OWN: Final[Mapping[str, str]] = {names.LABEL_QOS_CLASS: "LSR", names.LABEL_PRIORITY_CLASS: "koord-prod"}
WORKLOADS: Final = (
    Workload(
        "(n) FullPCPUs, 4 of 64 CPUs",
        "4",
        _OWN,
        {names.ANNOTATION_RESOURCE_SPEC: json.dumps({"requiredCPUBindPolicy": "FullPCPUs"})},
        {},
    ),
    Workload("(o) SingleNUMANode", "2500m", {}, {}, {names.LABEL_NUMA_TOPOLOGY_POLICY: "SingleNUMANode"}),
)


def add_rows(report: Report, nodes: Iterable[Node], pod: MakesPod, *, pods: int) -> None:
    listed = list(nodes)
    for workload in WORKLOADS:
        core = _quarter_full(workload, listed, pod)
        asks = [Ask(convert(Pod, _made(workload, pod, f"pod-{i}"))) for i in range(pods)]
        decisions = timed(core.engines[PROFILE], asks)
        case, warm = report.case(f"{workload.name}, {len(listed)} nodes"), decisions.warm()
        has_goals = len(listed) == 5_000
        warm.add_rate(case, goal=GOAL_PODS_S if has_goals else None)
        case.add("p99", warm.ms(0.99), "ms", goal=5.0 if has_goals else None)
        case.add("first of a class", decisions.took_s[0] * 1000, "ms", goal=1000.0 if has_goals else None)
        case.add("placed", 100 * decisions.placed / pods, "%", more_is_better=True, goal=100.0, at_any_size=True)


def _quarter_full(workload: Workload, nodes: Iterable[Node], pod: MakesPod) -> Core:
    core = Core(profiles_of(SHIPPED))
    for node in nodes:
        labels = {**node.metadata.labels, **workload.of_nodes}
        allocatable = {**node.status.allocatable, "cpu": str(CPUS)}
        status = replace(node.status, allocatable=allocatable)
        core.put(NODES, replace(node, metadata=replace(node.metadata, labels=labels), status=status))
        core.put(NODE_RESOURCE_TOPOLOGIES, _report(node.metadata.name))
    rng = random.Random(0)
    for i, row in enumerate(core.cluster.nodes):
        for number in range(4):
            first = 32 * (number % 2) + 4 * (number // 2)
            # No two nodes are alike.
            amounts = {"cpu": f"{rng.randrange(2000, 6000)}m", "memory": f"{rng.randrange(1, 8000)}Mi"}
            status_of: dict[str, Any] = {"numaNodeResources": [{"node": number % 2, "resources": amounts}]}
            if workload.annotations:
                status_of = {"cpuset": f"{first}-{first + rng.randrange(1, 4)}"}
            running = _made(workload, pod, f"running-{i}-{number}")
            running["metadata"]["annotations"][names.ANNOTATION_RESOURCE_STATUS] = json.dumps(status_of)
            ask = Ask(convert(Pod, running))
            core.cluster.place(replace(ask.record(), notes=core.cluster.noted(ask.pod)), row)
    return core


def _made(workload: Workload, pod: MakesPod, name: str) -> dict[str, Any]:
    made = pod(name, app="app-0", cpu=workload.cpu, memory="1Gi", priority=9500)
    made["metadata"]["labels"] |= workload.labels
    made["metadata"]["annotations"] = dict(workload.annotations)
    return made


def _report(name: str) -> NodeResourceTopology:
    resources = [
        {"name": what, "capacity": has, "allocatable": has, "available": has}
        for what, has in (("cpu", "32"), ("memory", "64Gi"))
    ]
    zones = [{"name": f"node-{zone}", "type": "Node", "resources": resources} for zone in range(2)]
    meta = {"name": name, "annotations": {CPU_TOPOLOGY.key: _TOPOLOGY}}
    return convert(NodeResourceTopology, {"metadata": meta, "zones": zones})
