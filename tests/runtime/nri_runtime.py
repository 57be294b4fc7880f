"""The runtime's side of NRI, as containerd 1.7 and later have it: a plugin registers, and is called."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from koord.api.machinery.messages import Message, decode, encode
from koord.runtime import nri
from koord.runtime.ttrpc import PLUGIN, REQUEST, RESPONSE, RUNTIME, Frame, Pieces, Request, Response, piece

M = TypeVar("M", bound=Message)


class PluginFailed(Exception):
    """What the plugin answered instead."""


class NriRuntime:
    """Cuts what it sends into small parts, as a socket may."""

    def __init__(self) -> None:
        self.connected = asyncio.Event()
        self.registered: list[tuple[str, str]] = []
        self.updates: list[nri.ContainerUpdate] = []
        self.updated = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None
        self._waiting: dict[int, asyncio.Future[Response]] = {}
        self._stream = -1

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer, pieces = writer, Pieces()
        while data := await reader.read(7):
            for connection, frame in pieces.feed(data):
                if connection == PLUGIN and frame.type == RESPONSE:
                    self._waiting.pop(frame.stream).set_result(decode(Response, frame.body))
                elif connection == RUNTIME:
                    self._called(frame)
        self.connected.clear()

    def _called(self, frame: Frame) -> None:
        request = decode(Request, frame.body)
        assert request.service == nri.RUNTIME_SERVICE
        if request.method == "RegisterPlugin":
            said = decode(nri.RegisterPluginRequest, request.payload)
            self.registered.append((said.plugin_idx, said.plugin_name))
            self.connected.set()
        elif request.method == "UpdateContainers":
            self.updates += decode(nri.UpdateContainersRequest, request.payload).update
            self.updated.set()
        self._send(RUNTIME, Frame(frame.stream, RESPONSE, encode(Response())))

    def _send(self, connection: int, frame: Frame) -> None:
        assert self._writer is not None
        data = frame.encoded()
        for begin in range(0, len(data), 1000):
            self._writer.write(piece(connection, data[begin : begin + 1000]))

    async def call(self, method: str, said: Message, answer: type[M]) -> M:
        self._stream += 2
        waiting: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting[self._stream] = waiting
        self._send(PLUGIN, Frame(self._stream, REQUEST, encode(Request(nri.PLUGIN_SERVICE, method, encode(said)))))
        async with asyncio.timeout(60):
            response = await waiting
        if response.status is not None:
            raise PluginFailed(response.status.message)
        return decode(answer, response.payload)

    def hang_up(self) -> None:
        assert self._writer is not None
        self._writer.close()


@asynccontextmanager
async def nri_runtime(socket: Path) -> AsyncIterator[NriRuntime]:
    found = NriRuntime()
    server = await asyncio.start_unix_server(found.serve, socket)
    try:
        yield found
    finally:
        server.close()
