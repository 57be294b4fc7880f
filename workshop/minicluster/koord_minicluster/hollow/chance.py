"""Chance that can be repeated: a number from a seed and names, never from a stream.

Whatever is asked in whatever order, the same question has the same answer: replaying, restarting or reordering
changes nothing.
"""

from __future__ import annotations

import hashlib


def chance(seed: int, *parts: object) -> float:
    """A number in [0, 1) that depends on the seed and the parts alone."""
    text = "\x1f".join(map(str, (seed, *parts)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big") / 2**56


def spread(seed: int, *parts: object, around: float = 1.0, by: float = 0.5) -> float:
    """A number within `by` (a share) of `around`: delays that do not march in step."""
    return around * (1 - by + 2 * by * chance(seed, *parts))
