"""An event loop whose time jumps ahead while nothing happens: hours of a cluster pass in minutes.

All that a process does in it must be done by tasks of this loop, or in its executors. `time.time()`, `time.monotonic()`
and the clock since boot follow the loop. What is on its way through a loopback socket arrives before time passes.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, Final, TypeVar, TypeVarTuple

from koord_minicluster.apiserver.worker import Worker

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

ARRIVES_S: Final = 0.0005
"""What was sent over loopback arrives within this real time."""
LOOK_S: Final = 0.005
"""How often to look, in real time, whether a thread has ended."""


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        while not events and (timeout is None or timeout > 0):
            if timeout is not None and not self._loop.threads:
                if events := super().select(ARRIVES_S):
                    break
                self._loop.now_s += timeout
                return list(super().select(0))
            events = super().select(LOOK_S)
        return list(events)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.now_s = time.monotonic()
        self.threads = 0
        "Calls in executors that have not ended."
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.now_s

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        return self.awaited(super().run_in_executor(executor, func, *args))

    def awaited(self, future: asyncio.Future[T]) -> asyncio.Future[T]:
        """A thread settles the future: no time passes until then."""
        self.threads += 1
        future.add_done_callback(self._ended)
        return future

    def _ended(self, future: asyncio.Future[Any]) -> None:
        self.threads -= 1


@contextmanager
def _clocks_follow(loop: VirtualLoop) -> Iterator[None]:
    ahead_s = time.time() - loop.now_s
    of_clock = time.clock_gettime

    def clock_gettime(clock: int) -> float:
        return loop.now_s if clock == time.CLOCK_BOOTTIME else of_clock(clock)

    call = Worker.call

    def awaited_call(worker: Worker, function: Callable[[], Any]) -> asyncio.Future[Any]:
        return loop.awaited(call(worker, function))

    changes: tuple[tuple[Any, str, Any], ...] = (
        (time, "time", lambda: loop.now_s + ahead_s),
        (time, "monotonic", loop.time),
        (time, "clock_gettime", clock_gettime),
        (Worker, "call", awaited_call),
    )
    saved = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    for owner, name, follows in changes:
        setattr(owner, name, follows)
    try:
        yield
    finally:
        for owner, name, own in saved:
            setattr(owner, name, own)


def run(main: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run, in virtual time."""
    loop = VirtualLoop()
    with _clocks_follow(loop), asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main)
