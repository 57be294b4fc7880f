"""Decaying histograms: the worked example, decay, merging, checkpoints, clocks that jump."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.stats.histogram import Buckets, Checkpoint, DecayingHistogram, HistogramError

CORES = Buckets(first=0.025, most=1024)
HOUR = 3600.0
CPU_HALF_LIFE, MEMORY_HALF_LIFE = 12 * HOUR, 24 * HOUR

amounts = st.floats(0, 900)
moments = st.floats(0, 30 * 24 * HOUR)
samples = st.lists(st.tuples(amounts, moments), min_size=1, max_size=30)
few = settings(max_examples=30)


def filled(*values: tuple[float, float], half_life_s: float = CPU_HALF_LIFE) -> DecayingHistogram:
    """From amounts and moments, in the order of time."""
    made = DecayingHistogram(CORES, half_life_s)
    for value, at_s in sorted(values, key=lambda each: each[1]):
        made.add(value, at_s)
    return made


def test_95_samples_of_1_3_cores_and_5_of_3() -> None:
    made = filled(*[(1.3, 0.0)] * 95, *[(3.0, 0.0)] * 5)
    # Bucket 26 ends where bucket 27 begins: 0.025 * (1.05^27 - 1) / 0.05.
    assert made.percentile(0.95) == pytest.approx(1.3667, abs=1e-4)
    assert made.percentile(0.98) == pytest.approx(3.0200, abs=1e-4)
    assert made.most == made.percentile(0.98)


@pytest.mark.parametrize(("half_life_s", "times"), [(CPU_HALF_LIFE, 4), (MEMORY_HALF_LIFE, 2)])
def test_a_sample_that_is_a_day_newer_weighs_more(half_life_s: float, times: int) -> None:
    """One old sample against `times` parts of a new one: the new one alone reaches times / (times + 1) of the total."""
    made = filled((10, 0.0), (1, 24 * HOUR), half_life_s=half_life_s)
    part = times / (times + 1)
    assert made.percentile(part - 0.01) < 2
    assert made.percentile(part + 0.01) > 9


def test_the_number_of_buckets_is_the_protocols() -> None:
    # ceil(log(1024 * 0.05 / 0.025 + 1, 1.05)) + 1 = 158, and one for nothing.
    assert len(CORES.ends) == 159


def test_nothing_used_is_nothing_and_not_a_first_bucket() -> None:
    made = filled((0, 0.0))
    assert made.percentile(0.95) == 0
    assert filled((0.001, 0.0)).percentile(0.95) == 0.025


def test_an_empty_histogram_says_nothing() -> None:
    made = DecayingHistogram(CORES, CPU_HALF_LIFE)
    assert (made.percentile(0.5), made.most, made.total, made.checkpoint()) == (0, 0, 0, None)


@pytest.mark.parametrize("value", [-1, math.inf, -math.inf, math.nan])
def test_what_is_no_amount_is_no_sample(value: float) -> None:
    made = filled((2, 0.0))
    made.add(value, 1.0)
    assert made.total == pytest.approx(1)


@few
@given(samples)
def test_percentiles_grow_and_cover_what_was_seen(seen: list[tuple[float, float]]) -> None:
    made = filled(*((value, 0.0) for value, _ in seen))
    found = [made.percentile(part) for part in (0.5, 0.6, 0.9, 0.95, 0.98, 1.0)]
    assert found == sorted(found)
    largest = max(value for value, _ in seen)
    assert largest <= made.most <= largest * 1.05 + 0.025


@few
@given(samples, st.floats(0, 1000 * 24 * HOUR))
def test_time_that_passes_for_all_alike_changes_no_percentile(seen: list[tuple[float, float]], later_s: float) -> None:
    """Also where weights are scaled down on the way."""
    here, there = filled(*seen), filled(*((value, at_s + later_s) for value, at_s in seen))
    for part in (0.5, 0.95, 1.0):
        assert here.percentile(part) == there.percentile(part)


def test_weights_stay_finite_over_years_and_old_peaks_are_forgotten() -> None:
    made = filled(*((1.0, day * 24 * HOUR) for day in range(2000)))
    assert made.total == pytest.approx(4 / 3, rel=0.01)
    made = filled((100, 0.0), *((1.0, day * 24 * HOUR) for day in range(1, 7)))
    assert made.most > 99, "after 6 days"
    made.add(1.0, 7 * 24 * HOUR)
    assert made.most < 2, "14 half-lives later"


@few
@given(samples, samples)
def test_merging_is_as_if_one_had_seen_everything(
    left: list[tuple[float, float]], right: list[tuple[float, float]]
) -> None:
    merged, whole = filled(*left), filled(*left, *right)
    merged.merge(filled(*right))
    assert merged.total == pytest.approx(whole.total)
    assert merged.newest_s == whole.newest_s
    assert merged.percentile(0.7) in (whole.percentile(0.7 - 1e-9), whole.percentile(0.7 + 1e-9))


def test_histograms_of_different_shapes_are_not_merged() -> None:
    with pytest.raises(ValueError, match="half-life"):
        filled((1, 0.0)).merge(filled((1, 0.0), half_life_s=MEMORY_HALF_LIFE))


@few
@given(samples)
def test_a_checkpoint_of_a_restored_histogram_is_the_same_checkpoint(seen: list[tuple[float, float]]) -> None:
    kept = filled(*seen).checkpoint()
    assert kept is not None
    again = DecayingHistogram.restored(kept, CORES, CPU_HALF_LIFE).checkpoint()
    assert again is not None
    assert (again.newest_s, again.weights) == (kept.newest_s, kept.weights)
    assert again.total == pytest.approx(kept.total)


def test_a_restored_histogram_goes_on_as_if_nothing_had_happened() -> None:
    seen = [(0.1 * (i % 13), i * HOUR) for i in range(100)]
    one, other = filled(*seen), DecayingHistogram.restored(filled(*seen).checkpoint(), CORES, CPU_HALF_LIFE)
    for made in (one, other):
        made.add(5, 130 * HOUR)
    for part in (0.5, 0.9, 0.95, 0.98, 1.0):
        assert one.percentile(part) == other.percentile(part)


@pytest.mark.parametrize(
    "kept",
    [
        Checkpoint(0, 1, {}),
        Checkpoint(0, 1, {0: 0}),
        Checkpoint(0, 1, {-1: 5}),
        Checkpoint(0, 1, {159: 5}),
        Checkpoint(0, 1, {3: 10_001}),
        Checkpoint(0, 0, {3: 1}),
        Checkpoint(0, math.nan, {3: 1}),
        Checkpoint(math.inf, 1, {3: 1}),
    ],
    ids=str,
)
def test_a_checkpoint_that_cannot_be_is_refused(kept: Checkpoint) -> None:
    with pytest.raises(HistogramError):
        DecayingHistogram.restored(kept, CORES, CPU_HALF_LIFE)


def test_a_clock_that_is_set_back_makes_no_new_sample_worthless() -> None:
    """A year in the future by mistake, then right again: what comes counts as usual."""
    made = filled(*((8.0, 365 * 24 * HOUR + i * 60) for i in range(60)))
    for i in range(24 * 60):
        made.add(1.0, i * 60.0)
    assert made.percentile(0.95) < 2


def test_samples_that_come_late_by_minutes_age_nothing() -> None:
    steady, jittery = filled((4, 0.0)), filled((4, 0.0))
    for i in range(1, 200):
        steady.add(1, i * 60.0)
        jittery.add(1, i * 60.0 - (300.0 if i % 2 else 0))
    assert jittery.total == pytest.approx(steady.total, rel=0.01)
