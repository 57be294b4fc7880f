"""Pods that an API server would not take are denied in a plan, with the field and the fault."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.kubernetes.pod import PodSpec
from koord.api.machinery.codec import convert
from koord.api.machinery.faults import Invalid
from koord.offline.denials import denial
from tests.offline.test_plan import node, plan_of, planned, pod


def resources(**amounts: dict[str, str]) -> dict[str, Any]:
    return {"containers": [{"name": "a"}, {"name": "b", "resources": amounts}]}


def spread(**more: Any) -> dict[str, Any]:
    whole = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **more}
    return {"topologySpreadConstraints": [whole]}


def tolerating(**toleration: Any) -> dict[str, Any]:
    return {"tolerations": [toleration]}


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
        (tolerating(key="a", operator="Exists"), ""),
        (tolerating(key="a", effect="NoExecute", tolerationSeconds=5), ""),
        (
            tolerating(key="a", effect="NoScheduled"),
            "spec.tolerations[0].effect: must be one of NoSchedule, PreferNoSchedule, NoExecute, not 'NoScheduled'",
        ),
        (
            tolerating(key="a", operator="Exist"),
            "spec.tolerations[0].operator: must be one of Equal, Exists, Lt, Gt, not 'Exist'",
        ),
        (tolerating(value="1"), "spec.tolerations[0].operator: must be Exists where no key is given, not Equal"),
        (tolerating(operator="Exists", value="1"), "spec.tolerations[0].value: must be empty"),
        (tolerating(key="a", tolerationSeconds=5), "spec.tolerations[0].effect: must be NoExecute"),
    ],
)
def test_the_first_fault_is_told_with_its_field(spec: dict[str, Any], fault: str) -> None:
    found = denial(convert(PodSpec, spec))
    assert found.startswith(fault)
    assert bool(found) == bool(fault)


def test_a_denied_pod_takes_no_room() -> None:
    plan = plan_of(node("n1", "2"), pod("bad", **spread(maxSkew=-1)), pod("good", "2"))
    assert (plan.pods["shop/bad"].outcome, plan.pods["shop/good"].outcome) == ("denied", "scheduled")
    assert "maxSkew" in plan.pods["shop/bad"].reason


def test_a_pod_that_runs_was_taken_by_someone() -> None:
    plan = plan_of(node("n1"), pod("odd", nodeName="n1", **spread(maxSkew=-1)))
    assert plan.pods["shop/odd"].outcome == "scheduled"


@pytest.mark.parametrize(
    ("taints", "fault"),
    [
        (
            [{"key": "a", "effect": "NoScheduled"}],
            "spec.taints[0].effect: must be one of NoSchedule, PreferNoSchedule, NoExecute, not 'NoScheduled'",
        ),
        ([{"key": "", "effect": "NoSchedule"}], "spec.taints[0].key: is required"),
        ([{"key": "a", "effect": "NoSchedule"}] * 2, "spec.taints[1]: there is another taint with key a and effect"),
    ],
)
def test_a_node_with_taints_that_no_cluster_has_is_refused_with_the_field(
    taints: list[dict[str, str]], fault: str
) -> None:
    with pytest.raises(Invalid) as refused:
        plan_of({**node("n1"), "spec": {"taints": taints}}, pod("p"))
    assert f"Node n1: {fault}" in str(refused.value)


HINT = "scheduling.koordinator.sh/device-allocate-hint"


@pytest.mark.parametrize("bound", [{}, {"nodeName": "n1"}])
def test_a_misspelt_field_of_a_hint_is_told_and_the_pod_placed(bound: dict[str, str]) -> None:
    hinting = pod("p", **bound)
    hinting["metadata"]["annotations"] = {HINT: '{"gpu": {"exclusivPolicy": "DeviceLevel"}}'}
    found = planned(node("n1"), hinting)
    assert found.plan.pods["shop/p"].outcome == "scheduled"
    (said,) = (warning for warning in found.warnings if HINT in warning)
    assert said.startswith("Pod shop/p: annotation ")
    assert "gpu.exclusivPolicy: unknown field (did you mean exclusivePolicy?)" in said
