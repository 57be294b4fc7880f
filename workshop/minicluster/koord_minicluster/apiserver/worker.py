"""A thread that makes calls for the event loop, one after the other.

As an executor with one thread would, with a third of the way: no future of its own, no locks beside the queue's.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """`call` from the event loop; `close` waits for what was called."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._calls.put((future, function))
        return future

    def close(self) -> None:
        self._calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (called := self._calls.get()) is not None:
            future, function = called
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                _tell(future, future.set_exception, error)
            else:
                _tell(future, future.set_result, result)
            # Keep no references while the thread waits.
            del called, future, function


def _tell(future: asyncio.Future[Any], settle: Callable[[Any], None], outcome: object) -> None:
    def tell() -> None:
        if not future.done():
            settle(outcome)

    loop = future.get_loop()
    if not loop.is_closed():
        loop.call_soon_threadsafe(tell)
