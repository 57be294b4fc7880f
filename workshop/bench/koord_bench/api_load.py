"""Load on an API server: as little client as HTTP/1.1 over TLS allows, so that the server is what is measured.

A `Connection` sends prepared bytes and gives the answer's code and body; a `WatchConnection` counts the events that
come in. Nothing is decoded.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar
from urllib.parse import urlsplit

from koord.kube.clock import SystemClock
from koord.kube.cluster_config import ClusterConfig
from koord.kube.tls import ClientTls

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"

_END_OF_HEAD = b"\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"
_CARRIAGE_RETURN = 13

ANSWERED_WITHIN_S = 120.0

C = TypeVar("C", bound=asyncio.Protocol)


class Unexpected(RuntimeError):
    """The server answered something else than the benchmark is about; the figures would mean nothing."""


def encode(method: str, path: str, body: bytes = b"", content_type: str = JSON) -> bytes:
    """A request as it goes over the wire. The server knows the client by its certificate."""
    head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAccept: application/json\r\nUser-Agent: koord-bench\r\n"
    if body:
        head += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._body_at = 0
        self._ends_at: int | None = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """The answer's code and its body; a chunked one as it came."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            async with asyncio.timeout(ANSWERED_WITHIN_S):
                return await self._answer
        except TimeoutError:
            raise Unexpected(f"no answer within {ANSWERED_WITHIN_S:g} s to {request[:80]!r}") from None

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]  # uvloop's transports derive from nothing

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Unexpected(f"the server closed the connection: {error}"))

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        if not self._body_at:
            head_ends = received.find(_END_OF_HEAD)
            if head_ends < 0:
                return
            self._body_at = head_ends + len(_END_OF_HEAD)
            length = _content_length(bytes(received[:head_ends]))
            self._ends_at = None if length is None else self._body_at + length
        whole = len(received) >= self._ends_at if self._ends_at is not None else received.endswith(_LAST_CHUNK)
        if whole and self._answer is not None:
            answer = int(received[9:12]), bytes(received[self._body_at :])
            self._received, self._body_at = bytearray(), 0
            self._answer.set_result(answer)


class WatchConnection(asyncio.Protocol):
    """A watcher: counts the lines, and tells when it has seen a number of them.

    An event ends with a bare line feed; those of the chunks around it, and of the head, follow a carriage return. To
    find the next one costs next to nothing, where to count them would be a third of the client.
    """

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._last = 0
        self._begun = asyncio.get_running_loop().create_future()
        self._enough: asyncio.Future[None] | None = None
        self._wanted = 0
        self.events = 0

    async def begin(self, request: bytes) -> None:
        """Send the request, and wait until the server has answered with a head."""
        assert self._transport is not None
        self._transport.write(request)
        await self._begun

    async def seen(self, events: int) -> None:
        self._wanted = events
        if self.events < events:
            self._enough = asyncio.get_running_loop().create_future()
            await self._enough

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's transports derive from nothing

    def connection_lost(self, error: Exception | None) -> None:
        for waiter in (self._begun, self._enough):
            if waiter is not None and not waiter.done():
                waiter.set_exception(Unexpected(f"the server ended a watch: {error}"))

    def data_received(self, data: bytes) -> None:
        if not self._begun.done():
            if not data.startswith(b"HTTP/1.1 200"):
                self._begun.set_exception(Unexpected(f"watch: {data[:200]!r}"))
                return
            self._begun.set_result(None)
        at = data.find(b"\n")
        while at >= 0:
            if (data[at - 1] if at else self._last) != _CARRIAGE_RETURN:
                self.events += 1
            at = data.find(b"\n", at + 1)
        self._last = data[-1]
        if self._enough is not None and self.events >= self._wanted and not self._enough.done():
            self._enough.set_result(None)


class Target:
    """A server to put load on."""

    def __init__(self, config: ClusterConfig) -> None:
        parts = urlsplit(config.server)
        self._host, self._port = parts.hostname or "", parts.port or 443
        self.tls: ssl.SSLContext = ClientTls(config, SystemClock()).context()
        self.tls.set_alpn_protocols(["http/1.1"])

    async def connect(self, protocol: Callable[[], C]) -> C:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(protocol, self._host, self._port, ssl=self.tls)
        return connection

    async def spread(self, clients: int, requests: Sequence[bytes], expect: int) -> float:
        """All requests, over that many connections at once; gives the seconds it took."""
        connections = await asyncio.gather(*(self.connect(Connection) for _ in range(clients)))
        left: Iterator[bytes] = iter(requests)

        async def work(connection: Connection) -> None:
            for request in left:
                code, body = await connection.ask(request)
                if code != expect:
                    raise Unexpected(f"{request[:80]!r}: {code} {body[:500]!r}")

        took_s = await timed(lambda: asyncio.gather(*(work(connection) for connection in connections)))
        for connection in connections:
            connection.close()
        return took_s


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


def _content_length(head: bytes) -> int | None:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return None
