"""The runs of a sweep, from the text of its options."""

from __future__ import annotations

import pytest

from koord.api.machinery.faults import BadInput
from koord.sim.sweep import axis, grid


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("cpuReclaimThresholdPercent=60:75:5", ("60", "65", "70", "75")),
        ("cpuReclaimThresholdPercent=60:74:5", ("60", "65", "70")),
        ("resourceDiffThreshold=0.1:0.3:0.1", ("0.1", "0.2", "0.3")),
        ("markPercent=100:100:1", ("100",)),
        ("cpuCalculatePolicy=usage, request", ("usage", "request")),
    ],
)
def test_the_values_of_a_key(text: str, values: tuple[str, ...]) -> None:
    assert axis(text) == (text.partition("=")[0], values)


def test_a_grid_has_every_combination_the_last_key_fastest() -> None:
    assert [tuple(values.values()) for values in grid(["a=1:2:1", "b=x,y"])] == [
        ("1", "x"),
        ("1", "y"),
        ("2", "x"),
        ("2", "y"),
    ]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a"], "must be KEY=FROM:TO:STEP or KEY=VALUE,VALUE"),
        (["=1"], "must be KEY=FROM:TO:STEP"),
        (["a="], "must be KEY=FROM:TO:STEP"),
        (["a=1:2"], "three numbers, FROM:TO:STEP"),
        (["a=1:x:1"], "three numbers, FROM:TO:STEP"),
        (["a=1:inf:1"], "three finite numbers"),
        (["a=2:1:1"], "TO at least FROM"),
        (["a=1:2:0"], "STEP must be above 0"),
        (["a=1:1e30:1e-30"], "more than 10000 values"),
        (["a=1,,2"], "empty value"),
        (["a=1,1"], "the same value twice"),
        (["a=1,2", "a=3"], "a: is given twice"),
        (["a=1:5000:1", "b=1:3:1"], "15000 combinations, at most 10000"),
    ],
)
def test_a_text_that_is_no_grid_is_refused(texts: list[str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        grid(texts)
