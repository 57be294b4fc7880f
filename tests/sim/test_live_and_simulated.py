"""One story twice: on a cluster of hollow nodes with the real components, and simulated from the same curves.

Three nodes with services lend what these leave, batch pods arrive one after the other, then more services come. Each
part of the story ends with a condition, and not with a time: live it takes seconds, simulated some minutes.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from koord.api.kinds import CONFIG_MAPS, DEPLOYMENTS, NODES, PODS
from koord.api.kubernetes.pod import Pod
from koord.kube.client import Client
from koord.kube.locate import locate
from koord.sim.cluster import Cluster
from koord.sim.columns import BatchTasks, ServiceCurves
from koord.sim.lending import lenders
from koord.sim.minutes import Ints, NodeColumns
from koord.sim.policies.registry import POLICIES
from koord.sim.scenario import from_data
from koord.sim.stage import Stage, stage_of
from koord.sim.steps import step
from tests.minicluster.up.test_end_to_end import up
from tests.waiting import eventually

CORES = 16
WITHIN_S = 120
NODE_NAMES = ("hollow-0001", "hollow-0002", "hollow-0003")
BATCH_CPU = "kubernetes.io/batch-cpu"
BATCH_MEMORY = "kubernetes.io/batch-memory"


@dataclass(frozen=True)
class Service:
    name: str
    node: str
    cores: float
    comes_late: bool = False


@dataclass(frozen=True)
class Batch:
    name: str
    request_milli: int
    use_percent: int = 100


SERVICES = (
    Service("web", NODE_NAMES[0], 2),
    Service("cart", NODE_NAMES[1], 5),
    Service("search", NODE_NAMES[2], 9),
    Service("sale", NODE_NAMES[0], 5, comes_late=True),
    Service("mail", NODE_NAMES[1], 6, comes_late=True),
)
BATCH = (
    Batch("encode", 8000, 95),
    Batch("report", 6000, 95),
    Batch("index", 3000),
    Batch("train", 4000),
    Batch("clean", 2700),
    Batch("crawl", 1500),
    Batch("pack", 700),
)
"""In the order of arrival. They run for longer than the story."""
COLOCATION = {"enable": True, "cpuCalculatePolicy": "usage", "cpuReclaimThresholdPercent": 80}
PROMPTLY = {"metricReportIntervalSeconds": 1, "metricAggregateDurationSeconds": 3}
MINUTELY = {"metricReportIntervalSeconds": 60, "metricAggregateDurationSeconds": 60}
"""How often nodes report, and over which time: live and simulated."""
THRESHOLDS = {
    "enable": True,
    "cpuSuppressPolicy": "cfsQuota",
    "cpuSuppressThresholdPercent": 81,
    "cpuEvictBESatisfactionLowerPercent": 60,
    "cpuEvictBESatisfactionUpperPercent": 80,
}
SETTLED, LATE, END = 4, 16, 24
"""Minutes of the simulation: the first batch pod arrives, more services come, the end."""


@dataclass(frozen=True)
class Story:
    """What came of it."""

    lent_milli: Mapping[str, int]
    "By node, before batch pods arrive."
    placed: Mapping[str, str]
    "The node of each batch pod that has one, before more services come."
    evicted: frozenset[str]
    lent_later_milli: Mapping[str, int]
    "At the end."
    placed_later: Mapping[str, str]


def simulated() -> Story:
    """Minute by minute, to read what the scheduler and the nodes have in the middle of the story."""
    given = from_data(
        {
            "name": "story",
            "duration": f"{END}m",
            "policy": "usage",
            "colocation": {**COLOCATION, **MINUTELY},
            "thresholds": THRESHOLDS,
            "noise": {"minute": 0, "tenSeconds": 0},
        },
        "story",
    )
    cluster = Cluster(nodes(), curves(), service_nodes(), tasks())
    stage = stage_of(given, cluster, lenders(given, cluster.nodes, {"": POLICIES["usage"]}), 0, None, None)
    seen = {}
    for minute in range(END):
        if minute in (SETTLED, LATE):
            seen[minute] = shown(stage), placed(stage)
        step(stage)
    evicted = frozenset(pod for _, pod, *_ in stage.world.recorded.evictions)
    return Story(seen[SETTLED][0], seen[LATE][1], evicted, shown(stage), placed(stage))


def shown(stage: Stage) -> dict[str, int]:
    return dict(zip(NODE_NAMES, stage.world.shown_milli.tolist(), strict=True))


def placed(stage: Stage) -> dict[str, str]:
    node = stage.world.table.column("node").tolist()
    return {BATCH[task].name: NODE_NAMES[row] for task, row in enumerate(node) if row >= 0}


def nodes() -> NodeColumns:
    return NodeColumns(NODE_NAMES, np.full(3, CORES * 1000), np.full(3, 64 << 30), ("",) * 3)


def curves() -> ServiceCurves:
    cpu = np.array([[service.cores * 1000] * END for service in SERVICES], np.float32)
    for row, service in enumerate(SERVICES):
        if service.comes_late:
            cpu[row, :LATE] = np.nan
    return ServiceCurves(
        tuple(service.name for service in SERVICES),
        60.0,
        cpu,
        np.full(cpu.shape, 1 << 30, np.float32),
        np.array([round(service.cores * 1000) for service in SERVICES]),
        np.full(len(SERVICES), 1 << 30),
    )


def service_nodes() -> Ints:
    return np.array([NODE_NAMES.index(service.node) for service in SERVICES])


def tasks() -> BatchTasks:
    return BatchTasks(
        ids=tuple(batch.name for batch in BATCH),
        arrival_s=60 * np.arange(SETTLED, SETTLED + len(BATCH), dtype=np.float64),
        request_cpu_milli=np.array([batch.request_milli for batch in BATCH]),
        request_memory_bytes=np.full(len(BATCH), 256 << 20),
        step_s=86400.0,
        offset=np.arange(len(BATCH) + 1),
        use_milli=np.array([batch.request_milli * batch.use_percent / 100 for batch in BATCH], np.float32),
    )


def replay() -> str:
    rows = ["time_s,target,cpu,memory"]
    rows += [f"0,node:{name},0,0" for name in NODE_NAMES]
    rows += [f"0,pod:default/{service.name},{round(service.cores * 1000)}m,1Gi" for service in SERVICES]
    rows += [f"0,app:default/{batch.name},{batch.use_percent}%,100%" for batch in BATCH]
    return "\n".join(rows) + "\n"


def service_manifest(service: Service) -> dict[str, Any]:
    resources = {"requests": {"cpu": str(service.cores), "memory": "1Gi"}}
    container = {"name": "app", "image": "app:1", "resources": resources}
    return {"metadata": {"name": service.name}, "spec": {"containers": [container], "nodeName": service.node}}


def batch_manifest(batch: Batch) -> dict[str, Any]:
    """A Deployment of one pod: if the pod is evicted, another one waits in its place."""
    amounts = {BATCH_CPU: str(batch.request_milli), BATCH_MEMORY: "256Mi"}
    container = {"name": "work", "image": "work:1", "resources": {"requests": amounts, "limits": amounts}}
    pod = {"priorityClassName": "koord-batch", "containers": [container], "terminationGracePeriodSeconds": 0}
    labels = {"work": batch.name}
    return {
        "metadata": {"name": batch.name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": {**labels, "koordinator.sh/qosClass": "BE"}}, "spec": pod},
        },
    }


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Client]:
    (folder / "load.csv").write_text(replay())
    size = ("--node-cpu", str(CORES), "--node-memory", "64Gi")
    with up(folder / "data", "--nodes", str(len(NODE_NAMES)), *size, "--load", str(folder / "load.csv")):
        async with Client(locate(str(folder / "data" / "kubeconfig"))) as client:
            yield client


class Live:
    """The same story on a cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def tell(self, until: Story) -> Story:
        """Each part waits for what the simulation has at its end."""
        await self._configure()
        await self._begin(comes_late=False)
        await eventually(partial(self._lends, until.lent_milli), WITHIN_S)
        lent = await self._lent()
        for batch in BATCH:
            await self._client.create(DEPLOYMENTS, batch_manifest(batch), namespace="default")
            await eventually(partial(self._has_decided, batch.name), WITHIN_S)
        placed = await self._placed()
        first = {pod.metadata.name for pod in await self._pods()}
        await self._begin(comes_late=True)
        await eventually(partial(self._lends, until.lent_later_milli), WITHIN_S)
        await eventually(partial(self._is_placed, until.placed_later), WITHIN_S)
        left = {pod.metadata.name: pod for pod in await self._pods()}
        gone = {name.rsplit("-", 2)[0] for name in first - set(left)}
        return Story(lent, placed, frozenset(gone), await self._lent(), await self._placed())

    async def _configure(self) -> None:
        data = {
            "colocation-config": json.dumps({**COLOCATION, **PROMPTLY}),
            "resource-threshold-config": json.dumps({"clusterStrategy": THRESHOLDS}),
        }
        await self._client.patch(CONFIG_MAPS, "slo-controller-config", {"data": data}, namespace="koordinator-system")

    async def _begin(self, *, comes_late: bool) -> None:
        for service in SERVICES:
            if service.comes_late is comes_late:
                await self._client.create(PODS, service_manifest(service), namespace="default")

    async def _lent(self) -> dict[str, int]:
        nodes = await self._client.list(NODES)
        return {node.metadata.name: int(node.status.allocatable.get(BATCH_CPU, 0)) for node in nodes}

    async def _lends(self, wanted_milli: Mapping[str, int]) -> bool:
        return near(await self._lent(), wanted_milli)

    async def _pods(self) -> list[Pod]:
        return [pod for pod in await self._client.list(PODS, namespace="default") if "work" in pod.metadata.labels]

    async def _placed(self) -> dict[str, str]:
        return {pod.metadata.labels["work"]: pod.spec.node_name for pod in await self._pods() if pod.spec.node_name}

    async def _is_placed(self, wanted: Mapping[str, str]) -> bool:
        return await self._placed() == wanted

    async def _has_decided(self, name: str) -> bool:
        """Whether the pod runs, or the scheduler has said why it cannot."""
        pods = [pod for pod in await self._pods() if pod.metadata.labels["work"] == name]
        refused = any(
            condition.type == "PodScheduled" and condition.status == "False"
            for pod in pods
            for condition in pod.status.conditions
        )
        return refused or any(pod.status.phase == "Running" for pod in pods)


def near(lent_milli: Mapping[str, int], wanted_milli: Mapping[str, int]) -> bool:
    """Within the manager's write threshold: a smaller change is not written."""
    return all(abs(lent_milli.get(name, 0) - wanted) <= 0.1 * wanted for name, wanted in wanted_milli.items())


def test_the_simulation_has_what_the_story_says_by_hand() -> None:
    """80% of 16 cores less what services use; then each batch pod fits on one node, or on none."""
    first, second, third = NODE_NAMES
    story = simulated()
    assert story.lent_milli == {first: 10800, second: 7800, third: 3800}
    assert story.placed == {
        "encode": first, "report": second, "index": third, "clean": first, "crawl": second, "pack": third,
    }  # fmt: skip
    assert story.evicted == {"clean", "crawl", "report"}
    assert story.lent_later_milli == {first: 5800, second: 1800, third: 3800}
    assert story.placed_later == {"encode": first, "index": third, "crawl": second, "pack": third}


async def test_live_and_simulated_the_same_pods_are_placed_and_evicted(tmp_path: Path) -> None:
    expected = simulated()
    async with running(tmp_path) as client:
        story = await Live(client).tell(expected)
    assert near(story.lent_milli, expected.lent_milli)
    assert near(story.lent_later_milli, expected.lent_later_milli)
    assert replace(story, lent_milli=expected.lent_milli, lent_later_milli=expected.lent_later_milli) == expected
