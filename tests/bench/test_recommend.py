"""The back-test of recommendations, on a small piece of a real trace and on made-up machines."""

from __future__ import annotations

import gzip
import json
from itertools import accumulate
from pathlib import Path

import pytest

from koord_bench.recommend import (
    MACHINES,
    TRACE,
    UNDER_GOAL_PERCENT,
    Judged,
    Machine,
    TraceError,
    back_test,
    bitbrains,
    run,
)

DATA = json.loads((Path(__file__).parent / "data" / "bitbrains.json").read_text())


def machines() -> list[Machine]:
    return [
        Machine(
            machine["name"],
            machine["requestedMilli"],
            list(zip(map(float, accumulate(machine["stepsS"])), machine["milli"], strict=True)),
        )
        for machine in DATA["machines"]
    ]


def test_at_most_two_percent_of_hours_of_real_machines_are_under_provisioned() -> None:
    total = Judged()
    for machine in machines():
        total = total.plus(back_test(machine))
    assert total.hours > 150
    assert total.under * 100 / total.hours <= UNDER_GOAL_PERCENT
    assert total.target_milli < total.requested_milli, "and the requests still shrink"


def test_no_hour_is_judged_by_what_was_only_known_after_it() -> None:
    """One core for two days, then four: the first hour of more is under-provisioned, whatever came later."""
    samples = [(i * 300.0, 1000 if i < 576 else 4000) for i in range(600)]
    judged = back_test(Machine("m", 8000, samples))
    assert judged.under >= 1


def test_made_up_machines_stand_in_for_the_trace() -> None:
    found = {result.metric: result for result in run(quick=True)}
    assert found["hours above the target, by their mean"].met


def test_the_trace_is_read_as_it_is_published(tmp_path: Path) -> None:
    (tmp_path / MACHINES).write_text("id,cpu_count,cpu_capacity\n7,2,4000\n")
    with gzip.open(tmp_path / TRACE, "wt") as text:
        text.write("id,t_s,dur_s,cpu_count,cpu_mhz\n7,300,300,2,1000\n7,0,300,2,500\n")
    assert bitbrains(tmp_path) == [Machine("7", 2000, [(0.0, 250), (300.0, 500)])]


@pytest.mark.parametrize("capacity", ["0", "none"])
def test_a_folder_without_the_trace_is_named(capacity: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=MACHINES):
        bitbrains(tmp_path)
    (tmp_path / MACHINES).write_text(f"id,cpu_count,cpu_capacity\n7,2,{capacity}\n")
    with gzip.open(tmp_path / TRACE, "wt") as text:
        text.write("id,t_s,cpu_mhz\n7,300,1000\n")
    with pytest.raises(TraceError, match="cpu_capacity"):
        bitbrains(tmp_path)
