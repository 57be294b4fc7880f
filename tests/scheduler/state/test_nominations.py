"""Which promises count for which pods, and what they take."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.scheduler.framework.ask import Ask
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.nominations import Nomination, Nominations
from tests.scheduler.build import node, pod


def cluster_of(*names: str) -> Cluster:
    cluster = Cluster()
    for name in names:
        cluster.put_node(node(name))
    return cluster


def nomination(name: str, row: int, priority: int, cpu: int = 1) -> Nomination:
    return Nomination(Ask(pod(name, requests={"cpu": cpu}, priority=priority)).record(), row)


def test_a_promise_counts_for_the_same_and_lower_priorities() -> None:
    nominations = cluster_of("a").nominations
    assert nominations.floor(0) is None
    nominations.put(nomination("x", 0, 10))
    nominations.put(nomination("y", 0, 50))
    assert [nominations.floor(priority) for priority in (0, 10, 11, 50, 51)] == [10, 10, 50, 50, None]
    assert [record.key for record in nominations.at(0, 50)] == ["default/y"]
    assert nominations.held(10)["requested", "cpu"] == {0: 2000}
    assert nominations.held(50)["requested", "cpu"] == {0: 1000}


def test_a_pod_does_not_stand_in_its_own_way_while_it_is_tried() -> None:
    nominations = cluster_of("a").nominations
    nominations.put(nomination("x", 0, 10))
    with pytest.raises(ValueError, match="stop"), nominations.without("default/x") as promise:
        assert promise is not None
        assert len(nominations) == 0
        raise ValueError("stop")
    assert nominations.of("default/x") is not None


def test_a_promise_changes_its_row() -> None:
    cluster = cluster_of("a", "b")
    seen = cluster.table.read()
    cluster.nominations.put(nomination("x", 1, 10))
    changed = cluster.table.changes(seen)
    assert changed is not None
    assert changed.rows == [1]


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 3), st.booleans()), max_size=30))
def test_what_is_kept_is_what_would_be_summed_up_anew(changes: list[tuple[int, int, int, bool]]) -> None:
    cluster = cluster_of("a", "b", "c")
    kept = cluster.nominations
    for name, row, priority, there in changes:
        if there:
            kept.put(nomination(f"p{name}", row, priority, cpu=name + 1))
        else:
            kept.withdraw(f"default/p{name}")
        floor = kept.floor(priority)
        if floor is not None:
            anew = Nominations(cluster.table)
            for each in kept:
                anew.put(each)
            assert {k: v for k, v in kept.held(floor).items() if v} == {k: v for k, v in anew.held(floor).items() if v}
