"""CustomPriority, FragmentationAware and ScaleDownBinPack: which pods move, in which order, and what is written."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.descheduler.plugins.fragmentation_aware import unevenness
from koord.descheduler.round import Outcome, run
from tests.descheduler.build import Scene, node, pod, profile
from tests.descheduler.plugins.test_upstream import FREELY, moved, played

LEVELS = [
    {"name": "on-demand", "nodeSelector": {"matchLabels": {"cost": "high"}}},
    {"name": "reserved", "nodeSelector": {"matchLabels": {"cost": "mid"}}},
    {"name": "spot", "nodeSelector": {"matchLabels": {"cost": "low"}}},
]


def priced(name: str, cost: str, cpu: int = 32, **more: Any) -> Node:
    return node(name, cpu=cpu, labels={"cost": cost}, **more)


def cheaper(scene: Scene, **args: Any) -> Outcome:
    return played("CustomPriority", {"evictionOrder": LEVELS, **args}, scene)


def test_small_pods_go_first_to_any_cheaper_level() -> None:
    scene = Scene(
        [priced("dear", "high"), priced("mid", "mid", cpu=4), priced("cheap", "low", cpu=4)],
        [pod("big", "dear", cpu="4"), pod("small", "dear", cpu="2"), pod("huge", "dear", cpu="16")],
    )
    outcome = cheaper(scene)
    assert moved(outcome) == ["small", "big"]
    assert all(move.to in ("mid", "cheap") for move in outcome.moves)
    assert outcome.moves[0].reason == "evicting from on-demand priority resource to lower priority resource"
    assert outcome.held[0].why == "no cheaper node would take it"


def test_pods_never_go_to_a_dearer_level_and_nodes_of_no_level_take_no_part() -> None:
    scene = Scene(
        [priced("dear", "high"), priced("cheap", "low", cpu=1), node("other")],
        [pod("p", "cheap"), pod("q", "dear", cpu="4"), pod("r", "other")],
    )
    assert moved(cheaper(scene)) == []


def test_after_five_pods_that_do_not_fit_the_larger_ones_are_not_tried() -> None:
    pods = [pod(f"p{i}", "dear", cpu=str(4 + i)) for i in range(8)]
    outcome = cheaper(Scene([priced("dear", "high", cpu=128), priced("cheap", "low", cpu=2)], pods))
    assert [held_proposal.proposal.pod.metadata.name for held_proposal in outcome.held] == [
        "p0",
        "p1",
        "p2",
        "p3",
        "p4",
    ]


@pytest.mark.parametrize(("room", "go"), [(8, ["p0", "p1", "p2"]), (5, [])])
def test_a_node_is_drained_only_if_all_of_its_pods_have_a_place(room: int, go: list[str]) -> None:
    pods = [pod(f"p{i}", "dear", cpu="2") for i in range(3)]
    scene = Scene([priced("dear", "high"), priced("cheap", "low", cpu=room)], pods)
    outcome = cheaper(scene, mode="DrainNode", autoCordon=True)
    assert moved(outcome) == go
    assert outcome.cordons == (["dear"] if go else [])


def test_a_drain_takes_as_many_rounds_as_limits_ask_for() -> None:
    pods = [pod(f"p{i}", "dear", cpu="2") for i in range(3)]
    scene = Scene([priced("dear", "high"), priced("cheap", "low")], pods)
    slowly = {**FREELY, "maxMigratingPerNode": 2}
    given = {"evictionOrder": LEVELS, "mode": "DrainNode", "autoCordon": True}
    outcome = played("CustomPriority", given, scene, slowly)
    assert moved(outcome) == ["p0", "p1"]
    assert outcome.cordons == ["dear"]
    assert "maxMigratingPerNode: 2" in outcome.held[0].why


@pytest.mark.parametrize(
    "args",
    [{"paused": True}, {"dryRun": True}, {"podSelectors": [{"name": "x", "selector": {"matchLabels": {"a": "b"}}}]}],
)
def test_what_is_paused_looks_on_or_is_not_chosen_does_not_move(args: dict[str, Any]) -> None:
    scene = Scene([priced("dear", "high"), priced("cheap", "low")], [pod("p", "dear")])
    assert moved(cheaper(scene, **args)) == []


def test_unevenness_is_the_standard_deviation_of_what_is_asked_for() -> None:
    has = {"cpu": 32_000, "memory": 128}
    assert unevenness({"cpu": 24_000, "memory": 32}, has, ("cpu", "memory")) == pytest.approx(0.25)
    assert unevenness({"cpu": 16_000, "memory": 64}, has, ("cpu", "memory")) == 0.0
    assert unevenness({"cpu": 16_000}, {"cpu": 32_000}, ("cpu", "gpu")) == 0.0, "what a node lacks does not count"


def _requesting(name: str, on: str, cpu: str, memory: str) -> Pod:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]
    return pod(name, on, containers=containers)


def uneven() -> Scene:
    """a: 24 of 32 cores and 16 of 128 GiB are asked for: 0.75 and 0.125."""
    return Scene(
        [node("a"), node("b")],
        [
            _requesting("cpu-heavy", "a", "12", "4Gi"),
            _requesting("cpu-light", "a", "8", "4Gi"),
            _requesting("even", "a", "4", "8Gi"),
        ],
    )


def test_the_pod_that_makes_a_node_most_uneven_goes_and_no_other() -> None:
    outcome = played("FragmentationAware", {}, uneven())
    assert moved(outcome) == ["cpu-heavy"]
    assert outcome.moves[0].reason == "fragmentation reduction: stdBefore=0.3125 stdAfter=0.1406 gain=0.1719"
    assert outcome.moves[0].to == "b"


@pytest.mark.parametrize(
    "args", [{"imbalanceThreshold": 0.32}, {"minImprovementThreshold": 0.18}, {"paused": True}, {"dryRun": True}]
)
def test_even_enough_is_left_alone(args: dict[str, Any]) -> None:
    assert moved(played("FragmentationAware", args, uneven())) == []


def test_the_next_best_goes_where_nobody_takes_the_best() -> None:
    scene = uneven()
    scene.nodes = [node("a"), node("b", cpu=9)]
    assert moved(played("FragmentationAware", {}, scene)) == ["cpu-light"]


def packed() -> Scene:
    """a carries one pod that stays for ten cores that could go, b one for two, and c nothing else."""
    return Scene(
        [node("a"), node("b"), node("c")],
        [
            pod("a1", "a", cpu="10"),
            pod("a-stays", "a", cpu="1", owner="DaemonSet log"),
            pod("b1", "b", cpu="2"),
            pod("b-stays", "b", cpu="1", owner="DaemonSet log"),
            pod("c1", "c", cpu="2", age_s=200),
            pod("c2", "c", cpu="2", age_s=100),
            pod("c3", "c", cpu="4", age_s=300),
        ],
    )


def test_deletion_costs_empty_whole_nodes_first() -> None:
    outcome = played("ScaleDownBinPack", {}, packed())
    assert outcome.moves == []
    ranks = {key.removeprefix("default/"): cost for key, cost in outcome.deletion_costs.items()}
    # c has nothing that stays, then a (0.1), then b (0.5). On c the larger goes first, then the newer. The first has
    # rank 0, which its pod says already.
    assert ranks == {"c2": 1, "c1": 2, "a1": 3, "b1": 4, "a-stays": 2**31 - 1, "b-stays": 2**31 - 1}


def test_or_the_first_pods_move_as_many_as_allowed() -> None:
    outcome = played("ScaleDownBinPack", {"strategy": "EvictDirectly", "maxPodsToEvict": 2}, packed())
    assert moved(outcome) == ["c3", "c2"]
    assert outcome.deletion_costs == {}


def test_costs_that_pods_have_already_are_not_written_again() -> None:
    scene = Scene(
        [node("a"), node("b")], [pod("p", "a", annotations={"controller.kubernetes.io/pod-deletion-cost": "0"})]
    )
    assert run(profile({"ScaleDownBinPack": {}}, FREELY), scene.sight()).deletion_costs == {}
