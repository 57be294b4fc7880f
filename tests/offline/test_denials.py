"""Pods that an API server would not take are denied in a plan, with the field and the fault."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.kubernetes.pod import PodSpec
from koord.api.machinery.codec import convert
from koord.offline.denials import denial
from tests.offline.test_plan import node, plan_of, pod


def resources(**amounts: dict[str, str]) -> dict[str, Any]:
    return {"containers": [{"name": "a"}, {"name": "b", "resources": amounts}]}


def spread(**more: Any) -> dict[str, Any]:
    whole = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **more}
    return {"topologySpreadConstraints": [whole]}


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (resources(requests={"cpu": "1"}, limits={"cpu": "1000m"}), ""),
        (resources(requests={"cpu": "-1"}), "spec.containers[1].resources.requests[cpu]: must be 0 or more, not -1"),
        (resources(limits={"memory": "-1Gi"}), "spec.containers[1].resources.limits[memory]: must be 0 or more"),
        (
            resources(requests={"cpu": "2"}, limits={"cpu": "1500m"}),
            "spec.containers[1].resources.requests[cpu]: must be at most the limit, 1500m, not 2",
        ),
        (spread(), ""),
        (spread(maxSkew=0), "spec.topologySpreadConstraints[0].maxSkew: must be more than 0"),
        (spread(topologyKey=""), "spec.topologySpreadConstraints[0].topologyKey: is required"),
        (
            spread(whenUnsatisfiable="Maybe"),
            "spec.topologySpreadConstraints[0].whenUnsatisfiable: must be DoNotSchedule or ScheduleAnyway, not 'Maybe'",
        ),
    ],
)
def test_the_first_fault_is_told_with_its_field(spec: dict[str, Any], fault: str) -> None:
    found = denial(convert(PodSpec, spec))
    assert found.startswith(fault)
    assert bool(found) == bool(fault)


def test_a_denied_pod_takes_no_room() -> None:
    found = plan_of(node("n1", "2"), pod("bad", **spread(maxSkew=-1)), pod("good", "2"))
    assert (found.pods["shop/bad"].outcome, found.pods["shop/good"].outcome) == ("denied", "scheduled")
    assert "maxSkew" in found.pods["shop/bad"].reason


def test_a_pod_that_runs_was_taken_by_someone() -> None:
    found = plan_of(node("n1"), pod("odd", nodeName="n1", **spread(maxSkew=-1)))
    assert found.pods["shop/odd"].outcome == "scheduled"
