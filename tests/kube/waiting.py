"""Waiting in tests for something that another task or process will bring about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def eventually(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Returns once `condition` holds; TimeoutError if it never does."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - the conditions of tests have no event to wait on
            await asyncio.sleep(0.005)
