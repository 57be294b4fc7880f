"""The scheduler beside koord's own API server, both in this process: for tests of the whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration
from koord.api.kinds import NODES, PODS
from koord.api.kubernetes.node import Node
from koord.kube.client import Client
from koord.kube.locate import locate
from koord.kube.metrics import Metrics
from koord.scheduler.core.feed import Feed
from koord.scheduler.live.run import SchedulerOptions, run
from koord_minicluster.apiserver.server import ApiServer, ServeOptions
from tests.waiting import eventually, until_ready

NO_TAINTS = frozenset({"TaintNodesByCondition"})


@asynccontextmanager
async def serving(folder: Path, port: int = 0) -> AsyncIterator[Client]:
    """An API server on `folder`, and a client of it."""
    options = ServeOptions(folder, port=port, durability="fast", disabled_admission=NO_TAINTS)
    async with ApiServer(options), Client(locate(str(folder / "kubeconfig"))) as client:
        yield client


@asynccontextmanager
async def scheduling(
    client: Client,
    config: SchedulerConfiguration = SHIPPED,
    *,
    options: SchedulerOptions | None = None,
    metrics: Metrics | None = None,
) -> AsyncIterator[asyncio.Task[None]]:
    """A scheduler that is ready; ended with the block."""
    ready = asyncio.Event()
    task = asyncio.create_task(
        run(client, config, options=options or SchedulerOptions(alone=True), metrics=metrics, on_ready=ready.set)
    )
    await until_ready(task, ready)
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def node_manifest(name: str, *, cpu: str = "4", memory: str = "16Gi", pods: str = "110", **more: Any) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": memory, "pods": pods}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **more.pop("labels", {})}},
        "spec": more,
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod_manifest(name: str, *, cpu: str = "1", namespace: str = "default", **spec: Any) -> dict[str, Any]:
    container = {"name": "app", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    labels = spec.pop("labels", {})
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


async def make_nodes(client: Client, number: int, **more: Any) -> None:
    for index in range(number):
        await client.create(NODES, node_manifest(f"node-{index:03}", **more))


async def until_bound(client: Client, *names: str, within_s: float = 60.0) -> dict[str, str]:
    """Waits until all these pods have a node; which."""
    found: dict[str, str] = {}

    async def bound() -> bool:
        pods = await client.list(PODS, namespace="default")
        found.update({pod.metadata.name: pod.spec.node_name for pod in pods if pod.spec.node_name})
        return all(name in found for name in names)

    await eventually(bound, within_s)
    return found


def deletions_received(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The nodes whose deletion a scheduler in this process has received; filled as they arrive."""
    names: set[str] = set()
    remove = Feed.remove_node

    def note(self: Feed, old: Node) -> None:
        remove(self, old)
        names.add(old.metadata.name)

    monkeypatch.setattr(Feed, "remove_node", note)
    return names
