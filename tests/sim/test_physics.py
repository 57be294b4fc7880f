"""A minute of nodes: noise, the ceiling, and who gets what."""

from __future__ import annotations

import numpy as np
import pytest

from koord.sim import physics
from koord.sim.minutes import Floats
from koord.sim.scenario import Noise

NODES = 20_000


def no_ceiling(mean: Floats, now: Floats) -> Floats:
    return np.full_like(mean, np.inf)


def test_noise_follows_from_seed_and_minute_and_has_the_stated_deviation() -> None:
    factors = physics.noise_factors(1, 5, NODES, Noise())
    assert (factors == physics.noise_factors(1, 5, NODES, Noise())).all()
    assert (factors != physics.noise_factors(1, 6, NODES, Noise())).any()
    assert factors.mean() == pytest.approx(1, abs=0.005)
    minute = factors.mean(axis=0)
    assert minute.std() == pytest.approx(np.hypot(0.12, 0.08 / np.sqrt(6)), abs=0.01)
    within = (factors / minute).std(axis=0)
    assert np.sqrt((within**2).mean()) == pytest.approx(0.08 * np.sqrt(5 / 6), abs=0.015)
    # Heavy tails: far more samples lie beyond four deviations than a normal distribution has.
    assert (np.abs(factors / minute - 1) > 0.32).mean() > 1e-3


def test_batch_gets_what_services_and_the_ceiling_leave() -> None:
    samples = np.full((6, 3), 4000.0)
    capacity = np.array([16_000.0, 16_000.0, 5000.0])
    wanted = np.array([2000.0, 20_000.0, 3000.0])

    def ceiling(mean: Floats, now: Floats) -> Floats:
        return np.maximum(0.0, np.array([13_600.0, 13_600.0, 4250.0]) - mean)

    minute = physics.minute(samples, samples[:3], capacity, wanted, ceiling)
    assert minute.batch_milli.tolist() == [2000.0, 9600.0, 250.0]
    assert minute.share == pytest.approx([1.0, 0.48, 1 / 12])
    assert minute.rise_milli.tolist() == [0.0, 0.0, 0.0]


def test_the_ceiling_looks_back_over_thirty_seconds_and_so_comes_late() -> None:
    samples = np.full((6, 1), 10_000.0)
    before = np.full((3, 1), 4000.0)
    asked: list[float] = []

    def ceiling(mean: Floats, now: Floats) -> Floats:
        asked.append(float(mean[0]))
        return np.full_like(mean, np.inf)

    minute = physics.minute(samples, before, np.array([16_000.0]), np.array([8000.0]), ceiling)
    assert asked == [4000.0, 6000.0, 8000.0, 10_000.0, 10_000.0, 10_000.0]
    assert minute.rise_milli[0] == pytest.approx((6000 + 4000 + 2000) / 6)
    # Capacity holds, whatever the ceiling says.
    assert (minute.batch_samples + samples <= 16_000).all()


def test_a_node_without_batch_gives_all_that_nobody_wants() -> None:
    samples = np.full((6, 1), 1000.0)
    minute = physics.minute(samples, samples[:3], np.array([4000.0]), np.zeros(1), no_ceiling)
    assert minute.share[0] == 1.0
    assert minute.batch_milli[0] == 0.0
