"""What a NodeMetric reports: means over the last minutes, as `metricAggregateDurationSeconds` says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.manager.colocation_settings import given
from koord.sim.minutes import Floats, Ints


@dataclass(frozen=True, slots=True)
class Report:
    """The last minutes of some columns. Its arrays are changed in place."""

    values: Floats
    "Nodes x minutes x columns, the oldest overwritten by the next."
    minutes: Ints
    "Of the node that were measured."


def report(count: int, columns: int, strategy: ColocationStrategy) -> Report:
    seconds = given(strategy.metric_aggregate_duration_seconds)
    return Report(np.zeros((count, max(1, seconds // 60), columns)), np.zeros(count, np.int64))


def remember(to: Report, *columns: Floats) -> None:
    """A minute more. A node whose columns have a NaN was not measured."""
    values = np.stack(columns, axis=1)
    rows = np.flatnonzero(~np.isnan(values).any(axis=1))
    to.values[rows, to.minutes[rows] % to.values.shape[1]] = values[rows]
    to.minutes[rows] += 1


def means(of: Report) -> Floats:
    """Nodes x columns."""
    mean: Floats = of.values.sum(axis=1) / np.clip(of.minutes, 1, of.values.shape[1])[:, None]
    return mean
