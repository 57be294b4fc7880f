"""Whole stories on an API server, with hollow nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from koord.api.kinds import NODES, POD_MIGRATION_JOBS, PODS
from koord.api.kubernetes.pod import Pod
from koord.descheduler.evictable import is_available
from koord.kube.client import Client
from koord.kube.informers import Informers
from koord_minicluster.hollow.live import reports
from tests.control_plane import ControlPlane
from tests.descheduler.live.cluster import (
    cluster,
    deploy,
    descheduling,
    pods_of,
    populated,
    report,
)
from tests.waiting import eventually

HOT = """
deschedulingInterval: 500ms
profiles:
- name: p
  plugins: {balance: {enabled: [{name: LowNodeLoad}]}}
  pluginConfig:
  - name: LowNodeLoad
    args:
      lowThresholds: {cpu: 40}
      highThresholds: {cpu: 60}
      anomalyCondition: {consecutiveAbnormalities: 1}
  - name: MigrationController
    args: {maxUnavailablePerWorkload: 1, maxMigratingPerWorkload: 1, objectLimiters: {workload: {duration: 1ms}}}
"""


class Onlooker:
    """Sees every state of some pods: how many were ready at the least, and who came when."""

    def __init__(self, informers: Informers, app: str) -> None:
        self.pods = informers.get(PODS, namespace="default", labels=f"app={app}")
        self.fewest_ready = 1000

    def begin(self) -> None:
        self.pods.add_handler(lambda _: self._look())

    def _look(self) -> None:
        self.fewest_ready = min(self.fewest_ready, sum(map(is_available, self.pods.list())))


@asynccontextmanager
async def server(which: str, folder: Path) -> AsyncIterator[Client]:
    if which == "embedded":
        async with cluster(folder) as client:
            yield client
        return
    with ControlPlane("--disable-admission-plugins=TaintNodesByCondition") as plane:
        async with Client.from_config(str(plane.kubeconfig)) as client, populated(client):
            yield client


@pytest.mark.parametrize("which", ["embedded", pytest.param("real", marks=pytest.mark.cluster)])
async def test_a_hot_node_cools_down_and_no_service_falls_below_its_budget(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What nodes use is said here.
    monkeypatch.setattr(reports, "FIRST_WITHIN_S", 1e6)
    async with server(which, tmp_path) as client:
        names = sorted(node.metadata.name for node in await client.list(NODES))
        hot, others = names[0], names[1:]
        for name in others:
            await client.patch(NODES, name, {"spec": {"unschedulable": True}})
        await deploy(client, "web", 6, cpu="1")
        for name in others:
            await client.patch(NODES, name, {"spec": {"unschedulable": None}})

        def usage(pod: Pod) -> int:
            return 1000

        async def usage_of(node: str) -> float:
            return sum(usage(pod) for pod in await pods_of(client, "web") if pod.spec.node_name == node) / 8000

        assert await usage_of(hot) == 0.75
        async with Informers(client) as informers, asyncio.TaskGroup() as tasks:
            web = Onlooker(informers, "web")
            await informers.synced()
            web.begin()
            reporting = tasks.create_task(report(client, names, usage))
            async with descheduling(client, HOT):

                async def is_cool() -> bool:
                    return await usage_of(hot) <= 0.6 and not await under_way(client)

                await eventually(is_cool, 90)
            reporting.cancel()
        jobs = await client.list(POD_MIGRATION_JOBS)
        assert [job.status.phase for job in jobs if job.status.phase != "Succeeded"] == []
        assert len(jobs) == 2, "no more than it takes"
        assert web.fewest_ready >= 5, "of 6, one may be away"
        for job in jobs:
            at = {condition.type: condition.last_transition_time or "" for condition in job.status.conditions}
            assert at["ReservationScheduled"] <= at["Eviction"], "the room was there before the pod went"
            assert job.status.node_name in others
        for name in others:
            assert await usage_of(name) <= 0.6


async def under_way(client: Client) -> bool:
    return any(not job.is_over for job in await client.list(POD_MIGRATION_JOBS))
