"""CPU amounts as the kernel takes them: shares, weights and quotas.

Milli-cores are the words' unit; the kernel has shares (cgroup v1), weights (v2, over a narrower range, so that there
and back is not the identity) and a quota per period. A quota is always given in microseconds of one
period.
"""

from __future__ import annotations

from typing import Final

PERIOD_US: Final = 100_000
LONG_PERIOD_US: Final = 1_000_000
"""The longest that kernels take."""
UNLIMITED: Final = -1
"""A quota or a memory limit that is none."""

LEAST_SHARES: Final = 2
MOST_SHARES: Final = 262_144
LEAST_WEIGHT: Final = 1
MOST_WEIGHT: Final = 10_000
LEAST_QUOTA_US: Final = 1_000
MOST_QUOTA_US: Final = 1 << 40
MOST_MEMORY_BYTES: Final = 1 << 62
"""More than any machine has, and still what kernels and container runtimes take."""


def shares_of_milli(cpu_milli: int) -> int:
    return min(max(cpu_milli * 1024 // 1000, LEAST_SHARES), MOST_SHARES)


def quota_of_milli(cpu_milli: int) -> int:
    """Microseconds per period; no limit where there is none."""
    if cpu_milli <= 0:
        return UNLIMITED
    return min(max(cpu_milli * PERIOD_US // 1000, LEAST_QUOTA_US), MOST_QUOTA_US)


def weight_of_shares(shares: int) -> int:
    if not LEAST_SHARES <= shares <= MOST_SHARES:
        raise ValueError(f"{shares} are no CPU shares: valid is {LEAST_SHARES} to {MOST_SHARES}")
    return 1 + (shares - LEAST_SHARES) * (MOST_WEIGHT - 1) // (MOST_SHARES - LEAST_SHARES)


def shares_of_weight(weight: int) -> int:
    if not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
        raise ValueError(f"{weight} is no CPU weight: valid is {LEAST_WEIGHT} to {MOST_WEIGHT}")
    return (weight - 1) * (MOST_SHARES - LEAST_SHARES) // (MOST_WEIGHT - 1) + LEAST_SHARES
