"""Sums of services by node equal what each service uses."""

from __future__ import annotations

import numpy as np
import pytest

from koord.sim.columns import ServiceCurves
from koord.sim.curves import NodeSums


def sums(cpu: list[list[float]], node: list[int]) -> NodeSums:
    values = np.array(cpu, np.float32)
    curves = ServiceCurves(tuple("abcdefg"[: len(cpu)]), 300.0, values, memory_bytes=values * 10)
    count = len(cpu)
    return NodeSums(curves, 2, np.array(node), np.full(count, 150.0), np.full(count, 100.0))


def test_use_is_interpolated_between_the_middles_of_steps() -> None:
    one = sums([[100, 200], [0, 0], [40, 40]], [0, 1, -1])
    assert one.cpu_milli(150.0).tolist() == [100.0, 0.0]
    assert one.cpu_milli(300.0).tolist() == [150.0, 0.0]
    assert one.cpu_milli(375.0).tolist() == [175.0, 0.0]


def test_a_trace_that_is_shorter_than_the_run_repeats() -> None:
    one = sums([[100, 200]], [0])
    assert one.cpu_milli(600.0 + 300.0) == pytest.approx(one.cpu_milli(300.0))
    # From the end of one turn to the beginning of the next.
    assert one.cpu_milli(600.0)[0] == pytest.approx(150.0)


def test_a_service_keeps_the_use_of_its_last_step_to_its_end() -> None:
    one = sums([[100, np.nan, 50]], [0])
    assert one.cpu_milli(290.0)[0] == pytest.approx(100.0)
    assert one.cpu_milli(310.0)[0] == 0.0
    assert one.present(310.0).tolist() == [False]


def test_what_comes_is_the_mean_and_the_highest_of_the_next_steps() -> None:
    one = sums([[100, 200, 400]], [0])
    assert one.mean_cpu_milli(150.0, 450.0)[0] == pytest.approx((150 * 100 + 300 * 200) / 450)
    assert one.most_memory_bytes(0.0, 600.0)[0] == pytest.approx(2000.0)


def test_peaks_count_the_larger_of_request_and_use() -> None:
    one = sums([[100, 100], [200, 200]], [0, 0])
    assert one.peak_milli(200.0).tolist() == [350.0, 0.0]
    assert one.requests(0.0)[0].tolist() == [300.0, 0.0]


def test_a_move_counts_from_the_next_question_on() -> None:
    one = sums([[100, 100]], [0])
    assert one.cpu_milli(150.0).tolist() == [100.0, 0.0]
    one.node[0] = 1
    one.moved()
    assert one.cpu_milli(150.0).tolist() == [0.0, 100.0]
