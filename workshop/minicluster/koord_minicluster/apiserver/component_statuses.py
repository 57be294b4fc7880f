"""componentstatuses: whether the scheduler, the controllers and the store are well, as far as this process can tell.

The real server asks ports that these have on its own machine; so does this one, except for the store, which it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from koord_minicluster.apiserver import computed
from koord_minicluster.apiserver.http import Request
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.wire.answers import Answer

PORTS: Final = {"scheduler": 10259, "controller-manager": 10257}
STORE: Final = "etcd-0"
WITHIN_S: Final = 2.0


class ComponentStatuses:
    """The handler. `store_fault` says what is wrong with the store, if anything is."""

    def __init__(self, store_fault: Callable[[], str | None]) -> None:
        self._store_fault = store_fault

    async def handle(self, request: Request, resource: Resource) -> Answer:
        asked = [name for name in PORTS if request.info.verb != "get" or request.info.name == name]
        faults = dict(zip(asked, await asyncio.gather(*(_fault(PORTS[name]) for name in asked)), strict=True))
        faults[STORE] = self._store_fault()
        return computed.answer(request, resource, [_status(*fault) for fault in faults.items()], "componentstatus")


def _status(name: str, fault: str | None) -> Obj:
    condition = {"type": "Healthy", "status": "False" if fault else "True", "message": fault or "ok"}
    return {"metadata": {"name": name}, "conditions": [condition]}


async def _fault(port: int) -> str | None:
    import aiohttp

    url = f"https://127.0.0.1:{port}/healthz"
    try:
        timeout = aiohttp.ClientTimeout(total=WITHIN_S)
        async with aiohttp.ClientSession(timeout=timeout) as http, http.get(url, ssl=False) as answer:
            return None if answer.status == 200 else f"{answer.status} {answer.reason}"
    except aiohttp.ClientConnectorError:
        return f'Get "{url}": dial tcp 127.0.0.1:{port}: connect: connection refused'
    except (aiohttp.ClientError, TimeoutError) as error:
        return f'Get "{url}": {str(error) or "context deadline exceeded"}'
