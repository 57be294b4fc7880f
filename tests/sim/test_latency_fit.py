"""The fit of the latency model: on a made-up machine whose constants are other ones, and on too little data."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from koord.api.machinery.faults import BadInput
from koord.sim.latency_fit import fit, is_fitted, least_squares
from koord.sim.latency_recording import ALONE
from tests.sim.queues import MACHINE, recording

RECORDING = recording()


def test_the_model_is_near_a_queue_that_it_was_not_made_of() -> None:
    model = fit(RECORDING)
    assert model.p99_error.median_percent < 10
    assert model.p50_error.median_percent < 10
    assert model.machine == MACHINE


def test_what_was_made_worse_is_fitted_as_worse() -> None:
    model = fit(RECORDING)
    assert model.unprotected["cpu"].p99_delay_ms > 10 * model.protected["cpu"].p99_delay_ms
    assert model.protected["cache"].stretch > 3 * model.protected["cpu"].stretch
    assert model.full["cpu"] == pytest.approx(1.0)


def test_mixed_is_the_mean_of_the_kinds() -> None:
    held = fit(RECORDING).protected
    assert held["mixed"].stretch == pytest.approx((held["cpu"].stretch + held["cache"].stretch) / 2, abs=1e-3)


def test_services_that_fell_behind_are_predicted_and_not_counted_as_errors() -> None:
    error = fit(RECORDING).p99_error
    assert error.overloaded > 0
    assert error.overloaded_predicted == error.overloaded


def test_both_halves_have_every_kind_and_no_point_twice() -> None:
    points = RECORDING.points
    halves = [{p.setting for p in points if is_fitted(p.setting, points) is half} for half in (True, False)]
    assert not halves[0] & halves[1]
    kinds = [{(setting.neighbour, setting.protected) for setting in half} for half in halves]
    assert kinds[0] == kinds[1]
    assert abs(len(halves[0]) - len(halves[1])) <= 5


def test_equal_recordings_give_equal_constants_in_any_order_of_their_points() -> None:
    assert fit(replace(RECORDING, points=RECORDING.points[::-1])) == fit(RECORDING)


def test_the_least_squares_of_a_line_are_its_known_solution() -> None:
    x, y = np.arange(10.0), 3.0 + 2.0 * np.arange(10.0)
    assert least_squares(lambda at: at[0] + at[1] * x - y, np.zeros(2)) == pytest.approx([3.0, 2.0])


def test_a_recording_that_was_disturbed_throughout_says_so() -> None:
    disturbed = replace(RECORDING, points=tuple(replace(point, disturbed=0.5) for point in RECORDING.points))
    with pytest.raises(BadInput, match=r"alone at 0 loads, 4 are needed \(57 points, 0 .*quieter machine"):
        fit(disturbed)


def test_a_recording_without_neighbours_says_so() -> None:
    alone = tuple(point for point in RECORDING.points if point.neighbour == ALONE)
    with pytest.raises(BadInput, match="no neighbour"):
        fit(replace(RECORDING, points=alone))


def test_a_neighbour_that_was_never_measured_without_the_agent_is_left_out() -> None:
    held = tuple(point for point in RECORDING.points if point.protected or point.neighbour == "cache")
    model = fit(replace(RECORDING, points=held))
    assert model.left_out == ("cpu",)
    assert model.neighbours == ("cache", "mixed")
