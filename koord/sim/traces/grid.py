"""Samples at any time to means on a regular grid.

A sample is a mean over an interval. The grid's value k is the mean over what intervals cover of the seconds from
k * step to (k + 1) * step; a step that is covered to less than a half is a gap. Short gaps between samples take the
value before them; longer ones stay NaN: the pod does not exist.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]


def means(begin_s: Floats, end_s: Floats, values: Floats, step_s: float, steps: int) -> Floats:
    """Intervals in order of their end; the part of an interval that an earlier one covers counts once."""
    covered_until = np.concatenate(([-np.inf], np.maximum.accumulate(end_s)[:-1]))
    begin_s = np.minimum(np.maximum(begin_s, covered_until), end_s)
    knots = np.column_stack((begin_s, end_s)).ravel()
    lengths = end_s - begin_s
    covered = np.repeat(np.cumsum(lengths), 2)
    covered[::2] -= lengths
    amount = np.repeat(np.cumsum(lengths * values), 2)
    amount[::2] -= lengths * values
    edges = np.arange(steps + 1) * step_s
    covered_by_step = np.diff(np.interp(edges, knots, covered))
    amount_by_step = np.diff(np.interp(edges, knots, amount))
    has_value = covered_by_step >= step_s / 2
    return np.where(has_value, amount_by_step / np.where(has_value, covered_by_step, 1), np.nan)


def fill_short_gaps(curve: NDArray[np.float32], longest: int) -> int:
    """Fills gaps of at most `longest` steps between two values in place, each with the value before it. Returns how
    many steps were filled."""
    present = np.flatnonzero(~np.isnan(curve))
    if present.size < 2:
        return 0
    filled = 0
    lengths = np.diff(present) - 1
    for gap in np.flatnonzero((lengths > 0) & (lengths <= longest)):
        begin = int(present[gap])
        curve[begin + 1 : begin + 1 + int(lengths[gap])] = curve[begin]
        filled += int(lengths[gap])
    return filled


def count_gaps(curve: NDArray[np.float32]) -> int:
    """Gaps between values: those at the ends do not count."""
    present = np.flatnonzero(~np.isnan(curve))
    return int((np.diff(present) > 1).sum())
