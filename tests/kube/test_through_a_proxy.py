"""Calls through an HTTP proxy: TLS goes end to end, inside its tunnel."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from koord.api.kinds import NODES
from koord.kube.client import Client
from koord.kube.errors import Unavailable
from tests.kube.manual_clock import ManualClock
from tests.kube.raw_server import RawServer, answer

NODE = answer({"metadata": {"name": "n"}})


class Proxy:
    """Tunnels CONNECT requests, and remembers what it saw in the clear."""

    def __init__(self, refuse: bool = False) -> None:
        self.heads: list[bytes] = []
        self.refuse = refuse
        self.port = 0

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._tunnel, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        if self.refuse:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        host, port = head.split()[1].decode().rsplit(":", 1)
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        target.write(data)
    target.close()


async def test_reads_and_fenced_writes_go_through_the_tunnel_and_the_proxy_sees_no_token() -> None:
    asked = []
    async with RawServer(NODE) as server, Proxy() as proxy:
        config = replace(server.config, proxy_url=f"http://user:word@127.0.0.1:{proxy.port}")
        async with Client(config) as client:
            await client.get(NODES, "n")
            await client.fenced(lambda: asked.append(len(server.requests))).patch(NODES, "n", {})
    assert [request.method for request in server.requests] == ["GET", "PATCH"]
    assert asked == [1]
    assert len(proxy.heads) == 1, "the tunnel is reused"
    assert proxy.heads[0].startswith(b"CONNECT 127.0.0.1:")
    assert b"Proxy-Authorization: Basic" in proxy.heads[0]
    assert b"Bearer" not in proxy.heads[0]


async def test_a_proxy_that_refuses_is_said() -> None:
    async with RawServer(NODE) as server, Proxy(refuse=True) as proxy:
        config = replace(server.config, proxy_url=f"http://127.0.0.1:{proxy.port}")
        async with Client(config, clock=ManualClock()) as client:
            with pytest.raises(Unavailable, match="407"):
                await client.get(NODES, "n")
    assert server.requests == []
