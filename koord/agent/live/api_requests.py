"""Requests to the API server and the copilot, made beside the rounds: a round puts a request here and goes on.

Requests wait under a key, and a newer one replaces a waiting one of the same key. A few run at once, so that one that
hangs does not hold up the rest; each request limits its own time. The queue is bounded: when it is full, `put` refuses.

    async with background_task(requests.run(), name="api-requests"):
        requests.put(("evict", uid), partial(evictor.ask, eviction))

A request that fails with anything unexpected ends `run`, and with it the component: it does not go on with a part dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final, TypeAlias

from koord.kube.background_task import background_task

AT_ONCE: Final = 4
MOST_WAITING: Final = 256

Key: TypeAlias = tuple[str, ...]
Request: TypeAlias = Callable[[], Awaitable[None]]


class ApiRequests:
    def __init__(self, at_once: int = AT_ONCE, most_waiting: int = MOST_WAITING) -> None:
        self._at_once, self._most_waiting = at_once, most_waiting
        self._waiting: dict[Key, Request] = {}
        self._under_way: set[Key] = set()
        self._changed = asyncio.Event()

    def __contains__(self, key: Key) -> bool:
        return key in self._waiting or key in self._under_way

    def put(self, key: Key, request: Request) -> bool:
        """False if the queue is full."""
        if key not in self._waiting and len(self._waiting) >= self._most_waiting:
            return False
        self._waiting[key] = request
        self._changed.set()
        return True

    async def run(self) -> None:
        """Until cancelled."""
        async with AsyncExitStack() as workers:
            for number in range(self._at_once):
                await workers.enter_async_context(background_task(self._work(), name=f"api-requests-{number}"))
            await asyncio.Event().wait()

    async def _work(self) -> None:
        while True:
            key = self._next()
            if key is None:
                self._changed.clear()
                await self._changed.wait()
                continue
            self._under_way.add(key)
            try:
                await self._waiting.pop(key)()
            finally:
                self._under_way.discard(key)
                self._changed.set()

    def _next(self) -> Key | None:
        """The oldest whose key has no request running."""
        return next((key for key in self._waiting if key not in self._under_way), None)
