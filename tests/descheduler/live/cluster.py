"""A cluster for moves, all in this process: API server, controllers, scheduler, hollow nodes; and a descheduler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import yaml

from koord.api.configuration.descheduler_config import DeschedulerConfiguration, parse
from koord.api.configuration.scheduler_config import SHIPPED as SHIPPED_SCHEDULER
from koord.api.kinds import DEPLOYMENTS, EVENTS, NODE_METRICS, POD_MIGRATION_JOBS, PODS, RESERVATIONS
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.text.timestamp import from_seconds
from koord.descheduler.evictable import is_available
from koord.descheduler.live.run import DeschedulerOptions
from koord.descheduler.live.run import run as run_descheduler
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.scheduler.live.run import SchedulerOptions
from koord.scheduler.live.run import run as run_scheduler
from koord_minicluster.controllers.live.run import run as run_controllers
from koord_minicluster.hollow.live.fleet import FleetOptions, run_fleet
from koord_minicluster.hollow.phases import Pace
from koord_minicluster.up.bootstrap import bootstrap
from tests.scheduler.live.embedded import serving
from tests.waiting import eventually, until_ready

QUICK = Pace(start_s=0.1, init_s=0.0, stop_s=0.1)
QUIET = "deschedulingInterval: 0s\nprofiles: [{name: p}]"
"""A configuration that moves no pod by itself."""


def configured(text: str) -> DeschedulerConfiguration:
    return parse(yaml.safe_load(text))


@asynccontextmanager
async def running(start: Callable[[Callable[..., None]], Awaitable[None]]) -> AsyncIterator[asyncio.Task[None]]:
    """Something that is ready, and ended with the block."""
    ready = asyncio.Event()

    async def main() -> None:
        await start(lambda *_: ready.set())

    task = asyncio.create_task(main())
    await until_ready(task, ready)
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def populated(
    client: Client, *, nodes: int = 3, cpu_milli: int = 8000, controllers: bool = True
) -> AsyncIterator[Client]:
    """Controllers, scheduler and hollow nodes on an API server. Without `controllers`, others are there."""
    await bootstrap(client)
    fleet = FleetOptions(nodes=nodes, cpu_milli=cpu_milli, memory_bytes=32 << 30, pace=QUICK)
    alone = SchedulerOptions(alone=True)
    async with (
        running(lambda ready: run_controllers(client, on_ready=ready)) if controllers else nullcontext(),
        running(lambda ready: run_fleet(client, fleet, on_ready=ready)),
        running(lambda ready: run_scheduler(client, SHIPPED_SCHEDULER, options=alone, on_ready=ready)),
    ):
        yield client


@asynccontextmanager
async def cluster(folder: Path, *, nodes: int = 3, cpu_milli: int = 8000) -> AsyncIterator[Client]:
    async with serving(folder) as client, populated(client, nodes=nodes, cpu_milli=cpu_milli):
        yield client


def descheduling(client: Client, config: str = QUIET, **options: Any) -> Any:
    """A descheduler, for a block."""
    wanted = DeschedulerOptions(alone=True, **options)
    return running(lambda ready: run_descheduler(client, configured(config), options=wanted, on_ready=ready))


async def deploy(
    client: Client, name: str, replicas: int, *, cpu: str = "1", namespace: str = "default", **spec: Any
) -> list[Pod]:
    """A Deployment whose pods are all ready."""
    labels = {"app": name}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }
    await client.create(
        DEPLOYMENTS,
        {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
        },
    )
    await eventually(lambda: all_ready(client, name, replicas))
    return await pods_of(client, name)


async def pods_of(client: Client, app: str) -> list[Pod]:
    return list(await client.list(PODS, labels=f"app={app}"))


async def all_ready(client: Client, app: str, number: int) -> bool:
    pods = await pods_of(client, app)
    return len(pods) == number and all(map(is_available, pods))


async def ask(client: Client, pod: Pod, name: str = "move", **spec: Any) -> PodMigrationJob:
    """A job as a user writes it."""
    ref = {"namespace": pod.metadata.namespace, "name": pod.metadata.name}
    return await client.create(POD_MIGRATION_JOBS, {"metadata": {"name": name}, "spec": {"podRef": ref, **spec}})


async def job(client: Client, name: str = "move") -> PodMigrationJob:
    return await client.get(POD_MIGRATION_JOBS, name)


async def ends(client: Client, name: str = "move") -> PodMigrationJob:
    """How a job ended."""

    async def over() -> bool:
        return (await job(client, name)).status.phase in ("Succeeded", "Failed")

    await eventually(over)
    return await job(client, name)


async def no_reservations(client: Client) -> bool:
    return not await client.list(RESERVATIONS)


async def events_of(client: Client, name: str) -> list[str]:
    return [event.reason for event in await client.list(EVENTS) if event.regarding.name == name]


async def report(client: Client, nodes: Sequence[str], usage: Callable[[Pod], int]) -> None:
    """Says now and then what pods use, in milli-cores, as agents do; until cancelled."""
    while True:
        by_node: dict[str, list[Pod]] = {name: [] for name in nodes}
        for pod in await client.list(PODS):
            if pod.spec.node_name:
                by_node.setdefault(pod.spec.node_name, []).append(pod)
        for node, pods in by_node.items():
            with suppress(ApiError):
                await _report_node(client, node, [(pod, usage(pod)) for pod in pods])
        await asyncio.sleep(0.3)


async def _report_node(client: Client, node: str, pods: list[tuple[Pod, int]]) -> None:
    def used(milli: int) -> dict[str, Any]:
        return {"resources": {"cpu": f"{milli}m", "memory": "1Gi"}}

    status = {
        "updateTime": from_seconds(time.time()),
        "nodeMetric": {"nodeUsage": used(sum(milli for _, milli in pods)), "systemUsage": used(0)},
        "podsMetric": [
            {"namespace": pod.metadata.namespace, "name": pod.metadata.name, "podUsage": used(milli)}
            for pod, milli in pods
        ],
    }
    try:
        await client.patch(NODE_METRICS, node, {"status": status}, subresource="status")
    except ApiError:
        await client.create(NODE_METRICS, {"metadata": {"name": node}})
        await client.patch(NODE_METRICS, node, {"status": status}, subresource="status")
