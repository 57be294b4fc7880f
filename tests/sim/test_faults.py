"""Faults follow from the seed and the time."""

from __future__ import annotations

import numpy as np
import pytest

from koord.sim.faults import outages, reporting
from koord.sim.scenario import DAY_S, FaultSettings, NodeFailures


def test_nodes_fail_about_as_often_as_is_stated_and_come_back() -> None:
    faults = FaultSettings(node_failures=NodeFailures(every="24h", lasting="2h"))
    made = outages(faults, 1, 500, 10 * DAY_S)
    assert len(made.node) / 500 == pytest.approx(10 * 24 / 26, rel=0.05)
    assert np.mean([made.down(hour * 3600.0, 500).mean() for hour in range(1, 240)]) == pytest.approx(2 / 26, rel=0.1)
    first = made.from_s.min()
    assert made.down(first, 500).sum() == 1
    assert not made.down_for(first + 299, 300, 500)[made.node[made.from_s.argmin()]]
    assert made.down_for(first + 300, 300, 500)[made.node[made.from_s.argmin()]]


def test_reports_are_lost_by_chance_and_equal_questions_have_equal_answers() -> None:
    faults = FaultSettings(lost_reports=0.2)
    arrives = np.array([reporting(faults, 3, tick, 60.0 * tick, 1000) for tick in range(20)])
    assert arrives.mean() == pytest.approx(0.8, abs=0.02)
    assert (arrives[7] == reporting(faults, 3, 7, 420.0, 1000)).all()


def test_silent_nodes_report_nothing_for_an_hour_a_day() -> None:
    faults = FaultSettings(silent_nodes=0.5)
    arrives = np.array([reporting(faults, 3, tick, 60.0 * tick, 200) for tick in range(1440)])
    quiet_minutes = (~arrives).sum(axis=0)
    assert set(quiet_minutes.tolist()) == {0, 60}
    assert (quiet_minutes == 60).mean() == pytest.approx(0.5, abs=0.1)
