"""Moves beside Cluster Autoscaler and Karpenter: pods that ask to stay, and nodes that are taken away."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from koord.api.kubernetes.node import Node, Taint
from koord.api.kubernetes.pod import Pod, Toleration
from koord.api.kubernetes.words import TaintEffect
from koord.api.machinery.codec import convert
from koord.api.text.timestamp import from_seconds
from koord.descheduler.arbitration import MoveRequest, arbitrate
from koord.descheduler.evictable import never, not_yet
from koord.descheduler.moves import Moves
from koord.descheduler.round import run
from koord.descheduler.rules import Rules
from koord.descheduler.workloads import workloads_of
from tests.descheduler.build import NOW_S, Scene, deployment, node, pod, profile
from tests.descheduler.plugins.test_upstream import FREELY, moved
from tests.descheduler.test_limits import args

SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
KEEP = "karpenter.sh/do-not-disrupt"
OLD = {"PodLifeTime": {"maxPodLifeTimeSeconds": 50}}


def annotated(**annotations: str) -> Pod:
    names = {"safe": SAFE, "keep": KEEP, "evict": "descheduler.alpha.kubernetes.io/evict"}
    return pod("p", "n1", annotations={names[key]: value for key, value in annotations.items()})


def why(given: Pod, rules: Rules, at_s: float = NOW_S) -> tuple[str | None, str | None]:
    workloads = workloads_of(deployment("web", 5), [given])
    return never(given, rules, workloads), not_yet(given, rules, workloads, Moves(at_s))


@pytest.mark.parametrize(
    ("given", "rules", "says"),
    [
        (annotated(safe="false"), {}, f"it asks to stay ({SAFE}: false)"),
        (annotated(keep="true"), {}, f"it asks to stay ({KEEP}: true)"),
        (annotated(safe="true", keep="false"), {}, None),
        # What either of them does not understand says nothing to it, nor to koord.
        (annotated(safe="no", keep="yes"), {}, None),
        (annotated(safe="false", keep="true"), {"skipEvictionGates": ["Autoscalers"]}, None),
        (annotated(safe="false", evict="true"), {}, None),
    ],
)
def test_a_pod_that_asks_an_autoscaler_to_leave_it_is_not_moved(given: Pod, rules: Any, says: str | None) -> None:
    assert why(given, args(**rules)) == (says, None)


@pytest.mark.parametrize(
    ("text", "started_s_ago", "stays"),
    [("1h", 600.0, True), ("1h", 3700.0, False), ("1h", None, True), ("-1h", 600.0, False), ("soon", 600.0, False)],
)
def test_a_pod_may_ask_to_stay_for_a_time_after_its_start(text: str, started_s_ago: float | None, stays: bool) -> None:
    given = annotated(keep=text)
    if started_s_ago is not None:
        given = replace(given, status=replace(given.status, start_time=from_seconds(NOW_S - started_s_ago)))
    forever, now = why(given, args())
    assert forever is None
    assert now == (f"it asks to stay for a time ({KEEP}: {text})" if stays else None)


def test_a_move_asked_for_by_hand_is_refused_with_the_annotation() -> None:
    given = annotated(safe="false")
    (ruling,) = arbitrate(
        [MoveRequest("move", NOW_S, given, args())], workloads_of(deployment("web", 5), [given]), Moves()
    )
    assert (ruling.outcome, ruling.why) == ("forbidden", f"it asks to stay ({SAFE}: false)")


def tainted(name: str, key: str) -> Node:
    plain = node(name)
    return replace(plain, spec=replace(plain.spec, taints=(convert(Taint, {"key": key, "effect": "NoSchedule"}),)))


GOING = ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"]


@pytest.mark.parametrize("key", GOING)
def test_pods_of_a_node_that_is_taken_away_are_left_to_the_autoscaler(key: str) -> None:
    pods = [pod("p0", "going", age_s=100), pod("p1", "a", age_s=100)]
    outcome = run(profile(OLD, FREELY), Scene([tainted("going", key), node("a"), node("b")], pods).sight())
    assert [(move.pod.metadata.name, move.to) for move in outcome.moves] == [("p1", "b")]


def test_not_even_a_pod_that_tolerates_everything_goes_to_such_a_node() -> None:
    plain = pod("p0", "a", age_s=100)
    everywhere = replace(plain, spec=replace(plain.spec, tolerations=(convert(Toleration, {"operator": "Exists"}),)))
    full = pod("full", "b", cpu="32", annotations={SAFE: "false"})
    nodes = [node("a"), tainted("going", GOING[0]), node("b")]
    assert moved(run(profile(OLD, {**FREELY, "nodeFit": True}), Scene(nodes, [everywhere, full]).sight())) == []
    assert moved(run(profile(OLD, {**FREELY, "nodeFit": True}), Scene(nodes, [everywhere]).sight())) == ["p0"]


def test_a_candidate_for_deletion_is_still_a_place() -> None:
    """Cluster Autoscaler keeps a node that pods go to."""
    soft = tainted("candidate", "DeletionCandidateOfClusterAutoscaler")
    taint = replace(soft.spec.taints[0], effect=TaintEffect.PREFER_NO_SCHEDULE)
    scene = Scene([node("a"), replace(soft, spec=replace(soft.spec, taints=(taint,)))], [pod("p0", "a", age_s=100)])
    outcome = run(profile(OLD, FREELY), scene.sight())
    assert [move.to for move in outcome.moves] == ["candidate"]
