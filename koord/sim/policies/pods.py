"""Columns of batch pods: their sums by node, and where a pod stood in the columns of the minute before."""

from __future__ import annotations

import numpy as np

from koord.sim.minutes import Floats, Ints


def per_node(node: Ints, values: Floats, count: int) -> Floats:
    return np.bincount(node, weights=values, minlength=count).astype(np.float64, copy=False)


def rows_before(number: Ints, before: Ints) -> Ints:
    """By pod of now, its row in the earlier numbers; -1 where it has none."""
    if np.array_equal(number, before):
        return np.arange(len(number))
    if not len(before):
        return np.full(len(number), -1)
    order = np.argsort(before, kind="stable")
    row = order[np.minimum(np.searchsorted(before, number, sorter=order), len(before) - 1)]
    return np.where(before[row] == number, row, -1)
