"""A TLS server that answers exactly what a test scripts, byte by byte: for faults that a real server shows rarely.

`RawServer(answers...)` gives the answers in order, the last one for ever. An answer is the response's bytes, a list of
pieces that are sent one by one, `RESET` (the connection is torn down), or a function of the request that returns these.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType

import trustme

from koord.kube.cluster_config import ClusterConfig


class _Reset:
    """Tear the connection down instead of answering (further)."""


class _Hang:
    """Send nothing (more) and keep the connection open."""


RESET = _Reset()
HANG = _Hang()

Piece = bytes | _Reset | _Hang
Answer = Piece | list[Piece]


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    peer: Mapping[str, object] | None = None
    every_header: tuple[tuple[str, str], ...] = ()


Scripted = Answer | Callable[[Request], Answer]


def answer(body: object, status: int = 200, **headers: str) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(data)}", "Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def refusal(code: int, reason: str = "", message: str = "no", **headers: str) -> bytes:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return answer(status, code, **headers)


def chunked(*chunks: bytes) -> list[Piece]:
    """A chunked answer, each chunk sent on its own."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    return [head, *(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks), b"0\r\n\r\n"]


@dataclass
class RawServer:
    script: list[Scripted]
    client_ca: trustme.CA | None = None
    host: str = "127.0.0.1"
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    closed_connections: int = 0

    def __init__(self, *script: Scripted, client_ca: trustme.CA | None = None, host: str = "127.0.0.1") -> None:
        self.script, self.client_ca, self.host = list(script), client_ca, host
        self.requests, self.connections, self.closed_connections = [], 0, 0
        self.ca = trustme.CA()
        self.port = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def config(self) -> ClusterConfig:
        return ClusterConfig(server=f"https://127.0.0.1:{self.port}", ca_data=self.ca.cert_pem.bytes(), token="t")

    async def __aenter__(self) -> RawServer:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.ca.issue_cert(self.host).configure_cert(context)
        if self.client_ca is not None:
            self.client_ca.configure_trust(context)
            context.verify_mode = ssl.CERT_OPTIONAL
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=context, limit=1 << 24)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            while True:
                request = await _read(reader, writer)
                self.requests.append(request)
                scripted = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                said = scripted(request) if callable(scripted) else scripted
                for piece in said if isinstance(said, list) else [said]:
                    if isinstance(piece, _Reset):
                        _reset(writer)
                        return
                    if isinstance(piece, _Hang):
                        await reader.read()
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            self.closed_connections += 1
            self._open.discard(writer)
            writer.close()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    pairs = tuple((name, value.strip()) for name, _, value in (line.partition(":") for line in head[1:] if line))
    headers = {name.lower(): value for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, target, headers, body, writer.get_extra_info("peercert"), pairs)


def _reset(writer: asyncio.StreamWriter) -> None:
    """RST instead of a polite end."""
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
