"""The listening socket: TLS, how long a silent client is borne with, and the end in good order.

A client that connects and says nothing costs a descriptor, no more: after `HANDSHAKE_WITHIN_S` without a handshake, or
`IDLE_WITHIN_S` without a whole request head, it is cut off. Answers under way are finished when the server stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web

HANDSHAKE_WITHIN_S = 10.0
IDLE_WITHIN_S = 90.0
STOP_WITHIN_S = 2.0
BACKLOG = 4096

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def listening(
    handle: Handler, context: ssl.SSLContext, host: str, port: int, before_stop: Callable[[], None]
) -> AsyncIterator[tuple[str, int]]:
    """Answer requests; gives the address. `before_stop` ends what would otherwise never end by itself."""
    _allow_many_connections()
    server = web.Server(handle, access_log=None, keepalive_timeout=IDLE_WITHIN_S)
    listener = await asyncio.get_running_loop().create_server(
        server, host, port, ssl=context, ssl_handshake_timeout=HANDSHAKE_WITHIN_S, backlog=BACKLOG
    )
    try:
        yield listener.sockets[0].getsockname()[:2]
    finally:
        listener.close()
        before_stop()
        server.pre_shutdown()
        await server.shutdown(STOP_WITHIN_S)


def _allow_many_connections() -> None:
    """Every client takes a descriptor; the usual 1,024 are few, and the hard limit is the administrator's word."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Some systems name a hard limit that they do not grant.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
