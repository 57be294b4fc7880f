"""A port that strangers can reach: how long a silent client is borne with, and how many descriptors there are for all.

A client that connects and says nothing costs a descriptor, no more: after `HANDSHAKE_WITHIN_S` without a handshake, or
`IDLE_WITHIN_S` without a whole request head, it is cut off; so is one that reads nothing of its answer for `UNREAD_S`.
A request that is malformed is answered so, and logged at level debug alone: strangers fill no logs.
The API server, the webhooks, kubelets and the health endpoints of all components listen by this.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiohttp import web

log = logging.getLogger(__name__)

HANDSHAKE_WITHIN_S = 10.0
IDLE_WITHIN_S = 90.0
BODY_WITHIN_S = 30.0
"How long a request's body may take to arrive."
UNREAD_S = 30.0
"How long a client may take nothing of an answer that waits for it."
BACKLOG: Final = 4096
MOST_DESCRIPTORS: Final = 65536


async def listen(
    protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int, context: ssl.SSLContext | None
) -> asyncio.Server:
    """Accept connections, with TLS where there is a context. How long a request head may take is the protocol's."""
    allow_many_descriptors()
    listener = await asyncio.get_running_loop().create_server(
        protocol,
        host,
        port,
        ssl=context,
        ssl_handshake_timeout=HANDSHAKE_WITHIN_S if context is not None else None,
        backlog=BACKLOG,
    )
    for listening_socket in listener.sockets:
        # The kernel sees how far a client has read, which the loop's buffers under TLS do not show. A connection takes
        # this over from the socket that it came by: a slow reader goes on, one that reads nothing is cut off.
        listening_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNREAD_S * 1000))
    return listener


@contextlib.asynccontextmanager
async def serving(
    app: web.Application, host: str, port: int, context: ssl.SSLContext | None, *, stop_within_s: float
) -> AsyncIterator[int]:
    """Serve an application; gives the port in use. Answers under way have `stop_within_s` at the end."""
    from aiohttp import web

    runner = web.AppRunner(app, access_log=None, shutdown_timeout=stop_within_s, keepalive_timeout=IDLE_WITHIN_S)
    async with listening(runner, host, port, context) as port_in_use:
        yield port_in_use


@contextlib.asynccontextmanager
async def listening(runner: web.BaseRunner, host: str, port: int, context: ssl.SSLContext | None) -> AsyncIterator[int]:
    """Serve what a runner has; gives the port in use. The runner's `keepalive_timeout` bounds request heads."""
    _keep_strangers_out_of_the_log()
    await runner.setup()
    try:
        assert runner.server is not None
        listener = await listen(runner.server, host, port, context)
        try:
            yield listener.sockets[0].getsockname()[1]
        finally:
            listener.close()
    finally:
        await runner.cleanup()


def _keep_strangers_out_of_the_log() -> None:
    # A filter is there once, however often it is added.
    logging.getLogger("aiohttp.server").addFilter(_is_our_fault)


def _is_our_fault(record: logging.LogRecord) -> bool:
    """What aiohttp logs about requests, with a traceback, also where it is the request that is malformed."""
    from aiohttp.http_exceptions import HttpProcessingError
    from aiohttp.web import RequestPayloadError

    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError | RequestPayloadError):
        log.debug("refused a malformed request: %s", str(error).partition("\n")[0][:200])
        return False
    return True


def allow_many_descriptors() -> None:
    """Every client takes a descriptor; the usual 1,024 are few, and the hard limit is the administrator's word."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(MOST_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # Some systems name a hard limit that they do not grant.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
