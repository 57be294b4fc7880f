"""Chance that can be repeated: a number from a seed and names, never from a running stream.

The same question has the same answer in whatever order questions are asked, so a resumed run repeats itself.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def chance(seed: int, *key: object) -> float:
    """A number in [0, 1) that depends on the seed and the key alone."""
    text = "\x1f".join(map(str, (seed, *key)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big") / 2**56


def between(low: float, high: float, share: float) -> float:
    """Uniform between two bounds, by a number in [0, 1)."""
    return low + (high - low) * share


def between_by_ratio(low: float, high: float, share: float) -> float:
    """As often between 1 and 2 as between 2 and 4: for sizes, where few are large."""
    return low * math.exp(math.log(high / low) * share)


def two_digits(value: float) -> int:
    """The nearest number above 0 that people would write: 1300 for 1268."""
    digits = math.pow(10, max(0, math.floor(math.log10(max(value, 1))) - 1))
    return max(1, round(round(value / digits) * digits))


def choice(options: Sequence[T], share: float) -> T:
    return options[int(share * len(options))]
