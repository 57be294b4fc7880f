"""A recommendation from hollow nodes' reports, in compressed time, and a manager that goes on where another ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from koord.api.configuration.features import ManagerGate, parse_gates
from koord.api.kinds import NAMESPACES, PODS, RECOMMENDATIONS
from koord.api.kubernetes.resources import amounts
from koord.api.protocol.crd.recommendation import RecommendationStatus
from koord.api.protocol.report_policy import ReportPolicy
from koord.kube.client import Client
from koord.kube.clock import SystemClock
from koord.kube.informers import Informers
from koord.manager.live.cluster_facts import LiveFacts
from koord.manager.live.recommendation import RecommendationPace
from koord.manager.live.run import ManagerOptions, run
from koord_minicluster.hollow.live.fleet import FleetOptions, run_fleet
from koord_minicluster.hollow.phases import Pace
from koord_minicluster.up.bootstrap import bootstrap
from tests.scheduler.live.embedded import serving
from tests.waiting import eventually

HOURS_A_SECOND = 16
WAITS = 50
"""Waiting is N times as fast."""
WITHIN_S = 60.0
ONLY = ManagerOptions(controllers=frozenset({"recommendation"}), recommendation=RecommendationPace(0.2, 24 * 3600))
FLEET = FleetOptions(nodes=1, pace=Pace(start_s=0.1), report=ReportPolicy(report_s=1200))


class CompressedClock:
    """Hours pass in seconds for time stamps and waits; what measures how long a server is silent has real time."""

    def __init__(self) -> None:
        self._began = time.time()

    def now(self) -> float:
        return self._began + (time.time() - self._began) * HOURS_A_SECOND * 3600

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / WAITS)


@asynccontextmanager
async def running(work: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
        assert not task.done(), task.result()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def web(number: int) -> dict[str, Any]:
    resources = {"requests": {"cpu": "4", "memory": "8Gi"}}
    return {
        "metadata": {
            "name": f"web-a-{number}", "namespace": "shop", "labels": {"pod-template-hash": "a"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-a", "uid": "r", "controller": True}
            ],
        },
        "spec": {"nodeName": "hollow-0001", "containers": [{"name": "main", "image": "web", "resources": resources}]},
    }  # fmt: skip


def killed() -> dict[str, Any]:
    """A pod of the same workload that is not started again; its status is the test's alone."""
    made = web(9)
    made["metadata"]["name"] = "once"
    made["spec"]["nodeName"] = "without-kubelet"
    made["spec"]["restartPolicy"] = "Never"
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "60Gi"}}
    return made


KILLED = {
    "status": {
        "phase": "Failed",
        "containerStatuses": [
            {
                "name": "main",
                "image": "web",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-15T04:25:02Z"}},
            }
        ],
    }
}

RECOMMENDATION = {
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "target": {"type": "workload", "workload": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}}
    },
}


async def status(client: Client) -> RecommendationStatus:
    return (await client.get(RECOMMENDATIONS, "web", namespace="shop")).status


async def test_admission_hears_which_recommendations_are_to_be_applied(tmp_path: Path) -> None:
    pod = web(0)
    told = {"podStatus": {"containerStatuses": [{"containerName": "main", "resources": {"cpu": "1", "memory": "1Gi"}}]}}
    async with serving(tmp_path) as client, Informers(client) as informers:
        await bootstrap(client)
        await client.create(NAMESPACES, {"metadata": {"name": "shop"}})
        gates = parse_gates(ManagerGate, "RecommendedRequests=true")
        live_facts = LiveFacts(client, informers, gates, SystemClock())

        async def follows() -> bool:
            return live_facts.now().recommendations.find(pod, "shop") is not None

        async def follows_not() -> bool:
            return not await follows()

        await asyncio.wait_for(live_facts.run(), WITHIN_S)
        await client.create(RECOMMENDATIONS, RECOMMENDATION)
        await client.patch(RECOMMENDATIONS, "web", {"status": told}, namespace="shop", subresource="status")
        assert await follows_not(), "no user asked for it"
        await client.patch(RECOMMENDATIONS, "web", {"spec": {"apply": "admission"}}, namespace="shop")
        await eventually(follows, WITHIN_S)
        await client.delete(RECOMMENDATIONS, "web", namespace="shop")
        await eventually(follows_not, WITHIN_S)


async def _is_recommended(client: Client, hours: int) -> bool:
    pods = (await status(client)).pod_status
    return pods is not None and pods.container_statuses[0].history_hours >= hours


async def _requests_memory(client: Client, least: int) -> bool:
    pods = (await status(client)).pod_status
    return pods is not None and amounts(pods.container_statuses[0].resources)["memory"] >= least


async def _says(client: Client, type_: str) -> bool:
    return type_ in {condition.type for condition in (await status(client)).conditions}


async def test_a_workload_gets_its_recommendation_and_the_next_manager_remembers(tmp_path: Path) -> None:
    clock = CompressedClock()
    async with serving(tmp_path) as client:
        await bootstrap(client)
        await client.create(NAMESPACES, {"metadata": {"name": "shop"}})
        ready = asyncio.Event()
        fleet = run_fleet(client, FLEET, clock=clock, on_ready=lambda endpoints: ready.set())
        async with running(fleet):
            await asyncio.wait_for(ready.wait(), WITHIN_S)
            for number in range(2):
                await client.create(PODS, web(number))
            async with running(run(client, options=ONLY, clock=clock)):
                await client.create(RECOMMENDATIONS, RECOMMENDATION)
                await eventually(partial(_says, client, "FetchingHistory"), WITHIN_S)
                await eventually(partial(_is_recommended, client, 24), WITHIN_S)
            first = await status(client)
            assert first.pod_status is not None
            (main,) = first.pod_status.container_statuses
            assert 0 < amounts(main.resources)["cpu"] < 4000
            assert amounts(main.lower_bound)["memory"] <= amounts(main.resources)["memory"] < 8 << 30
            assert await _says(client, "LowConfidence")
            async with running(run(client, options=ONLY, clock=clock)):
                await eventually(partial(_is_recommended, client, main.history_hours + 1), WITHIN_S)
                await client.patch(RECOMMENDATIONS, "web", {"spec": {"apply": "admission"}}, namespace="shop")
                await client.create(PODS, killed())
                await client.patch(PODS, "once", KILLED, namespace="shop", subresource="status")
                await eventually(partial(_requests_memory, client, 60 << 30), WITHIN_S)
                assert await _is_recommended(client, main.history_hours + 1), "the history is kept"
            assert "FetchingHistory" not in {condition.type for condition in (await status(client)).conditions}
