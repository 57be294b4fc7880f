"""NodeResourcesFit and NodeResourcesBalancedAllocation on the engine: the specification's worked examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.configuration.scheduler_args import NodeResourcesBalancedAllocationArgs, NodeResourcesFitArgs
from koord.api.machinery.faults import check
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Many, One
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from koord.scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.build import node, pod
from tests.scheduler.world import judged, put_pod


def engine(*, has: dict[str, Any], used: dict[str, str], fit: dict[str, Any] | None = None, **balanced: Any) -> Engine:
    """An engine with a node `n` and a pod on it."""
    fit_args = check(NodeResourcesFitArgs, fit or {}, "args")
    balanced_args = check(NodeResourcesBalancedAllocationArgs, balanced, "args").completed()
    plugins = (NodeResourcesFit(fit_args), NodeResourcesBalancedAllocation(balanced_args))
    cluster = Cluster()
    cluster.put_node(node("n", **has))
    if used:
        put_pod(cluster, pod("there", on="n", requests=used))
    return Engine(cluster, Profile("s", plugins, {plugin.name: 1 for plugin in plugins}))


def scores(found: Engine, **requests: str) -> dict[str, int]:
    return {name: of["n"] for name, of in judged(found, pod("p", requests=requests)).scores.items()}


def test_least_allocated_by_weights_and_balance() -> None:
    """3 of 8 cpu and 10 of 32Gi: 62 and 68 are free, (2 * 62 + 68) / 3; they differ by 0.0625."""
    weights = [{"name": "cpu", "weight": 2}, {"name": "memory", "weight": 1}]
    found = engine(
        has={"cpu": 8, "memory": "32Gi"},
        used={"cpu": "2", "memory": "8Gi"},
        fit={"scoringStrategy": {"resources": weights}},
    )
    assert scores(found, cpu="1", memory="2Gi") == {"NodeResourcesFit": 64, "NodeResourcesBalancedAllocation": 96}


def test_what_containers_do_not_name_counts_for_fit_and_not_for_balance() -> None:
    """100m and 200Mi of 1 cpu and 2000Mi: 90 and 90 are free. All-zero requests have no balance."""
    found = engine(has={"cpu": 1, "memory": "2000Mi"}, used={})
    assert scores(found) == {"NodeResourcesFit": 90}


def test_an_explicit_zero_stays_zero() -> None:
    found = engine(has={"cpu": 1, "memory": "2000Mi"}, used={})
    assert scores(found, cpu="0", memory="0") == {"NodeResourcesFit": 100}


@pytest.mark.parametrize(
    ("requests", "reasons", "preemptible"),
    [
        ({"cpu": "7"}, ("Insufficient cpu",), True),
        ({"cpu": "9"}, ("Insufficient cpu",), False),
        ({"cpu": "9", "memory": "31Gi"}, ("Insufficient cpu", "Insufficient memory"), False),
        ({"cpu": "1", "example.com/gpu": "1"}, ("Insufficient example.com/gpu",), False),
        ({"kubernetes.io/batch-cpu": "3000"}, (), False),
        ({"kubernetes.io/batch-cpu": "4001"}, ("Insufficient kubernetes.io/batch-cpu",), False),
    ],
)
def test_all_shortages_are_told_and_whether_preemption_could_help(
    requests: dict[str, str], reasons: tuple[str, ...], preemptible: bool
) -> None:
    has = {"cpu": 8, "memory": "32Gi", "more": {"kubernetes.io/batch-cpu": 4000}}
    found = judged(engine(has=has, used={"cpu": "2", "memory": "8Gi"}), pod("p", requests=requests))
    assert (found.reasons["n"][1] if found.reasons else ()) == reasons
    assert bool(found.preemptible) == preemptible


def test_three_resources_are_balanced_by_their_deviation() -> None:
    """0.5, 0.5 and 0.25: a mean of 5/12, a deviation of 0.1178."""
    resources = [{"name": name, "weight": 1} for name in ("cpu", "memory", "example.com/gpu")]
    found = engine(has={"cpu": 8, "memory": "32Gi", "more": {"example.com/gpu": 4}}, used={}, resources=resources)
    wanted = {"cpu": "4", "memory": "16Gi", "example.com/gpu": "1"}
    assert scores(found, **wanted)["NodeResourcesBalancedAllocation"] == 88


@settings(max_examples=60)
@given(
    st.lists(st.tuples(*[st.integers(0, 9)] * 4, st.integers(0, 3)), min_size=2, max_size=5),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    st.sampled_from(["LeastAllocated", "MostAllocated"]),
    st.sampled_from([(1, 1), (2, 1)]),
)
def test_a_row_by_itself_is_judged_like_a_row_among_many(
    nodes: list[tuple[int, ...]], asked: tuple[int, int], strategy: str, weights: tuple[int, int]
) -> None:
    resources = [{"name": name, "weight": n} for name, n in zip(("cpu", "memory"), weights, strict=True)]
    args = check(NodeResourcesFitArgs, {"scoringStrategy": {"type": strategy, "resources": resources}}, "args")
    plugins = (NodeResourcesFit(args), NodeResourcesBalancedAllocation())
    cluster = Cluster()
    ask = Ask(pod("p", requests={"cpu": f"{asked[0]}", "memory": f"{asked[1]}Gi"}))
    judges = [judge for plugin in plugins if (judge := plugin.compile(ask, cluster)) is not None]
    for i, (cpu, memory, used_cpu, used_memory, pods) in enumerate(nodes):
        cluster.put_node(node(f"n{i}", cpu=cpu, memory=f"{memory}Gi", pods=pods))
        put_pod(cluster, pod(f"on-{i}", on=f"n{i}", requests={"cpu": f"{used_cpu}", "memory": f"{used_memory}Gi"}))
        columns, rows = cluster.table.columns, np.arange(i + 1)
        for judge in judges:
            if judge.filters_on:
                masks = np.broadcast_to(judge.feasible(Many(columns, rows)), rows.shape).tolist()
                assert [judge.feasible(One(columns, row)) for row in rows.tolist()] == masks
            scores = np.broadcast_to(judge.score(Many(columns, rows)), rows.shape).tolist()
            assert [judge.score(One(columns, row)) for row in rows.tolist()] == scores


def test_a_row_is_read_from_the_columns_of_now_after_the_table_has_grown() -> None:
    found = engine(has={"cpu": 8, "memory": "32Gi"}, used={})
    cluster = found.cluster
    found.place(Ask(pod("p", requests={"cpu": "1", "memory": "1Gi"})))
    for i in range(2 * cluster.table.capacity):
        cluster.put_node(node(f"small-{i}", cpu=1, memory="32Gi"))
    places = [found.place(Ask(pod(f"p{i}", requests={"cpu": "1500m", "memory": "1Gi"}))).node for i in range(5)]
    assert places == ["n"] * 4 + [None]
