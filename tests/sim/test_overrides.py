"""`--set` on a scenario: by dotted field, by the name that slo-controller-config uses, for all nodes or a pool."""

from __future__ import annotations

import pytest

from koord.api.machinery.faults import BadInput
from koord.sim.overrides import overridden, pairs
from koord.sim.scenario import ClusterSource, Scenario

SCENARIO = Scenario(name="small", duration="24h", cluster=ClusterSource(pools={"web": 0.5, "batch": 0.5}))


def test_a_setting_of_lending_is_found_by_its_own_name() -> None:
    scenario = overridden(SCENARIO, {"cpuReclaimThresholdPercent": "70", "cpuSuppressThresholdPercent": "80"})
    assert scenario.colocation.cpu_reclaim_threshold_percent == 70
    assert scenario.thresholds.cpu_suppress_threshold_percent == 80


def test_a_field_of_the_scenario_is_found_by_its_path() -> None:
    scenario = overridden(SCENARIO, {"batch.arrivals": "saturate", "batch.pending": "50", "faults.reportLag": "30s"})
    assert (scenario.batch.arrivals, scenario.batch.pending, scenario.faults.report_lag) == ("saturate", 50, "30s")


def test_the_settings_of_a_pool_leave_the_others_alone() -> None:
    scenario = overridden(SCENARIO, {"cpuReclaimThresholdPercent": "70", "markPercent": "90"}, "batch")
    assert scenario.pool("batch").colocation is not None
    assert scenario.pool("batch").colocation.cpu_reclaim_threshold_percent == 70  # type: ignore[union-attr]
    assert (scenario.pool("batch").mark_percent, scenario.pool("web").mark_percent) == (90, 85)
    assert scenario.colocation == SCENARIO.colocation


def test_nothing_set_is_the_same_scenario() -> None:
    assert overridden(SCENARIO, {}) is SCENARIO


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cpuReclaimTresholdPercent": "70"}, "did you mean cpuReclaimThresholdPercent?"),
        ({"colour": "red"}, "must be a field of the scenario, or of colocation-config"),
        ({"cpuReclaimThresholdPercent": "much"}, "must be an integer from 0 to 200, not 'much'"),
        ({"batch.pending": "50"}, "needs arrivals: saturate"),
        ({"enable": "true"}, "policy=none lends nothing"),
        ({"cpuCalculatePolicy": "request"}, "policy=NAME says how to lend"),
        ({"colocation": "1"}, "is a section: name one of its fields"),
        ({"batch.color": "1"}, r"batch.color: unknown field \(valid: arrivals"),
    ],
)
def test_a_key_or_value_that_does_not_fit_is_refused(values: dict[str, str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        overridden(SCENARIO, values)


def test_a_pool_that_the_scenario_lacks_is_refused_with_its_pools() -> None:
    with pytest.raises(BadInput, match=r"--pool gpu: is not a pool of the scenario \(valid: batch, web\)"):
        overridden(SCENARIO, {"markPercent": "90"}, "gpu")


@pytest.mark.parametrize("text", ["", "key", "=value", "key=", " = "])
def test_a_text_that_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="must be KEY=VALUE"):
        pairs((text,))


def test_a_key_given_twice_is_refused() -> None:
    with pytest.raises(BadInput, match="markPercent: is given twice"):
        pairs(("markPercent=80", "markPercent=90"))
