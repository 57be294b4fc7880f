"""Token bucket: may something happen now, or how long must it wait?

A bucket holds at most `burst` tokens and gains `rate_per_s` of them each second. `take` spends one if there is one;
`reserve` always spends one and says how long to wait for it. Time is passed in.
"""

from __future__ import annotations


class TokenBucket:
    __slots__ = ("_at", "_tokens", "burst", "rate_per_s")

    def __init__(self, rate_per_s: float, burst: int) -> None:
        if rate_per_s <= 0 or burst < 1:
            raise ValueError(f"rate must be above 0 and burst at least 1, not {rate_per_s} and {burst}")
        self.rate_per_s = rate_per_s
        self.burst = burst
        self._tokens = float(burst)
        self._at: float | None = None

    def take(self, now: float) -> bool:
        """Spends a token if there is one."""
        self._refill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def reserve(self, now: float) -> float:
        """Spends a token, on credit if need be. Returns the seconds until it is really there."""
        self._refill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self.rate_per_s)

    def full(self, now: float) -> bool:
        """Whether the bucket is as good as new, and so need not be remembered."""
        self._refill(now)
        return self._tokens >= self.burst

    def _refill(self, now: float) -> None:
        # A clock that went back must not take tokens away.
        if self._at is not None and now > self._at:
            self._tokens = min(float(self.burst), self._tokens + (now - self._at) * self.rate_per_s)
        self._at = now if self._at is None else max(self._at, now)
