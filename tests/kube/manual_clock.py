"""A clock that a test owns: time passes when told to, and sleeping takes no time."""

from __future__ import annotations

import asyncio


class ManualClock:
    """`sleeps` has every wait; each moves the time on at once."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.time = now
        self.sleeps: list[float] = []

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += seconds

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)
