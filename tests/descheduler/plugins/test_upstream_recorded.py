"""The Kubernetes descheduler's own answers for random clusters, recorded from a build of it, and koord's.

Its answers are sets: which of equal pods goes depends there on the order of a map. The build that answered listed pods
by their numbers. Where koord differs, it does so on purpose; each way in which it does is a test of its own below.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.descheduler.round import SIBLINGS_LEFT, Outcome, run
from tests.descheduler.build import NOW_S, Scene, node, pod, profile
from tests.descheduler.plugins.upstream_cases import PLUGINS, SEEDS, case

RECORDED: Final[Mapping[str, list[list[str]]]] = json.loads(
    (Path(__file__).parent / "recorded" / "upstream.json").read_text()
)
FREELY: Final = {
    "maxMigratingPerNode": 0,
    "skipEvictionGates": ["MaxMigratingPerWorkload", "MaxUnavailablePerWorkload", "ExpectedReplicas", "NodeFit"],
}
AFFINITY: Final = "RemovePodsViolatingNodeAffinity"
SPREAD: Final = "RemovePodsViolatingTopologySpreadConstraint"
NO_PLACE: Final[Mapping[str, frozenset[int]]] = {
    # The only node that its pod prefers is cordoned: it would leave again and again, and never get there.
    AFFINITY: frozenset({32}),
    # A cordoned or tainted domain stays empty, so that by the hard constraint the scheduler lets no other grow.
    SPREAD: frozenset({8, 54}),
}
"""Cases in which koord moves fewer: a pod leaves only for a place."""
TOGETHER: Final = 34
"""Pods with two constraints. koord looks at the second as things are after the moves for the first, the other as they
were before: koord moves as many, and others."""


def asked(given: Mapping[str, Any]) -> Outcome:
    pods = [convert(Pod, each) for each in given["pods"]]
    finished: dict[str, list[Pod]] = {}
    for each in pods:
        if each.is_finished:
            finished.setdefault(each.spec.node_name, []).append(each)
    nodes = [convert(Node, each) for each in given["nodes"]]
    sight = Scene(nodes, [pod for pod in pods if not pod.is_finished], workloads=[]).sight()
    return run(profile({given["plugin"]: given["args"]}, FREELY), replace(sight, finished_on=finished))


def moved(given: Mapping[str, Any]) -> set[str]:
    return {move.pod.metadata.key for move in asked(given).moves}


@pytest.mark.parametrize("plugin", [plugin for plugin in PLUGINS if plugin not in (AFFINITY, SPREAD)])
def test_the_same_pods_go(plugin: str) -> None:
    assert len(RECORDED[plugin]) == len(SEEDS)
    for seed, theirs in zip(SEEDS, RECORDED[plugin], strict=True):
        given = case(plugin, seed, NOW_S)
        assert moved(given) == set(theirs), (seed, given["args"])


def test_the_same_pods_go_to_nodes_that_they_want() -> None:
    """Each pod has an owner of its own here, since koord sends none where another of its owner has just left."""
    for seed, theirs in zip(SEEDS, RECORDED[AFFINITY], strict=True):
        given = case(AFFINITY, seed, NOW_S)
        for each in given["pods"]:
            for owner in each["metadata"].get("ownerReferences", ()):
                owner["uid"] = each["metadata"]["uid"]
        mine = moved(given)
        assert mine < set(theirs) if seed in NO_PLACE[AFFINITY] else mine == set(theirs), (seed, given["args"])


def test_of_one_owner_no_pod_goes_where_another_has_just_left() -> None:
    given = case(AFFINITY, 6, NOW_S)
    outcome = asked(given)
    mine, theirs = {move.pod.metadata.key for move in outcome.moves}, set(RECORDED[AFFINITY][6])
    assert mine < theirs
    assert {
        held_proposal.proposal.pod.metadata.key: held_proposal.why for held_proposal in outcome.held
    } == dict.fromkeys(theirs - mine, SIBLINGS_LEFT)


def test_as_many_pods_go_from_the_same_domains_and_the_less_important_ones() -> None:
    """The other counts only pods that may move, so that koord sees no others here. It takes the most important of them
    first."""
    spared = 0
    for seed, theirs in zip(SEEDS, RECORDED[SPREAD], strict=True):
        given = _may_move(case(SPREAD, seed, NOW_S))
        mine = moved(given)
        if seed in NO_PLACE[SPREAD]:
            assert len(mine) < len(theirs), seed
        elif seed == TOGETHER:
            assert len(mine) == len(theirs)
        else:
            assert _domains(given, mine) == _domains(given, set(theirs)), (seed, given["args"])
            priority = {_key(pod): pod["spec"]["priority"] for pod in given["pods"]}
            less, more = sum(priority[key] for key in mine), sum(priority[key] for key in theirs)
            assert less <= more, seed
            spared += less < more
    assert spared > 5


def test_pods_that_may_not_move_count_in_their_domains() -> None:
    """Else a domain full of them would look empty, and pods would go there that the scheduler sends back."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    more: dict[str, Any] = {"labels": {"app": "web"}, "topologySpreadConstraints": [constraint]}
    nodes = [node("n-a", labels={"zone": "a"}), node("n-b", labels={"zone": "b"})]
    owned = [pod(f"a{i}", "n-a", **more) for i in range(2)]
    bare = pod("b", "n-b", owner="", **more)
    assert len(run(profile({SPREAD: {}}, FREELY), Scene(nodes, owned).sight()).moves) == 1
    assert run(profile({SPREAD: {}}, FREELY), Scene(nodes, [*owned, bare]).sight()).moves == []


def _may_move(given: Mapping[str, Any]) -> Mapping[str, Any]:
    selected = given["args"].get("labelSelector", {}).get("matchLabels", {}).items()
    return {
        **given,
        "pods": [
            pod
            for pod in given["pods"]
            if any(owner["kind"] != "DaemonSet" for owner in pod["metadata"].get("ownerReferences", ()))
            and "volumes" not in pod["spec"]
            and selected <= pod["metadata"]["labels"].items()
        ],
    }


def _key(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _domains(given: Mapping[str, Any], moved: set[str]) -> Counter[Hashable]:
    """How many pods leave each domain of their constraints."""
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in given["nodes"]}
    return Counter(
        (
            pod["metadata"]["namespace"],
            pod["metadata"]["labels"]["app"],
            *(
                labels[pod["spec"]["nodeName"]][each["topologyKey"]]
                for each in pod["spec"].get("topologySpreadConstraints", ())
            ),
        )
        for pod in given["pods"]
        if _key(pod) in moved
    )
