"""A plan in which less important pods make room."""

from __future__ import annotations

from typing import Any

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.text.manifest import parse
from koord.api.text.yaml import dump
from koord.offline.plan import Planned, plan
from koord.scheduler.profiles import profiles_of

NOW_S = 1_800_000_000.0


def node(name: str, cpu: str = "4") -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


def pod(name: str, cpu: str, priority: int, on: str = "", **labels: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec: dict[str, Any] = {"containers": [container], "priority": priority}
    if on:
        spec["nodeName"] = on
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def budget(**spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "kept"}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "kept"},
        "spec": {"selector": selector, **spec},
    }


def planned(*objects: dict[str, Any], rounds: int = 1) -> Planned:
    text = "---\n".join(dump(object_) for object_ in objects)
    return plan(parse(text, "given"), profiles_of(SHIPPED), now_s=NOW_S, rounds=rounds)


def test_in_one_round_victims_are_named_and_stay() -> None:
    found = planned(node("a"), pod("low", "4", 0, "a"), pod("high", "2", 10))
    high = found.plan.pods["default/high"]
    assert (high.node, high.nominated_node, high.victims) == (None, "a", ("default/low",))
    assert high.outcome == "unschedulable"
    assert "once default/low made room" in high.reason
    assert found.plan.pods["default/low"].node == "a"
    assert "1 pod would fit once less important pods made room: --rounds 2" in found.warnings


def test_in_two_rounds_victims_go_and_the_pod_takes_their_place() -> None:
    found = planned(node("a"), pod("low", "4", 0, "a"), pod("high", "2", 10), rounds=2)
    high, low = found.plan.pods["default/high"], found.plan.pods["default/low"]
    assert (high.node, high.outcome, high.nominated_node) == ("a", "scheduled", "a")
    assert high.victims == ("default/low",)
    assert (low.node, low.outcome) == (None, "unschedulable")
    assert low.reason == "has to make room on a for default/high, which is more important"
    assert found.plan.nodes["a"].requested["cpu"] == "2"
    assert found.running == {}
    assert [(event.object, event.reason) for event in found.plan.events] == [
        ("default/high", "Scheduled"),
        ("default/low", "Preempted"),
    ]


def test_room_that_was_promised_is_not_given_to_others() -> None:
    found = planned(node("a"), pod("low", "3", 0, "a"), pod("high", "4", 10), pod("small", "1", 0))
    assert found.plan.pods["default/small"].node is None


def test_a_pod_that_nobody_could_make_room_for_is_told_so() -> None:
    found = planned(node("a"), pod("same", "4", 10, "a"), pod("high", "2", 10))
    high = found.plan.pods["default/high"]
    assert high.nominated_node is None
    (event,) = found.plan.events
    assert event.message == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod. "
        "It would fit on a with 2 more cpu there."
    )


def test_a_budget_without_a_status_is_counted_from_the_pods_there_are() -> None:
    pods = (pod("k1", "2", 0, "a", app="kept"), pod("k2", "2", 0, "b", app="kept"), pod("other", "2", 5, "a"))
    world = (node("a"), node("b", "2"), *pods, pod("high", "2", 10))

    def victims(**spec: Any) -> tuple[str, ...]:
        return planned(*world, budget(**spec)).plan.pods["default/high"].victims

    assert victims(minAvailable=2) == ("default/other",)
    assert victims(maxUnavailable=0) == ("default/other",)
    assert victims(minAvailable="100%") == ("default/other",)
    assert victims(minAvailable=1) != ("default/other",)
    assert victims(maxUnavailable="50%") != ("default/other",)


def test_a_pod_that_was_promised_a_node_in_the_input_holds_its_room() -> None:
    promised = {**pod("high", "4", 10), "status": {"nominatedNodeName": "a"}}
    found = planned(node("a"), pod("low", "1", 0, "a"), promised, pod("small", "1", 0))
    assert found.plan.pods["default/small"].node is None
