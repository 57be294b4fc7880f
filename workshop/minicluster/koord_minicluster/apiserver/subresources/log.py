"""pods/NAME/log: passed on to the node that has the pod, as the real server passes it on to the kubelet."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from koord_minicluster.apiserver.http import Request
from koord_minicluster.apiserver.list_options import query_number
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import (
    Cause,
    StatusError,
    bad_request,
    forbidden,
    invalid,
    object_not_found,
    unprocessable,
)
from koord_minicluster.apiserver.store import Collection
from koord_minicluster.apiserver.wire.answers import Answer, Response, Stream

if TYPE_CHECKING:
    import aiohttp

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
        import aiohttp

        info = request.info
        entry = self._pods.get(f"{info.namespace}/{info.name}")
        if entry is None:
            raise object_not_found("pods", "", info.name)
        pod: Obj = msgspec.json.decode(entry.value)
        _check_options(info.name, request.query)
        container = _container(pod, request.query.get("container", ""))
        node = pod["spec"].get("nodeName")
        if not node:
            return Response(204)
        url = f"{self._address(node)}/containerLogs/{info.namespace}/{info.name}/{container}"
        query = {name: request.query[name] for name in OPTIONS if name in request.query}
        try:
            return await self._pass_on(request, url, query)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise StatusError(500, "InternalError", f"Get {url!r}: {error}", details=False) from error

    async def _pass_on(self, request: Request, url: str, query: dict[str, str]) -> Answer:
        import aiohttp

        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_WITHIN_S)
            self._session = aiohttp.ClientSession(timeout=timeout)
        async with self._session.get(url, params=query, ssl=self._identity) as answer:
            if answer.status != 200:
                text = (await answer.text())[:2000]
                raise StatusError(answer.status, "BadRequest" if answer.status == 400 else "InternalError", text)
            stream = Stream("text/plain")
            stream.begin(request.http)
            async for chunk in answer.content.iter_any():
                await stream.write(chunk)
            await stream.end()
            return stream

    def _address(self, node: str) -> str:
        entry = self._nodes.get(node)
        if entry is None:
            # Of "pods", in the real server's words: it looks for the place of the pod.
            raise object_not_found("pods", "", node)
        status: dict[str, Any] = msgspec.json.decode(entry.value).get("status") or {}
        port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
        addresses = {address["type"]: address["address"] for address in status.get("addresses") or ()}
        host = addresses.get("InternalIP") or addresses.get("ExternalIP") or addresses.get("Hostname")
        if not host or not port:
            raise StatusError(500, "InternalError", f'node "{node}" does not say where its logs are')
        return f"https://{f'[{host}]' if ':' in host else host}:{port}"


def _check_options(name: str, query: Mapping[str, str]) -> None:
    names = ("tailLines", "limitBytes", "sinceSeconds")
    numbers = {key: query_number(query, key) for key in names if query.get(key)}
    faults: list[Cause] = []
    if numbers.get("tailLines", 0) < 0:
        faults.append(invalid("tailLines", numbers["tailLines"], "must be greater than or equal to 0"))
    if numbers.get("limitBytes", 1) < 1:
        faults.append(invalid("limitBytes", numbers["limitBytes"], "must be greater than 0"))
    if "sinceSeconds" in numbers and query.get("sinceTime"):
        faults.append(forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif numbers.get("sinceSeconds", 1) < 1:
        faults.append(invalid("sinceSeconds", numbers["sinceSeconds"], "must be greater than 0"))
    if faults:
        raise unprocessable("PodLogOptions", "", name, faults)


def _container(pod: Obj, asked: str) -> str:
    spec, name = pod["spec"], pod["metadata"]["name"]
    main = [container["name"] for container in spec.get("containers") or ()]
    groups = ("initContainers", "containers", "ephemeralContainers")
    names = [container["name"] for group in groups for container in spec.get(group) or ()]
    if asked:
        if asked not in names:
            raise bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    if len(main) == 1:
        return str(main[0])
    annotated = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    if annotated in names:
        return str(annotated)
    listed = " ".join(names)
    raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{listed}]")
