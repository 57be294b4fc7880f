"""Object limiters: how many pods of one workload, or of one namespace, may be moved in a time.

A bucket of tokens for each: a move takes one, and they come back evenly, `most` of them in `duration_s`. A bucket that
nobody has used for long is full again, so that it is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

FORGET_AFTER: Final = 1.5
"""Durations."""


@dataclass(frozen=True, slots=True)
class Bucket:
    tokens: float
    at_s: float


Buckets: TypeAlias = Mapping[str, Bucket]


@dataclass(frozen=True, slots=True)
class Limit:
    """0 of `most`: no limit."""

    most: int
    duration_s: float
    burst: int = 1

    def tokens(self, bucket: Bucket | None, now_s: float) -> float:
        """What there is to take now."""
        burst = float(max(1, self.burst))
        if bucket is None:
            return burst
        return min(burst, bucket.tokens + max(0.0, now_s - bucket.at_s) * self.most / self.duration_s)

    @property
    def is_off(self) -> bool:
        return self.most <= 0 or self.duration_s <= 0


def wait_s(buckets: Buckets, key: str, limit: Limit, now_s: float) -> float:
    """How long until another may go; 0: now."""
    if limit.is_off:
        return 0.0
    missing = 1.0 - limit.tokens(buckets.get(key), now_s)
    return max(0.0, missing * limit.duration_s / limit.most)


def taken(buckets: Buckets, key: str, limit: Limit, now_s: float) -> Buckets:
    """The buckets after a move."""
    if limit.is_off:
        return buckets
    kept = {name: each for name, each in buckets.items() if now_s - each.at_s <= FORGET_AFTER * limit.duration_s}
    return {**kept, key: Bucket(limit.tokens(buckets.get(key), now_s) - 1.0, now_s)}
