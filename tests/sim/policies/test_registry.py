"""Every policy of the registry keeps the contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from koord.sim.policies.policy import Policy
from koord.sim.policies.registry import DEFAULT, POLICIES
from tests.sim.minutes import SETTINGS, BatchPod, Future, minutes, nodes

NODES = nodes(32, 64)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_policy_lends_no_less_than_nothing_and_evicts_only_pods_that_run(policy: Policy[Any]) -> None:
    memory = policy.begin(NODES, SETTINGS)
    pods = {1: BatchPod(0, 8, 3), 2: BatchPod(1, 4, 4, wanted=8)}
    for number in range(1, 20):
        minute = minutes([20.0, float("nan") if number == 7 else 70.0], pods, at_s=60.0 * number)
        memory = policy.after_minute(memory, minute)
        ceiling = policy.ceiling(memory, np.array([20_000.0, 70_000.0]))
        lent = policy.lent(memory, minute, Future([20.0, 70.0]))
        assert (ceiling >= 0).all()
        if lent is not None:
            assert not (lent.cpu_milli < 0).any()
            assert not (lent.memory_bytes < 0).any()
        rows, memory = policy.evictions(memory, minute, ceiling)
        assert set(rows.tolist()) <= {0, 1}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_summary_is_one_line(policy: Policy[Any]) -> None:
    assert 0 < len(policy.summary) < 100
    assert "\n" not in policy.summary


def test_the_default_is_koords_own() -> None:
    assert POLICIES[DEFAULT].name == "adaptive"


def test_without_co_location_nothing_is_lent_and_nothing_is_held_back() -> None:
    policy = POLICIES["none"]
    minute = minutes([20.0, 30.0])
    assert policy.lent(None, minute, Future([0.0, 0.0])) is None
    assert np.isinf(policy.ceiling(None, minute.services_milli)).all()


def test_the_oracle_sells_what_the_next_hour_leaves_and_keeps_the_mark_at_each_moment() -> None:
    oracle = POLICIES["oracle"]
    memory = oracle.begin(NODES, SETTINGS)
    minute = minutes([5.0, 5.0], {1: BatchPod(0, request=8, used=1, wanted=2)})
    lent = oracle.lent(memory, minute, Future([10.0, 60.0]))
    assert lent is not None
    assert lent.cpu_milli.tolist() == pytest.approx([8_000 + (27_200 - 10_000) - 2_000, 0], abs=1e-6)
    assert oracle.ceiling(memory, np.array([20_000.0, 60_000.0])).tolist() == pytest.approx([7_200, 0])
    assert oracle.knows_now
