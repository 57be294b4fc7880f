"""The API servers that the scheduler has to live with: koord's own and a real one, each as a process to be killed.

Both are started once for all tests that need them, and emptied between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from koord.api.kinds import LEASES, NODES, PODS
from koord.kube.client import Client
from koord.kube.locate import locate
from koord_minicluster.apiserver.revision_log import RevisionLog
from tests.control_plane import ControlPlane
from tests.minicluster.apiserver.server_process import ServerProcess

NO_TAINTS = "--disable-admission-plugins=TaintNodesByCondition"


class Server(Protocol):
    """What tests do to an API server."""

    kubeconfig: Path

    def stop(self) -> None: ...

    def kill(self) -> None: ...

    def start(self) -> None: ...

    def forget_history(self) -> None:
        """While it is down: versions from before now will be gone."""
        ...


class Embedded:
    """koord's own."""

    def __init__(self, folder: Path) -> None:
        without = "TaintNodesByCondition,ServiceAccount"
        flags = ("--durability", "fast", "--disable-admission-plugins", without)
        self._process = ServerProcess(folder / "data", *flags)
        self.kubeconfig = folder / "data" / "kubeconfig"
        self.start, self.stop, self.kill = self._process.start, self._process.stop, self._process.kill

    def forget_history(self) -> None:
        log = RevisionLog(self._process.data_dir, "fast")
        try:
            log.compact(log.revision())
        finally:
            log.close()


class Real:
    """kube-apiserver and etcd."""

    def __init__(self, plane: ControlPlane) -> None:
        self.kubeconfig = plane.kubeconfig
        self._plane = plane
        self.start, self.stop, self.forget_history = plane.start_apiserver, plane.stop_apiserver, plane.compact_etcd

    def kill(self) -> None:
        self._plane.stop_apiserver(kill=True)


async def restart(server: Server, *, history: bool = True) -> None:
    """Kill it, and have it come back, without its history where that is wanted."""
    await asyncio.to_thread(server.kill)
    if not history:
        server.forget_history()
    await asyncio.to_thread(server.start)


async def empty(client: Client) -> None:
    """Nothing of an earlier test is left."""
    for lease in await client.list(LEASES, namespace="default"):
        await client.delete(LEASES, lease.metadata.name, namespace="default")
    await client.delete_collection(PODS, namespace="default", grace_s=0)
    await client.delete_collection(NODES)


class Line:
    """The way to a server, which can be cut. `client` goes along it."""

    def __init__(self, server: Server) -> None:
        config = locate(str(server.kubeconfig))
        self._host, _, port = config.server.removeprefix("https://").rpartition(":")
        self._port, self._config = int(port), config
        self._whole = True
        self._ends: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        listening = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        try:
            async with Client(replace(self._config, server=f"https://127.0.0.1:{port}")) as client:
                yield client
        finally:
            listening.close()
            self.cut()

    def cut(self) -> None:
        """Requests are interrupted, and none gets through."""
        self._whole = False
        for end in self._ends:
            end.transport.abort()

    def fixes(self) -> None:
        self._whole = True

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = {writer}
        self._ends |= ends
        try:
            if not self._whole:
                return
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
            ends.add(far_writer)
            self._ends |= ends
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(carry(reader, far_writer))
                tasks.create_task(carry(far_reader, writer))
        except OSError:
            pass
        finally:
            self._ends -= ends
            for end in ends:
                end.transport.abort()


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()
