"""Webhook servers for tests: one that serves beside an API server, and requests to it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from koord.api.configuration.features import ManagerGate, parse_gates
from koord.api.kinds import (
    CLUSTER_COLOCATION_PROFILES,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    NAMESPACES,
    SECRETS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Kind,
)
from koord.api.protocol.names import NAMESPACE_KOORDINATOR
from koord.kube.client import Client
from koord.kube.clock import SystemClock
from koord.kube.errors import AlreadyExists, ApiError, NotFound
from koord.kube.informers import Informers
from koord.kube.metrics import Metrics
from koord.manager.live.cluster_facts import LiveFacts
from koord.manager.live.webhook_server import WebhookOptions, WebhookServer
from koord_minicluster.up.bootstrap import bootstrap
from tests.waiting import eventually

MUTATING, VALIDATING = (f"koordinator-{kind}-webhook-configuration" for kind in ("mutating", "validating"))
SECRET = "koordinator-webhook-certs"
PROFILE = {
    "metadata": {"name": "batch"},
    "spec": {
        "namespaceSelector": {"matchLabels": {"colocation": "on"}},
        "qosClass": "BE",
        "priorityClassName": "koord-batch",
        "labels": {"given": "yes"},
    },
}


class ShiftedClock(SystemClock):
    """The system's, some seconds ahead."""

    ahead_s = 0.0

    def now(self) -> float:
        return super().now() + self.ahead_s


@dataclass(slots=True)
class Running:
    """A webhook server, until it is stopped."""

    server: WebhookServer
    task: asyncio.Task[None]
    ready: asyncio.Future[str]
    "With its URL."
    metrics: Metrics
    clock: ShiftedClock
    stopped: list[bool] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.ready.result()

    async def stop(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


@asynccontextmanager
async def admitting(
    client: Client,
    gates: str = "",
    *,
    address: str = "127.0.0.1:0",
    options: WebhookOptions | None = None,
    clock: ShiftedClock | None = None,
    **known: Any,
) -> AsyncIterator[Running]:
    """A webhook server beside an API server, registered by its address."""
    async with waiting_to_admit(client, gates, address=address, options=options, clock=clock, **known) as running:
        ready: set[asyncio.Future[Any]] = {running.task, running.ready}
        await asyncio.wait(ready, return_when=asyncio.FIRST_COMPLETED, timeout=60)
        if running.task.done():
            running.task.result()
        running.ready.result()
        yield running


@asynccontextmanager
async def waiting_to_admit(
    client: Client,
    gates: str = "",
    *,
    address: str = "127.0.0.1:0",
    options: WebhookOptions | None = None,
    clock: ShiftedClock | None = None,
    **known: Any,
) -> AsyncIterator[Running]:
    """A webhook server that was started, whether it can serve or not."""
    switched, clock = parse_gates(ManagerGate, gates), clock or ShiftedClock()
    metrics = Metrics(process=False)
    async with Informers(client) as informers:
        looked_up = LiveFacts(client, informers, switched, clock, **known)
        options = options or WebhookOptions(host="127.0.0.1")
        server = WebhookServer(client, looked_up, switched, address, options, metrics, clock)
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(server.run(ready.set_result))
        running = Running(server, task, ready, metrics, clock)
        try:
            yield running
        finally:
            await running.stop()


async def prepare(client: Client, *namespaces: str) -> None:
    """A cluster with koord's kinds, and nothing of an earlier test."""
    await bootstrap(client)
    await forget(client)
    for name in namespaces:
        with suppress(AlreadyExists):
            await client.create(NAMESPACES, {"metadata": {"name": name}})


async def forget(client: Client) -> None:
    kept: tuple[tuple[Kind[Any], str, str], ...] = (
        (MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING, ""),
        (VALIDATING_WEBHOOK_CONFIGURATIONS, VALIDATING, ""),
        (SECRETS, SECRET, NAMESPACE_KOORDINATOR),
    )
    for kind, name, namespace in kept:
        with suppress(NotFound):
            await client.delete(kind, name, namespace=namespace)
    for profile in await client.list(CLUSTER_COLOCATION_PROFILES):
        await client.delete(CLUSTER_COLOCATION_PROFILES, profile.metadata.name)


def pod(name: str, namespace: str, **more: Any) -> dict[str, Any]:
    labels = more.pop("labels", {})
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    spec = {"containers": [{"name": "main", "image": "example.com/app:1", "resources": resources}], **more}
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec}


def review(
    obj: Mapping[str, Any] | None,
    *,
    version: str = "v1",
    operation: str = "CREATE",
    old: Mapping[str, Any] | None = None,
    resource: str = "pods",
    **more: Any,
) -> dict[str, Any]:
    request = {
        "uid": "705ab4f5",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": resource},
        "operation": operation,
        "userInfo": {"username": "tester", "groups": ["system:authenticated"], "extra": {"k": ["v"]}},
        "object": obj,
        "oldObject": old,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        **more,
    }
    return {"apiVersion": f"admission.k8s.io/{version}", "kind": "AdmissionReview", "request": request}


async def bundle_of(client: Client) -> str:
    """What API servers are told to trust."""
    found = await client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING)
    return msgspec.convert(found.webhooks[0].client_config.ca_bundle, bytes).decode()


@asynccontextmanager
async def caller(bundle: str) -> AsyncIterator[aiohttp.ClientSession]:
    """Calls webhooks as an API server does, which trusts a bundle."""
    context = ssl.create_default_context(cadata=bundle)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        yield session


async def until_answered(condition: Callable[[], Awaitable[bool]]) -> None:
    """The API server refuses requests as long as it cannot reach a webhook."""
    await eventually(condition, retry_on=ApiError)


async def finalized(client: Client, name: str) -> None:
    """As the namespace's controller does when nothing is left in it."""
    found = json.loads(await client.get_bytes(NAMESPACES, name))
    found["spec"]["finalizers"] = []
    await client.raw("PUT", NAMESPACES.path(name, subresource="finalize"), body=json.dumps(found).encode())
