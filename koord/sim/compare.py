"""Are policies or scenarios really different? Means over seeds with their intervals, and differences to the first.

All targets run with the same seeds, so a difference is taken within each seed (see `koord.sim.statistics`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from koord.sim.outcome import Totals
from koord.sim.report.figures import core_hours
from koord.sim.statistics import CONFIDENCE, Interval, interval, paired


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure that is compared."""

    key: str
    "In JSON."
    name: str
    figure: Callable[[Totals], float]
    unit: str = ""
    more_is_better: bool = False


WORK: Final = "workCoreHours"
ORACLE: Final = "oracle"
METRICS: Final = (
    Metric(WORK, "batch work, core-hours", lambda totals: core_hours(totals.work_milli_s), "", True),
    Metric("violatedPercent", "above the mark", lambda totals: totals.violated_percent, "%"),
    Metric("worstNodePercent", "worst node", lambda totals: totals.worst_node_percent, "%"),
    Metric("gotPercent", "got of wanted", lambda totals: totals.got_percent, "%", True),
    Metric("wastedPercent", "wasted", lambda totals: totals.wasted_percent, "%"),
    Metric("evictedPerNodeDay", "evictions by node and day", lambda totals: totals.evicted_per_node_day),
    Metric("waitP99Minutes", "wait p99, minutes", lambda totals: totals.wait_p99_s / 60),
)


@dataclass(frozen=True, slots=True)
class Compared:
    """One target. A metric without a figure in a run (no batch pod ran) is absent."""

    name: str
    means: Mapping[str, Interval]
    differences: Mapping[str, Interval]
    "To the first target; empty for that one itself."


def compare(totals: Mapping[str, Sequence[Totals]], confidence: float = CONFIDENCE) -> tuple[Compared, ...]:
    """By target, the totals of its runs in the order of the seeds, which is the same for all."""
    base = _values(next(iter(totals.values())))
    compared = []
    for i, (name, runs) in enumerate(totals.items()):
        values = _values(runs)
        means = {key: interval(of_metric, confidence) for key, of_metric in values.items()}
        both = values.keys() & base.keys() if i else ()
        differences = {key: paired(values[key], base[key], confidence) for key in values if key in both}
        compared.append(Compared(name, means, differences))
    return tuple(compared)


def as_json(compared: Sequence[Compared], seeds: Sequence[int], scenario: str) -> dict[str, Any]:
    return {
        "scenario": scenario,
        "seeds": list(seeds),
        "confidence": CONFIDENCE,
        "targets": [
            {
                "name": target.name,
                "means": {key: _plain(value) for key, value in target.means.items()},
                "differences": {key: _plain(value) for key, value in target.differences.items()},
            }
            for target in compared
        ],
    }


def table(compared: Sequence[Compared]) -> list[tuple[str, ...]]:
    """A row for each metric, a column for each target; below it the difference to the first one, if it is certain."""
    rows: list[tuple[str, ...]] = [("target", *(target.name for target in compared))]
    for metric in METRICS:
        if not any(metric.key in target.means for target in compared):
            continue
        rows.append((metric.name, *(_mean(metric, target) for target in compared)))
        if len(compared) > 1:
            differences = [_difference(metric, target) for target in compared[1:]]
            rows.append((f"  against {compared[0].name}", "", *differences))
        if metric.key == WORK and (oracle := _oracle(compared)):
            shares = [f"{target.means[WORK].mean / oracle:.0%}" if WORK in target.means else "-" for target in compared]
            rows.append(("  of the oracle's", *shares))
    return rows


def _oracle(compared: Sequence[Compared]) -> float:
    """Its work, if it is among the targets and did any."""
    done = [target.means[WORK].mean for target in compared if target.name == ORACLE and WORK in target.means]
    return done[0] if done else 0.0


def number(value: float) -> str:
    """With as many digits as tell figures apart: two behind the point where they are small."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _values(runs: Sequence[Totals]) -> dict[str, list[float]]:
    """By metric, the figure of each run; without those that a run lacks."""
    values = {metric.key: [metric.figure(totals) for totals in runs] for metric in METRICS}
    return {key: of_metric for key, of_metric in values.items() if all(map(math.isfinite, of_metric))}


def _mean(metric: Metric, target: Compared) -> str:
    value = target.means.get(metric.key)
    if value is None:
        return "-"
    spread = f" ±{number(value.half_width)}" if math.isfinite(value.half_width) else ""
    return f"{number(value.mean)}{metric.unit}{spread}"


def _difference(metric: Metric, target: Compared) -> str:
    value = target.differences.get(metric.key)
    if value is None:
        return "-"
    sign = "+" if value.mean > 0 else ""
    spread = f" ±{number(value.half_width)}" if math.isfinite(value.half_width) else ""
    verdict = ""
    if value.excludes_zero and math.isfinite(value.half_width):
        verdict = ", better" if (value.mean > 0) == metric.more_is_better else ", worse"
    return f"{sign}{number(value.mean)}{spread}{verdict}"


def _plain(value: Interval) -> dict[str, float | int | None]:
    return {
        "mean": value.mean,
        "low": value.low if math.isfinite(value.low) else None,
        "high": value.high if math.isfinite(value.high) else None,
        "count": value.count,
    }
