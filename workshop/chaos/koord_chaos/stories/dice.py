"""Random choices that stay the same for ever: seeds are recorded with what was seen for them.

Only `random()` of Python's generator is promised not to change between versions, so everything is made of it.
Hypothesis can play the generator, and then shrinks what it chose.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    def __init__(self, source: random.Random | int) -> None:
        self._source = random.Random(source) if isinstance(source, int) else source

    def chance(self, probability: float) -> bool:
        """True so often. A source that always says 0 says no to everything: the simplest scene."""
        return self._source.random() >= 1 - probability

    def integer(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return min(low + int(self._source.random() * (high - low + 1)), high)

    def one(self, choices: Sequence[T]) -> T:
        return choices[self.integer(0, len(choices) - 1)]

    def some(self, choices: Sequence[T], most: int, least: int = 0) -> list[T]:
        """A few different ones, in their order."""
        wanted = min(self.integer(least, most), len(choices))
        left = list(range(len(choices)))
        chosen = sorted(left.pop(self.integer(0, len(left) - 1)) for _ in range(wanted))
        return [choices[i] for i in chosen]
