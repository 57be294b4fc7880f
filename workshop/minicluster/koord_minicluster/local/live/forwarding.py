"""Connections to the ports of a pod: carried between a channel and the process of the pod that listens there."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from koord_minicluster.kubelet.live.channels import Channel
from koord_minicluster.kubelet.live.streaming import ForwardError
from koord_minicluster.local.listeners import Family, Listener, listener_of, listeners
from koord_minicluster.local.live import namespaces

CONNECT_WITHIN_S: Final = 10.0
CHUNK: Final = 32 << 10
_TABLES: Final[tuple[tuple[str, Family], ...]] = (("tcp", 4), ("tcp6", 6))
_FAMILIES: Final[dict[Family, socket.AddressFamily]] = {4: socket.AF_INET, 6: socket.AF_INET6}
_SOCKET: Final = re.compile(r"socket:\[(\d+)\]")


async def forward(pids: list[int], port: int, channel: Channel) -> None:
    """Until the process has nothing more to send. Raises ForwardError."""
    try:
        async with asyncio.timeout(CONNECT_WITHIN_S):
            connected = await asyncio.to_thread(_found, pids, port)
            if connected is None:
                raise ForwardError(f"no process of the pod listens on port {port}")
            listener, own = connected
            own.setblocking(False)
            try:
                await asyncio.get_running_loop().sock_connect(own, (listener.reached_at, port))
                reader, writer = await asyncio.open_connection(sock=own)
            except BaseException:
                own.close()
                raise
    except TimeoutError:
        raise ForwardError(f"port {port} did not take the connection within {CONNECT_WITHIN_S:g} seconds") from None
    except OSError as error:
        raise ForwardError(f"port {port} cannot be connected to: {error.strerror or error}") from error
    sending = asyncio.create_task(_send(channel, writer))
    try:
        while piece := await reader.read(CHUNK):
            await channel.write(piece)
    except ConnectionError as error:
        raise ForwardError(f"the connection to port {port} broke: {error.strerror or error}") from error
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()


async def _send(channel: Channel, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await channel.read():
            writer.write(piece)
            await writer.drain()
        writer.write_eof()


def _found(pids: list[int], port: int) -> tuple[Listener, socket.socket] | None:
    """The listener, and a socket to connect to it with, in its network."""
    for pid in pids:
        listener = listener_of(_sockets(pids), port, [*_listeners(pid)])
        if listener is not None:
            return listener, namespaces.socket_in(pid, _FAMILIES[listener.family])
    return None


def _listeners(pid: int) -> Iterable[Listener]:
    """Of the network that the process is in."""
    for table, family in _TABLES:
        with suppress(OSError), open(f"/proc/{pid}/net/{table}") as file:
            yield from listeners(file.read(), family)


def _sockets(pids: Iterable[int]) -> set[int]:
    """The inodes of the sockets that the processes have open. A process that has ended has none."""
    inodes: set[int] = set()
    for pid in pids:
        with suppress(OSError):
            for entry in os.scandir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    if (match := _SOCKET.fullmatch(os.readlink(entry.path))) is not None:
                        inodes.add(int(match[1]))
    return inodes
