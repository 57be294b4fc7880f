"""Samples of one quantity over the last minutes, in a ring of fixed size.

Two flat arrays, so that thousands of series stay small and no sample is an object. Times only grow: a sample that is
older than the last one is dropped (a clock that was set back).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

NEVER: Final = float("-inf")


class Ring:
    __slots__ = ("_full", "_next", "_times", "_values")

    def __init__(self, size: int) -> None:
        self._times = array("d", bytes(8 * size))
        self._values = array("d", bytes(8 * size))
        self._next = 0
        self._full = False

    def __len__(self) -> int:
        return len(self._times) if self._full else self._next

    def add(self, at_s: float, value: float) -> None:
        times, at = self._times, self._next
        if at_s <= times[at - 1] and (at or self._full):
            return
        times[at] = at_s
        self._values[at] = value
        self._next = at + 1
        if self._next == len(times):
            self._next, self._full = 0, True

    @property
    def last_s(self) -> float:
        """When the last sample was taken."""
        return self._times[self._next - 1] if len(self) else NEVER

    @property
    def last(self) -> float:
        """The last sample; zero in an empty ring."""
        return self._values[self._next - 1] if len(self) else 0.0

    def since(self, from_s: float) -> tuple[Sequence[float], Sequence[float]]:
        """Times and values from a moment on, oldest first. Copies no more than these: most ask for a few seconds."""
        times, values, at = self._times, self._values, self._next
        if self._full and not (at and times[0] < from_s):
            first = bisect_left(times, from_s, at, len(times))
            return times[first:] + times[:at], values[first:] + values[:at]
        first = bisect_left(times, from_s, 0, at)
        return times[first:at], values[first:at]
