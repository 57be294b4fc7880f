"""The plugins that the Kubernetes descheduler has, too: which pods each of them moves."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.text.timestamp import from_seconds
from koord.descheduler.round import Outcome, run
from tests.descheduler.build import NOW_S, Scene, deployment, node, pod, profile

FREELY = {
    "maxMigratingPerNode": 0,
    "skipEvictionGates": ["MaxMigratingPerWorkload", "MaxUnavailablePerWorkload", "ExpectedReplicas"],
}
"""Nothing but the plugin decides."""


def moved(outcome: Outcome) -> list[str]:
    return [move.pod.metadata.name for move in outcome.moves]


def played(plugin: str, args: dict[str, Any], scene: Scene, migration: Any = FREELY, **more: Any) -> Outcome:
    return run(profile({plugin: args}, migration, **more), scene.sight())


def with_status(given: Pod, **status: Any) -> Pod:
    return convert(Pod, {**_plain(given), "status": {"phase": "Running", **status}})


def with_metadata(given: Pod, **metadata: Any) -> Pod:
    plain = _plain(given)
    return convert(Pod, {**plain, "metadata": {**plain["metadata"], **metadata}})


def _plain(given: Any) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(given))
    return data


def container(**more: Any) -> dict[str, Any]:
    return {"name": "main", **more}


# PodLifeTime


LIVES: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({"maxPodLifeTimeSeconds": 3599}, {}, True),
    ({"maxPodLifeTimeSeconds": 3600}, {}, False),
    ({"states": ["Running"]}, {}, True),
    ({"states": ["Pending"]}, {}, False),
    ({"states": ["Pending"]}, {"phase": "Pending"}, True),
    ({"states": ["Shutdown"]}, {"reason": "Shutdown"}, True),
    (
        {"states": ["CrashLoopBackOff"]},
        {"containerStatuses": [container(state={"waiting": {"reason": "CrashLoopBackOff"}})]},
        True,
    ),
    (
        {"states": ["OOMKilled"]},
        {"containerStatuses": [container(state={"terminated": {"reason": "OOMKilled", "exitCode": 137}})]},
        True,
    ),
    (
        {"states": ["OOMKilled"]},
        {"initContainerStatuses": [container(state={"terminated": {"reason": "OOMKilled", "exitCode": 137}})]},
        False,
    ),
    (
        {"states": ["OOMKilled"], "includingInitContainers": True},
        {"initContainerStatuses": [container(state={"terminated": {"reason": "OOMKilled", "exitCode": 137}})]},
        True,
    ),
    (
        {"exitCodes": [1, 137]},
        {"containerStatuses": [container(state={"terminated": {"reason": "Error", "exitCode": 137}})]},
        True,
    ),
    ({"exitCodes": [1]}, {"containerStatuses": [container(state={"terminated": {"exitCode": 2}})]}, False),
    (
        {"conditions": [{"type": "Ready", "status": "False"}]},
        {"conditions": [{"type": "Ready", "status": "False"}]},
        True,
    ),
    (
        {"conditions": [{"type": "Ready", "status": "False"}]},
        {"conditions": [{"type": "Ready", "status": "True"}]},
        False,
    ),
    (
        {"conditions": [{"type": "Ready", "minTimeSinceLastTransitionSeconds": 60}]},
        {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": from_seconds(NOW_S - 60)}]},
        True,
    ),
    (
        {"conditions": [{"type": "Ready", "minTimeSinceLastTransitionSeconds": 60}]},
        {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": from_seconds(NOW_S - 59)}]},
        False,
    ),
    ({"states": ["Running"], "ownerKinds": {"include": ["ReplicaSet"]}}, {}, True),
    ({"states": ["Running"], "ownerKinds": {"exclude": ["ReplicaSet"]}}, {}, False),
    ({"states": ["Running"], "namespaces": {"exclude": ["default"]}}, {}, False),
    ({"states": ["Running"], "labelSelector": {"matchLabels": {"a": "b"}}}, {}, False),
    ({"maxPodLifeTimeSeconds": 10, "states": ["Pending"]}, {}, False),
]


@pytest.mark.parametrize(("args", "status", "goes"), LIVES)
def test_pods_go_when_all_that_is_asked_holds(args: dict[str, Any], status: dict[str, Any], goes: bool) -> None:
    scene = Scene([node("a"), node("b")], [with_status(pod("p", "a", age_s=3600), **status)])
    assert moved(played("PodLifeTime", args, scene)) == (["p"] if goes else [])


def test_the_oldest_go_first_as_far_as_a_rounds_limit_goes() -> None:
    pods = [pod("young", "a", age_s=100), pod("oldest", "b", age_s=300), pod("old", "a", age_s=200)]
    outcome = played(
        "PodLifeTime", {"maxPodLifeTimeSeconds": 50}, Scene([node("a"), node("b")], pods), maxNoOfPodsToEvictTotal=2
    )
    assert moved(outcome) == ["oldest", "old"]
    (held,) = outcome.held
    assert (held.proposal.pod.metadata.name, "maxNoOfPodsToEvictTotal: 2" in held.why) == ("young", True)


def test_limits_count_per_node_and_namespace() -> None:
    pods = [pod(f"p{i}", "a" if i < 2 else "b", age_s=300 - i) for i in range(4)]
    scene, args = Scene([node("a"), node("b")], pods), {"maxPodLifeTimeSeconds": 50}
    assert moved(played("PodLifeTime", args, scene, maxNoOfPodsToEvictPerNode=1)) == ["p0", "p2"]
    assert moved(played("PodLifeTime", args, scene, maxNoOfPodsToEvictPerNamespace=3)) == ["p0", "p1", "p2"]


def test_a_pod_that_no_other_node_takes_goes_unless_node_fit_is_asked_for() -> None:
    scene = Scene([node("a"), node("b", unschedulable=True)], [pod("p", "a", age_s=100)])
    args = {"maxPodLifeTimeSeconds": 50}
    (move,) = played("PodLifeTime", args, scene).moves
    assert move.to == ""
    outcome = played("PodLifeTime", args, scene, {**FREELY, "nodeFit": True})
    assert moved(outcome) == []
    assert "no other node" in outcome.held[0].why


# RemovePodsHavingTooManyRestarts


RESTARTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"podRestartThreshold": 25}, ["p25"]),
    ({"podRestartThreshold": 10}, ["p25", "p10"]),
    ({"podRestartThreshold": 26}, []),
    ({"podRestartThreshold": 30, "includingInitContainers": True}, ["p25"]),
    ({"podRestartThreshold": 1, "states": ["CrashLoopBackOff"]}, ["p10"]),
    ({"podRestartThreshold": 1, "states": ["Running"]}, ["p25", "p10"]),
    ({"podRestartThreshold": 1, "namespaces": {"include": ["other"]}}, []),
]


@pytest.mark.parametrize(("args", "go"), RESTARTS)
def test_pods_that_fail_again_and_again_go_those_with_the_most_restarts_first(
    args: dict[str, Any], go: list[str]
) -> None:
    pods = [
        with_status(
            pod("p10", "a"),
            containerStatuses=[container(restartCount=10, state={"waiting": {"reason": "CrashLoopBackOff"}})],
        ),
        with_status(
            pod("p25", "a"),
            containerStatuses=[container(restartCount=20), container(restartCount=5)],
            initContainerStatuses=[container(restartCount=5)],
        ),
        pod("p0", "a"),
    ]
    outcome = played("RemovePodsHavingTooManyRestarts", args, Scene([node("a"), node("b")], pods))
    assert moved(outcome) == go


# RemovePodsViolatingNodeAffinity


def _zoned(name: str, zone: str, **more: Any) -> Node:
    return node(name, labels={"zone": zone}, **more)


def _term(*zones: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": list(zones)}]}


def _required(*zones: str) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [_term(*zones)]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _preferred(**weights: int) -> dict[str, Any]:
    terms = [{"weight": weight, "preference": _term(zone)} for zone, weight in weights.items()]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


REQUIRED = {"nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]}
PREFERRED = {"nodeAffinityType": ["preferredDuringSchedulingIgnoredDuringExecution"]}


@pytest.mark.parametrize(
    ("args", "affinity", "to"),
    [
        (REQUIRED, _required("x"), None),
        (REQUIRED, _required("y"), "b"),
        (REQUIRED, _required("z"), None),
        (PREFERRED, _required("y"), None),
        (PREFERRED, _preferred(y=1), "b"),
        (PREFERRED, _preferred(x=2, y=1), None),
        (PREFERRED, _preferred(x=1, y=1), None),
        (REQUIRED, _preferred(y=1), None),
    ],
)
def test_a_pod_goes_where_its_affinity_would_send_it_today(
    args: dict[str, Any], affinity: dict[str, Any], to: str | None
) -> None:
    scene = Scene([_zoned("a", "x"), _zoned("b", "y")], [pod("p", "a", affinity=affinity)])
    outcome = played("RemovePodsViolatingNodeAffinity", args, scene)
    assert [move.to for move in outcome.moves] == ([to] if to else [])


def test_a_pod_stays_where_it_is_not_wanted_while_no_wanted_node_has_room() -> None:
    nodes = [_zoned("a", "x"), _zoned("b", "y", cpu=1)]
    outcome = played(
        "RemovePodsViolatingNodeAffinity", REQUIRED, Scene(nodes, [pod("p", "a", cpu="2", affinity=_required("y"))])
    )
    assert moved(outcome) == []
    assert outcome.held[0].why == "no other node would take it"


# RemoveDuplicates


def _copies(number: int, on: str, owner: str = "Deployment web", **more: Any) -> list[Pod]:
    return [pod(f"{on}{i}-{owner[-3:]}", on, owner=owner, **more) for i in range(number)]


@pytest.mark.parametrize(
    ("nodes", "pods", "args", "number"),
    [
        (["a", "b"], _copies(3, "a"), {}, 1),
        (["a", "b", "c"], _copies(3, "a"), {}, 2),
        (["a", "b"], _copies(2, "a") + _copies(2, "b"), {}, 0),
        (["a", "b", "c"], _copies(4, "a") + _copies(2, "b"), {}, 2),
        (["a", "b"], _copies(1, "a", "Deployment one") + _copies(1, "a", "Deployment two"), {}, 0),
        (["a", "b"], _copies(3, "a"), {"excludeOwnerKinds": ["ReplicaSet"]}, 0),
        (["a", "b"], _copies(3, "a"), {"namespaces": {"exclude": ["default"]}}, 0),
        (["a", "b"], _copies(3, "a", nodeSelector={"zone": "x"}), {}, 0),
    ],
)
def test_a_node_keeps_its_share_of_an_owners_pods(
    nodes: list[str], pods: list[Pod], args: dict[str, Any], number: int
) -> None:
    scene = Scene([node(name) for name in nodes], pods, workloads=[])
    assert len(played("RemoveDuplicates", args, scene).moves) == number


def test_pods_of_one_owner_with_other_images_are_no_duplicates() -> None:
    one, two = _copies(2, "a")
    two = convert(
        Pod, {**_plain(two), "spec": {**_plain(two)["spec"], "containers": [{"name": "m", "image": "other"}]}}
    )
    assert moved(played("RemoveDuplicates", {}, Scene([node("a"), node("b")], [one, two], workloads=[]))) == []


# RemovePodsViolatingTopologySpreadConstraint


def spread_pods(sizes: dict[str, int], skew: int = 1, hard: bool = True, **more: Any) -> list[Pod]:
    constraint = {
        "maxSkew": skew,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
        **more.pop("constraint", {}),
    }
    labels = {"app": "web"}
    return [
        pod(f"{zone}{i}", f"n-{zone}", labels=labels, topologySpreadConstraints=[constraint], **more)
        for zone, number in sizes.items()
        for i in range(number)
    ]


@pytest.mark.parametrize(
    ("sizes", "skew", "moves"),
    [
        ({"a": 2, "b": 1}, 1, {}),
        ({"a": 3, "b": 1}, 1, {"a": 1}),
        ({"a": 5, "b": 2}, 1, {"a": 1}),
        ({"a": 4, "b": 0}, 1, {"a": 2}),
        ({"a": 8, "b": 7, "c": 0}, 1, {"a": 3, "b": 2}),
        ({"a": 5, "b": 5, "c": 5}, 1, {}),
        ({"a": 0, "b": 1, "c": 3, "d": 5}, 1, {"d": 3}),
        ({"a": 2, "b": 6}, 2, {"b": 1}),
    ],
)
def test_domains_give_to_smaller_ones_what_evens_them_out(
    sizes: dict[str, int], skew: int, moves: dict[str, int]
) -> None:
    scene = Scene([_zoned(f"n-{zone}", zone) for zone in sizes], spread_pods(sizes, skew))
    outcome = played("RemovePodsViolatingTopologySpreadConstraint", {}, scene)
    found: dict[str, int] = {}
    for name in moved(outcome):
        found[name[0]] = found.get(name[0], 0) + 1
    assert found == moves


def test_soft_constraints_count_where_the_arguments_say_so() -> None:
    scene = Scene([_zoned("n-a", "a"), _zoned("n-b", "b")], spread_pods({"a": 3, "b": 1}, hard=False))
    plugin = "RemovePodsViolatingTopologySpreadConstraint"
    assert moved(played(plugin, {}, scene)) == []
    assert len(played(plugin, {"constraints": ["ScheduleAnyway"]}, scene).moves) == 1


def test_where_the_smaller_domain_has_no_room_nothing_goes_unless_forced() -> None:
    scene = Scene([_zoned("n-a", "a"), _zoned("n-b", "b", cpu=2)], spread_pods({"a": 4, "b": 1}, cpu="2"))
    plugin = "RemovePodsViolatingTopologySpreadConstraint"
    outcome = played(plugin, {}, scene)
    assert moved(outcome) == []
    assert outcome.held
    assert len(played(plugin, {"topologyBalanceNodeFit": False}, scene).moves) >= 1


def test_pods_of_another_revision_do_not_count_together() -> None:
    by_revision: dict[str, Any] = {"constraint": {"matchLabelKeys": ["rev"]}}
    one = spread_pods({"a": 2, "b": 0}, **by_revision)
    two = [
        convert(Pod, {**_plain(pod), "metadata": {**_plain(pod)["metadata"], "labels": {"app": "web", "rev": str(i)}}})
        for i, pod in enumerate(one)
    ]
    nodes = [_zoned("n-a", "a"), _zoned("n-b", "b")]
    plugin = "RemovePodsViolatingTopologySpreadConstraint"
    assert len(played(plugin, {}, Scene(nodes, one)).moves) == 1
    assert moved(played(plugin, {}, Scene(nodes, two))) == []


def test_a_tainted_domain_counts_only_if_the_constraint_ignores_taints() -> None:
    tainted = convert(
        Node,
        {**_plain(_zoned("n-b", "b")), "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}},
    )
    nodes = [_zoned("n-a", "a"), tainted]
    plugin = "RemovePodsViolatingTopologySpreadConstraint"
    honest = spread_pods({"a": 3}, constraint={"nodeTaintsPolicy": "Honor"})
    assert played(plugin, {}, Scene(nodes, honest)).held == []
    outcome = played(plugin, {}, Scene(nodes, spread_pods({"a": 3})))
    assert moved(outcome) == []
    assert outcome.held, "the domain counts, and no pod may go there"


def test_pods_being_deleted_count_for_nothing() -> None:
    gone = {"deletionTimestamp": from_seconds(NOW_S)}
    pods = spread_pods({"a": 3, "b": 2})
    pods = [with_metadata(pods[0], **gone), *pods[1:]]
    nodes = [_zoned("n-a", "a"), _zoned("n-b", "b")]
    outcome = played("RemovePodsViolatingTopologySpreadConstraint", {}, Scene(nodes, pods))
    assert (moved(outcome), outcome.held) == ([], [])


def test_workloads_limits_hold_for_every_plugin() -> None:
    pods = [pod(f"p{i}", "a", age_s=100) for i in range(3)]
    scene = Scene([node("a"), node("b")], pods, workloads=deployment("web", 3))
    outcome = run(profile({"PodLifeTime": {"maxPodLifeTimeSeconds": 50}}), scene.sight())
    assert len(outcome.moves) == 1
    assert {held_proposal.why for held_proposal in outcome.held} == {
        "of Deployment default/web, 1 pod is moving already (limit 1)"
    }
