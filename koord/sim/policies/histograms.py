"""Decaying histograms of all nodes: `koord.api.stats.histogram.DecayingHistogram`, a row a node.

Same buckets, same weights, same rule for what is forgotten, and the same answers: sums are added up in the same order.
A time is kept by row, since a node that is down gets no samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from koord.api.stats.histogram import ALMOST, EPSILON, LATE_S, MOST_EXPONENT, Buckets
from koord.sim.minutes import Flags, Floats, Ints

_NEAR: Final = 1e-9
"""Logarithms of numpy and of `math` differ in their last bits. This near to an edge the latter decides."""


@dataclass(frozen=True, slots=True)
class Histograms:
    """Its arrays are changed in place."""

    weights: Floats
    "Nodes x slots."
    newest_s: Floats
    "When the newest sample was taken; NaN without any."
    reference_s: Floats


def histograms(count: int, buckets: Buckets) -> Histograms:
    return Histograms(np.zeros((count, len(buckets.ends))), np.full(count, np.nan), np.zeros(count))


def slots(buckets: Buckets, values: Floats) -> Ints:
    """`Buckets.slot` of each value."""
    bucket = np.log(np.maximum(values, 0) * (buckets.growth - 1) / buckets.first + 1) / math.log(buckets.growth)
    slot = np.minimum(bucket.astype(np.int64) + 1, len(buckets.ends) - 1)
    slot[values < buckets.first] = 1
    slot[values <= 0] = 0
    for row in np.flatnonzero((np.abs(bucket - np.rint(bucket)) < _NEAR) & (values > 0)):
        slot[row] = buckets.slot(float(values[row]))
    return slot


def add(
    to: Histograms,
    buckets: Buckets,
    half_life_s: float,
    values: Floats,
    at_s: float,
    *,
    rows: Flags,
    away_s: float,
) -> None:
    """One sample in each of the rows. Time of more than `away_s` without a sample makes no sample older."""
    gap_s = at_s - to.newest_s
    stood_still = rows & (gap_s > away_s)
    to.reference_s[stood_still] += gap_s[stood_still]
    to.newest_s[stood_still] = at_s
    _come_to(to, half_life_s, at_s, rows)
    at = np.flatnonzero(rows)
    to.weights[at, slots(buckets, values[at])] += np.exp2((at_s - to.reference_s[at]) / half_life_s)


def percentiles(of: Histograms, buckets: Buckets, half_life_s: float, part: float) -> Floats:
    """The end of the bucket in which that part of a row's samples is reached; 0 without samples."""
    is_empty = np.isnan(of.newest_s)
    least = EPSILON * np.exp2(np.where(is_empty, 0.0, of.newest_s - of.reference_s) / half_life_s)
    reached = np.where(of.weights >= least[:, None], of.weights, 0.0)
    np.cumsum(reached, axis=1, out=reached)
    wanted = part * reached[:, -1] * ALMOST
    slot = (reached >= wanted[:, None]).argmax(axis=1)
    return np.where(is_empty, 0.0, np.asarray(buckets.ends)[slot])


def _come_to(to: Histograms, half_life_s: float, at_s: float, rows: Flags) -> None:
    first = rows & np.isnan(to.newest_s)
    to.newest_s[first] = to.reference_s[first] = at_s
    set_back = rows & (at_s < to.newest_s - LATE_S)
    to.reference_s[set_back] -= to.newest_s[set_back] - at_s
    to.newest_s[set_back] = at_s
    to.newest_s[rows] = np.maximum(to.newest_s[rows], at_s)
    exponent = (at_s - to.reference_s) / half_life_s
    large = np.flatnonzero(rows & (exponent > MOST_EXPONENT))
    to.weights[large] *= np.exp2(-exponent[large])[:, None]
    to.reference_s[large] = at_s
