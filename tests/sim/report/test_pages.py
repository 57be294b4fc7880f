"""Pages of the simulator: plots, table and how it was measured, escaped, with nothing from elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from koord.sim.columns import Repair
from koord.sim.compare import compare
from koord.sim.outcome import QuotaTotals
from koord.sim.report.compare_page import page as compare_page
from koord.sim.report.curves import binned
from koord.sim.report.figures import Run, SideBySide
from koord.sim.report.page import page
from koord.sim.report.sweep_page import page as sweep_page
from koord.sim.sweep import settings
from tests.sim.outcomes import outcome, stopped

OURS, USAGE = outcome(), outcome("usage", 380, 0, batch_share=0.2)


def test_a_page_has_a_curve_for_each_run_and_a_row_for_each_figure() -> None:
    text = page(SideBySide((Run("adaptive", OURS), Run("usage", USAGE))), "A small cluster.")
    assert text.count("<figure>") == 5
    assert text.count("<polyline") == 4 + 2 + 2 + 2
    assert text.count("<polygon") == 3
    assert "A small cluster." in text
    assert "task-7" in text
    assert "http" not in text.replace("http-equiv", "")


def test_a_page_escapes_what_others_named() -> None:
    nasty = replace(OURS, scenario="<script>", quotas=tuple(QuotaTotals(f"<{i}>", 1, 1, 1, 1, 1) for i in range(2)))
    text = page(SideBySide((Run("<b>", nasty),)))
    assert "<script>" not in text
    assert "<b>" not in text
    assert "&lt;0&gt;" in text


def test_a_page_says_that_a_run_was_stopped_and_what_was_repaired() -> None:
    part = replace(stopped(OURS, 30), repairs=(Repair("gap filled", 3, "services.csv:7"),))
    text = page(SideBySide((Run("adaptive", part),)))
    assert "stopped before its end" in text
    assert "3 times: gap filled (first: services.csv:7)" in text


def test_a_run_of_one_minute_has_a_page_without_plots() -> None:
    assert "<figure>" not in page(SideBySide((Run("adaptive", stopped(OURS, 1)),)))


def test_a_comparison_draws_each_target_with_its_interval() -> None:
    runs = {
        "adaptive": [outcome(work_core_hours=1000 + i).totals for i in range(3)],
        "usage": [outcome(work_core_hours=380 + i).totals for i in range(3)],
    }
    text = compare_page(compare(runs), 3)
    assert text.count("<figure>") == 4
    assert text.count("<circle") == 4 * 2
    assert "against adaptive" in text
    assert "95% interval" in text


def test_a_sweep_draws_its_front_through_the_settings_on_it() -> None:
    totals = [
        ({"key": str(i)}, [outcome(work_core_hours=work, violated_percent=violated).totals])
        for i, (work, violated) in enumerate([(100, 0.0), (90, 0.1), (200, 0.5)])
    ]
    text = sweep_page("small", settings(totals), 1)
    assert text.count("<circle") == 3
    assert text.count("<polyline") == 1
    assert "3 settings, 2 of them worth considering" in text


def test_values_that_are_drawn_together_are_drawn_as_their_mean() -> None:
    values = binned(np.arange(3000, dtype=np.float64))
    assert len(values) == 300
    assert values[0] == 4.5  # 0, 1, ..., 9
