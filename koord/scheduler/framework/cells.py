"""The cells of the table as formulas read them: one row or many, by column name; and the arithmetic for both.

`cells[name]` is an int for one row (`One`) and an array for many (`Many`), so a formula is written once for both:
`a * (a > b)` instead of a branch; `least` and `percent` cover what differs between Python and numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from koord.scheduler.state.table import Array, Row

Cells: TypeAlias = Any
"""One row or many, by column name. See `One` and `Many`."""
Numbers: TypeAlias = Any
"""An int, or an array of ints: whatever the cells gave."""

EXACT_BELOW: Final = 1 << 46
"""Below this, a quotient of up to 100 in floating point never rounds up to the next whole number."""


OfRow: TypeAlias = Callable[[Row, Any], int]
"""What judges say of a row, by their own `numbers`."""
Overlay: TypeAlias = Mapping[Hashable, Mapping[Row, int]]
"""What promises to other pods take of some rows: column -> row -> what is added there."""


class Gain(NamedTuple):
    """What a column gains by one more pod of a class on a row."""

    adds: int
    unless: tuple[Hashable, int] | None = None
    "Not on rows where this column has this value before the first of them."


class Many:
    """The cells of several rows: each column is an array, taken once."""

    __slots__ = ("_taken", "columns", "overlay", "rows")

    def __init__(self, columns: dict[Hashable, Array], rows: Any, overlay: Overlay | None = None) -> None:
        self.columns, self.rows, self.overlay = columns, rows, overlay
        self._taken: dict[Hashable, Array] = {}

    def __getitem__(self, name: Hashable) -> Array:
        column = self._taken.get(name)
        if column is None:
            column = self.columns[name][self.rows]
            if self.overlay and self.overlay.get(name):
                added = np.zeros(len(self.columns[name]), np.int64)
                added[list(self.overlay[name])] = list(self.overlay[name].values())
                column = column + added[self.rows]
            self._taken[name] = column
        return column

    def block(self, names: tuple[Hashable, ...]) -> Array:
        """Several columns as one array of floats, a line for each: one call of numpy is for all of them."""
        block = self._taken.get(names)
        if block is None:
            block = self._taken[names] = np.array([self[name] for name in names], np.float64)
        return block


class Crowded(Many):
    """The cells of several rows after more pods of one class are placed there: `pods` has the number for each row."""

    __slots__ = ("_gains", "_pods")

    def __init__(self, columns: dict[Hashable, Array], rows: Any, pods: Array, gains: Mapping[Hashable, Gain]) -> None:
        super().__init__(columns, rows)
        self._pods, self._gains = pods, gains

    def __getitem__(self, name: Hashable) -> Array:
        column = self._taken.get(name)
        if column is None:
            column = self.columns[name][self.rows]
            gain = self._gains.get(name)
            if gain is not None:
                adds, unless = gain
                more = self._pods * adds
                if unless is not None:
                    more = more * (self.columns[unless[0]][self.rows] != unless[1])
                column = column + more
            self._taken[name] = column
        return column


class One:
    """The cells of one row: each column is a plain number, on which Python is faster than numpy."""

    __slots__ = ("columns", "overlay", "rows")

    def __init__(self, columns: dict[Hashable, Array], row: Row, overlay: Overlay | None = None) -> None:
        self.columns, self.rows, self.overlay = columns, row, overlay

    def __getitem__(self, name: Hashable) -> Any:
        value = self.columns[name].item(self.rows)
        if self.overlay and name in self.overlay:
            return value + self.overlay[name].get(self.rows, 0)
        return value


def least(a: Numbers, b: Numbers) -> Numbers:
    """The smaller of two, for numbers and arrays."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.minimum(a, b)
    return a if a < b else b


def all_positive(numbers: Numbers) -> bool:
    """Whether all are above zero, of numbers and arrays that are never below."""
    if isinstance(numbers, np.ndarray):
        return bool(np.count_nonzero(numbers) == numbers.size)
    return bool(numbers > 0)


def are_exact(amounts: Array) -> bool:
    """Whether few amounts are small enough for floats to be exact, quotients too."""
    return max(amounts.ravel().tolist(), default=0) < EXACT_BELOW


def percent(part: Numbers, whole: Numbers) -> Numbers:
    """100 * part // whole, for numbers and arrays; `part` is not negative, `whole` is positive."""
    if isinstance(whole, np.ndarray) and np.maximum.reduce(whole, axis=None, initial=0) < EXACT_BELOW:
        # Ten times faster than the division of 64-bit integers.
        return (part * 100 / whole).astype(np.int64)
    return part * 100 // whole
