"""Time as the shells see it: a wall clock, a clock that never jumps, and a way to wait.

Everything in koord that waits or stamps takes a `Clock`, so that a test can own time. Decisions take `now_s` instead.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What a shell needs of time."""

    def now(self) -> float:
        """Seconds since the epoch: for stamps that others read."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow: for durations and deadlines."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own time."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
