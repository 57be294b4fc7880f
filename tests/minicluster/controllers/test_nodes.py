"""Taints, silent nodes, evictions, budgets and pods without an owner, decided from tables."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from koord.api.kinds import PODS
from koord.api.kubernetes.core import Namespace, Pod
from koord.api.kubernetes.node import Taint
from koord.api.kubernetes.policy import PodDisruptionBudget
from koord.api.machinery.codec import convert
from koord.api.text.timestamp import from_seconds
from koord_minicluster.controllers import disruption, namespace, pod_gc, taint_eviction
from koord_minicluster.controllers.actions import Delete, Patch
from koord_minicluster.controllers.node_lifecycle import not_ready, tainted, unknown
from tests.minicluster.controllers.builders import NOW, node, pod


@pytest.mark.parametrize(
    ("conditions", "cordoned", "expected"),
    [
        ({"Ready": "True"}, False, set()),
        ({"Ready": "False"}, False, {"not-ready:NoSchedule", "not-ready:NoExecute"}),
        ({"Ready": "Unknown"}, False, {"unreachable:NoSchedule", "unreachable:NoExecute"}),
        ({"Ready": "True", "MemoryPressure": "True"}, False, {"memory-pressure:NoSchedule"}),
        (
            {"Ready": "True", "NetworkUnavailable": "True"},
            True,
            {"network-unavailable:NoSchedule"} | {"unschedulable:NoSchedule"},
        ),
    ],
)
def test_conditions_decide_a_nodes_taints(conditions: dict[str, str], cordoned: bool, expected: set[str]) -> None:
    others = (
        {"key": "dedicated", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
    )
    made = node("n", conditions, taints=others, cordoned=cordoned)
    (patch,) = tainted(made, NOW)
    found = {f"{t['key'].removeprefix('node.kubernetes.io/')}:{t['effect']}" for t in patch.body["spec"]["taints"]}
    assert found == expected | {"dedicated:NoSchedule"}


def test_taints_that_are_right_are_left_alone() -> None:
    unreachable = {"key": "node.kubernetes.io/unreachable", "timeAdded": from_seconds(NOW)}
    both = tuple({**unreachable, "effect": effect} for effect in ("NoSchedule", "NoExecute"))
    assert tainted(node("n", {"Ready": "Unknown"}, taints=both), NOW) == []


def test_the_taint_of_a_newborn_stays_until_it_reports() -> None:
    assert tainted(node("n", taints=({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},)), NOW) == []


def test_a_silent_nodes_conditions_become_unknown_once() -> None:
    (patch,) = unknown(node("n", {"Ready": "True", "MemoryPressure": "False"}), NOW)
    told = {c["type"]: (c["status"], c["reason"]) for c in patch.body["status"]["conditions"]}
    assert told["Ready"] == told["MemoryPressure"] == ("Unknown", "NodeStatusUnknown")
    assert told["DiskPressure"] == ("Unknown", "NodeStatusNeverUpdated")
    types = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
    assert unknown(node("n", dict.fromkeys(types, "Unknown")), NOW) == []


def test_only_ready_pods_are_marked_not_ready() -> None:
    assert len(not_ready(pod("a"), NOW)) == 1
    assert not_ready(pod("a", ready=False), NOW) == []


def no_execute(key: str, added_s_ago: float | None = 0.0) -> Taint:
    added = {} if added_s_ago is None else {"timeAdded": from_seconds(NOW - added_s_ago)}
    return convert(Taint, {"key": key, "effect": "NoExecute", **added})


def tolerating(*tolerations: dict[str, Any]) -> Pod:
    return pod("a", tolerations=list(tolerations))


FOR_300_S = {"key": "x", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
FOREVER = {"key": "x", "operator": "Exists", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("victim", "taints", "in_s"),
    [
        (tolerating(), [], None),
        (tolerating(), [convert(Taint, {"key": "x", "effect": "NoSchedule"})], None),
        (tolerating(), [no_execute("x")], 0),
        (tolerating(FOREVER), [no_execute("x")], None),
        (tolerating(FOR_300_S), [no_execute("x", 100)], 200),
        (tolerating(FOR_300_S), [no_execute("x", 400)], 0),
        (tolerating(FOR_300_S), [no_execute("x", 100), no_execute("y")], 0),
        (tolerating(FOREVER, FOR_300_S), [no_execute("x", 100)], None),
        (
            tolerating(FOR_300_S, {"key": "y", "operator": "Exists", "tolerationSeconds": 60}),
            [no_execute("x"), no_execute("y")],
            60,
        ),
        (tolerating(FOR_300_S), [no_execute("x", None)], 290),
        (tolerating({**FOR_300_S, "tolerationSeconds": -5}), [no_execute("x")], 0),
    ],
)
def test_when_a_pod_must_leave(victim: Pod, taints: list[Taint], in_s: float | None) -> None:
    plan = taint_eviction.decide(victim, taints, NOW - 10, NOW)
    if in_s is None:
        assert (plan.actions, plan.again_in_s) == ((), None)
    elif in_s == 0:
        assert isinstance(plan.actions[-1], Delete)
        assert isinstance(plan.actions[0], Patch)
    else:
        assert (plan.actions, plan.again_in_s) == ((), in_s)


def budget(status: dict[str, Any] | None = None, **spec: Any) -> PodDisruptionBudget:
    meta = {"name": "b", "namespace": "default", "uid": "u", "generation": 3, "resourceVersion": "7"}
    return convert(PodDisruptionBudget, {"metadata": meta, "spec": spec, "status": status or {}})


@pytest.mark.parametrize(
    ("spec", "sizes", "expected"),
    [
        # (pods expected, healthy desired, disruptions allowed) with 4 pods there, 3 of them healthy
        ({"minAvailable": 2}, {}, (4, 2, 1)),
        ({"minAvailable": 5}, {}, (4, 5, 0)),
        ({"minAvailable": "50%"}, {"d": 5}, (5, 3, 0)),
        ({"maxUnavailable": 2}, {"d": 4}, (4, 2, 1)),
        ({"maxUnavailable": "30%"}, {"d": 4}, (4, 2, 1)),
        ({"maxUnavailable": 9}, {"d": 4}, (4, 0, 3)),
        ({"maxUnavailable": "50%"}, {"d": 4, "e": 3}, (7, 3, 0)),
        ({"maxUnavailable": 1}, {}, (0, 0, 0)),
        ({}, {}, (4, 0, 3)),
    ],
)
def test_how_many_may_be_disrupted(
    spec: dict[str, Any], sizes: dict[str, int | None], expected: tuple[int, int, int]
) -> None:
    pods = [pod("a"), pod("b"), pod("c"), pod("d", ready=False)]
    made = budget(**spec)
    wanted = disruption.expected(made, pods, sizes)
    (patch,) = disruption.decide(made, pods, wanted, NOW).actions
    assert isinstance(patch, Patch)
    status = patch.body["status"]
    found = (status.get("expectedPods", 0), status.get("desiredHealthy", 0), status.get("disruptionsAllowed", 0))
    assert found == expected
    (condition,) = status["conditions"]
    assert condition["reason"] == ("SufficientPods" if expected[2] else "InsufficientPods")
    assert condition["observedGeneration"] == 3


def test_granted_evictions_count_for_two_minutes_or_until_the_pod_goes() -> None:
    granted = {name: from_seconds(NOW - ago) for name, ago in (("a", 10), ("b", 130), ("gone", 10), ("c", 10))}
    pods = [pod("a"), pod("b"), pod("c", deleting=True)]
    made = budget({"disruptedPods": granted}, minAvailable=1)
    plan = disruption.decide(made, pods, disruption.expected(made, pods, {}), NOW)
    (patch,) = plan.actions
    assert isinstance(patch, Patch)
    assert patch.body["status"]["currentHealthy"] == 1, "b alone: a may be gone any moment, c is going"
    assert patch.body["status"]["disruptedPods"] == {"a": granted["a"], "b": None, "gone": None, "c": None}
    assert plan.again_in_s == 110


def test_an_owner_without_a_size_forbids_all_disruption() -> None:
    made = budget(maxUnavailable=1)
    wanted = disruption.expected(made, [pod("a")], {"Job sum": None})
    (patch,) = disruption.decide(made, [pod("a")], wanted, NOW).actions
    assert isinstance(patch, Patch)
    assert patch.body["status"]["conditions"][0]["reason"] == "SyncFailed"
    assert disruption.decide(budget(minAvailable=2, status=None), [], disruption.Expected(0, 2), NOW).actions


def test_the_oldest_of_too_many_finished_pods_go() -> None:
    finished = [pod(f"p{age}", phase="Succeeded", age_s=age) for age in (30, 10, 20)]
    gone = pod_gc.finished_too_many(finished, 1)
    assert [action.name for action in gone if isinstance(action, Delete)] == ["p30", "p20"]
    assert pod_gc.finished_too_many(finished, 3) == []


def test_pods_that_nobody_will_end_are_ended() -> None:
    unbound = pod("a", deleting=True)
    (gone,) = pod_gc.leaving(unbound, None, NOW)
    assert isinstance(gone, Delete)
    assert gone.grace_s == 0
    bound = pod("b", node="n", deleting=True)
    out = ({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"},)
    assert pod_gc.leaving(bound, node("n", {"Ready": "Unknown"}), NOW) == []
    assert pod_gc.leaving(bound, node("n", {"Ready": "True"}, taints=out), NOW) == []
    assert isinstance(pod_gc.leaving(bound, node("n", {"Ready": "Unknown"}, taints=out), NOW)[-1], Delete)
    assert pod_gc.leaving(pod("c", node="n"), node("n", {"Ready": "Unknown"}, taints=out), NOW) == []
    without_grace = structs.replace(bound, metadata=structs.replace(bound.metadata, deletion_grace_period_seconds=0))
    for node_state in ("True", "Unknown"):
        (left,) = pod_gc.leaving(without_grace, node("n", {"Ready": node_state}), NOW)
        assert isinstance(left, Delete)
    held = structs.replace(without_grace.metadata, finalizers=["a/b"])
    assert pod_gc.leaving(structs.replace(without_grace, metadata=held), None, NOW) == []
    *told, deleted = pod_gc.lost(pod("d", node="gone"), NOW)
    assert isinstance(deleted, Delete)
    assert [a.body["status"].get("phase") for a in told if isinstance(a, Patch)] == [None, "Failed"]
    assert all(getattr(action, "kind", None) is PODS for action in (*told, deleted))


def test_a_leaving_namespace_tells_what_holds_it() -> None:
    body = {"metadata": {"name": "x", "deletionTimestamp": from_seconds(NOW)}, "spec": {"finalizers": ["kubernetes"]}}
    leaving = convert(Namespace, body)
    assert namespace.is_leaving(leaving)
    left = namespace.Left({"configmaps": 2}, {"a/b": 1})
    told = {c.type: (c.status, c.reason) for c in namespace.status(leaving, left, NOW).conditions}
    assert told["NamespaceContentRemaining"] == ("True", "SomeResourcesRemain")
    assert told["NamespaceFinalizersRemaining"] == ("True", "SomeFinalizersRemain")
    assert told["NamespaceDeletionContentFailure"] == ("False", "ContentDeleted")
    assert not left.nothing
    assert namespace.Left({}, {}).nothing
    assert not namespace.Left({}, {}, undiscovered=("a/v1",)).nothing
