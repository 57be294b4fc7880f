"""LAR's flow rules: how cores move between pools, in rounds of 5 s.

Pools are in order of priority; the last one is the lowest and holds the rest. Size A, use U, requests R, band [L, H]
with the middle M, load U/A.

    want     A inside the band, else U/M; with a recommendation K at least K/H; between the floor and R
    shrink   only after the load was below L for 6 rounds, by at most a tenth of A a round
    normal   from a lower pool, the lowest first, at most what it does not need for its band: A - U/H
    forced   still short, and the load above H for 2 rounds or once above 0.9: down to the floor of lower pools
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

FLOOR_MILLI: Final = 1000.0
SHRINKS_AFTER: Final = 6
SHRINKS_BY: Final = 0.1
FORCED_AFTER: Final = 2
CRITICAL: Final = 0.9


class Band(NamedTuple):
    low: float
    high: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


class LarPool(NamedTuple):
    band: Band
    size: float
    used: float
    requests: float
    "Of the lowest pool it does not count."
    recommended: float = 0.0
    "Predicted peak K; 0 without one."
    rounds_low: int = 0
    rounds_high: int = 0

    @property
    def load(self) -> float:
        if not self.size:
            return 1.0 if self.used else 0.0
        return self.used / self.size

    @property
    def floor(self) -> float:
        return FLOOR_MILLI if self.requests > 0 else 0.0


def wanted(pool: LarPool) -> float:
    size = pool.size
    if not pool.band.low <= pool.load <= pool.band.high:
        size = pool.used / pool.band.middle
    size = max(size, pool.recommended / pool.band.high)
    return min(max(size, pool.floor), max(pool.requests, pool.floor))


def flow(pools: Sequence[LarPool], rounds: int = 1) -> tuple[LarPool, ...]:
    """The pools after that many rounds of the same load. What the first pool frees goes to the lowest one."""
    sizes = [pool.size for pool in pools]
    after = [_counted(pool, rounds) for pool in pools]
    lowest = len(pools) - 1
    for place in range(lowest):
        pool = after[place]
        want = wanted(pool._replace(size=sizes[place]))
        if want < sizes[place]:
            shrinking = min(rounds, pool.rounds_low - SHRINKS_AFTER + 1) if pool.load < pool.band.low else rounds
            new = max(want, sizes[place] * (1 - SHRINKS_BY) ** max(shrinking, 0))
            sizes[lowest] += sizes[place] - new
            sizes[place] = new
            continue
        need = want - sizes[place]
        is_forced = pool.load > CRITICAL or pool.rounds_high >= FORCED_AFTER
        for forced in (False, True) if is_forced else (False,):
            for lower in range(lowest, place, -1):
                given = min(need, _spare(after[lower], sizes[lower], forced=forced))
                sizes[lower] -= given
                sizes[place] += given
                need -= given
    return tuple(pool._replace(size=size) for pool, size in zip(after, sizes, strict=True))


def _counted(pool: LarPool, rounds: int) -> LarPool:
    return pool._replace(
        rounds_low=pool.rounds_low + rounds if pool.load < pool.band.low else 0,
        rounds_high=pool.rounds_high + rounds if pool.load > pool.band.high else 0,
    )


def _spare(pool: LarPool, size: float, *, forced: bool) -> float:
    kept = FLOOR_MILLI if forced else pool.used / pool.band.high
    return max(0.0, size - kept)
