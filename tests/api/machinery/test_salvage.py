"""Going on after a fault."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.configuration.scheduler_args import LoadAwareSchedulingArgs
from koord.api.configuration.scheduler_config import SchedulerConfiguration
from koord.api.machinery.salvage import salvage


def test_the_good_parts_are_left() -> None:
    value, faults = salvage(
        LoadAwareSchedulingArgs, {"usageThresholds": {"cpu": 200, "memory": 50}, "estimator": 1, "x": 2}
    )
    assert value == LoadAwareSchedulingArgs(usage_thresholds={"memory": 50})
    assert {fault.path for fault in faults} == {"usageThresholds.cpu", "estimator", "x"}


def test_what_misses_a_required_field_goes_as_a_whole() -> None:
    data = {"parallelism": 4, "profiles": [{"plugins": {"score": {"enabled": [{"weight": 1}]}, "bind": {}}}]}
    value, faults = salvage(SchedulerConfiguration, data)
    assert value is not None
    assert value.parallelism == 4
    assert len(value.profiles) == 1
    assert [fault.path for fault in faults] == ["profiles[0].plugins.score.enabled[0].name"]


@pytest.mark.parametrize("data", [None, 3, "text", []])
def test_nothing_is_left_of_the_wrong_thing(data: Any) -> None:
    value, faults = salvage(SchedulerConfiguration, data)
    assert value is None
    assert len(faults) == 1


def test_keys_that_are_no_names_are_found_again() -> None:
    value, faults = salvage(LoadAwareSchedulingArgs, {"usageThresholds": {"kubernetes.io/batch-cpu": 200, "cpu": 1}})
    assert value == LoadAwareSchedulingArgs(usage_thresholds={"cpu": 1})
    assert [fault.path for fault in faults] == ["usageThresholds[kubernetes.io/batch-cpu]"]
