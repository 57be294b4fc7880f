"""pods/NAME/exec, attach and portforward: a connection to the node that has the pod, whatever is spoken over it.

The request is passed on to the node's port with its upgrade (a WebSocket, or SPDY of older clients), and from then on
all bytes, in both directions. Each side is read as fast as the other takes it. When one is gone, so is the other.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, urlencode

from koord_minicluster.apiserver.access.rbac import Access, Authorizer, refused
from koord_minicluster.apiserver.http import Request
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import StatusError, bad_request
from koord_minicluster.apiserver.subresources.kubelets import (
    CONNECT_WITHIN_S,
    Kubelets,
    NodePort,
    container_of,
    refused_by_node,
)
from koord_minicluster.apiserver.wire.answers import Answer
from koord_minicluster.apiserver.wire.connection import HttpRequest

ANSWERED_WITHIN_S: Final = 30
MOST_HEAD_BYTES: Final = 16 << 10
MOST_REFUSAL_BYTES: Final = 16 << 10
CHUNK: Final = 64 << 10
PASSED_ON: Final = (
    "Upgrade", "Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Protocol", "X-Stream-Protocol-Version",
)  # fmt: skip
"""What belongs to the upgrade. Nothing else of the client's head is the node's business, its token least of all."""
_STREAMS: Final = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
"""Options of a command, and what the kubelet calls them."""
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *([0-9]{1,9})\r\n", re.IGNORECASE)


class Tunnelled(Answer):
    """The answer is the node's, and the connection is no longer HTTP's."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(101, None)
        self.begun = True


class Streams:
    """Handlers of the three subresources."""

    def __init__(self, kubelets: Kubelets, authorizer: Authorizer) -> None:
        self._kubelets, self._authorizer = kubelets, authorizer

    async def exec(self, request: Request, _resource: Resource) -> Answer:
        self._authorize(request)
        pod = self._kubelets.pod(request.info)
        return await self._connect(request, pod, self._command_path(request, pod, "exec"))

    async def attach(self, request: Request, _resource: Resource) -> Answer:
        self._authorize(request)
        pod = self._kubelets.pod(request.info)
        return await self._connect(request, pod, self._command_path(request, pod, "attach"))

    async def port_forward(self, request: Request, _resource: Resource) -> Answer:
        self._authorize(request)
        pod = self._kubelets.pod(request.info)
        ports = ",".join(request.http.query.getall("ports", ()))
        query = [("port", ports)] if ports else []
        return await self._connect(request, pod, _path("portForward", pod, (), query))

    def _authorize(self, request: Request) -> None:
        """A WebSocket begins with GET, and yet takes the right to create, as in Kubernetes."""
        info = request.info
        access = Access("create", info.group, info.resource, info.subresource, info.name, info.namespace, info.path)
        allowed, why = self._authorizer.allowed(request.user, access)
        if not allowed:
            raise refused(request.user, access, why)

    def _command_path(self, request: Request, pod: Obj, kind: str) -> str:
        asked = request.http.query
        container = container_of(pod, asked.get("container", ""))
        query = [(ours, "1") for theirs, ours in _STREAMS.items() if asked.get(theirs, "").lower() in ("true", "1")]
        query += [("command", word) for word in asked.getall("command", ())]
        return _path(kind, pod, (container,), query)

    async def _connect(self, request: Request, pod: Obj, path: str) -> Answer:
        http = request.http
        node = pod["spec"].get("nodeName")
        if not node:
            raise bad_request(f"pod {request.info.name} does not have a host assigned")
        if "upgrade" not in http.headers.get("Connection", "").lower() or "Upgrade" not in http.headers:
            raise bad_request("Upgrade request required")
        await request.body()
        port = self._kubelets.port_of(node)
        try:
            async with asyncio.timeout(CONNECT_WITHIN_S):
                reader, writer = await asyncio.open_connection(
                    port.host, port.port, ssl=self._kubelets.identity, limit=MOST_HEAD_BYTES
                )
        except (OSError, TimeoutError) as error:
            text = f"error dialing backend: {port.authority}: {str(error) or 'no answer in time'}"
            raise StatusError(500, "InternalError", text, details=False) from error
        try:
            writer.write(_head(http, port, path))
            head = await _answered(reader, port)
            await _tunnel(http, head, reader, writer)
        finally:
            # Not `close`, which would wait for a node that reads nothing until it has read all.
            writer.transport.abort()
        return Tunnelled()


def _path(kind: str, pod: Obj, more: Iterable[str], query: list[tuple[str, str]]) -> str:
    meta = pod["metadata"]
    parts = (kind, meta["namespace"], meta["name"], *more)
    path = "".join(f"/{quote(part, safe='')}" for part in parts)
    return f"{path}?{urlencode(query, errors='surrogateescape')}" if query else path


def _head(http: HttpRequest, port: NodePort, path: str) -> bytes:
    lines = [f"{http.method} {path} HTTP/1.1", f"Host: {port.authority}", "Connection: Upgrade"]
    lines += [f"{name}: {value}" for name in PASSED_ON for value in http.headers.getall(name, ())]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("utf-8", "surrogateescape")


async def _answered(reader: asyncio.StreamReader, port: NodePort) -> bytes:
    """The head of the node's answer. Raises StatusError where the node did not take the upgrade."""
    try:
        async with asyncio.timeout(ANSWERED_WITHIN_S):
            head = await reader.readuntil(b"\r\n\r\n")
            status = int(head.split(None, 2)[1])
            if status == 101:
                return head
            length = _LENGTH.search(head)
            body = await reader.readexactly(min(int(length[1]), MOST_REFUSAL_BYTES)) if length is not None else b""
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        text = f"node at {port.authority} did not answer: {str(error) or 'not in time'}"
        raise StatusError(500, "InternalError", text, details=False) from error
    raise refused_by_node(status, body.decode(errors="replace"))


async def _tunnel(http: HttpRequest, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    http.become_a_tunnel()
    http.send(head)

    async def to_node() -> None:
        while True:
            writer.write(await http.received())
            await writer.drain()

    async def to_client() -> None:
        while piece := await reader.read(CHUNK):
            http.send(piece)
            await http.drained()

    tasks = [asyncio.create_task(to_node()), asyncio.create_task(to_client())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
