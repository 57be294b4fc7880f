"""Why pods are pending: the scheduler's list at `/apis/v1/pending`, read every few seconds while pods are pending.

A scheduler that cannot be asked costs the pages only the plugin's name: the reasons of conditions remain.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Final

import aiohttp
import msgspec
from yarl import URL

from koord.console.live.world import World
from koord.console.reasons import SchedulerReason
from koord.kube.account_token import AccountToken
from koord.kube.auth import credentials_for
from koord.kube.clock import SystemClock
from koord.kube.cluster_config import ConfigError
from koord.kube.errors import ApiError

log = logging.getLogger(__name__)

EVERY_S: Final = 3.0
IDLE_S: Final = 15.0
ANSWER_WITHIN_S: Final = 5.0
IN_CLUSTER: Final = "service account"
"""Where a configuration comes from inside a cluster, as `koord.kube.locate` calls it."""
PATH: Final = "/apis/v1/pending"


class _Pending(msgspec.Struct):
    pods: list[SchedulerReason] = []


async def follow_scheduler(world: World, url: str) -> None:
    """Until cancelled. Without a URL, the address is the one that `koord up` wrote down."""
    said, caller = "", _Caller(world)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_WITHIN_S)) as session:
        while True:
            fault = ""
            if world.table.pending and (world.is_visited or not world.reasons):
                fault = await _look(world, session, url, caller)
                if fault and fault != said:
                    log.warning("the scheduler does not say why pods are pending: %s", fault)
                said = fault
            await asyncio.sleep(IDLE_S if fault else EVERY_S)


class _Caller:
    """Our own token; beside `koord up`, that of its account for metrics, since its kubeconfig has a certificate."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._own = credentials_for(world.client.config, SystemClock())
        self._account: AccountToken | None = None

    @property
    def verifies(self) -> bool:
        """Whether certificates are checked. Inside the cluster, components make their own, which no authority signs; a
        user's token goes only to a server with a valid one."""
        return self._world.client.config.origin != IN_CLUSTER

    async def headers(self) -> dict[str, str]:
        headers = dict((await self._own.current()).headers)
        if headers:
            return headers
        endpoints = self._world.endpoints()
        if self._account is None and endpoints is not None and endpoints.monitor:
            namespace, _, name = endpoints.monitor.partition("/")
            self._account = AccountToken(self._world.client, namespace, name)
        return {"Authorization": f"Bearer {await self._account.valid()}"} if self._account is not None else {}


async def _look(world: World, session: aiohttp.ClientSession, url: str, caller: _Caller) -> str:
    """The fault, if any."""
    address = url or _address(world)
    if not address:
        return "its address is not known"
    reasons: dict[str, SchedulerReason] = {}
    faults = []
    try:
        headers = await caller.headers()
        addresses = await _each(address)
    except (ApiError, ConfigError, OSError) as error:
        return f"{address}: {error}"
    for one in addresses:
        try:
            async with session.get(one + PATH, headers=headers, ssl=caller.verifies) as answer:
                if answer.status != 200:
                    faults.append(f"{one}{PATH} answers {answer.status}")
                    continue
                listed = msgspec.json.decode(await answer.read(), type=_Pending)
        except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError) as error:
            faults.append(f"{one}: {str(error) or type(error).__name__}")
            continue
        reasons |= {pod.uid: pod for pod in listed.pods}
    if len(faults) == len(addresses):
        return "; ".join(faults)
    world.explained(reasons)
    return ""


async def _each(address: str) -> list[str]:
    """The addresses behind a host name: only one of several schedulers leads and has a list."""
    url = URL(address)
    host, port = url.host or "", url.port or 443
    resolved = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(url.with_host(str(info[4][0]))).rstrip("/") for info in resolved))


def _address(world: World) -> str:
    endpoints = world.endpoints()
    running = endpoints.components.get("scheduler") if endpoints is not None else None
    return running.endpoints.get("health", "") if running is not None else ""
