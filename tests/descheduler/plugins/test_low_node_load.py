"""LowNodeLoad: the worked examples of the specification, and what must never happen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.descheduler.round import Outcome, run
from tests.descheduler.build import NOW_S, Scene, config, deployment, job, metric, node, pod

MARKS: dict[str, Any] = {
    "lowThresholds": {"cpu": 45, "memory": 55},
    "highThresholds": {"cpu": 75, "memory": 80},
    "anomalyCondition": {"consecutiveAbnormalities": 1},
}
FREELY = {"maxMigratingPerNode": 0, "maxMigratingPerWorkload": 50, "maxUnavailablePerWorkload": 50}
"""Nothing but load decides."""


def classes(outcome: Outcome) -> dict[str, str]:
    return {name: seen.class_ for name, seen in outcome.nodes.items()}


def moved(outcome: Outcome) -> list[str]:
    return [move.pod.metadata.name for move in outcome.moves]


def test_nodes_are_classified_by_their_marks() -> None:
    scene = Scene(
        nodes=[node("a"), node("b"), node("c"), node("d", unschedulable=True)],
        metrics=[
            metric("a", (26, 70), {}),
            metric("b", (10, 60), {}),
            metric("c", (12, 80), {}),
            metric("d", (1, 4), {}),
        ],
    )
    outcome = run(config(MARKS), scene.sight())
    # c uses more memory than its low mark, and no pool has marks for prod pods: it is neither hot nor a target.
    assert classes(outcome) == {"a": "high", "b": "low", "c": "normal", "d": "normal"}


def a_hot_node() -> Scene:
    """26 of 32 cores are used, the mark is at 24: 2 too much. The other node has room for 14 more."""
    used = {"a1": 0.5, "a2": 2.0, "a3": 4.0, "a4": 2.5, "a5": 1.0}
    pods = [pod(name, "a") for name in ("a1", "a2", "a3", "a4")]
    pods.append(pod("a5", "a", priority=5500, qos="BE", owner="Job train"))
    system = 26 - sum(used.values())
    return Scene(
        nodes=[node("a"), node("b")],
        pods=pods,
        metrics=[
            metric("a", (system, 60), {name: (cpu, 2.0) for name, cpu in used.items()}),
            metric("b", (10, 60), {}),
        ],
        workloads=[*deployment("web", 100), job("train")],
    )


def test_the_least_important_pods_go_and_no_more_of_them_than_needed() -> None:
    scene = a_hot_node()
    outcome = run(config(MARKS, FREELY), scene.sight())
    # a5 is batch; then a2, whose 2 cores are just the excess (score 2.0), before a4 (1.8), a3 (1.5), a1 (0.25).
    assert moved(outcome) == ["a5", "a2"]
    assert {move.to for move in outcome.moves} == {"b"}
    assert outcome.nodes["a"].after["cpu"] == 23_000
    assert outcome.nodes["b"].after["cpu"] == 13_000
    assert outcome.moves[0].reason == "node is overutilized, node cpu usage(81.25%)>threshold(75.00%)"


def test_a_round_leaves_the_schedulers_state_as_it_was() -> None:
    sight = a_hot_node().sight()
    cluster = sight.places.cluster
    before = {key: cluster.table.names[row] for key, (_, row) in cluster.pods.items()}
    outcome = run(config(MARKS, FREELY), sight)
    assert outcome.moves
    assert {key: cluster.table.names[row] for key, (_, row) in cluster.pods.items()} == before


def test_by_deviation_the_mean_of_the_pool_decides() -> None:
    scene = Scene(
        nodes=[node("a"), node("b"), node("c")],
        metrics=[metric("a", (24, 8), {}), metric("b", (12, 8), {}), metric("c", (18, 8), {})],
    )
    marks = {
        "useDeviationThresholds": True,
        "lowThresholds": {"cpu": 10},
        "highThresholds": {"cpu": 10},
        "anomalyCondition": {"consecutiveAbnormalities": 1},
    }
    # The mean is 56.25%, so the marks are 46.25% and 66.25%; they use 75%, 37.5% and 56.25%.
    assert classes(run(config(marks), scene.sight())) == {"a": "high", "b": "low", "c": "normal"}


def test_a_node_must_be_hot_for_several_rounds_and_then_counts_anew() -> None:
    given = config({**MARKS, "anomalyCondition": {"consecutiveAbnormalities": 5, "timeout": "1m"}}, FREELY)
    memory: Any = None
    acted = []
    for round_ in range(1, 14):
        now_s = NOW_S + 120 * round_
        scene = a_hot_node()
        scene.metrics = [metric(each.metadata.name, *_usage(each), at_s=now_s) for each in scene.metrics]
        outcome = run(given, scene.sight(now_s), memory)
        memory = outcome.memory
        if outcome.moves:
            acted.append(round_)
    assert acted == [6, 12]


def _usage(report: Any) -> tuple[tuple[float, float], dict[str, tuple[float, float]]]:
    if report.metadata.name == "b":
        return (10.0, 60.0), {}
    used = {"a1": 0.5, "a2": 2.0, "a3": 4.0, "a4": 2.5, "a5": 1.0}
    return (16.0, 60.0), {name: (cpu, 2.0) for name, cpu in used.items()}


def test_a_resource_with_one_mark_alone_counts_by_it() -> None:
    scene = Scene(
        nodes=[node("a"), node("b")],
        metrics=[metric("a", (26, 8), {}), metric("b", (10, 8), {})],
    )
    hot = {"highThresholds": {"cpu": 75}, "anomalyCondition": {"consecutiveAbnormalities": 1}}
    assert classes(run(config(hot), scene.sight())) == {"a": "high", "b": "low"}
    cold = {"lowThresholds": {"cpu": 45}, "anomalyCondition": {"consecutiveAbnormalities": 1}}
    assert classes(run(config(cold), scene.sight())) == {"a": "normal", "b": "low"}


def test_marks_are_of_what_a_node_really_has() -> None:
    amplified = node("a", cpu=64, annotations={"node.koordinator.sh/raw-allocatable": '{"cpu":"32"}'})
    scene = Scene(nodes=[amplified, node("b")], metrics=[metric("a", (26, 8), {}), metric("b", (10, 8), {})])
    outcome = run(config(MARKS), scene.sight())
    assert classes(outcome)["a"] == "high"
    assert outcome.nodes["a"].has["memory"] == 128 * 2**30, "what the annotation does not name is as the node says"


@pytest.mark.parametrize("age_s", [179, 180])
def test_reports_count_while_they_are_fresh(age_s: int) -> None:
    scene = a_hot_node()
    hot, cold = scene.metrics
    scene.metrics = [metric("a", *_usage(hot), at_s=NOW_S - age_s), cold]
    assert (moved(run(config(MARKS, FREELY), scene.sight())) != []) is (age_s < 180)


def test_without_a_target_that_takes_it_and_stays_cool_nobody_moves() -> None:
    scene = a_hot_node()
    scene.metrics = [scene.metrics[0], metric("b", (14, 60), {"big": (0.0, 0.0)})]
    full = [pod("big", "b", cpu="32")]
    scene.pods = [*scene.pods, *full]
    outcome = run(config(MARKS, FREELY), scene.sight())
    assert moved(outcome) == ["a5"], "a batch pod asks for batch CPU alone; the services have no room on b"


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_no_target_becomes_hot_and_no_source_is_relieved_beyond_need(data: st.DataObject) -> None:
    number = data.draw(st.integers(2, 5))
    nodes = [node(f"n{i}", cpu=16, memory_gi=64) for i in range(number)]
    pods, metrics = [], []
    for i in range(number):
        used = {}
        for j in range(data.draw(st.integers(0, 6))):
            name = f"p{i}-{j}"
            used[name] = (data.draw(st.sampled_from([0.25, 0.5, 1.0, 3.0])), 1.0)
            pods.append(pod(name, f"n{i}", cpu="1"))
        metrics.append(metric(f"n{i}", (data.draw(st.sampled_from([0.5, 4.0, 9.0])), 4.0), used))
    outcome = run(config(MARKS, FREELY), Scene(nodes, pods, metrics).sight())
    for name, seen in outcome.nodes.items():
        if seen.class_ == "low":
            assert seen.after["cpu"] <= 12_000, name
    hot = {name: seen for name, seen in outcome.nodes.items() if seen.class_ == "high"}
    for name, seen in hot.items():
        gone = [move for move in outcome.moves if move.node == name]
        if gone:
            last = gone[-1].pod.metadata.name
            assert seen.usage["cpu"] > 12_000
            assert seen.after["cpu"] + _cpu_of(metrics, last) > 12_000, "without the last one it was still hot"


def _cpu_of(metrics: Any, name: str) -> int:
    for report in metrics:
        for each in report.status.pods_metric:
            if each.name == name:
                text = str(each.pod_usage.resources["cpu"])
                return int(text.removesuffix("m"))
    raise AssertionError(name)


def with_percentile(report: Any, cpu: str, kind: str = "p95", duration: str = "5m0s") -> Any:
    usage = {kind: {"resources": {"cpu": cpu, "memory": "8Gi"}}}
    plain = msgspec.json.decode(msgspec.json.encode(report))
    plain["status"]["nodeMetric"]["aggregatedNodeUsages"] = [{"usage": usage, "duration": duration}]
    return convert(NodeMetric, plain)


def test_a_percentile_over_a_time_counts_where_one_is_asked_for() -> None:
    """a uses 26 cores just now, but its p95 over five minutes is 20; b's are 10 and 25."""
    scene = Scene(
        nodes=[node("a"), node("b")],
        metrics=[with_percentile(metric("a", (26, 8), {}), "20"), with_percentile(metric("b", (10, 8), {}), "25")],
    )
    assert classes(run(config(MARKS), scene.sight())) == {"a": "high", "b": "low"}
    by_p95 = {**MARKS, "aggregated": {"usageAggregationType": "p95", "usageAggregatedDuration": "5m"}}
    assert classes(run(config(by_p95), scene.sight())) == {"a": "normal", "b": "high"}
    scene.metrics = [scene.metrics[0], with_percentile(metric("b", (10, 8), {}), "25", duration="99999999999h")]
    assert classes(run(config(by_p95), scene.sight())) == {"a": "normal", "b": "low"}, "over another time"
    unknown = {**MARKS, "aggregated": {"usageAggregationType": "p99"}}
    assert classes(run(config(unknown), scene.sight())) == {"a": "high", "b": "low"}, "the last measurement stands in"


PROD = {**MARKS, "prodHighThresholds": {"cpu": 50}, "prodLowThresholds": {"cpu": 20}}


def prod_scene() -> Scene:
    """a's prod pods use 18 of 32 cores, above their own mark of 16; with all else it uses 20, below 24."""
    pods = [pod(f"p{i}", "a") for i in range(3)] + [pod("batch", "a", priority=5500, qos="BE", owner="Job train")]
    used = {"p0": (10.0, 1.0), "p1": (6.0, 1.0), "p2": (2.0, 1.0), "batch": (1.0, 1.0)}
    return Scene(
        nodes=[node("a"), node("b"), node("c")],
        pods=pods,
        metrics=[metric("a", (1, 4), used), metric("b", (3, 4), {}), metric("c", (20, 4), {})],
        workloads=[*deployment("web", 100), job("train")],
    )


def test_marks_for_prod_pods_move_prod_pods_alone() -> None:
    outcome = run(config(PROD, FREELY), prod_scene().sight())
    assert classes(outcome) == {"a": "prodHigh", "b": "bothLow", "c": "prodLow"}
    # p2 uses just what is too much.
    assert moved(outcome) == ["p2"]
    assert outcome.moves[0].reason == "node is overutilized, prod cpu usage(56.25%)>threshold(50.00%)"


def test_a_node_that_has_room_for_prod_pods_alone_stays_below_its_other_mark_too() -> None:
    """c has room below its prod mark, but 3 cores more would take it above its own high mark of 24."""
    scene = prod_scene()
    scene.nodes = [node("a"), node("c"), node("d")]
    used = {"p0": (15.0, 1.0), "p1": (3.0, 1.0), "p2": (2.0, 1.0), "batch": (1.0, 1.0)}
    scene.metrics = [metric("a", (1, 4), used), metric("c", (22.5, 4), {}), metric("d", (22.5, 4), {})]
    outcome = run(config(PROD, FREELY), scene.sight())
    assert classes(outcome) == {"a": "prodHigh", "c": "prodLow", "d": "prodLow"}
    assert moved(outcome) == []


def test_pools_have_their_own_marks_and_do_not_look_again_at_what_was_hot_before() -> None:
    nodes = [node("a"), node("b"), node("g1", labels={"pool": "gpu"}), node("g2", labels={"pool": "gpu"})]
    scene = Scene(
        nodes=nodes,
        pods=[pod("p", "g1")],
        metrics=[
            metric("a", (26, 8), {}),
            metric("b", (4, 8), {}),
            metric("g1", (16, 8), {"p": (2, 1)}),
            metric("g2", (4, 8), {}),
        ],
    )
    pool = {
        "name": "gpu",
        "nodeSelector": {"matchLabels": {"pool": "gpu"}},
        "highThresholds": {"cpu": 50},
        "lowThresholds": {"cpu": 20},
    }
    outcome = run(config({**MARKS, "nodePools": [pool]}, FREELY), scene.sight())
    assert classes(outcome) == {"a": "high", "b": "low", "g1": "high", "g2": "low"}
    assert [(move.pod.metadata.name, move.to) for move in outcome.moves] == [("p", "g2")]


@pytest.mark.parametrize(("number", "moves"), [(0, True), (1, False)])
def test_so_many_nodes_must_have_room_before_anything_moves(number: int, moves: bool) -> None:
    outcome = run(config({**MARKS, "numberOfNodes": number}, FREELY), a_hot_node().sight())
    assert bool(outcome.moves) is moves


@pytest.mark.parametrize(
    ("args", "names"),
    [
        ({"evictableNamespaces": {"exclude": ["default"]}}, []),
        ({"evictableNamespaces": {"include": ["default"]}}, ["a5", "a2"]),
        ({"podSelectors": [{"name": "be", "selector": {"matchLabels": {"koordinator.sh/qosClass": "BE"}}}]}, ["a5"]),
        ({"paused": True}, []),
        ({"dryRun": True}, []),
        ({"nodeSelector": {"matchLabels": {"pool": "x"}}}, []),
        ({"resourceWeights": {"cpu": 5, "memory": 1}}, ["a5", "a2"]),
    ],
)
def test_arguments_choose_what_may_go(args: dict[str, Any], names: list[str]) -> None:
    assert moved(run(config({**MARKS, **args}, FREELY), a_hot_node().sight())) == names


def test_who_only_looks_on_says_what_would_go_and_counts_it_as_gone() -> None:
    outcome = run(config({**MARKS, "dryRun": True}, FREELY), a_hot_node().sight())
    assert [held_proposal.proposal.pod.metadata.name for held_proposal in outcome.held] == ["a5", "a2"]
    assert outcome.nodes["a"].after["cpu"] == 23_000


def test_a_pod_without_a_measurement_counts_by_the_schedulers_estimate() -> None:
    """It asks for 4 cores; the scheduler takes 85% of that for a new pod."""
    scene = Scene(
        nodes=[node("a"), node("b")],
        pods=[pod("new", "a", cpu="4")],
        metrics=[metric("a", (26, 8), {}), metric("b", (10, 8), {})],
    )
    outcome = run(config(MARKS, FREELY), scene.sight())
    assert moved(outcome) == ["new"]
    assert outcome.nodes["a"].after["cpu"] == 26_000 - 3_400


def test_a_prod_pod_from_a_hot_node_does_not_take_its_target_above_the_mark_for_prod_pods() -> None:
    """a is hot by 2 cores. b could take 14 more, but its prod pods use 15 of the 16 that they may."""
    scene = Scene(
        nodes=[node("a"), node("b"), node("c")],
        pods=[pod("p", "a"), pod("q", "b")],
        metrics=[metric("a", (22, 8), {"p": (4, 1)}), metric("b", (0, 8), {"q": (15, 1)}), metric("c", (20, 8), {})],
    )
    marks = {**MARKS, "lowThresholds": {"cpu": 50}, "prodHighThresholds": {"cpu": 50}}
    outcome = run(config(marks, FREELY), scene.sight())
    assert classes(outcome)["a"] == "high"
    assert moved(outcome) == []


def test_what_is_about_to_leave_a_node_counts_there_no_more() -> None:
    scene = a_hot_node()
    (first, *_) = run(config(MARKS, FREELY), scene.sight()).moves
    going = [pod for pod in scene.pods if pod.metadata.name in ("a3", first.pod.metadata.name)]
    outcome = run(config(MARKS, FREELY), replace(scene, moving=going).sight())
    assert moved(outcome) == [], "5 cores and what else goes are more than the 2 too many"
    assert classes(outcome)["a"] == "normal"


@pytest.mark.parametrize("aggregated", [{}, {"aggregated": {"usageAggregationType": "p95"}}])
def test_a_pod_that_has_left_since_the_report_counts_only_in_files_which_may_not_tell_of_it(
    aggregated: dict[str, Any],
) -> None:
    scene = a_hot_node()
    scene.pods = [pod for pod in scene.pods if pod.metadata.name != "a3"]
    scene.metrics = [with_percentile(scene.metrics[0], "26"), scene.metrics[1]]
    marks = config({**MARKS, **aggregated}, FREELY)
    assert classes(run(marks, scene.sight()))["a"] == "high"
    outcome = run(marks, replace(scene.sight(), has_all_pods=True))
    assert (classes(outcome)["a"], moved(outcome)) == ("normal", [])


DEVIATION: dict[str, Any] = {
    "useDeviationThresholds": True,
    "anomalyCondition": {"consecutiveAbnormalities": 1},
}


@pytest.mark.parametrize("prod", [False, True])
@pytest.mark.parametrize("memory", [None, {"low": 0, "high": 10}])
def test_by_deviation_a_low_mark_of_0_takes_the_resource_out(memory: dict[str, int] | None, prod: bool) -> None:
    """By memory, a is 37 points above the mean. By CPU, b is 20 points above it: only b is hot."""
    pods = [pod("p", "a"), pod("large", "b"), pod("small", "b")]
    scene = Scene(
        nodes=[node("a"), node("b")],
        pods=pods,
        metrics=[metric("a", (0, 0), {"p": (4, 100)}), metric("b", (0, 0), {"large": (14, 2), "small": (3, 2)})],
    )
    lows, highs = {"cpu": 10}, {"cpu": 10}
    if memory is not None:
        lows, highs = {**lows, "memory": memory["low"]}, {**highs, "memory": memory["high"]}
    names = ("prodLowThresholds", "prodHighThresholds") if prod else ("lowThresholds", "highThresholds")
    outcome = run(config({**DEVIATION, names[0]: lows, names[1]: highs}, FREELY), scene.sight())
    assert classes(outcome)["b"] == ("prodHigh" if prod else "high")
    assert classes(outcome)["a"] == ("bothLow" if prod else "low"), "with room for what b has too much of"
    assert moved(outcome) == ["small"]


PATIENT = {**MARKS, "anomalyCondition": {"consecutiveAbnormalities": 2, "timeout": "1h"}, "detectorCacheTimeout": "1h"}


def rounds(args: dict[str, Any], scenes: str, build: dict[str, Scene]) -> list[int]:
    """The rounds in which something moved. `scenes`: one letter for each round."""
    memory: Any = None
    acted = []
    for number, letter in enumerate(scenes, 1):
        outcome = run(config(args, FREELY), build[letter].sight(), memory)
        memory = outcome.memory
        if outcome.moves:
            acted.append(number)
    return acted


def lukewarm() -> Scene:
    """Neither hot nor low: 20 of 32 cores."""
    scene = a_hot_node()
    used = {"a1": (0.5, 2.0), "a2": (2.0, 2.0), "a3": (4.0, 2.0), "a4": (2.5, 2.0), "a5": (1.0, 2.0)}
    scene.metrics = [metric("a", (10, 60), used), scene.metrics[1]]
    return scene


def test_a_node_that_was_relieved_must_be_hot_for_several_rounds_again() -> None:
    """It is hot in rounds 1 to 3, and all that is too much goes in round 3. Hot again, it counts from the start."""
    build = {"h": a_hot_node(), "-": lukewarm()}
    assert rounds(PATIENT, "hhh-hhhhhh", build) == [3, 7, 10]


def test_a_node_that_is_not_relieved_stays_hot() -> None:
    """Only one small pod may go, so that the node is still hot after that."""
    scene = a_hot_node()
    scene.pods = [pod for pod in scene.pods if pod.metadata.name in ("a1",)]
    assert rounds(PATIENT, "hhhhh", {"h": scene}) == [3, 4, 5]


def test_relieved_of_prod_pods_a_node_counts_anew_by_their_mark() -> None:
    marks = {**PATIENT, **{name: PROD[name] for name in ("prodHighThresholds", "prodLowThresholds")}}
    assert rounds(marks, "hhhhhh", {"h": prod_scene()}) == [3, 6]


def cooled_prod_scene() -> Scene:
    """a's prod pods use little; with all else it is neither hot nor low."""
    scene = prod_scene()
    used = {"p0": (1.0, 1.0), "p1": (1.0, 1.0), "p2": (1.0, 1.0), "batch": (1.0, 1.0)}
    scene.metrics = [metric("a", (16, 4), used), *scene.metrics[1:]]
    return scene


def test_a_node_with_room_for_prod_pods_forgets_that_prod_pods_used_too_much() -> None:
    """Nothing may move in the first rounds, so that a's anomaly stays; then a has room for prod pods itself."""
    kept = {**PATIENT, **{name: PROD[name] for name in ("prodHighThresholds", "prodLowThresholds")}}
    stuck = prod_scene()
    stuck.pods = [pod(each.metadata.name, "a", annotations=STAY) for each in stuck.pods]
    scenes = {"s": stuck, "c": cooled_prod_scene(), "h": prod_scene()}
    assert classes(run(config(kept, FREELY), scenes["c"].sight()))["a"] == "prodLow"
    assert rounds(kept, "ssschhh", scenes) == [7]


def test_room_for_prod_pods_does_not_make_a_node_forget_that_it_was_hot() -> None:
    """Neither hot nor low, with room for prod pods: one round of that ends no anomaly of the whole node."""
    kept = {**PATIENT, **{name: PROD[name] for name in ("prodHighThresholds", "prodLowThresholds")}}
    stuck = a_hot_node()
    stuck.pods = [pod(each.metadata.name, "a", annotations=STAY) for each in stuck.pods]
    cooler = lukewarm()
    used = {pod.metadata.name: (0.5, 2.0) for pod in cooler.pods}
    cooler.metrics = [metric("a", (17.5, 60), used), cooler.metrics[1]]
    scenes = {"s": stuck, "c": cooler, "h": a_hot_node()}
    assert classes(run(config(kept, FREELY), cooler.sight()))["a"] == "prodLow"
    assert rounds(kept, "sssch", scenes) == [5]


STAY = {"scheduling.koordinator.sh/eviction-cost": "2147483647"}
