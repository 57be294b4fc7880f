"""Histograms of all nodes answer as the histogram of one node does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.stats.histogram import Buckets, DecayingHistogram
from koord.sim.policies.histograms import add, histograms, percentiles, slots

BUCKETS = Buckets(first=25, most=1_024_000)
HALF_LIFE_S = 3600.0
AWAY_S = 1800.0
EDGES = st.sampled_from([0.0, 24.999, 25.0, *BUCKETS.ends[1:6], BUCKETS.ends[80], 1_024_000.0, 1e12])
VALUES = EDGES | st.floats(0, 2_000_000) | st.integers(0, 100_000).map(float)
GAPS_S = st.sampled_from([60.0, 60.0, 60.0, 0.0, 1799.0, 1801.0, 90 * 3600.0, 200 * 3600.0, -60.0, -4000.0])


@given(st.lists(VALUES, min_size=1, max_size=20))
def test_a_value_has_the_slot_of_the_histogram_of_one_node(values: list[float]) -> None:
    assert slots(BUCKETS, np.array(values)).tolist() == [BUCKETS.slot(value) for value in values]


def test_every_edge_of_a_bucket_has_the_slot_of_the_histogram_of_one_node() -> None:
    edges = np.array([BUCKETS.ends, np.nextafter(BUCKETS.ends, 0), np.nextafter(BUCKETS.ends, 1e9)]).ravel()
    assert slots(BUCKETS, edges).tolist() == [BUCKETS.slot(value) for value in edges.tolist()]


@given(
    st.lists(st.tuples(GAPS_S, st.lists(VALUES | st.none(), min_size=3, max_size=3)), max_size=25),
    st.sampled_from([0.5, 0.95, 0.99, 1.0]),
)
def test_percentiles_are_those_of_the_histogram_of_one_node(
    rounds: list[tuple[float, list[float | None]]], part: float
) -> None:
    single = [DecayingHistogram(BUCKETS, HALF_LIFE_S) for _ in range(3)]
    many = histograms(3, BUCKETS)
    at_s = 0.0
    for gap_s, values in rounds:
        at_s += gap_s
        for histogram, value in zip(single, values, strict=True):
            if value is not None:
                if histogram.newest_s is not None and at_s - histogram.newest_s > AWAY_S:
                    histogram.stand_still(at_s - histogram.newest_s)
                histogram.add(value, at_s)
        rows = np.array([value is not None for value in values])
        filled = np.array([0.0 if value is None else value for value in values])
        add(many, BUCKETS, HALF_LIFE_S, filled, at_s, rows=rows, away_s=AWAY_S)
    assert percentiles(many, BUCKETS, HALF_LIFE_S, part).tolist() == [
        pytest.approx(histogram.percentile(part)) for histogram in single
    ]
