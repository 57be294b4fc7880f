"""pods/NAME/log: passed on to the node that has the pod, as the real server passes it on to the kubelet."""

from __future__ import annotations

import ssl
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from koord.apiserver.http import Answer, Request
from koord.apiserver.resource import Obj, Resource
from koord.apiserver.status import StatusError, bad_request, object_not_found
from koord.apiserver.store import Collection

OPTIONS = ("follow", "previous", "sinceSeconds", "sinceTime", "timestamps", "tailLines", "limitBytes", "stream")
CONNECT_WITHIN_S = 10


class NodeLog:
    """Reads container logs from nodes' kubelet ports. `close` it at the end."""

    def __init__(self, pods: Collection, nodes: Collection, identity: ssl.SSLContext) -> None:
        self._pods, self._nodes, self._identity = pods, nodes, identity
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def handle(self, request: Request, _resource: Resource) -> Answer:
        info = request.info
        entry = self._pods.get(f"{info.namespace}/{info.name}")
        if entry is None:
            raise object_not_found("pods", "", info.name)
        pod: Obj = msgspec.json.decode(entry.value)
        container = _container(pod, request.query.get("container", ""))
        node = pod["spec"].get("nodeName")
        if not node:
            return web.Response(text="")
        url = f"{self._address(node)}/containerLogs/{info.namespace}/{info.name}/{container}"
        query = {name: request.query[name] for name in OPTIONS if name in request.query}
        try:
            return await self._pass_on(request, url, query)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise StatusError(500, "InternalError", f"Get {url!r}: {error}", details=False) from error

    async def _pass_on(self, request: Request, url: str, query: dict[str, str]) -> Answer:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_WITHIN_S)
            self._session = aiohttp.ClientSession(timeout=timeout)
        async with self._session.get(url, params=query, ssl=self._identity) as answer:
            if answer.status != 200:
                text = (await answer.text())[:2000]
                raise StatusError(answer.status, "BadRequest" if answer.status == 400 else "InternalError", text)
            response = web.StreamResponse(headers={"Content-Type": "text/plain"})
            await response.prepare(request.http)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    def _address(self, node: str) -> str:
        entry = self._nodes.get(node)
        if entry is None:
            raise object_not_found("nodes", "", node)
        status: dict[str, Any] = msgspec.json.decode(entry.value).get("status") or {}
        port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
        addresses = {each["type"]: each["address"] for each in status.get("addresses") or ()}
        host = addresses.get("InternalIP") or addresses.get("ExternalIP") or addresses.get("Hostname")
        if not host or not port:
            raise StatusError(500, "InternalError", f'node "{node}" does not say where its logs are')
        return f"https://{f'[{host}]' if ':' in host else host}:{port}"


def _container(pod: Obj, asked: str) -> str:
    spec, name = pod["spec"], pod["metadata"]["name"]
    main = [each["name"] for each in spec.get("containers") or ()]
    known = [*main, *(each["name"] for each in spec.get("initContainers") or ())]
    if asked:
        if asked not in known:
            raise bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    if len(main) == 1:
        return str(main[0])
    annotated = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    if annotated in known:
        return str(annotated)
    listed = " ".join(main)
    raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{listed}]")
