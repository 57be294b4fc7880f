"""Each kind of fault: inject, wait for its time, heal. Healing happens however the wait ends."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from typing import Any, Final

import msgspec

from koord.api.kinds import NODE_METRICS, NODES
from koord.kube.client import Client
from koord.kube.errors import ApiError, Conflict, NotFound
from koord_chaos.faults.drawing import Fault
from koord_chaos.faults.live import memory_limit
from koord_chaos.faults.live.api_path import SOUND, Manner
from koord_chaos.faults.live.clusters import LEASES_OF, AnyCluster, LocalCluster, lease_path
from koord_chaos.faults.live.own_cluster import OwnCluster
from koord_minicluster.hollow.machine import ANNOTATION_DOWN

log = logging.getLogger(__name__)

Injected = AbstractAsyncContextManager[None]
THIEF: Final = "koord-chaos"
IMPOSSIBLE: Final[tuple[Mapping[str, Any], ...]] = (
    {"cpu": "-5", "memory": "-1Gi"},
    {"cpu": "9999999", "memory": "9999999Ti"},
    {"cpu": "many", "memory": "some"},
    {},
)
MIB: Final = 1 << 20
ANSWERED_WITHIN_S: Final = 180.0


@asynccontextmanager
async def kill(cluster: AnyCluster, fault: Fault) -> AsyncIterator[None]:
    await cluster.kill(fault.target)
    yield


@asynccontextmanager
async def pause(cluster: LocalCluster, fault: Fault) -> AsyncIterator[None]:
    pid = send(cluster, fault.target, signal.SIGSTOP)
    try:
        yield
    finally:
        if pid and cluster.pid(fault.target) == pid:
            send(cluster, fault.target, signal.SIGCONT)


async def answered(call: Callable[[], Awaitable[None]]) -> None:
    """Calls until the API server answers, which may have a fault of its own."""
    async with asyncio.timeout(ANSWERED_WITHIN_S):
        while True:
            try:
                return await call()
            except ApiError as error:
                log.info("called again: %s", error)
                await asyncio.sleep(0.5)


def send(cluster: LocalCluster, target: str, number: signal.Signals) -> int:
    """The process that got the signal; 0 if the component does not run at the moment."""
    pid = cluster.pid(target)
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return pid


@asynccontextmanager
async def memory(cluster: LocalCluster, fault: Fault) -> AsyncIterator[None]:
    with ExitStack() as stack:
        top, pid = memory_limit.parent(), cluster.pid(fault.target)
        if top is not None and pid:
            stack.enter_context(memory_limit.limited(top, pid, int(fault.amount * MIB)))
        yield


@asynccontextmanager
async def clock(cluster: OwnCluster, fault: Fault) -> AsyncIterator[None]:
    control = cluster.controls[fault.target]
    control.jump(fault.amount)
    try:
        yield
    finally:
        control.jump(0)


@asynccontextmanager
async def upgrade(cluster: OwnCluster, fault: Fault) -> AsyncIterator[None]:
    cluster.change_version(fault.target, cluster.older)
    send(cluster, fault.target, signal.SIGTERM)
    try:
        yield
    finally:
        cluster.change_version(fault.target, ())
        send(cluster, fault.target, signal.SIGTERM)


@asynccontextmanager
async def disk_full(cluster: OwnCluster, fault: Fault) -> AsyncIterator[None]:
    assert cluster.disk is not None
    await asyncio.to_thread(cluster.disk.fill)
    try:
        yield
    finally:
        cluster.disk.make_room()


@asynccontextmanager
async def disk_slow(cluster: OwnCluster, fault: Fault) -> AsyncIterator[None]:
    control = cluster.controls[fault.target]
    control.slow(fault.amount)
    try:
        yield
    finally:
        control.slow(0)


def disturbs(manner_of: Callable[[Fault], Manner]) -> Callable[[OwnCluster, Fault], Injected]:
    """An injector that changes how the target's way to the API server behaves."""

    @asynccontextmanager
    async def inject(cluster: OwnCluster, fault: Fault) -> AsyncIterator[None]:
        path = cluster.paths[fault.target]
        path.manner = manner_of(fault)
        try:
            yield
        finally:
            path.manner = SOUND

    return inject


@asynccontextmanager
async def lease(cluster: AnyCluster, fault: Fault) -> AsyncIterator[None]:
    """Another holds the lease until it is healed, as if it had been elected."""
    name = LEASES_OF[fault.target]
    taken = asyncio.create_task(_hold(cluster, name))
    try:
        yield
    finally:
        taken.cancel()
        with suppress(asyncio.CancelledError):
            await taken
        await answered(lambda: _release(cluster, name))


async def _hold(cluster: AnyCluster, name: str) -> None:
    while True:
        with suppress(ApiError):
            held = await cluster.lease(name)
            if held["spec"].get("holderIdentity") != THIEF:
                held["spec"]["holderIdentity"] = THIEF
                held["spec"]["leaseTransitions"] = held["spec"].get("leaseTransitions", 0) + 1
                await _put(cluster.client, name, held)
        await asyncio.sleep(0.05)


async def _release(cluster: AnyCluster, name: str) -> None:
    with suppress(NotFound):
        held = await cluster.lease(name)
        if held["spec"].get("holderIdentity") == THIEF:
            held["spec"]["holderIdentity"], held["spec"]["leaseDurationSeconds"] = "", 1
            with suppress(Conflict):
                await _put(cluster.client, name, held)


async def _put(client: Client, name: str, held: dict[str, Any]) -> None:
    await client.raw("PUT", lease_path(name), body=msgspec.json.encode(held))


@asynccontextmanager
async def silent_node(cluster: LocalCluster, fault: Fault) -> AsyncIterator[None]:
    await answered(lambda: _annotate(cluster.client, fault.target, "true"))
    try:
        yield
    finally:
        await answered(lambda: _annotate(cluster.client, fault.target, None))


async def _annotate(client: Client, node: str, value: str | None) -> None:
    with suppress(NotFound):
        await client.patch(NODES, node, {"metadata": {"annotations": {ANNOTATION_DOWN: value}}})


@asynccontextmanager
async def lying_node(cluster: AnyCluster, fault: Fault) -> AsyncIterator[None]:
    """The node's next report puts it right."""
    usage = IMPOSSIBLE[int(fault.at_s * 100) % len(IMPOSSIBLE)]
    when = "2999-01-01T00:00:00Z" if int(fault.for_s) % 2 else None
    status = {
        "nodeMetric": {"nodeUsage": {"resources": usage}, "systemUsage": {"resources": usage}},
        **({"updateTime": when} if when else {}),
    }
    with suppress(NotFound, ApiError):
        await cluster.client.patch(NODE_METRICS, fault.target, {"status": status}, subresource="status")
    yield


ANYWHERE: Final[Mapping[str, Callable[[AnyCluster, Fault], Injected]]] = {
    "kill": kill,
    "lease": lease,
    "lying-node": lying_node,
}
LOCALLY: Final[Mapping[str, Callable[[LocalCluster, Fault], Injected]]] = {
    **ANYWHERE,
    "pause": pause,
    "memory": memory,
    "silent-node": silent_node,
}
ON_OWN: Final[Mapping[str, Callable[[OwnCluster, Fault], Injected]]] = {
    **LOCALLY,
    "clock": clock,
    "upgrade": upgrade,
    "disk-full": disk_full,
    "disk-slow": disk_slow,
    "partition": disturbs(lambda fault: Manner(cut=True)),
    "refused": disturbs(lambda fault: Manner(refuses=True)),
    "slow": disturbs(lambda fault: Manner(delay_s=fault.amount)),
    "too-many": disturbs(lambda fault: Manner(status=429, share=fault.amount)),
    "broken": disturbs(lambda fault: Manner(status=500, share=fault.amount)),
    "lost-answers": disturbs(lambda fault: Manner(loses_answers=True, share=fault.amount)),
    "silent-watches": disturbs(lambda fault: Manner(silent_watches=True)),
    "gone": disturbs(lambda fault: Manner(gone_watches=True)),
    "pages": disturbs(lambda fault: Manner(gone_pages=True)),
    "duplicated": disturbs(lambda fault: Manner(duplicates=True)),
    "reordered": disturbs(lambda fault: Manner(reorders=True)),
    "certificate": disturbs(lambda fault: Manner(expired=True)),
}


def injected(cluster: AnyCluster, fault: Fault) -> Injected:
    """The fault, injected on entry and healed on exit."""
    if isinstance(cluster, OwnCluster):
        return ON_OWN[fault.kind](cluster, fault)
    if isinstance(cluster, LocalCluster):
        return LOCALLY[fault.kind](cluster, fault)
    return ANYWHERE[fault.kind](cluster, fault)
