"""pods/NAME/log: passed on to the node that has the pod, as the real server passes it on to the kubelet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from koord_minicluster.apiserver.http import Request
from koord_minicluster.apiserver.list_options import query_flag, query_number
from koord_minicluster.apiserver.resource import Resource
from koord_minicluster.apiserver.status import Cause, StatusError, forbidden, invalid, unprocessable
from koord_minicluster.apiserver.subresources.kubelets import (
    CONNECT_WITHIN_S,
    Kubelets,
    container_of,
    refused_by_node,
)
from koord_minicluster.apiserver.wire.answers import Answer, Response, Stream

if TYPE_CHECKING:
    import aiohttp

OPTIONS = ("follow", "previous", "sinceSeconds", "sinceTime", "timestamps", "tailLines", "limitBytes", "stream")


class NodeLog:
    """Reads container logs from nodes' kubelet ports. `close` it at the end."""

    def __init__(self, kubelets: Kubelets) -> None:
        self._kubelets = kubelets
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def handle(self, request: Request, _resource: Resource) -> Answer:
        import aiohttp

        info = request.info
        pod = self._kubelets.pod(info)
        _check_options(info.name, request.query)
        container = container_of(pod, request.query.get("container", ""))
        node = pod["spec"].get("nodeName")
        if not node:
            return Response(204)
        url = f"{self._kubelets.port_of(node).url}/containerLogs/{info.namespace}/{info.name}/{container}"
        query = {name: request.query[name] for name in OPTIONS if name in request.query}
        try:
            return await self._pass_on(request, url, query)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise StatusError(500, "InternalError", f"Get {url!r}: {error}", details=False) from error

    async def _pass_on(self, request: Request, url: str, query: dict[str, str]) -> Answer:
        import aiohttp

        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_WITHIN_S)
            # Logs that are followed stay open: as many as there are clients.
            self._session = aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0))
        async with self._session.get(url, params=query, ssl=self._kubelets.identity) as answer:
            if answer.status != 200:
                raise refused_by_node(answer.status, await answer.text())
            warning = answer.headers.get("Warning")
            stream = Stream("text/plain", {"Warning": warning} if warning else None)
            if query_flag(request.query, "follow"):
                request.http.wait_for_reader()
            stream.begin(request.http)
            async for chunk in answer.content.iter_any():
                await stream.write(chunk)
            await stream.end()
            return stream


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
