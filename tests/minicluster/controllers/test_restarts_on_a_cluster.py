"""Controllers that are killed again and again: nothing is made twice, and at rest nothing is written."""

from __future__ import annotations

import asyncio
import contextlib
import uuid

import pytest

from koord.api.kinds import DEPLOYMENTS, JOBS, NAMESPACES, PODS, STATEFUL_SETS
from koord.api.kubernetes.core import Pod
from koord.kube.client import Client
from koord.kube.informer import Informer
from koord.kube.store import Delta
from koord_minicluster.controllers.live.run import run
from tests.control_plane import ControlPlane
from tests.minicluster.controllers.cluster_fixtures import Kubelet, controllers
from tests.minicluster.controllers.conftest import Plane
from tests.minicluster.controllers.test_deployment_on_a_cluster import deployment
from tests.minicluster.controllers.test_job_on_a_cluster import finished, job
from tests.minicluster.controllers.test_sets_on_a_cluster import body
from tests.waiting import always, eventually

pytestmark = pytest.mark.kubectl


class Census:
    """Every pod that ever was."""

    def __init__(self) -> None:
        self.uids: dict[str, str] = {}

    def __call__(self, delta: Delta[Pod]) -> None:
        if delta.new is not None:
            self.uids[delta.new.metadata.uid] = delta.new.metadata.name

    def count(self, prefix: str) -> int:
        return sum(name.startswith(prefix) for name in self.uids.values())


async def test_killed_at_any_moment_they_make_exactly_what_was_asked_for(plane: Plane) -> None:
    namespace = f"restarts-{uuid.uuid4().hex[:6]}"
    async with Client.from_config(str(plane.kubeconfig)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        census = Census()
        pods: Informer[Pod] = Informer(client, PODS, namespace=namespace)
        pods.add_handler(census)
        others = [asyncio.create_task(pods.run()), asyncio.create_task(Kubelet(client, namespace).run())]
        await client.create(DEPLOYMENTS, deployment("web", 40), namespace=namespace)
        await client.create(JOBS, job("sum", completions=20, parallelism=5), namespace=namespace)
        for lifetime_s in (0.15, 0.3, 0.2, 0.4, 0.25, 0.5):
            working = asyncio.create_task(run(client))
            await asyncio.sleep(lifetime_s)
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
            # A process takes a moment to come back; what was on its way to the server has arrived by then.
            await asyncio.sleep(0.1)
        last = asyncio.create_task(run(client))
        try:

            async def rolled_out() -> bool:
                return (await client.get(DEPLOYMENTS, "web", namespace=namespace)).status.available_replicas == 40

            await eventually(rolled_out)
            done = await finished(client, namespace, "sum")
            assert (done.status.succeeded, done.status.failed) == (20, 0)
            assert (census.count("web-"), census.count("sum-")) == (40, 20)
        finally:
            for task in (*others, last):
                task.cancel()
            await asyncio.gather(*others, last, return_exceptions=True)


class Writes:
    def __init__(self) -> None:
        self.count = 0

    def answered(self, method: str, code: int | None, took_s: float) -> None:
        self.count += method not in ("GET", "HEAD")

    def retried(self, method: str, code: int | None) -> None: ...


async def test_at_rest_nothing_is_written(plane: Plane) -> None:
    namespace = f"rest-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:
        await client.create(DEPLOYMENTS, deployment("web", 3), namespace=namespace)
        await client.create(STATEFUL_SETS, body("db", replicas=2, serviceName="db"), namespace=namespace)
        await client.create(JOBS, job("sum", completions=2), namespace=namespace)
        await finished(client, namespace, "sum")

        async def all_there() -> bool:
            web = await client.get(DEPLOYMENTS, "web", namespace=namespace)
            db = await client.get(STATEFUL_SETS, "db", namespace=namespace)
            return web.status.available_replicas == 3 and db.status.available_replicas == 2

        await eventually(all_there)
        await asyncio.sleep(0.7)
        writes = Writes()
        client.observe(writes)
        await always(lambda: writes.count == 0, 1.5)


@pytest.mark.cluster
async def test_a_server_that_goes_away_and_comes_back_finds_them_working(own_control_plane: ControlPlane) -> None:
    namespace = f"away-{uuid.uuid4().hex[:6]}"
    async with controllers(own_control_plane, namespace) as client:
        await client.create(DEPLOYMENTS, deployment("web", 2), namespace=namespace)
        await asyncio.to_thread(own_control_plane.stop_apiserver, kill=True)
        await asyncio.to_thread(own_control_plane.start_apiserver)
        await client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 5}}, namespace=namespace)

        async def scaled() -> bool:
            return (await client.get(DEPLOYMENTS, "web", namespace=namespace)).status.available_replicas == 5

        await eventually(scaled)
