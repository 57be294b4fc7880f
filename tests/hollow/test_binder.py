from __future__ import annotations

from typing import Any

import pytest

from koord.api.pod import Pod
from koord.hollow.binder import Placement, Rooms, is_pending, order
from tests.hollow.builders import node, pod


def rooms(*nodes: Any) -> Rooms:
    made = Rooms()
    for each in nodes or (node("n1"), node("n2")):
        made.put_node(each)
    return made


def bound(name: str, to: str, **more: Any) -> Pod:
    return pod(name, nodeName=to, **more)


def test_pods_go_to_equal_nodes_in_turn() -> None:
    made = rooms(node("n1"), node("n2"), node("n3"))
    assert {made.place(pod(str(number))).node for number in range(3)} == {"n1", "n2", "n3"}


def test_what_is_taken_counts_until_its_pod_is_gone_or_done() -> None:
    made = rooms(node("n1", cpu="4"))
    made.put_pod(bound("a", "n1", cpu="3"))
    big = pod("b", cpu="2")
    assert made.place(big) == Placement(None, "0/1 nodes are available: 1 Insufficient cpu.")
    made.put_pod(bound("a", "n1", cpu="3", status={"phase": "Succeeded"}))
    assert made.place(big).node == "n1"
    made.put_pod(bound("a", "n1", cpu="3"))
    made.drop_pod("shop/a")
    assert made.place(big).node == "n1"


def test_a_pod_seen_before_its_node_counts_too() -> None:
    made = Rooms()
    made.put_pod(bound("a", "n1", cpu="3"))
    made.put_node(node("n1", cpu="4"))
    assert made.place(pod("b", cpu="2")).node is None


def test_every_node_says_why_it_is_not_taken() -> None:
    made = rooms(
        node("n1", cpu="1"),
        node("n2", memory="1Gi"),
        node("n3", pods="0"),
        node("n4", unschedulable=True),
        node("n5", taints=({"key": "gpu", "value": "only", "effect": "NoSchedule"},)),
        node("n6", cpu="1"),
    )
    assert made.place(pod(cpu="2", memory="2Gi")) == Placement(
        None,
        "0/6 nodes are available: 2 Insufficient cpu, 1 Insufficient memory, 1 Too many pods, "
        "1 node(s) had untolerated taint {gpu: only}, 1 node(s) were unschedulable.",
    )


NO_SCHEDULE = {"key": "k", "value": "v", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taint", "toleration", "placed"),
    [
        (NO_SCHEDULE, None, False),
        ({**NO_SCHEDULE, "effect": "NoExecute"}, None, False),
        ({**NO_SCHEDULE, "effect": "PreferNoSchedule"}, None, True),
        (NO_SCHEDULE, {"key": "k", "value": "v"}, True),
        (NO_SCHEDULE, {"key": "k", "value": "w"}, False),
        (NO_SCHEDULE, {"key": "k", "operator": "Exists"}, True),
        (NO_SCHEDULE, {"key": "other", "operator": "Exists"}, False),
        (NO_SCHEDULE, {"operator": "Exists"}, True),
        (NO_SCHEDULE, {"operator": "Exists", "effect": "NoExecute"}, False),
        (NO_SCHEDULE, {"operator": "Exists", "effect": "NoSchedule"}, True),
    ],
)
def test_taints_keep_pods_off_that_do_not_tolerate_them(
    taint: dict[str, str], toleration: dict[str, str] | None, placed: bool
) -> None:
    made = rooms(node("n1", taints=(taint,)))
    found = made.place(pod(tolerations=[toleration] if toleration else []))
    assert (found.node is not None) is placed


def test_selectors_and_required_affinity_choose_nodes() -> None:
    made = rooms(node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"}), node("n3", labels={"zone": "b"}))
    assert made.place(pod(nodeSelector={"zone": "a"})).node == "n1"

    def required(**term: Any) -> Placement:
        selector = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        return made.place(pod(affinity={"nodeAffinity": selector}))

    assert required(matchExpressions=[{"key": "zone", "operator": "NotIn", "values": ["b"]}]).node == "n1"
    # As DaemonSet pods say it.
    named = {"key": "metadata.name", "operator": "In", "values": ["n3"]}
    assert required(matchFields=[named]).node == "n3"
    assert "node(s) didn't match" in required(matchExpressions=[{"key": "none", "operator": "Exists"}]).reason


@pytest.mark.parametrize(
    ("more", "pending"),
    [
        ({}, True),
        ({"schedulerName": "koord-scheduler"}, True),
        ({"schedulerName": "volcano"}, False),
        ({"nodeName": "n1"}, False),
        ({"schedulingGates": [{"name": "wait"}]}, False),
        ({"metadata": {"deletionTimestamp": "2026-11-15T04:25:02Z"}}, False),
        ({"status": {"phase": "Failed"}}, False),
    ],
)
def test_which_pods_the_binder_is_for(more: dict[str, Any], pending: bool) -> None:
    assert is_pending(pod(**more)) is pending


def test_important_pods_go_first_then_older_ones() -> None:
    late, early = "2026-11-15T04:25:02Z", "2026-11-15T04:25:01Z"
    pods = [
        pod("late", metadata={"creationTimestamp": late}),
        pod("vip", priority=9000, metadata={"creationTimestamp": late}),
        pod("early", metadata={"creationTimestamp": early}),
    ]
    assert [each.metadata.name for each in sorted(pods, key=order)] == ["vip", "early", "late"]


def test_a_cluster_without_nodes_says_so() -> None:
    assert Rooms().place(pod()) == Placement(None, "0/0 nodes are available: there are no nodes.")
