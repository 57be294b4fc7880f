"""Tasks advance by the work that they get."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.sim.columns import BatchTasks
from koord.sim.tasks import TaskSource, advance_s, empty_table, source_of, used_milli, wants


def source(uses: list[float], step_s: float = 60.0) -> TaskSource:
    return source_of(
        BatchTasks(
            ("a",),
            np.zeros(1),
            np.array([1000]),
            np.array([1]),
            step_s,
            np.array([0, len(uses)]),
            np.array(uses, np.float32),
        )
    )


def test_a_task_that_gets_half_of_what_it_wants_takes_twice_as_long() -> None:
    one, row, progress = source([1000, 1000]), np.array([0]), np.zeros(1)
    for _ in range(4):
        wish = wants(one, row, progress)
        progress = progress + advance_s(wish, used_milli(wish, np.array([0.5])))
    assert progress[0] == pytest.approx(one.duration_s[0])


def test_a_minute_over_two_steps_wants_a_part_of_each() -> None:
    one = source([1000, 400, 400], step_s=90.0)
    wish = wants(one, np.array([0]), np.array([60.0]))
    assert wish.milli[0] == pytest.approx((1000 * 30 + 400 * 30) / 60)
    # With half of the 42,000 it comes 21 s into the first step.
    assert advance_s(wish, used_milli(wish, np.array([0.5])))[0] == pytest.approx(21.0)


def test_time_in_which_a_task_wants_nothing_passes_at_full_speed() -> None:
    one = source([0, 1000])
    assert advance_s(wants(one, np.array([0]), np.zeros(1)), np.zeros(1))[0] == pytest.approx(60.0)
    assert advance_s(wants(one, np.array([0]), np.array([60.0])), np.zeros(1))[0] == 0.0


def test_steps_below_a_minute_are_merged_without_losing_work() -> None:
    one = source([600, 0, 1200], step_s=30.0)
    assert one.tasks.step_s == 60.0
    assert one.work[0] == pytest.approx((600 + 1200) * 30)


@settings(max_examples=60, deadline=None)
@given(
    uses=st.lists(st.one_of(st.just(0.0), st.floats(10, 5000)), min_size=1, max_size=6),
    step_s=st.sampled_from([60.0, 90.0, 300.0]),
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=12),
)
def test_the_work_of_each_minute_is_what_was_used_of_what_was_wanted(
    uses: list[float], step_s: float, shares: list[float]
) -> None:
    one, row, progress = source(uses, step_s), np.array([0]), np.zeros(1)
    for share in shares:
        wish = wants(one, row, progress)
        used = used_milli(wish, np.array([share]))
        after = progress + advance_s(wish, used)
        done = one.work_at(row, after) - one.work_at(row, progress)
        assert done[0] == pytest.approx(used[0] * 60, rel=1e-6, abs=1e-3)
        assert used[0] >= wish.milli[0] * share * (1 - 1e-9)
        assert progress[0] <= after[0] <= one.duration_s[0] + 1e-6
        progress = after


def test_a_table_grows_and_keeps_what_it_has() -> None:
    table = empty_table()
    numbers = [table.add(np.zeros(700, np.int64), float(turn), np.full(700, float(turn))) for turn in range(4)]
    assert [int(part[0]) for part in numbers] == [0, 700, 1400, 2100]
    assert table.column("arrival_s").reshape(4, 700).mean(axis=1).tolist() == [0, 1, 2, 3]
