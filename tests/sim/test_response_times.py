"""Response times in the world: which samples are slow, and how nodes are weighed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec.structs import replace

from koord.api.machinery.faults import BadInput
from koord.sim.latency_fit import fit
from koord.sim.outcome import Outcome
from koord.sim.response_times import check_settings, response_times
from koord.sim.run import run
from koord.sim.scenario import LatencySettings
from tests.sim.queues import recording
from tests.sim.small import Fixed, cluster, scenario, tasks

MODEL = fit(recording(2000))
CAPACITY = np.array([32000.0, 64000.0])
IDLE = np.zeros((6, 2))


def test_an_idle_cluster_has_a_p99_of_one_and_no_slow_sample() -> None:
    times = response_times(MODEL, LatencySettings(), IDLE, IDLE, CAPACITY)
    assert times.p99 == pytest.approx([1.0, 1.0])
    assert list(times.over(np.array([3.0, 1.0]))) == pytest.approx([0.0, 1.0])


def test_a_node_counts_as_often_as_it_has_services() -> None:
    services = np.zeros((6, 2))
    services[:3, 1] = 0.95 * CAPACITY[1]
    times = response_times(MODEL, LatencySettings(), services, IDLE, CAPACITY)
    assert times.slow.tolist() == [0.0, 0.5]
    slow, p99 = times.over(np.array([3.0, 1.0]))
    assert slow == 0.125
    assert p99 == pytest.approx(0.75 * times.p99[0] + 0.25 * times.p99[1])


def test_batch_without_protection_makes_services_slow() -> None:
    services, batch = np.tile(0.3 * CAPACITY, (6, 1)), np.tile(0.5 * CAPACITY, (6, 1))
    held, loose = (
        response_times(MODEL, replace(LatencySettings(), protected=protected), services, batch, CAPACITY)
        for protected in (True, False)
    )
    assert (held.p99 < loose.p99).all()
    assert held.slow.tolist() == [0, 0]
    assert loose.slow.tolist() == [1, 1]


def test_a_cluster_without_services_has_no_response_time() -> None:
    slow, p99 = response_times(MODEL, LatencySettings(), IDLE, IDLE, CAPACITY).over(np.zeros(2))
    assert math.isnan(slow)
    assert math.isnan(p99)


def test_a_neighbour_that_the_constants_do_not_have_is_refused() -> None:
    with pytest.raises(BadInput, match=r"latency\.neighbour: must be one of cache, cpu, mixed, not gpu"):
        check_settings(MODEL, replace(LatencySettings(), neighbour="gpu"))


def outcome(**latency: object) -> Outcome:
    given = scenario(duration="1h", latency=latency)
    return run(given, cluster(batch=tasks(60, every_s=10)), {"": Fixed()}, seed=1, latency=MODEL)


def test_a_run_says_how_many_service_samples_were_slow() -> None:
    held, loose = outcome(neighbour="cpu"), outcome(neighbour="cpu", protected=False)
    assert held.totals.slow_percent < loose.totals.slow_percent
    assert 1 < held.totals.p99 < loose.totals.p99
    assert loose.series.slow.mean() * 100 == pytest.approx(loose.totals.slow_percent)
    assert len(loose.series.p99) == 60


def test_response_times_change_nothing_else() -> None:
    held, loose = outcome(neighbour="cpu"), outcome(neighbour="cpu", protected=False)
    assert held.evicted == loose.evicted
    assert (held.series.batch_used_milli == loose.series.batch_used_milli).all()


def test_without_a_model_response_times_are_unknown() -> None:
    without = run(scenario(duration="30m"), cluster(), {"": Fixed()})
    assert math.isnan(without.totals.slow_percent)
    assert without.as_json()["totals"]["p99"] is None


def test_a_resumed_run_has_the_same_response_times_and_other_constants_are_another_run() -> None:
    saved: list[bytes] = []
    given = scenario(duration="1h", restart="30m")
    whole = run(given, cluster(), {"": Fixed()}, latency=MODEL, save=saved.append)
    assert run(given, cluster(), {"": Fixed()}, latency=MODEL, resume=saved[0]).as_json() == whole.as_json()
    with pytest.raises(BadInput, match="of another run"):
        run(given, cluster(), {"": Fixed()}, resume=saved[0])


def test_a_scenario_with_an_unknown_neighbour_is_refused_before_the_first_minute() -> None:
    with pytest.raises(BadInput, match=r"latency\.neighbour"):
        outcome(neighbour="gpu")
