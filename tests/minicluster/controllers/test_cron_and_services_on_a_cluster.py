"""CronJobs and Services on koord's own API server, with all controllers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from koord.api.kinds import CRON_JOBS, ENDPOINT_SLICES, JOBS, NAMESPACES, PODS, SERVICES
from koord.kube.client import Client
from koord.kube.clock import SystemClock
from koord.kube.errors import NotFound
from koord_minicluster.controllers.live.run import run
from tests.control_plane import find_binary
from tests.offline.test_expand import counted, expanded, template
from tests.scheduler.live.embedded import serving
from tests.waiting import always, eventually


class AheadClock(SystemClock):
    """Ahead of the machine's clock, so that a minute begins in a moment."""

    def __init__(self, left_s: float) -> None:
        self.ahead_s = (60.0 - left_s - time.time()) % 60.0

    def now(self) -> float:
        return super().now() + self.ahead_s


@contextlib.asynccontextmanager
async def controlled(client: Client, clock: SystemClock) -> AsyncIterator[None]:
    ready = asyncio.Event()
    working = asyncio.create_task(run(client, clock=clock, on_ready=ready.set))
    try:
        async with asyncio.timeout(60):
            await ready.wait()
        yield
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def test_a_cron_job_runs_each_time_once_though_its_controller_is_restarted(tmp_path: Path) -> None:
    pods = template("tick", restartPolicy="Never")
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"parallelism": 2, "completions": 2, "template": pods}}}
    given = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "shop"},
        "spec": spec,
    }
    clock = AheadClock(left_s=1.0)
    async with serving(tmp_path) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await client.create(CRON_JOBS, given, namespace="shop")

        async def names() -> list[str]:
            return [job.metadata.name for job in await client.list(JOBS, namespace="shop")]

        async def are_two_pods() -> bool:
            return len(await client.list(PODS, namespace="shop")) == 2

        async with controlled(client, clock):
            await eventually(are_two_pods)
        before = await names()

        async def next_minute_at_most() -> bool:
            return len(await names()) <= 2

        async with controlled(client, clock):
            await always(next_minute_at_most, 1.0)
            after = await names()
        assert len(set(after)) == len(after)
        assert before[0] in after
        status = (await client.get(CRON_JOBS, "tick", namespace="shop")).status
        assert status.last_schedule_time is not None
        assert {reference.name for reference in status.active} == set(after)
        made = await client.list(PODS, namespace="shop")
        live = [json.loads(await client.get_bytes(PODS, p.metadata.name, namespace="shop")) for p in made]
    first_s = int(before[0].rpartition("-")[2]) * 60
    planned = expanded(given, now_s=first_s - 1)
    assert counted([pod for pod in live if pod["metadata"]["generateName"].startswith(before[0])]) == counted(planned)


def running(ip: str) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True"}
    return {"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [ready]}}


async def test_a_service_has_slices_while_it_is_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as client, controlled(client, SystemClock()):
        await _with_service(client)

        async def addresses() -> list[str]:
            slices = await client.list(ENDPOINT_SLICES, namespace="shop")
            return sorted(a for slice_ in slices for e in slice_.endpoints if e.conditions.ready for a in e.addresses)

        await eventually(_is(addresses, ["10.1.0.1", "10.1.0.2"]))
        (endpoint_slice,) = await client.list(ENDPOINT_SLICES, namespace="shop")
        assert [(port.name, port.port) for port in endpoint_slice.ports] == [("http", 8080)]
        await client.delete(PODS, "web-1", namespace="shop", grace_s=0)
        await eventually(_is(addresses, ["10.1.0.2"]))
        await client.delete(SERVICES, "web", namespace="shop")
        await eventually(_is(lambda: client.list(ENDPOINT_SLICES, namespace="shop"), []))


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/apis/networking.k8s.io/v1/namespaces/shop/ingresses", "nothing here routes traffic"),
        ("/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web", "set spec.replicas"),
    ],
)
async def test_a_kind_that_is_not_served_is_refused_with_the_way_out(tmp_path: Path, path: str, said: str) -> None:
    async with serving(tmp_path) as client:
        with pytest.raises(NotFound) as refusal:
            await client.raw("GET", path)
        assert "koord's API server does not serve" in refusal.value.status.message
        assert said in refusal.value.status.message


@pytest.mark.kubectl
async def test_kubectl_describes_the_endpoints_of_a_service(tmp_path: Path) -> None:
    async with serving(tmp_path) as client, controlled(client, SystemClock()):
        await _with_service(client)

        async def has_slices() -> bool:
            return any(
                endpoint_slice.endpoints for endpoint_slice in await client.list(ENDPOINT_SLICES, namespace="shop")
            )

        await eventually(has_slices)
        command = [str(find_binary("kubectl")), "--kubeconfig", str(tmp_path / "kubeconfig"), "-n", "shop"]

        async def described() -> str:
            done = await asyncio.to_thread(
                subprocess.run,
                [*command, "describe", "service", "web"],
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
                env={**os.environ, "HOME": str(tmp_path)},
            )
            return str(done.stdout)

        async def shows_both() -> bool:
            text = await described()
            return "10.1.0.1:8080" in text and "10.1.0.2:8080" in text

        await eventually(shows_both)


async def _with_service(client: Client) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "shop"}})
    ports = [{"name": "http", "port": 80, "targetPort": "web"}]
    body = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": ports}}
    await client.create(SERVICES, body, namespace="shop")
    for number in (1, 2):
        made = template("web")
        made["spec"]["containers"][0]["ports"] = [{"name": "web", "containerPort": 8080}]
        made["metadata"]["name"] = f"web-{number}"
        await client.create(PODS, made, namespace="shop")
        await client.patch(
            PODS, f"web-{number}", running(f"10.1.0.{number}"), namespace="shop", type="merge", subresource="status"
        )


def _is(what: Callable[[], Awaitable[Any]], wanted: Any) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return bool(list(await what()) == wanted)

    return holds
