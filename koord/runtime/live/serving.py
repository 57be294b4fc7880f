"""A gRPC server that ends well: calls that are under way are answered before it goes."""

from __future__ import annotations

import asyncio
from typing import Final

import grpc
import grpc.aio

GRACE_S: Final = 5.0


async def until_cancelled(server: grpc.aio.Server) -> None:
    """For a started server. Its own `wait_for_termination`, cancelled, would also cancel the `stop` that follows."""
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await server.stop(GRACE_S)
