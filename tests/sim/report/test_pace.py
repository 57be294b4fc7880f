"""The line of progress: virtual time, speed and what is left."""

from __future__ import annotations

import pytest

from koord.sim.report.pace import Pace, span

DAY_S = 86_400.0


def test_one_run_says_where_it_is_how_fast_and_how_long_still() -> None:
    pace = Pace(100.0, [7 * DAY_S])
    assert pace.line(100.0, [60.0]) == "day 1 00:01 of 7 d"
    # A day less a minute in 10 s; six days are left, a minute of real time.
    assert pace.line(110.0, [DAY_S]) == "day 2 00:00 of 7 d, 8,634 x real time, 1 min left"


def test_several_runs_say_how_many_are_done_and_where_the_slowest_is() -> None:
    pace = Pace(0.0, [DAY_S, DAY_S, DAY_S])
    pace.line(0.0, [60.0, 60.0, 0.0])
    assert pace.line(10.0, [DAY_S, DAY_S / 2, 0.0]).startswith("1 of 3 runs done, day 1 12:00, 12,948 x real time")


def test_a_run_that_continues_does_not_count_what_was_done_before() -> None:
    pace = Pace(0.0, [DAY_S])
    pace.line(1.0, [DAY_S / 2])
    assert "360 x real time" in pace.line(10.0, [DAY_S / 2 + 3600])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (90, "1 min 30 s"), (3600, "1 h"), (100_000, "1 d 3 h"), (7 * DAY_S, "7 d")],
)
def test_spans_have_two_units_at_most(seconds: float, text: str) -> None:
    assert span(seconds) == text
