"""The listening socket: silent clients are cut off (`koord.kube.listening`), and answers under way are finished when
the server stops."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable

from koord.kube import listening as ports
from koord_minicluster.apiserver.wire.connection import Connection, Handler

STOP_WITHIN_S = 2.0


@contextlib.asynccontextmanager
async def listening(
    handle: Handler, context: ssl.SSLContext, host: str, port: int, before_stop: Callable[[], None]
) -> AsyncIterator[tuple[str, int]]:
    """Answer requests; gives the address. `before_stop` ends what would otherwise never end by itself."""
    connections: set[Connection] = set()
    idle_s = ports.IDLE_WITHIN_S
    listener = await ports.listen(lambda: Connection(handle, connections, idle_s), host, port, context)
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
