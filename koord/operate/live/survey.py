"""Gathers the state of a cluster: from the API, the components' health endpoints, and the directory of a running `up`.

Broken parts are a result, not a failure. Parts that could not be read are reported as unread.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp
from msgspec.structs import replace

from koord import __version__
from koord.api.kinds import (
    CUSTOM,
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    NODE_METRICS,
    NODES,
    POD_MIGRATION_JOBS,
    PODS,
    PRIORITY_CLASSES,
)
from koord.api.kubernetes.workloads import template_of
from koord.api.protocol.announcements import ANNOUNCED
from koord.api.protocol.names import NAMESPACE_KOORDINATOR, NAMESPACE_KUBE_SYSTEM, PRIORITY_CLASS_BATCH
from koord.api.protocol.priority import BANDS
from koord.api.protocol.unacted import UNACTED
from koord.api.text.timestamp import parse_timestamp
from koord.kube.announced import announced
from koord.kube.client import Client
from koord.kube.errors import ApiError, NotFound, Unavailable
from koord.operate.endpoints import Endpoints, Running
from koord.operate.facts import (
    Check,
    ComponentFact,
    Facts,
    Leader,
    Nodes,
    Place,
    Pods,
    Scheduler,
    Server,
    WebhooksFact,
    nodes_of,
    overbooked,
    parse_checks,
    place_of,
    pods_of,
)
from koord.operate.live.webhook_probe import webhooks

ANSWER_WITHIN_S: Final = 5.0
T = TypeVar("T")


async def survey(client: Client | None, url: str, data_dir: Path | None, endpoints: Endpoints | None) -> Facts:
    """All facts about a cluster. Without a client, only those from the directory."""
    if endpoints is not None and not _alive(endpoints.pid):
        # The process was killed, so its file is outdated.
        endpoints = None
    components = await _processes(endpoints) if endpoints is not None else ()
    up_pid = endpoints.pid if endpoints is not None else None
    place = str(data_dir) if data_dir is not None else ""
    if client is None or (data_dir is not None and endpoints is None):
        return Facts(__version__, Server(url, False, error="no koord up runs there"), place, up_pid, components)
    client = client.limited(timeout_s=ANSWER_WITHIN_S, attempts=1)
    server = await _server(client, url)
    if not server.reachable:
        return Facts(__version__, server, place, up_pid, components)
    unread: list[str] = []

    async def tried(what: str, call: Callable[[Client], Awaitable[T]], otherwise: T) -> T:
        try:
            return await call(client)
        except (ApiError, ValueError) as error:
            unread.append(f"{what}: {error}")
            return otherwise

    (nodes, pods), leaders, schedulers, workloads = await asyncio.gather(
        tried("nodes and pods", _nodes_and_pods, (Nodes(), Pods())),
        tried("leases", _leaders, tuple[Leader, ...]()),
        tried("the leases of schedulers", _schedulers, tuple[Scheduler, ...]()),
        tried("workloads", _workloads, tuple[ComponentFact, ...]()),
    )
    missing, classes, unacted, moves, namespace = await asyncio.gather(
        tried("definitions", _missing_kinds, tuple[str, ...]()),
        tried("priority classes", _missing_priority_classes, tuple[str, ...]()),
        tried("objects that nothing acts on", _unacted, dict[str, int]()),
        tried("moves of pods", _moves, tuple[str, ...]()),
        tried(f"namespace {NAMESPACE_KOORDINATOR}", _place, Place()),
    )
    # The test pod needs its PriorityClass.
    answered = await tried("webhooks", partial(webhooks, ask=PRIORITY_CLASS_BATCH not in classes), WebhooksFact())
    return Facts(
        version=__version__,
        server=server,
        data_dir=place,
        up_pid=up_pid,
        components=(*components, *workloads),
        leaders=leaders,
        nodes=nodes,
        pods=pods,
        missing_kinds=missing,
        missing_priority_classes=classes,
        schedulers=schedulers,
        webhooks=answered,
        namespace=namespace,
        unacted=unacted,
        moves=moves,
        unread=tuple(unread),
    )


async def _server(client: Client, url: str) -> Server:
    try:
        version = await client.server_version()
        checks = await _api_checks(client)
    except Unavailable as error:
        return Server(url, False, error=error.message)
    except ApiError as error:
        return Server(url, True, checks=(Check("access", False, str(error)),))
    return Server(url, True, version.git_version, checks=checks)


async def _api_checks(client: Client) -> tuple[Check, ...]:
    try:
        _, _, body = await client.raw("GET", "/readyz", {"verbose": ""}, accept="*/*")
    except Unavailable:
        raise
    except ApiError as error:
        return parse_checks(error.message) or (Check("readyz", False, error.message),)
    return parse_checks(body.decode("utf-8", "replace"))


async def _processes(endpoints: Endpoints) -> tuple[ComponentFact, ...]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_WITHIN_S)) as session:
        return tuple(
            await asyncio.gather(*(_process(session, name, running) for name, running in endpoints.components.items()))
        )


async def _process(session: aiohttp.ClientSession, name: str, running: Running) -> ComponentFact:
    state, checks = running.state, tuple[Check, ...]()
    address = running.endpoints.get("health")
    if not _alive(running.pid):
        state = "gone"
    elif address and state == "ready":
        try:
            async with session.get(f"{address}/readyz?verbose") as answer:
                checks = parse_checks(await answer.text())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            checks = (Check("health", False, str(error) or type(error).__name__),)
    return ComponentFact(name, state, running.pid, running.restarts, dict(running.endpoints), checks, running.log)


async def _workloads(client: Client) -> tuple[ComponentFact, ...]:
    """An installation's components."""
    components: list[ComponentFact] = []
    for deployment in await client.list(DEPLOYMENTS, namespace=NAMESPACE_KOORDINATOR):
        wanted, ready = deployment.spec.replicas, deployment.status.ready_replicas
        components.append(_workload(f"deployment/{deployment.metadata.name}", deployment, wanted, ready))
    for daemon in await client.list(DAEMON_SETS, namespace=NAMESPACE_KOORDINATOR):
        wanted, ready = daemon.status.desired_number_scheduled, daemon.status.number_ready
        components.append(_workload(f"daemonset/{daemon.metadata.name}", daemon, wanted, ready))
    return tuple(components)


def _workload(name: str, workload: Any, wanted: int | None, ready: int) -> ComponentFact:
    wanted = 1 if wanted is None else wanted
    containers = template_of(workload.spec.template).spec.containers
    state = "ready" if ready >= wanted else f"{ready} of {wanted} ready"
    return ComponentFact(name, state, image=containers[0].image if containers else "")


async def _leaders(client: Client) -> tuple[Leader, ...]:
    now_s = time.time()
    leaders = []
    for namespace in (NAMESPACE_KOORDINATOR, NAMESPACE_KUBE_SYSTEM):
        for lease in await client.list(LEASES, namespace=namespace, labels=f"!{ANNOUNCED}"):
            spec = lease.spec
            age_s = now_s - parse_timestamp(spec.renew_time) if spec.renew_time else None
            expired = age_s is None or age_s > spec.lease_duration_seconds
            leaders.append(Leader(f"{namespace}/{lease.metadata.name}", spec.holder_identity, age_s, expired))
    return tuple(leaders)


async def _nodes_and_pods(client: Client) -> tuple[Nodes, Pods]:
    now_s = time.time()
    # Pods are listed first, so that the nodes of all bound pods are listed too, unless they were deleted.
    pods, nodes = await client.list(PODS), await client.list(NODES)
    metrics = None
    with suppress(NotFound):
        metrics = await client.list(NODE_METRICS)
    nodes_told = replace(nodes_of(nodes, metrics, now_s), overbooked=overbooked(nodes, pods))
    return nodes_told, pods_of(pods, {node.metadata.name for node in nodes}, now_s)


async def _schedulers(client: Client) -> tuple[Scheduler, ...]:
    leases = (await announced(client, time.time())).by_name
    # Elections of other components are not schedulers; their leases are reported with the leaders.
    return tuple(
        Scheduler(name, held.holder, None if math.isinf(held.age_s) else held.age_s, held.fresh, held.beside)
        for name, held in sorted(leases.items())
        if held.schedules
    )


async def _place(client: Client) -> Place:
    namespace = None
    with suppress(NotFound):
        namespace = await client.get(NAMESPACES, NAMESPACE_KOORDINATOR)
    return place_of(namespace, time.time())


async def _unacted(client: Client) -> dict[str, int]:
    counts: dict[str, int] = {}
    for unacted in UNACTED:
        if unacted.kind is None:
            continue
        with suppress(NotFound):
            if number := len(await client.list(unacted.kind)):
                counts[unacted.message] = number
    return counts


async def _moves(client: Client) -> tuple[str, ...]:
    with suppress(NotFound):
        jobs = await client.list(POD_MIGRATION_JOBS)
        return tuple(job.metadata.name for job in jobs if not job.is_over and not job.spec.paused)
    return ()


async def _missing_priority_classes(client: Client) -> tuple[str, ...]:
    existing = {priority_class.metadata.name for priority_class in await client.list(PRIORITY_CLASSES)}
    return tuple(str(band) for band in BANDS if band not in existing)


async def _missing_kinds(client: Client) -> tuple[str, ...]:
    try:
        definitions = await client.list(CUSTOM_RESOURCE_DEFINITIONS)
    except NotFound:
        return tuple(kind.resource for kind in CUSTOM)
    served = {definition.metadata.name for definition in definitions if definition.is_established}
    return tuple(kind.resource for kind in CUSTOM if kind.resource not in served)


def _alive(pid: int) -> bool:
    """Whether a process runs. One that was killed and that its parent has not collected yet does not."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    # The name is in parentheses, and may hold some itself.
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
