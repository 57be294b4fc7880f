"""The engine: what it decides, that it never decides differently from scratch, and that undone is undone."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.pod_class import PodClass
from koord.scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.builders import ask, engine, node


def test_a_pod_goes_to_the_emptiest_node() -> None:
    found = engine(node("small", cpu="2"), node("large", cpu="16"))
    assert found.place(ask("p")).node == "large"


def test_a_pod_that_fits_nowhere_is_told_why_by_count() -> None:
    found = engine(node("a", cpu="1"), node("b", cpu="1"), node("c", unschedulable=True))
    placement = found.place(ask("p", cpu="4"))
    assert placement.node is None
    assert placement.rejections == {"Insufficient cpu": 2, "node(s) were unschedulable": 1}
    assert placement.rejected_by == {"NodeResourcesFit", "NodeUnschedulable"}


def test_all_shortages_of_a_node_are_named() -> None:
    placement = engine(node("a", cpu="1", memory="1Gi")).place(ask("p", cpu="4", memory="8Gi"))
    assert placement.rejections == {"Insufficient cpu": 1, "Insufficient memory": 1}


@pytest.mark.parametrize(("strategy", "winner"), [("LeastAllocated", "empty"), ("MostAllocated", "full")])
def test_the_strategy_decides_between_full_and_empty(strategy: str, winner: str) -> None:
    from koord.api.configuration.scheduler_args import NodeResourcesFitArgs
    from koord.api.machinery.faults import check

    args = check(NodeResourcesFitArgs, {"scoringStrategy": {"type": strategy}}, "args")
    found = engine(node("empty"), node("full"), plugins=(NodeResourcesFit(args),))
    found.cluster.place(ask("running", cpu="6", memory="24Gi").record(), found.cluster.table.row_of["full"])
    assert found.place(ask("p")).node == winner


def test_requested_to_capacity_follows_the_shape() -> None:
    """At 50% of cpu and memory a line from 0 at 0 to 10 at 100 gives 50."""
    from koord.api.configuration.scheduler_args import NodeResourcesFitArgs
    from koord.api.machinery.faults import check

    shape = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}
    strategy = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": shape}
    args = check(NodeResourcesFitArgs, {"scoringStrategy": strategy}, "args")
    found = engine(node("n", cpu="2", memory="2Gi"), plugins=(NodeResourcesFit(args),))
    assert found.place(ask("p", cpu="1", memory="1Gi"), explain=True).scores == {"NodeResourcesFit": 50}


def test_preferred_affinity_and_soft_taints_are_normalised_over_the_candidates() -> None:
    soft = [{"key": "k", "effect": "PreferNoSchedule"}]
    found = engine(node("plain"), node("tainted", taints=soft), node("preferred", labels={"disk": "ssd"}, taints=soft))
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": term}]}
    wanted = found.class_of(ask("p", affinity={"nodeAffinity": preferred}))
    scores = {name: wanted.scores(row) for name, row in found.cluster.table.row_of.items()}
    assert {name: score["TaintToleration"] for name, score in scores.items()} == {
        "plain": 100,
        "tainted": 0,
        "preferred": 0,
    }
    assert {name: score["NodeAffinity"] for name, score in scores.items()} == {
        "plain": 0,
        "tainted": 0,
        "preferred": 100,
    }


def test_a_job_that_does_not_fit_whole_changes_nothing() -> None:
    found = engine(node("a", cpu="2"), node("b", cpu="2"))
    before = snapshot(found.cluster)
    placements = found.place_all([ask(f"p{i}", cpu="1500m") for i in range(3)])
    assert [placement.node for placement in placements] == [None, None, None]
    assert snapshot(found.cluster) == before
    assert all(placement.node for placement in found.place_all([ask(f"q{i}", cpu="1500m") for i in range(2)]))


def test_a_pod_that_is_made_for_a_node_waits_for_it_and_follows_its_name() -> None:
    pinned = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["late"]}]}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [pinned]}}

    def made_for_late(name: str) -> Ask:
        return ask(name, affinity={"nodeAffinity": terms})

    found = engine(node("a"), node("b"))
    placement = found.place(made_for_late("p"))
    assert placement.rejections == {"node(s) didn't satisfy plugin(s) [NodeAffinity]": 2}
    found.cluster.put_node(node("late"))
    assert found.place(made_for_late("p")).node == "late"
    found.cluster.remove_node("late")
    found.cluster.put_node(node("c"))
    assert found.place(made_for_late("q")).node is None
    found.cluster.put_node(node("late"))
    assert found.place(made_for_late("q")).node == "late"


def test_a_pod_whose_terms_pin_two_names_at_once_fits_nowhere() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in "ab"]
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]}}
    placement = engine(node("a"), node("b")).place(ask("p", affinity={"nodeAffinity": terms}))
    assert (placement.node, placement.refusal) == (None, "pod affinity terms conflict")


def test_a_row_that_is_used_again_keeps_nothing_of_the_node_before() -> None:
    found = engine(node("a", cpu="4", extended={"example.com/gpu": "2"}))
    found.place(ask("p"))
    found.cluster.remove_node("a")
    found.cluster.put_node(node("b", cpu="4"))
    assert found.place(ask("q", cpu="4")).node == "b"
    assert found.cluster.pods.keys() == {"shop/q"}


def snapshot(cluster: Cluster) -> dict[Any, Any]:
    columns = {name: column.tobytes() for name, column in cluster.table.columns.items()}
    return {"columns": columns, "pods": dict(cluster.pods), "on": {row: dict(p) for row, p in cluster.pods_on.items()}}


LABELS = [{}, {"zone": "a"}, {"zone": "b", "disk": "ssd"}]
TAINTS = [
    [],
    [{"key": "k", "effect": "NoSchedule"}],
    [{"key": "k", "effect": "PreferNoSchedule"}, {"key": "m", "effect": "PreferNoSchedule"}],
]


def random_node(rng: random.Random, name: str) -> Any:
    return node(
        name,
        cpu=str(rng.choice([1, 2, 8])),
        memory=f"{rng.choice([2, 8, 32])}Gi",
        pods=str(rng.choice([1, 3, 110])),
        labels=rng.choice(LABELS),
        taints=rng.choice(TAINTS),
        unschedulable=rng.random() < 0.1,
    )


def random_ask(rng: random.Random, name: str) -> Ask:
    spec: dict[str, Any] = {}
    if rng.random() < 0.3:
        spec["tolerations"] = [{"key": "k", "operator": "Exists"}]
    if rng.random() < 0.3:
        spec["nodeSelector"] = {"zone": rng.choice("ab")}
    if rng.random() < 0.3:
        term = {"matchExpressions": [{"key": "disk", "operator": rng.choice(["Exists", "DoesNotExist"])}]}
        weighted = [{"weight": rng.randint(1, 9), "preference": term}]
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}
    return ask(name, cpu=rng.choice(["0", "250m", "1", "3"]), memory=rng.choice(["0", "1Gi", "6Gi"]), **spec)


def fresh(found: Engine, wanted: Ask) -> PodClass:
    """The class as it would be had it never been asked before."""
    return Engine(found.cluster, found.profile).class_of(wanted)


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_what_is_kept_equals_what_is_worked_out_from_scratch(seed: int) -> None:
    rng = random.Random(seed)
    found = engine(*(random_node(rng, f"n{i}") for i in range(rng.randint(1, 20))))
    kinds = [random_ask(rng, f"kind{i}") for i in range(4)]
    for step in range(30):
        cluster = found.cluster
        match rng.randrange(6):
            case 0 | 1 | 2:
                found.place(random_ask(rng, f"p{step}") if rng.random() < 0.5 else rng.choice(kinds))
            case 3 if cluster.pods:
                cluster.remove_pod(rng.choice(sorted(cluster.pods)))
            case 4:
                cluster.put_node(random_node(rng, f"n{rng.randrange(25)}"))
            case 5 if len(cluster.table) > 1:
                cluster.remove_node(rng.choice(sorted(cluster.table.row_of)))
        for kind in kinds:
            kept, scratch = found.class_of(kind), fresh(found, kind)
            alive = cluster.table.alive
            assert kept.best() == scratch.best()
            assert np.array_equal(kept.feasible_rows(), scratch.feasible_rows())
            for row in np.flatnonzero(alive):
                assert kept.scores(int(row)) == scratch.scores(int(row))


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_no_node_is_ever_over_its_allocatable(seed: int) -> None:
    rng = random.Random(seed)
    found = engine(*(random_node(rng, f"n{i}") for i in range(8)))
    for i in range(60):
        found.place(random_ask(rng, f"p{i}"))
    columns = found.cluster.table.columns
    for resource in ("cpu", "memory"):
        assert (columns["requested", resource] <= columns["allocatable", resource]).all()
    assert (columns["pod count"] <= columns["allocatable", "pods"]).all()


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_an_undone_transaction_restores_the_state_bit_for_bit(seed: int) -> None:
    rng = random.Random(seed)
    found = engine(*(random_node(rng, f"n{i}") for i in range(8)))
    for i in range(10):
        found.place(random_ask(rng, f"p{i}"))
    before = snapshot(found.cluster)
    with found.cluster.transaction() as transaction:
        for i in range(10):
            found.place(random_ask(rng, f"q{i}"))
        for key in sorted(found.cluster.pods)[:3]:
            found.cluster.remove_pod(key)
        transaction.undo()
    after = snapshot(found.cluster)
    # A column that a new selector asked for is another view of the labels, not a change of the state.
    after["columns"] = {name: column for name, column in after["columns"].items() if name in before["columns"]}
    assert after == before


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_equal_seeds_give_equal_placements_in_any_order_of_nodes(seed: int) -> None:
    rng = random.Random(seed)
    nodes = [random_node(rng, f"n{i}") for i in range(12)]
    asks = [random_ask(rng, f"p{i}") for i in range(30)]
    shuffled = rng.sample(nodes, len(nodes))
    one, other = engine(*nodes, seed=7), engine(*shuffled, seed=7)
    assert [one.place(ask).node for ask in asks] == [other.place(ask).node for ask in asks]


def test_another_seed_breaks_ties_differently() -> None:
    nodes = [node(f"n{i}") for i in range(50)]
    winners = {engine(*nodes, seed=seed).place(ask("p")).node for seed in range(20)}
    assert len(winners) > 5


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_reasons_by_plugin_are_those_of_the_nodes_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    taint = {"key": "k", "effect": "NoSchedule"}
    nodes = [
        node(
            f"n{i}",
            cpu=chance.choice(["1", "4"]),
            memory=chance.choice(["1Gi", "8Gi"]),
            pods=chance.choice(["0", "9"]),
            labels={"zone": chance.choice("ab")},
            taints=[taint] if chance.random() < 0.3 else [],
            unschedulable=chance.random() < 0.2,
        )
        for i in range(chance.randint(1, 12))
    ]
    found = engine(*nodes)
    wanted: dict[str, Any] = {"nodeSelector": {"zone": "a"}} if chance.random() < 0.5 else {}
    asked = ask("p", cpu=chance.choice(["2", "8"]), memory=chance.choice(["512Mi", "4Gi"]), **wanted)
    pod_class = found.class_of(asked)
    counted: dict[str, dict[str, int]] = {}
    for part, reasons in pod_class.rejections().values():
        for reason in reasons:
            counts = counted.setdefault(part.plugin.name, {})
            counts[reason] = counts.get(reason, 0) + 1
    assert pod_class.why_not() == counted
