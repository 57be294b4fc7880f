"""Intervals over seeds: Student's, against printed tables; and paired by seed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.sim.statistics import interval, paired, student

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20)


@pytest.mark.parametrize(
    ("confidence", "freedom", "printed"),
    [(0.95, 1, 12.706), (0.95, 2, 4.303), (0.95, 4, 2.776), (0.95, 9, 2.262), (0.99, 30, 2.750), (0.9, 120, 1.658)],
)
def test_student_agrees_with_the_printed_table(confidence: float, freedom: int, printed: float) -> None:
    assert student(confidence, freedom) == pytest.approx(printed, abs=6e-4)


def test_an_interval_by_hand() -> None:
    # The mean is 3, the standard deviation 1, and t(0.95, 2) = 4.303.
    found = interval([2.0, 3.0, 4.0])
    assert (found.mean, found.count) == (3.0, 3)
    assert found.half_width == pytest.approx(4.303 / math.sqrt(3), abs=1e-3)


def test_one_value_says_nothing_about_the_spread() -> None:
    found = interval([7.0])
    assert (found.mean, found.low, found.high) == (7.0, -math.inf, math.inf)
    assert not found.excludes_zero


def test_a_small_gain_in_every_seed_is_certain_although_seeds_differ_much() -> None:
    base, better = [100.0, 200.0, 300.0], [101.0, 201.1, 300.9]
    assert paired(better, base).excludes_zero
    assert interval(better).low < interval(base).mean


@given(VALUES)
def test_an_interval_contains_its_mean_and_moves_with_its_values(values: list[float]) -> None:
    found, moved = interval(values), interval([value + 1000 for value in values])
    assert found.low <= found.mean <= found.high
    assert moved.mean == pytest.approx(found.mean + 1000, abs=1e-6)
    assert moved.half_width == pytest.approx(found.half_width, rel=1e-6, abs=1e-6)


@given(VALUES)
def test_more_confidence_needs_a_wider_interval(values: list[float]) -> None:
    assert interval(values, 0.99).half_width >= interval(values, 0.9).half_width


@given(VALUES)
def test_a_policy_differs_from_itself_by_nothing(values: list[float]) -> None:
    assert paired(values, values).mean == paired(values, values).half_width == 0
