"""How fast do pods get shares of GPUs? On a cluster like that of the openb traces, with the whole profile.

1,213 nodes with 1 to 8 GPUs each; most pods want a part of one GPU, some several. GPUs run full towards the end, so
that pods which fit nowhere are among those measured.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration, parse
from koord.api.kinds import DEVICES, NODES
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol import names
from koord.api.protocol.crd.device import Device
from koord.scheduler.core.core import Core
from koord.scheduler.framework.ask import Ask
from koord.scheduler.profiles import profiles_of
from koord_bench.decisions import Decisions, timed
from koord_bench.gpus import device
from koord_bench.harness import Report

NODES_OF_OPENB: Final = 1_213
GPUS: Final = (2, 8, 8, 2, 4, 8, 8, 1, 2, 8)
"""Of each ten nodes: about 5.1 a node."""
SHAPES: Final = ((100, 30), (46, 12), (81, 8), (32, 12), (65, 8), (19, 10), (47, 8), (200, 4), (400, 2), (800, 2))
"""Percent of a GPU, and how often of a hundred; the rest asks for none."""
CORES: Final = (1, 2, 4, 6, 8, 12)
STRATEGIES: Final = ("LeastAllocated", "MostAllocated")
PROFILE: Final = "koord-scheduler"


def add_rows(report: Report, *, pods: int, nodes: int = NODES_OF_OPENB) -> None:
    for strategy in STRATEGIES:
        decisions = measure(strategy, nodes, pods)
        case, warm = report.case(f"(g) GPU shares by {strategy}, {nodes} nodes"), decisions.warm()
        warm.add_rate(case)
        case.add("p99", warm.ms(0.99), "ms", goal=5.0)
        case.add("placed", 100 * decisions.placed / pods, "%", more_is_better=True)


def measure(strategy: str, nodes: int, pods: int) -> Decisions:
    core = Core(profiles_of(_configuration(strategy)))
    for i in range(nodes):
        gpus = GPUS[i % len(GPUS)]
        core.put(NODES, convert(Node, _node(i, gpus)))
        core.put(DEVICES, convert(Device, device(_name(i), gpus, "32Gi")))
    asks = [Ask(convert(Pod, pod)) for pod in _pods(pods, random.Random(0))]
    return timed(core.engines[PROFILE], asks)


def _configuration(strategy: str) -> SchedulerConfiguration:
    (profile,) = SHIPPED.profiles
    args = {"name": "DeviceShare", "args": {"scoringStrategy": {"type": strategy}}}
    written = {"schedulerName": PROFILE, "pluginConfig": [args]}
    version = "kubescheduler.config.k8s.io/v1"
    (wanted,) = parse({"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": [written]}).profiles
    return replace(SHIPPED, profiles=(replace(profile, plugin_config=wanted.plugin_config),))


def _name(i: int) -> str:
    return f"node-{i:05}"


def _node(i: int, gpus: int) -> dict[str, Any]:
    percent = str(100 * gpus)
    amounts = {"cpu": str(8 + 12 * gpus), "memory": f"{64 * (1 + gpus)}Gi", "pods": "1000"}
    amounts |= {names.RESOURCE_GPU_CORE: percent, names.RESOURCE_GPU_MEMORY_RATIO: percent}
    name = _name(i)
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "status": {"allocatable": amounts}}


def _pods(number: int, rng: random.Random) -> Iterator[dict[str, Any]]:
    percents = [percent for percent, _ in SHAPES] + [0]
    often = [weight for _, weight in SHAPES]
    weights = [*often, 100 - sum(often)]
    for i in range(number):
        (percent,) = rng.choices(percents, weights)
        asked = {"cpu": str(rng.choice(CORES)), "memory": "8Gi"}
        if percent:
            asked |= {names.RESOURCE_GPU_CORE: str(percent), names.RESOURCE_GPU_MEMORY_RATIO: str(percent)}
        yield {
            "metadata": {"name": f"pod-{i}", "namespace": "shop", "uid": str(i)},
            "spec": {
                "schedulerName": PROFILE,
                "containers": [{"name": "main", "image": "shop/model:1", "resources": {"requests": asked}}],
            },
        }
