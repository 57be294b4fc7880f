"""Rings of samples and queries on them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.series.ring import Ring
from koord.agent.series.samples import Samples, Series, Window

CPU = Series("node_cpu")


@pytest.mark.parametrize(("part", "expected"), [(0.5, 7), (0.9, 12), (0.95, 13), (0.0, 1), (1.0, 14)])
def test_percentiles_of_one_to_fourteen(part: float, expected: float) -> None:
    assert Window(13, tuple(range(14, 0, -1))).percentile(part) == expected


def test_the_last_sample_counts_only_while_it_is_fresh() -> None:
    samples = Samples()
    assert samples.last(CPU, 0, 10) is None
    samples.add(CPU, 100, 1500)
    assert samples.last(CPU, 102, 2) == 1500
    assert samples.last(CPU, 102.1, 2) is None


def test_a_window_has_what_was_measured_in_it() -> None:
    samples = Samples()
    for second in range(10):
        samples.add(CPU, second, second * 100)
    window = samples.window(CPU, now_s=9, seconds=3)
    assert window is not None
    assert window.values == (600, 700, 800, 900)
    assert window.span_s == 3
    assert samples.mean(CPU, 9, 3) == 750
    assert samples.window(CPU, now_s=100, seconds=3) is None


def test_series_of_what_is_gone_are_forgotten() -> None:
    samples = Samples()
    for owner in ("", "a", "b"):
        samples.add(Series("pod_cpu", owner), 1, 1)
    samples.keep(["b"])
    assert len(samples) == 2
    assert samples.owners("pod_cpu") == ["", "b"]


def test_a_clock_set_back_adds_nothing() -> None:
    ring = Ring(4)
    ring.add(10, 1)
    ring.add(9, 2)
    ring.add(10, 3)
    assert len(ring) == 1
    assert ring.last == 1


@given(st.lists(st.floats(0, 1000, allow_nan=False), max_size=40, unique=True).map(sorted), st.integers(1, 8))
def test_a_ring_holds_the_last_samples_in_order(times: list[float], size: int) -> None:
    ring = Ring(size)
    for at_s in times:
        ring.add(at_s, at_s * 2)
    kept = times[-size:]
    found, values = ring.since(float("-inf"))
    assert list(found) == kept
    assert list(values) == [each * 2 for each in kept]
    assert len(ring) == len(kept)
    middle = kept[len(kept) // 2] if kept else 0.0
    assert list(ring.since(middle)[0]) == [each for each in kept if each >= middle]
