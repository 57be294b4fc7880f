"""The policy `adaptive`: a node's own figures, with batch pods counted by use and never sold twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol import names
from koord.api.protocol.crd.node_metric import LendingMetric, NodeMetric
from koord.manager.figures import Figure, parts, room, total
from koord.manager.node_resource.explain import explain
from koord.manager.node_resource.plugins import choose
from koord.manager.node_resource.writing import decide
from koord.manager.node_state import NodeState
from tests.manager.builders import (
    GI,
    NOW_S,
    WEB,
    batch,
    config,
    metric,
    node,
    outcomes,
    pod,
    prepared,
    settings,
    state,
    topology,
)

ADAPTIVE = config(cpuCalculatePolicy="adaptive", memoryCalculatePolicy="adaptive")
COUNTED = {"a": "8", "b": "8", "c": "3100m", "d": "600m", "young": "8"}
FIGURES: dict[str, Any] = {
    "isInForce": True,
    "minutes": 9000,
    "cpuMark": "54400m",
    "cpuRise": "1900m",
    "scalePermille": 900,
    "cpuMargin": "1710m",
    "cpuServices": "11200m",
    "cpuMore": "3200m",
    "cpuAmount": "44690m",
    "memoryServices": "40Gi",
    "shortPermille": 11,
}


def jobs(*more: Pod, cpu: str = "8k") -> tuple[Pod, ...]:
    return (WEB, *(pod(name, qos="BE", band="batch", batch_cpu=cpu) for name in COUNTED), *more)


def report(counted: Mapping[str, str] = COUNTED, age_s: float = 10.0, **figures: Any) -> NodeMetric:
    lending = {
        **FIGURES,
        **figures,
        "counted": [{"uid": f"uid-{name}", "cpu": cpu} for name, cpu in counted.items()],
    }
    found = metric({"web": ("6.2", "20Gi")}, age_s=age_s)
    return replace(found, status=replace(found.status, lending_metric=convert(LendingMetric, lending)))


def lent(figure: str, known: NodeState) -> Figure:
    return next(each for each in prepared(known, ADAPTIVE).figures if each.resource == figure)


def test_the_worked_example_is_calculated_line_by_line() -> None:
    figure = lent(names.RESOURCE_BATCH_CPU, state(pods=jobs(), report=report()))
    lines = [(term.op, term.name, term.amount) for term in figure.terms]
    assert lines == [
        ("start", "mark", 54_400),
        ("minus", "margin", 1_710),
        ("minus", "services", 11_200),
        ("plus", "more", 3_200),
        ("atLeast", "nothing", 0),
        ("becomes", "amount", 44_690),
        ("minus", "counted", 27_700),
        ("atLeast", "nothing", 0),
        ("becomes", "room", 16_990),
        ("plus", "requests", 40_000),
    ]
    assert figure.amount == 56_990
    assert [term.why for term in figure.terms if term.name in ("mark", "margin", "more", "counted")] == [
        "85% of 64000",
        "rise of 1900 in 99 of 100 minutes, x 0.90",
        "batch was short in 1.1% of minutes",
        "5 pods asked for 40000, count 27700",
    ]


def test_a_pod_that_was_placed_after_the_report_counts_with_its_request() -> None:
    before = state(pods=jobs(), report=report())
    after = state(pods=jobs(pod("new", qos="BE", band="batch", batch_cpu="5k")), report=report())
    assert batch(after, ADAPTIVE)[0] == batch(before, ADAPTIVE)[0], "the room shrinks by what was requested"
    assert "1 not in the report yet" in str(lent(names.RESOURCE_BATCH_CPU, after).terms)


def test_what_a_pod_does_not_use_is_not_for_sale_twice_when_it_ends() -> None:
    """The request goes with the pod; only what it counted for comes back as room."""
    known = state(pods=tuple(each for each in jobs() if each.metadata.name != "c"), report=report())
    assert batch(known, ADAPTIVE)[0] == 56_990 - 8_000 + 3_100


def test_a_node_whose_services_need_all_publishes_what_is_requested() -> None:
    known = state(pods=jobs(), report=report(cpuServices="70", cpuMore="0"))
    assert batch(known, ADAPTIVE)[0] == 40_000


def test_a_limit_of_the_configuration_does_not_go_below_the_requests() -> None:
    slo = config(cpuCalculatePolicy="adaptive", batchCPUThresholdPercent=10)
    assert batch(state(pods=jobs(), report=report()), slo)[0] == 40_000


def test_a_stale_report_lends_nothing() -> None:
    assert batch(state(pods=jobs(), report=report(age_s=3600)), ADAPTIVE) == (None, None)


def test_a_node_that_does_not_report_figures_lends_by_usage_and_no_less_than_is_requested() -> None:
    silent = metric({"web": ("6.2", "20Gi")})
    assert batch(state(report=silent), ADAPTIVE)[0] == batch(state(report=silent), config())[0]
    busy = metric({"web": ("60", "20Gi")})
    assert batch(state(pods=jobs(), report=busy), ADAPTIVE)[0] == 40_000


@pytest.mark.parametrize("missing", ["cpuMark", "cpuMargin", "cpuServices", "cpuMore"])
def test_figures_with_a_line_missing_are_none(missing: str) -> None:
    line: dict[str, Any] = {missing: None}
    known = state(report=report(**line))
    assert known.metric is not None
    assert known.metric.lending is None


def test_memory_is_what_services_did_not_need_in_a_day() -> None:
    memory = batch(state(report=report()), ADAPTIVE)[1]
    assert memory == int(256 * GI * 0.95) - 40 * GI - int(256 * GI * 0.05)


def test_memory_stops_where_somebody_has_eviction_stop() -> None:
    slo = config(memoryCalculatePolicy="adaptive")
    strategy = {"enable": True, "memoryEvictThresholdPercent": 80, "memoryEvictLowerPercent": 75}
    slo = replace(slo, resource_threshold=convert(type(slo.resource_threshold), {"clusterStrategy": strategy}))
    assert batch(state(report=report()), slo)[1] == int(256 * GI * 0.75) - 40 * GI - int(256 * GI * 0.05)


def test_what_yarn_holds_counts_like_requests_of_pods() -> None:
    held = {"allocations": [{"name": "yarn", "priority": "koord-batch", "resources": {names.RESOURCE_BATCH_CPU: "6k"}}]}
    hadoop = node(annotations={names.ANNOTATION_THIRD_PARTY_ALLOCATIONS: json.dumps(held)})
    reported = report(countedOfOthers="2", requestedByOthers="6")
    assert batch(state(hadoop, jobs(), reported), ADAPTIVE)[0] == 40_000 + 16_990 - 2_000
    late = report(countedOfOthers="2", requestedByOthers="4")
    assert batch(state(hadoop, jobs(), late), ADAPTIVE)[0] == 40_000 + 16_990 - 2_000 - 2_000


def test_on_a_faster_cpu_requests_stay_what_they_are_and_room_is_worth_more() -> None:
    fast = node(annotations={names.ANNOTATION_CPU_NORMALIZATION_RATIO: "2.00"})
    info = {"cpuModel": "fast"}
    slo = config(cpuCalculatePolicy="adaptive")
    slo = replace(slo, cpu_normalization=convert(type(slo.cpu_normalization), {"enable": True, "defaultRatio": 2}))
    known = state(fast, jobs(), report(), zones=topology(info=info))
    assert batch(known, slo)[0] == 40_000 + 2 * 16_990


def test_zones_have_their_requests_and_a_share_of_the_room() -> None:
    pinned = pod("pinned", qos="BE", band="batch", batch_cpu="4k", numa=(1,))
    known = state(pods=(WEB, pinned), report=report({"pinned": "1"}), zones=topology())
    figures = {zone: figures[0] for outcome in outcomes(known, ADAPTIVE) for zone, figures in outcome.zones.items()}
    whole = batch(known, ADAPTIVE)[0]
    assert whole == 44_690 - 1_000 + 4_000
    assert {zone: figure.amount for zone, figure in figures.items()} == {"node-0": 21_845, "node-1": 25_845}


def test_suppression_that_was_switched_off_by_hand_leaves_the_policy_usage() -> None:
    slo = replace(
        ADAPTIVE, resource_threshold=convert(type(ADAPTIVE.resource_threshold), {"clusterStrategy": {"enable": False}})
    )
    known = state(pods=jobs(), report=report())
    assert slo.for_node({}, {}).node_slo.lending_strategy is None
    assert batch(known, slo)[0] == batch(known, config())[0]


def test_two_pools_may_lend_by_two_policies() -> None:
    chosen = {"name": "a", "nodeSelector": {"matchLabels": {"pool": "a"}}, "cpuCalculatePolicy": "adaptive"}
    slo = config(nodeConfigs=[{**chosen, "cpuSafetyMarkPercent": 80}])
    mine, other = slo.for_node({"pool": "a"}, {}), slo.for_node({}, {})
    assert mine.node_slo.lending_strategy is not None
    assert mine.node_slo.lending_strategy.cpu_safety_mark_percent == 80
    assert other.node_slo.lending_strategy is None
    assert other.node_slo == config().for_node({}, {}).node_slo


def test_the_explanation_has_what_each_batch_pod_counts_for() -> None:
    known = state(pods=jobs(), report=report())
    told = explain(known, ADAPTIVE, ADAPTIVE.for_node({}, {}), choose(), NOW_S)
    counted = {pod.pod: pod.counted_cpu for pod in told.pods}
    assert counted["default/c"] == 3_100
    assert counted["default/d"] == 600


PUBLISHED: dict[str, str] = {names.RESOURCE_BATCH_CPU: "56990", names.RESOURCE_BATCH_MEMORY: "1"}


def is_written(known: NodeState) -> bool:
    strategy = settings(known, ADAPTIVE).colocation
    decision = decide(known.node, prepared(known, ADAPTIVE), strategy, NOW_S - 10, NOW_S)
    return any(
        comparison.beyond for comparison in decision.comparisons if comparison.resource == names.RESOURCE_BATCH_CPU
    )


def test_a_pod_that_ends_is_published_at_once_and_one_that_starts_needs_no_write() -> None:
    shows = node(published=PUBLISHED)
    without_c = tuple(each for each in jobs() if each.metadata.name != "c")
    assert is_written(state(shows, without_c, report()))
    assert not is_written(state(shows, jobs(pod("new", qos="BE", band="batch", batch_cpu="5k")), report()))


def test_a_little_less_room_waits() -> None:
    assert not is_written(state(node(published=PUBLISHED), jobs(), report(cpuServices="11700m")))


amounts = st.integers(0, 80_000)


@given(services=amounts, more=amounts, counted=st.lists(amounts, max_size=6), new=amounts)
def test_the_figure_is_never_below_the_requests_nor_above_them_by_more_than_the_amount(
    services: int, more: int, counted: list[int], new: int
) -> None:
    pods = [pod(f"p{i}", qos="BE", band="batch", batch_cpu=str(8_000)) for i in range(len(counted))]
    pods.append(pod("new", qos="BE", band="batch", batch_cpu=str(new)))
    known = state(
        pods=tuple(pods),
        report=report(
            {f"p{i}": f"{each}m" for i, each in enumerate(counted)}, cpuServices=f"{services}m", cpuMore=f"{more}m"
        ),
    )
    figure = lent(names.RESOURCE_BATCH_CPU, known)
    requested = 8_000 * len(counted) + new
    amount = max(0, 54_400 - 1_710 - services + more)
    assert figure.amount == requested + max(0, amount - sum(counted) - new)
    assert figure.amount == total(figure.terms)
    assert room(figure) == figure.amount - requested
    assert parts(figure).measured >= 0
