"""The fluid bound: room below the mark, as far as there is work."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from koord.sim.fluid import bound_milli_s
from koord.sim.outcome import Series


def series(room_cores: list[float], arrived_core_minutes: list[float]) -> Series:
    nothing = {field.name: np.zeros(len(room_cores)) for field in fields(Series)}
    given = {
        "room_milli": np.array(room_cores) * 1000,
        "arrived_milli_s": np.array(arrived_core_minutes) * 60_000,
    }
    return Series(**{**nothing, **given})


@pytest.mark.parametrize(
    ("room", "arrived", "done"),
    [
        ([4, 4, 4], [2, 2, 2], 6),  # all that arrives
        ([4, 4, 4], [9, 0, 0], 9),  # what arrives early is done later
        ([4, 4, 4], [0, 0, 9], 4),  # and not before it arrives
        ([0, 4, 4], [20, 0, 0], 8),  # as much as there is room
    ],
)
def test_the_bound_is_the_work_that_arrived_and_has_room(room: list[float], arrived: list[float], done: float) -> None:
    assert bound_milli_s(series(room, arrived), warm_up_ticks=0, never_empty=False) == done * 60_000


def test_with_a_queue_that_never_runs_empty_it_is_all_room_after_the_warm_up() -> None:
    assert bound_milli_s(series([9, 4, 3], [0, 0, 0]), warm_up_ticks=1, never_empty=True) == 7 * 60_000
