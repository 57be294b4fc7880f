"""The same work for many items, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def for_each(items: Iterable[T], work: Callable[[T], Awaitable[object]], *, at_once: int) -> None:
    """Awaits `work` for every item. The workers share one iterator: a thousand items need no thousand tasks."""
    pending = iter(items)

    async def worker() -> None:
        for item in pending:
            await work(item)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(at_once):
            tasks.create_task(worker())
