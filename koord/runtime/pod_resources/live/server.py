"""Serves kubelet's pod-resources API on a socket of koord's: every call goes to kubelet, and answers to List and Get
come back with what the scheduler gave.

A socket that was removed or replaced is not served any more, though its process listens: the process ends then, and
the agent starts another one.

Messages pass as bytes, so that methods and fields of other versions are served as well. Only root may connect: what
kubelet tells, it tells root alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc
import grpc.aio
import msgspec

from koord.api.machinery.codec import UNREADABLE
from koord.api.machinery.protobuf import MessageError
from koord.api.protocol.pod_resources import Given, GivenToPods
from koord.kube.unix_sockets import root_only
from koord.runtime.pod_resources.merge import with_given

log = logging.getLogger(__name__)

ADDED: Final = frozenset({"/v1.PodResourcesLister/List", "/v1.PodResourcesLister/Get"})
LONGEST_S: Final = 10.0
MOST_BYTES: Final = 16 << 20
"""Of a message, as much as kubelet takes."""
LOOK_S: Final = 2.0
"""How often it is looked whether the socket is still there."""
REPLACED: Final = 4
"""How the process ends where it is not."""
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", MOST_BYTES),
    ("grpc.so_reuseport", 0),
)


@dataclass(slots=True)
class GivenFile:
    """The agent's file, read again when it is replaced. If it cannot be read, the last content stays."""

    path: Path
    _known: Mapping[str, Given] = field(default_factory=dict)
    _read: tuple[int, int] | None = None

    def now(self) -> Mapping[str, Given]:
        try:
            status = self.path.stat()
            seen = status.st_ino, status.st_mtime_ns
            if seen != self._read:
                self._known = msgspec.json.decode(self.path.read_bytes(), type=GivenToPods).pods
                self._read = seen
        except FileNotFoundError:
            self._known, self._read = {}, None
        except (OSError, *UNREADABLE) as error:
            log.warning("%s cannot be read, what was known stays: %s", self.path, error)
        return self._known


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, kubelet: Path, channel: grpc.aio.Channel, given: Callable[[], Mapping[str, Given]]) -> None:
        self._kubelet, self._channel, self._given = kubelet, channel, given

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        method = handler_call_details.method

        async def call(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            # Of a call without a deadline it is nothing, whatever its type says.
            left_s: float | None = context.time_remaining()
            limit_s = LONGEST_S if left_s is None else max(min(left_s, LONGEST_S), 0.0)
            try:
                answer = await self._asked(method, request, limit_s)
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "")
            if method not in ADDED:
                return answer
            try:
                return with_given(answer, self._given())
            except MessageError as error:
                log.warning("the answer to %s is passed on as it came: %s", method, error)
                return answer

        return grpc.unary_unary_rpc_method_handler(call)

    async def _asked(self, method: str, request: bytes, limit_s: float) -> bytes:
        try:
            return await _call(self._channel, method, request, limit_s)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
        # The channel rests after a failure, for minutes in the end: a kubelet that is back is not found by it.
        async with _channel(self._kubelet, ("grpc.use_local_subchannel_pool", 1)) as fresh:
            return await _call(fresh, method, request, limit_s)


def _channel(kubelet: Path, *options: tuple[str, int]) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(f"unix://{kubelet}", options=(*_OPTIONS, *options))


async def _call(channel: grpc.aio.Channel, method: str, request: bytes, limit_s: float) -> bytes:
    ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
    return await ask(request, timeout=limit_s)


async def serve(kubelet: Path, socket: Path, given: Path, is_over: asyncio.Event) -> None:
    """Until `is_over`. Raises BadInput where it cannot listen."""
    async with _channel(kubelet) as channel:
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((_Handler(kubelet, channel, GivenFile(given).now),))
        with root_only(socket):
            server.add_insecure_port(f"unix://{socket}")
        await server.start()
        log.info("serving kubelet's pod resources at %s", socket)
        await _served(socket, is_over)
        await server.stop(1.0)


async def _served(socket: Path, is_over: asyncio.Event) -> None:
    """Until `is_over`. Ends the process where another has the path: gRPC would remove that one's socket on its way."""
    own = _identity(socket)
    while not is_over.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(is_over.wait(), LOOK_S)
        if not is_over.is_set() and _identity(socket) != own:
            log.warning("%s was removed or replaced", socket)
            os._exit(REPLACED)


def _identity(socket: Path) -> tuple[int, int] | None:
    try:
        status = socket.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


async def until_agent_ends(is_over: asyncio.Event) -> None:
    """The agent holds the other end of this process's input, which closes however the agent ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    await reader.read()
    is_over.set()


async def main(kubelet: str, socket: str, given: str) -> None:
    is_over = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(until_agent_ends(is_over), name="agent")
        await serve(Path(kubelet), Path(socket), Path(given), is_over)
        watching.cancel()
