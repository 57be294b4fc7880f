"""SURF: jobs with their use become batch pods in the order of their arrival."""

from __future__ import annotations

import pytest
from numpy.typing import ArrayLike

from koord.sim.traces.surf import read
from koord.sim.traces.trace import TraceFault
from tests.sim.traces.samples import SURF_TASKS, surf


def test_tasks_come_in_the_order_of_their_arrival() -> None:
    tasks = read(surf()).tasks
    assert tasks is not None
    assert tasks.ids == ("surf-3", "surf-7")
    assert tasks.arrival_s.tolist() == [0, 60]
    assert tasks.request_cpu_milli.tolist() == [16000, 16000]
    assert tasks.request_memory_bytes.tolist() == [100_000_000_000] * 2
    assert tasks.duration_s.tolist() == [90, 60]
    assert tasks.use_milli.tolist() == [16000, 8000, 0, 1000, 2000]


def test_a_task_without_use_is_left_out_and_counted() -> None:
    trace = read(surf(offset=[0, 5, 5]))
    assert trace.tasks is not None
    assert trace.tasks.ids == ("surf-3",)
    assert [(repair.count, repair.first) for repair in trace.repairs] == [(1, "surf_week_tasks.csv task 7")]


def test_a_task_that_stands_twice_is_refused() -> None:
    with pytest.raises(TraceFault, match=r"surf_week_tasks\.csv:4: task 7 stands twice"):
        read(surf(SURF_TASKS + "7,1665093600000,1,16,33600,100000\n"))


@pytest.mark.parametrize("offset", [[0, 3], [1, 3, 5], [0, 3, 4], [0, 6, 5]])
def test_offsets_that_do_not_fit_the_values_are_refused(offset: ArrayLike) -> None:
    with pytest.raises(TraceFault, match="array offset must rise from 0 to 5"):
        read(surf(offset=offset))
