"""The table of a run: each policy beside no co-location, Koordinator's defaults, the oracle and the fluid bound."""

from __future__ import annotations

import json

import pytest

from koord.sim.report.figures import Run, SideBySide, amount, as_json, duration, headline, share, table
from tests.sim.outcomes import outcome, stopped

OURS, NONE = outcome(), outcome("none", 0, 0, batch_share=0)
ORACLE = outcome("oracle", 1040, 0)
SIDE = SideBySide((Run("adaptive", OURS), Run("none", NONE), Run("oracle", ORACLE)), ORACLE, 1060 * 3.6e6)


def row(side: SideBySide, name: str) -> tuple[str, ...]:
    return next(cells[1:] for cells in table(side) if cells[0].strip() == name)


def test_work_is_shown_in_core_hours_and_by_the_oracle_and_the_bound() -> None:
    assert row(SIDE, "batch work, core-hours") == ("1,000", "0", "1,040")
    assert row(SIDE, "of the oracle's") == ("96.2%", "0%", "100.0%")  # 1000 / 1040
    assert row(SIDE, "of the fluid bound") == ("94.3%", "0%", "98.1%")  # 1000 / 1060, 1040 / 1060


def test_cpu_that_is_used_is_the_sum_of_its_bands() -> None:
    assert row(SIDE, "by batch")[0] == "50.0%"
    assert row(SIDE, "by services")[0] == "20.0%"
    assert row(SIDE, "by the system")[0] == "2.00%"
    assert row(SIDE, "CPU used")[0] == "72.0%"


def test_a_figure_that_no_run_has_is_left_out_and_one_that_a_run_lacks_is_a_dash() -> None:
    assert "service samples over their limit" not in {cells[0] for cells in table(SIDE)}
    assert row(SIDE, "batch got of what it wanted") == ("97.0%", "-", "97.0%")


def test_a_run_that_was_stopped_is_measured_by_nothing_that_ran_longer() -> None:
    part = stopped(OURS, 100)
    side = SideBySide((Run("adaptive", part), Run("oracle", ORACLE)), ORACLE, 1060 * 3.6e6)
    assert not side.is_whole
    assert row(side, "of the oracle's")[0] == row(side, "of the fluid bound")[0] == "-"


def test_the_headline_is_the_answer_in_words() -> None:
    assert headline(SIDE, SIDE.runs[0]) == (
        "adaptive uses 72% of the CPU instead of 22%, and does 1,000 core-hours of batch work, 96% of what an oracle"
        " would do. Nodes are above the safety mark in 0.50% of their minutes, and 0.10% of the batch work is lost to"
        " evictions."
    )


def test_json_has_the_table_and_the_whole_outcomes() -> None:
    answer = json.loads(json.dumps(as_json(SIDE)))
    assert answer["boundCoreHours"] == pytest.approx(1060)
    assert [run["name"] for run in answer["runs"]] == ["adaptive", "none", "oracle"]
    assert answer["runs"][0]["ofOraclePercent"] == pytest.approx(96.15, abs=0.01)
    assert answer["runs"][0]["totals"]["violatedPercent"] == 0.5
    assert answer["runs"][1]["totals"]["gotPercent"] is None
    assert len(answer["runs"][0]["series"]["lentMilli"]) == 2880


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0%"), (0.001, "<0.01%"), (0.57, "0.57%"), (9.99, "9.99%"), (97.13, "97.1%")]
)
def test_small_shares_keep_two_digits(value: float, text: str) -> None:
    assert share(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (0.0512, "0.0512"), (1.5, "1.5"), (12345.6, "12,346")])
def test_amounts_have_three_digits(value: float, text: str) -> None:
    assert amount(value) == text


@pytest.mark.parametrize(("seconds", "text"), [(59.6, "60 s"), (600, "10 min"), (10_800, "3.0 h")])
def test_waits_have_the_unit_that_a_person_would_choose(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_run_that_was_stopped_within_the_warm_up_claims_nothing() -> None:
    part = Run("adaptive", stopped(OURS, 0))
    assert headline(SideBySide((part,)), part) == "adaptive was stopped within the warm-up, which no figure counts."
