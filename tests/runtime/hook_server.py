"""A hook server as Koordinator's agent is one: it answers what a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio

from koord.runtime.hook_service import SERVICE
from koord.runtime.stages import Stage
from tests.waiting import forever


def register(folder: Path, socket: Path, policy: str = "Ignore", **more: str) -> None:
    """For all stages."""
    folder.mkdir(exist_ok=True)
    body = {"remote-endpoint": str(socket), "failure-policy": policy, "runtime-hooks": [*Stage], **more}
    (folder / "koordlet.json").write_text(json.dumps(body))


class HookServer(grpc.GenericRpcHandler):
    def __init__(self, answer: Callable[[str, bytes], Awaitable[bytes]]) -> None:
        self._answer = answer
        self.asked: list[tuple[str, bytes]] = []

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        service, _, method = handler_call_details.method.lstrip("/").partition("/")
        if service != SERVICE:
            return None

        async def answer(request: bytes, context: object) -> bytes:
            self.asked.append((method, request))
            return await self._answer(method, request)

        return grpc.unary_unary_rpc_method_handler(answer)


@asynccontextmanager
async def hook_server(socket: Path, answer: Callable[[str, bytes], Awaitable[bytes]]) -> AsyncIterator[HookServer]:
    server, handler = grpc.aio.server(), HookServer(answer)
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield handler
    finally:
        await server.stop(0)


async def hang(method: str, request: bytes) -> bytes:
    await forever()
    return b""
