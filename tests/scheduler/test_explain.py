"""Explanations: the figures of the engine, and an unchanged state."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from koord.api.kubernetes.node import Node
from koord.scheduler.explain import explain
from koord.scheduler.framework.ask import Ask
from tests.scheduler.builders import ask, node
from tests.scheduler.test_smallest import shipped, worlds


@given(worlds())
@settings(max_examples=40, deadline=None)
def test_it_says_what_the_engine_decides(world: tuple[list[Node], list[tuple[Ask, str]], Ask]) -> None:
    nodes, running, wanted = world
    engine = shipped(nodes, running)
    explanation = explain(engine, wanted)
    placement = shipped(nodes, running).place(wanted, explain=True)
    assert (explanation.chosen, explanation.outcome) == (
        placement.node,
        "unschedulable" if placement.node is None else "fits",
    )
    if placement.node is None:
        found: dict[str, dict[str, int]] = {}
        for each in explanation.why_not:
            found.setdefault(each.plugin, {})[each.reason] = each.nodes
        assert found == placement.why_not
        assert explanation.feasible == 0
    else:
        best = explanation.why_there[0]
        assert (best.node, best.total, best.scores) == (placement.node, placement.total, placement.scores)
        assert [standing.chosen for standing in explanation.why_there] == [True] + [False] * (
            len(explanation.why_there) - 1
        )
        assert explanation.changes == ()
    # Asking changes nothing.
    assert explain(engine, wanted) == explanation
    assert engine.place(wanted, explain=True) == placement


@given(worlds())
@settings(max_examples=40, deadline=None)
def test_a_pod_on_a_node_is_explained_as_if_it_came_now(
    world: tuple[list[Node], list[tuple[Ask, str]], Ask],
) -> None:
    nodes, running, _ = world
    if not running:
        return
    (there, where), *others = running
    engine = shipped(nodes, running)
    explanation = explain(engine, there)
    assert explanation.node == where
    assert explanation.chosen == shipped(nodes, others).place(there).node
    assert engine.cluster.pods.keys() == {pod.key for pod, _ in running}
    assert explain(engine, there) == explanation


def test_plugins_come_in_the_order_in_which_nodes_meet_them() -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    engine = shipped([node("n1", cpu="1"), node("n2", taints=[taint]), node("n3", unschedulable=True), node("n4")])
    explanation = explain(engine, ask("p", cpu="2", nodeSelector={"disk": "ssd"}))
    assert [each.plugin for each in explanation.why_not] == ["NodeUnschedulable", "TaintToleration", "NodeAffinity"]
    assert explanation.why_not[2].examples == ("n1", "n4")


def test_an_important_pod_hears_who_would_have_to_go() -> None:
    def pod(name: str, priority: int) -> Ask:
        return ask(name, cpu="2", priority=priority)

    engine = shipped([node("n1", cpu="2")], [(pod("small", 1), "n1")])
    explanation = explain(engine, pod("important", 9000))
    assert explanation.preemption is not None
    assert (explanation.preemption.node, explanation.preemption.victims) == ("n1", ("shop/small",))
    # Only named: it is there still.
    assert "shop/small" in engine.cluster.pods
    assert not engine.cluster.nominations


def test_a_refusal_is_told_whatever_the_node() -> None:
    claim: dict[str, Any] = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]}
    explanation = explain(shipped([node("n1")]), ask("p", **claim))
    assert explanation.refusal == 'persistentvolumeclaim "none" not found'
    assert explanation.changes == ()


def test_there_may_be_no_nodes() -> None:
    explanation = explain(shipped([]), ask("p"))
    assert (explanation.outcome, explanation.nodes, explanation.why_not, explanation.changes) == (
        "unschedulable",
        0,
        (),
        (),
    )
    assert explanation.message == "no nodes available to schedule pods"
