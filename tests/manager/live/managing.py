"""A manager beside an API server, and nodes that report: for tests of the whole."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.protocol.names import CONFIGMAP_SLO_CONTROLLER, NAMESPACE_KOORDINATOR
from koord.api.text.quantity import value
from koord.api.text.timestamp import from_seconds
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, NotFound
from koord.kube.metrics import Metrics
from koord.manager.live.run import ManagerOptions, run
from koord_minicluster.up.bootstrap import bootstrap
from tests.waiting import eventually, until_ready

CPU, MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
GI = 1 << 30


@asynccontextmanager
async def managing(
    client: Client, *, options: ManagerOptions | None = None, metrics: Metrics | None = None
) -> AsyncIterator[asyncio.Task[None]]:
    """A manager that is ready; ended with the block."""
    ready = asyncio.Event()
    task = asyncio.create_task(run(client, options=options, metrics=metrics, on_ready=ready.set))
    await until_ready(task, ready)
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def fresh(client: Client, **colocation: Any) -> None:
    """A cluster with koord's kinds and this configuration, and no nodes."""
    await bootstrap(client)
    everything: tuple[Kind[Any], ...] = (
        kinds.NODES,
        kinds.NODE_METRICS,
        kinds.NODE_SLOS,
        kinds.NODE_RESOURCE_TOPOLOGIES,
        kinds.DEVICES,
    )
    for kind in everything:
        for each in await client.list(kind):
            with suppress(NotFound):
                await client.delete(kind, each.metadata.name)
    await configure(client, colocation={"enable": True, **colocation})


async def configure(client: Client, *, colocation: Any = None, **sections: Any) -> None:
    """The ConfigMap with exactly these sections. A text is stored unchanged."""
    given = {"colocation-config": colocation, **{f"{key.replace('_', '-')}-config": v for key, v in sections.items()}}
    data = {key: each if isinstance(each, str) else json.dumps(each) for key, each in given.items() if each is not None}
    with suppress(NotFound):
        await client.delete(kinds.CONFIG_MAPS, CONFIGMAP_SLO_CONTROLLER, namespace=NAMESPACE_KOORDINATOR)
    meta = {"name": CONFIGMAP_SLO_CONTROLLER, "namespace": NAMESPACE_KOORDINATOR}
    await client.create(kinds.CONFIG_MAPS, {"metadata": meta, "data": data})


async def change(client: Client, section: str, text: str | None) -> None:
    """Another text in one section of the ConfigMap."""
    await client.patch(
        kinds.CONFIG_MAPS,
        CONFIGMAP_SLO_CONTROLLER,
        {"data": {section: text}},
        namespace=NAMESPACE_KOORDINATOR,
    )


async def make_node(client: Client, name: str, *, cpu: str = "64", memory: str = "256Gi", **meta: Any) -> None:
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
    await client.create(kinds.NODES, {"metadata": {"name": name, **meta}})
    await client.patch(
        kinds.NODES, name, {"status": {"capacity": amounts, "allocatable": amounts}}, subresource="status"
    )


async def report(
    client: Client, name: str, *, system: str = "2500m", memory: str = "6Gi", age_s: float = 0.0, **pods: str
) -> None:
    """What the node's agent would report."""
    status = {
        "updateTime": from_seconds(time.time() - age_s),
        "nodeMetric": {
            "nodeUsage": {"resources": {"cpu": system, "memory": memory}},
            "systemUsage": {"resources": {"cpu": system, "memory": memory}},
        },
        "podsMetric": [
            {
                "name": pod,
                "namespace": "default",
                "priority": "koord-prod",
                "podUsage": {"resources": {"cpu": cpu, "memory": "0"}},
            }
            for pod, cpu in pods.items()
        ],
    }
    await client.patch(kinds.NODE_METRICS, name, {"status": status}, subresource="status")


async def lent(client: Client, name: str) -> int | None:
    """The batch-cpu that a node shows, in capacity and allocatable alike."""
    status = (await client.get(kinds.NODES, name)).status
    shown: Mapping[str, Any] = status.allocatable
    assert (CPU in shown) == (CPU in status.capacity)
    return value(shown[CPU]) if CPU in shown else None


async def until_lent(client: Client, name: str, cpu_milli: int | None, within_s: float = 60.0) -> None:
    async def shows() -> bool:
        return await lent(client, name) == cpu_milli

    await eventually(shows, within_s)


async def until_there(client: Client, kind: Any, name: str, *, there: bool = True) -> None:
    async def holds() -> bool:
        try:
            await client.get(kind, name)
        except NotFound:
            return not there
        return there

    await eventually(holds)


async def node_with_metric(client: Client, name: str, **meta: Any) -> None:
    """A node, and its NodeMetric as the manager will find it."""
    await make_node(client, name, **meta)
    with suppress(AlreadyExists):
        await client.create(kinds.NODE_METRICS, {"metadata": {"name": name}})
