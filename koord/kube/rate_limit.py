"""A client-side limit on calls: a burst, then a fixed number per second.

Callers are served in order, so that none starves. A caller that gives up while waiting has spent its turn.
"""

from __future__ import annotations

from koord.kube.clock import Clock
from koord.kube.token_bucket import TokenBucket


class RateLimit:
    """`await turn()` before each call."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._bucket = TokenBucket(qps, burst)
        self._clock = clock

    async def turn(self) -> None:
        """Returns when the caller may go on."""
        wait_s = self._bucket.reserve(self._clock.monotonic())
        if wait_s > 0:
            await self._clock.sleep(wait_s)
