"""Targets beside hours other: differences are taken seed by seed, and called better only where that is certain."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from koord.sim.compare import as_json, compare, table
from koord.sim.outcome import Totals
from tests.sim.outcomes import outcome


def runs(*work: float, violated: float = 0.5, batch_share: float = 0.5) -> Sequence[Totals]:
    return [outcome(work_core_hours=hours, violated_percent=violated, batch_share=batch_share).totals for hours in work]


def cells(rows: list[tuple[str, ...]], name: str) -> tuple[str, ...]:
    return next(row[1:] for row in rows if row[0] == name)


def test_a_gain_in_every_seed_is_better_and_more_violations_are_worse() -> None:
    rows = table(compare({"usage": runs(300, 400, 500, violated=0), "adaptive": runs(901, 1000, 1099)}))
    assert cells(rows, "batch work, core-hours")[1].startswith("1,000 ±")
    # 600 in the mean, with differences of 601, 600 and 599: t(0.95, 2) / sqrt(3) = 2.48.
    assert rows[2] == ("  against usage", "", "+600.0 ±2.48, better")
    assert cells(rows, "above the mark") == ("0.00% ±0.00", "0.50% ±0.00")
    assert rows[4][2] == "+0.50 ±0.00, worse"


def test_a_difference_within_its_interval_is_neither_better_nor_worse() -> None:
    rows = table(compare({"a": runs(100, 200), "b": runs(110, 195)}))
    assert rows[2][2].startswith("+2.50 ±")
    assert "better" not in rows[2][2]


def test_one_seed_has_no_intervals() -> None:
    compared = compare({"a": runs(100), "b": runs(200)})
    assert table(compared)[2] == ("  against a", "", "+100.0")
    assert json.loads(json.dumps(as_json(compared, [0], "small")))["targets"][0]["means"]["workCoreHours"] == {
        "mean": 100.0,
        "low": None,
        "high": None,
        "count": 1,
    }


def test_a_figure_that_a_target_lacks_is_a_dash() -> None:
    rows = table(compare({"none": runs(0, 0, batch_share=0), "adaptive": runs(1, 2)}))
    assert cells(rows, "got of wanted")[0] == "-"
    assert not math.isnan(compare({"a": runs(1, 2)})[0].means["workCoreHours"].mean)
