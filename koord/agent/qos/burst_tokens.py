"""For how long a container may keep a raised quota: tokens that it spends above its limit and earns well below it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

EARNS_BELOW_PERCENT: Final = 60


@dataclass(frozen=True, slots=True)
class Tokens:
    """In percent-seconds of the container's limit."""

    capacity: int
    left: float
    at_s: float
    period_s: int = 0

    @staticmethod
    def capacity_of(period_s: int, percent: int) -> int:
        return period_s * (percent - 100)

    @classmethod
    def fresh(cls, period_s: int, percent: int, seed: int, container: str, now_s: float) -> Tokens:
        """Begins with up to half of the capacity, so that the containers of a node do not all run out at once."""
        capacity = cls.capacity_of(period_s, percent)
        digest = blake2b(f"{seed}/{container}".encode(), digest_size=8).digest()
        return cls(capacity, capacity * int.from_bytes(digest) / 2**65, now_s, period_s)

    @property
    def allows(self) -> bool:
        return self.left > 0

    def is_over(self, now_s: float) -> bool:
        """Nobody has asked for two periods: then it begins afresh."""
        return now_s - self.at_s > 2 * self.period_s

    def after(self, used_percent: float, now_s: float) -> Tokens:
        """Time has passed at this usage."""
        seconds = int(now_s - self.at_s)
        if seconds <= 0:
            return self
        change = 0.0
        if used_percent >= 100:
            change = -(used_percent - 100) * seconds
        elif used_percent < EARNS_BELOW_PERCENT:
            change = (100 - used_percent) * seconds
        left = min(max(self.left + change, -self.capacity), self.capacity)
        return replace(self, left=left, at_s=now_s)
