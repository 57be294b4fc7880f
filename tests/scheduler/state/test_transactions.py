"""Transactions: what is written inside can be taken back, in parts too, and an error takes it back by itself."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.table import Row
from tests.scheduler.builders import ROW_LOCAL, ask, engine, node


def state(cluster: Cluster) -> dict[Any, Any]:
    columns = {name: column.tobytes() for name, column in cluster.table.columns.items()}
    return {"pods": dict(cluster.pods), "on": {row: dict(pods) for row, pods in cluster.pods_on.items()}, **columns}


def cluster() -> Engine:
    return engine(*(node(f"n{i}", cpu="4") for i in range(3)))


def test_a_part_is_taken_back_alone() -> None:
    found = cluster()
    with found.cluster.transaction():
        found.place(ask("kept"))
        with found.cluster.transaction() as inner:
            found.place(ask("tried"))
            inner.undo()
        found.place(ask("kept too"))
    assert found.cluster.pods.keys() == {"shop/kept", "shop/kept too"}
    assert found.cluster.table.columns["pod count"].sum() == 2


def test_the_whole_takes_its_parts_back() -> None:
    found = cluster()
    before = state(found.cluster)
    with found.cluster.transaction() as outer:
        found.place(ask("a"))
        assert all(placement.node for placement in found.place_all([ask("b"), ask("c")]))
        outer.undo()
    assert state(found.cluster) == before


def test_a_job_that_does_not_fit_can_be_tried_inside_a_transaction() -> None:
    """A search for victims removes some, tries the job, and takes all of it back."""
    found = cluster()
    for i in range(3):
        found.place(ask(f"there-{i}", cpu="4"))
    before = state(found.cluster)
    job = [ask(f"m{i}", cpu="3") for i in range(2)]
    fits = []
    for victims in (1, 2):
        with found.cluster.transaction() as attempt:
            for i in range(victims):
                found.cluster.remove_pod(f"shop/there-{i}")
            fits.append(all(placement.node for placement in found.place_all(job)))
            attempt.undo()
        assert state(found.cluster) == before
    assert fits == [False, True]


class Luck(Notes):
    name = "Fails"


class Fails(Plugin):
    name = "Fails"

    notes = Luck

    def reserve(self, ask: Ask, row: Row, cluster: Cluster, found: object) -> object:
        if ask.meta.name == "bad":
            raise OSError("out of luck")
        return None


def test_an_error_takes_a_job_back() -> None:
    found = engine(node("a"), plugins=(*ROW_LOCAL, Fails()))
    before = state(found.cluster)
    with pytest.raises(OSError, match="out of luck"):
        found.place_all([ask("good"), ask("bad"), ask("never")])
    assert state(found.cluster) == before
    assert found.place(ask("next")).node == "a"


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_any_nesting_leaves_what_was_not_taken_back(seed: int) -> None:
    """Beside it, a plain stack of copies."""
    rng = random.Random(seed)
    found = cluster()
    number = 0

    def some_work() -> None:
        nonlocal number
        for _ in range(rng.randint(0, 4)):
            number += 1
            if rng.random() < 0.7 or not found.cluster.pods:
                found.place(ask(f"p{number}", cpu=rng.choice(["100m", "1"])))
            else:
                found.cluster.remove_pod(rng.choice(sorted(found.cluster.pods)))
            if rng.random() < 0.2:
                found.class_of(ask("asked")).best()

    def nested(depth: int) -> None:
        before = state(found.cluster)
        with found.cluster.transaction() as transaction:
            some_work()
            for _ in range(rng.randint(0, 2) if depth < 3 else 0):
                nested(depth + 1)
                some_work()
            if rng.random() < 0.5:
                transaction.undo()
                assert state(found.cluster) == before
                some_work()

    for _ in range(3):
        nested(0)
        some_work()
    columns, on = found.cluster.table.columns, found.cluster.pods_on
    for row, pods in on.items():
        assert columns["pod count"][row] == len(pods)
        assert columns["requested", "cpu"][row] == sum(dict(pod.requests).get("cpu", 0) for pod in pods.values())
    fresh = Engine(found.cluster, found.profile).class_of(ask("asked"))
    kept = found.class_of(ask("asked"))
    assert kept.best() == fresh.best()
    assert kept.feasible_rows().tolist() == fresh.feasible_rows().tolist()
