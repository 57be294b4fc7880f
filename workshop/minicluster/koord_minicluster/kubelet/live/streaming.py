"""A streaming request, from its upgrade to its end: exec and attach (a command's streams), and port-forward.

The work lasts as long as the client: when the client is gone, the work is cancelled, and when the work is done, the
connection is closed. `run` and `forward` are the node's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from koord_minicluster.kubelet import streams
from koord_minicluster.kubelet.live.channels import (
    Channel,
    Connection,
    Pipe,
    SpdyChannels,
    Tunnel,
    WebSocketChannels,
    accepted,
    is_spdy,
    is_websocket,
    upgraded,
)
from koord_minicluster.kubelet.streams import BadStreamRequest, CommandOptions

log = logging.getLogger(__name__)

OPENED_WITHIN_S: Final = 30.0
"""How long a client may take to open the streams that it announced."""
PING_S = 5.0
"""How often a client is written to, so that the kernel notices that it is gone even while it is not read."""


class ForwardError(Exception):
    """A port cannot be forwarded. The message has the reason."""


@dataclass(frozen=True, slots=True)
class CommandStreams:
    """The channels of a command; those that the client does not want are None."""

    stdin: Channel | None
    stdout: Channel | None
    stderr: Channel | None
    resize: Channel | None
    tty: bool


RunCommand = Callable[[CommandStreams], Awaitable[bytes]]
"""Runs until the command has ended; gives the last word on the error channel."""

Forward = Callable[[int, Channel], Awaitable[None]]
"""Carries bytes between a port of the pod and a channel. Raises ForwardError."""


async def serve_command(request: web.Request, options: CommandOptions, run: RunCommand) -> web.StreamResponse:
    if is_websocket(request):
        ws = await accepted(request, streams.COMMAND_PROTOCOLS)
        connection = WebSocketChannels(ws, len(streams.CHANNELS))
        channels = dict(zip(streams.CHANNELS, connection.channels, strict=True))
        return await _serve(connection, _command(channels, options, run))
    if not is_spdy(request):
        raise _not_upgraded()
    opened: dict[str, Channel] = {}
    are_all_open = asyncio.Event()

    async def on_open(stream: int, headers: Mapping[str, str], channel: Channel) -> None:
        opened.setdefault(headers.get("streamtype", ""), channel)
        if opened.keys() >= options.channels:
            are_all_open.set()

    async def work() -> None:
        async with asyncio.timeout(OPENED_WITHIN_S):
            await are_all_open.wait()
        await _command(opened, options, run)

    return await _serve(SpdyChannels(await upgraded(request, streams.V4), on_open), work())


async def _command(channels: Mapping[str, Channel], options: CommandOptions, run: RunCommand) -> None:
    wanted = {name: channels[name] if name in options.channels else None for name in streams.CHANNELS}
    own = CommandStreams(
        wanted[streams.STDIN], wanted[streams.STDOUT], wanted[streams.STDERR], wanted[streams.RESIZE], options.tty
    )
    status = await run(own)
    error = channels[streams.ERROR]
    await error.write(status)
    for channel in (own.stdout, own.stderr, error):
        if channel is not None:
            await channel.close()


async def serve_forward(request: web.Request, forward: Forward) -> web.StreamResponse:
    """Each connection to a port is a pair of channels: one for data, one for what went wrong."""
    if is_websocket(request):
        named = request.query.getall("port", ())
        # Read before the upgrade: afterwards there is no status to answer with.
        ports = streams.ports(named) if named else []
        ws = await accepted(request, streams.FORWARD_PROTOCOLS if ports else streams.FORWARD_PROTOCOLS[:1])
        if ws.ws_protocol == streams.TUNNEL:
            return await _forward_pairs(Tunnel(ws), forward)
        return await _forward_named(ws, ports, forward)
    if not is_spdy(request):
        raise _not_upgraded()
    return await _forward_pairs(await upgraded(request, streams.FORWARD), forward)


async def _forward_named(ws: web.WebSocketResponse, ports: Sequence[int], forward: Forward) -> web.StreamResponse:
    """The ports are in the request, and each is connected to once."""
    connection = WebSocketChannels(ws, 2 * len(ports))

    async def one(port: int, data: Channel, error: Channel) -> None:
        number = port.to_bytes(2, "little")
        await data.write(number)
        await error.write(number)
        await _forward(port, data, error, forward)

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            for index, port in enumerate(ports):
                data, error = connection.channels[2 * index : 2 * index + 2]
                group.create_task(one(port, data, error))

    return await _serve(connection, work())


async def _forward_pairs(pipe: Pipe, forward: Forward) -> web.StreamResponse:
    """The client opens a pair of streams for each connection."""
    pairs: dict[str, dict[str, Channel]] = {}
    complete: asyncio.Queue[tuple[int, Channel, Channel]] = asyncio.Queue()

    async def on_open(stream: int, headers: Mapping[str, str], channel: Channel) -> None:
        kind = headers.get("streamtype", "")
        # Old clients number no requests: they open the two streams one after the other.
        request_id = headers.get("requestid") or str(stream if kind == "error" else stream - 2)
        try:
            port = streams.port_number(headers.get("port", ""))
        except BadStreamRequest as error:
            await channel.write(str(error).encode())
            await channel.close()
            return
        pair = pairs.setdefault(request_id, {})
        pair[kind] = channel
        if pair.keys() >= {"data", "error"}:
            del pairs[request_id]
            complete.put_nowait((port, pair["data"], pair["error"]))

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(_forward(*await complete.get(), forward))

    return await _serve(SpdyChannels(pipe, on_open), work())


async def _forward(port: int, data: Channel, error: Channel, forward: Forward) -> None:
    with suppress(ConnectionError):
        try:
            await forward(port, data)
        except ForwardError as failure:
            await error.write(f"error forwarding port {port}: {failure}".encode())
        await data.close()
        await error.close()


async def _serve(connection: Connection, work: Coroutine[None, None, object]) -> web.StreamResponse:
    """Until the work is done or the client is gone, which is found by reading from it or by writing to it."""
    working, receiving = asyncio.create_task(work), asyncio.create_task(connection.receive())
    pinging = asyncio.create_task(_ping(connection))
    tasks = {working, receiving, pinging}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ConnectionError | TimeoutError):
            log.error("a stream has failed", exc_info=error)
    with suppress(ConnectionError):
        await connection.close()
    return connection.response


async def _ping(connection: Connection) -> None:
    while True:
        await asyncio.sleep(PING_S)
        await connection.ping()


def _not_upgraded() -> web.HTTPException:
    return web.HTTPBadRequest(text="this request needs an upgrade to a WebSocket or to SPDY/3.1\n")
