"""The listening socket: TLS, how long a silent client is borne with, and the end in good order.

A client that connects and says nothing costs a descriptor, no more: after `HANDSHAKE_WITHIN_S` without a handshake, or
`IDLE_WITHIN_S` without a whole request head, it is cut off. Answers under way are finished when the server stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable

from koord.minicluster.apiserver.wire.connection import Connection, Handler

HANDSHAKE_WITHIN_S = 10.0
IDLE_WITHIN_S = 90.0
STOP_WITHIN_S = 2.0
BACKLOG = 4096
UNREAD_S = 30.0
"How long a client may take nothing of an answer that waits for it."


@contextlib.asynccontextmanager
async def listening(
    handle: Handler, context: ssl.SSLContext, host: str, port: int, before_stop: Callable[[], None]
) -> AsyncIterator[tuple[str, int]]:
    """Answer requests; gives the address. `before_stop` ends what would otherwise never end by itself."""
    _allow_many_connections()
    connections: set[Connection] = set()
    idle_s = IDLE_WITHIN_S
    listener = await asyncio.get_running_loop().create_server(
        lambda: Connection(handle, connections, idle_s),
        host,
        port,
        ssl=context,
        ssl_handshake_timeout=HANDSHAKE_WITHIN_S,
        backlog=BACKLOG,
    )
    for listening_socket in listener.sockets:
        # The kernel sees how far a client has read, which the loop's buffers under TLS do not show. A connection takes
        # this over from the socket that it came by: who reads slowly goes on, who reads nothing is cut off.
        listening_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNREAD_S * 1000))
    try:
        yield listener.sockets[0].getsockname()[:2]
    finally:
        listener.close()
        before_stop()
        await _stopped(connections)


async def _stopped(connections: set[Connection]) -> None:
    """Let answers under way be finished, for a while."""
    for connection in list(connections):
        connection.stop()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STOP_WITHIN_S):
            for connection in list(connections):
                await connection.ended.wait()
    for connection in list(connections):
        connection.abort()
    # Whoever was cut off notices in the next step of the loop.
    await asyncio.sleep(0)


def _allow_many_connections() -> None:
    """Every client takes a descriptor; the usual 1,024 are few, and the hard limit is the administrator's word."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Some systems name a hard limit that they do not grant.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
