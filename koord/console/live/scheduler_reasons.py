"""Why pods are pending: the scheduler's list at `/apis/v1/pending`, for the console and `koord top pending`.

The console reads it every few seconds while pods are pending. A scheduler that cannot be asked costs only the plugin's
name: the reasons of conditions remain.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Final

import aiohttp
import msgspec
from yarl import URL

from koord.api.machinery.faults import BadInput
from koord.console.live.world import World
from koord.console.reasons import SchedulerReason
from koord.kube.account_token import AccountToken
from koord.kube.auth import credentials_for
from koord.kube.client import Client
from koord.kube.clock import SystemClock
from koord.kube.cluster_config import ConfigError
from koord.kube.errors import ApiError
from koord.operate.endpoints import Endpoints

log = logging.getLogger(__name__)

EVERY_S: Final = 3.0
IDLE_S: Final = 15.0
ANSWER_WITHIN_S: Final = 5.0
IN_CLUSTER: Final = "service account"
"""Where a configuration comes from inside a cluster, as `koord.kube.locate` calls it."""
PATH: Final = "/apis/v1/pending"


class Unanswered(BadInput):
    """The scheduler does not say why pods are pending. The message says why not."""


class _Pending(msgspec.Struct):
    pods: list[SchedulerReason] = []


class SchedulerList:
    """The list of the scheduler that leads. Without a URL, its address is the one that `koord up` wrote down."""

    def __init__(self, client: Client, endpoints: Callable[[], Endpoints | None], url: str = "") -> None:
        self._client, self._endpoints, self._url = client, endpoints, url
        self._own = credentials_for(client.config, SystemClock())
        self._account: AccountToken | None = None

    async def read(self, session: aiohttp.ClientSession) -> Mapping[str, SchedulerReason]:
        """By uid of pod. Raises `Unanswered`."""
        address = self._url or self._address()
        if not address:
            raise Unanswered("the address of the scheduler is not known")
        reasons: dict[str, SchedulerReason] = {}
        faults = []
        try:
            headers = await self._headers()
            addresses = await _resolved(address)
        except (ApiError, ConfigError, OSError) as error:
            raise Unanswered(f"{address}: {error}") from None
        for one in addresses:
            try:
                async with session.get(one + PATH, headers=headers, ssl=self._verifies) as answer:
                    if answer.status != 200:
                        faults.append(f"{one}{PATH} answers {answer.status}")
                        continue
                    listed = msgspec.json.decode(await answer.read(), type=_Pending)
            except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError) as error:
                faults.append(f"{one}: {str(error) or type(error).__name__}")
                continue
            reasons |= {pod.uid: pod for pod in listed.pods}
        if len(faults) == len(addresses):
            raise Unanswered("; ".join(faults))
        return reasons

    @property
    def _verifies(self) -> bool:
        """Whether certificates are checked. Inside the cluster, components make their own, which no authority signs; a
        user's token goes only to a server with a valid one."""
        return self._client.config.origin != IN_CLUSTER

    async def _headers(self) -> dict[str, str]:
        """Our own token; beside `koord up`, that of its account for metrics, since its kubeconfig has a certificate."""
        headers = dict((await self._own.current()).headers)
        if headers:
            return headers
        endpoints = self._endpoints()
        if self._account is None and endpoints is not None and endpoints.monitor:
            namespace, _, name = endpoints.monitor.partition("/")
            self._account = AccountToken(self._client, namespace, name)
        return {"Authorization": f"Bearer {await self._account.valid()}"} if self._account is not None else {}

    def _address(self) -> str:
        endpoints = self._endpoints()
        running = endpoints.components.get("scheduler") if endpoints is not None else None
        return running.endpoints.get("health", "") if running is not None else ""


async def follow_scheduler(world: World, url: str) -> None:
    """Until cancelled."""
    said = ""
    scheduler = SchedulerList(world.client, world.endpoints, url)
    async with answered_soon() as session:
        while True:
            fault = ""
            if world.table.pending and (world.is_visited or not world.reasons):
                try:
                    world.explained(await scheduler.read(session))
                except Unanswered as error:
                    fault = str(error)
                if fault and fault != said:
                    log.warning("the scheduler does not say why pods are pending: %s", fault)
                said = fault
            await asyncio.sleep(IDLE_S if fault else EVERY_S)


def answered_soon() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_WITHIN_S))


async def _resolved(address: str) -> list[str]:
    """The addresses behind a host name: only one of several schedulers leads and has a list."""
    url = URL(address)
    host, port = url.host or "", url.port or 443
    resolved = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(url.with_host(str(info[4][0]))).rstrip("/") for info in resolved))
