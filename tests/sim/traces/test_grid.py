"""The grid: the amount under a curve stays what the samples say."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from koord.sim.traces.grid import fill_short_gaps, means

lengths = st.lists(st.integers(1, 900), min_size=1, max_size=20)


@given(lengths)
def test_samples_without_gaps_keep_their_amount(seconds: list[int]) -> None:
    end_s = np.cumsum(seconds).astype(float)
    begin_s = end_s - seconds
    values = np.arange(len(seconds), dtype=float) % 7
    steps = int(end_s[-1] // 60)
    grid = means(begin_s, end_s, values, 60, steps)
    covered = np.clip(np.minimum(end_s, steps * 60) - begin_s, 0, None)
    assert np.isclose(np.nansum(grid) * 60, covered @ values)


def test_overlapping_samples_count_once() -> None:
    grid = means(np.array([0.0, 30.0]), np.array([60.0, 120.0]), np.array([1.0, 3.0]), 60, 2)
    assert grid.tolist() == [1, 3]


def test_only_gaps_between_values_are_filled() -> None:
    curve = np.array([np.nan, 1, np.nan, 2, np.nan, np.nan, 3, np.nan], np.float32)
    assert fill_short_gaps(curve, 1) == 1
    assert curve[1:4].tolist() == [1, 1, 2]
    assert np.isnan(curve[[0, 4, 5, 7]]).all()
