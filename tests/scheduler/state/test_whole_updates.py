"""An update of the state happens whole or not at all, and sums are exact however large the amounts are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.machinery.faults import BadInput
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.plugins.load_aware_scheduling import LoadAwareScheduling
from koord.scheduler.profiles import profiles_of
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Row
from koord_chaos.stories.dice import Dice
from tests.scheduler.build import metric, node, pod
from tests.scheduler.core.build import Fed
from tests.scheduler.core.build import node as live_node
from tests.scheduler.core.build import pod as live_pod

LARGEST = 2**63 - 1
EDGES = (0, 1, 2**31, 2**40, 2**40 + 1, 2**53 + 1, 2**56, 2**62 - 1, 2**62, LARGEST - 1, LARGEST)


class Fails(Exception):
    pass


class Faulty:
    """A watcher that fails when it is told to."""

    due = False

    def node_put(self, row: Row) -> None:
        self._maybe()

    def amounts_put(self, row: Row, changed: frozenset[str]) -> None:
        self._maybe()

    def node_removed(self, row: Row) -> None: ...

    def pod_moved(self, record: PodRecord, row: Row, sign: int) -> None:
        self._maybe()

    def _maybe(self) -> None:
        if self.due:
            self.due = False
            raise Fails


class World:
    def __init__(self, dice: Dice) -> None:
        self.dice, self.cluster, self.faulty = dice, Cluster(), [Faulty(), Faulty(), Faulty()]
        self.cluster.watch(self.faulty[0])
        self.engine = Engine(self.cluster, next(iter(profiles_of(SHIPPED).profiles.values())))
        self.cluster.watch(self.faulty[1])
        self.put_node("n0")
        self.put_node("n1")
        for plugin in self.engine.profile.plugins:
            if isinstance(plugin, LoadAwareScheduling):
                plugin.put_node_metric(metric("n0", usage={"cpu": "1", "memory": str(dice.one(EDGES))}))
        self.number = 0

    def put_node(self, name: str) -> None:
        memory = str(self.dice.one(EDGES)) if self.dice.chance(0.5) else "1Gi"
        has = {"example.com/gpu": str(self.dice.one(EDGES)), "memory": memory}
        self.cluster.put_node(node(name, more=has))

    def step(self, *, nodes: bool = True) -> None:
        cluster, dice = self.cluster, self.dice
        what = dice.integer(0, 9 if nodes else 7)
        if what < 5:
            self.number += 1
            name = f"p{self.number}" if dice.chance(0.8) or not cluster.pods else dice.one(sorted(cluster.pods))[8:]
            amounts = [str(dice.one(EDGES)) for _ in range(3)]
            asks = {"memory": amounts[0], "cpu": f"{amounts[1]}m", "example.com/gpu": amounts[2]}
            row = dice.one(sorted(cluster.table.row_of.values()))
            cluster.place(Ask(pod(name, requests=asks, on="n0")).record(), row)
        elif what < 8:
            if cluster.pods:
                cluster.remove_pod(dice.one(sorted(cluster.pods)))
        else:
            self.put_node(f"n{dice.integer(0, 2)}")

    def state(self) -> dict[Any, Any]:
        cluster = self.cluster
        columns = {name: column.tobytes() for name, column in cluster.table.columns.items() if column.any()}
        return {
            "pods": dict(cluster.pods),
            "on": {row: dict(pods) for row, pods in cluster.pods_on.items()},
            "nodes": dict(cluster.nodes),
            "rows": dict(cluster.table.row_of),
            "beyond": dict(cluster.table._beyond),
            **columns,
        }


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_an_update_that_fails_at_any_point_leaves_the_state_as_it_was(seed: int) -> None:
    dice = Dice(seed)
    world = World(dice)
    for _ in range(40):
        before = world.state()
        if dice.chance(0.3):
            with world.cluster.transaction() as transaction:
                for _ in range(dice.integer(1, 4)):
                    world.step(nodes=False)
                transaction.undo()
            assert world.state() == before
            continue
        dice.one(world.faulty).due = dice.chance(0.5)
        try:
            world.step()
        except Fails:
            assert world.state() == before
        for faulty in world.faulty:
            faulty.due = False
        for name in world.cluster.table.row_of:
            world.engine.class_of(Ask(pod(f"asks-{name}", requests={"memory": "1Gi"}))).best()
    for key in list(world.cluster.pods):
        world.cluster.remove_pod(key)
    table = world.cluster.table
    assert not table._beyond
    for column, cells in table.columns.items():
        if isinstance(column, tuple) and column[0] == "requested":
            assert not cells.any(), column
    assert not table.columns["pod count"].any()


def test_a_node_is_as_good_as_new_after_pods_of_the_largest_amounts() -> None:
    fed = Fed()
    fed.put(live_node("n1"))
    huge = [_asking(f"huge-{i}", {"memory": LARGEST, "example.com/gpu": LARGEST}, on="n1") for i in range(300)]
    fed.put(*huge)
    fed.put(_asking("small", {"memory": 1}))
    assert fed.nowhere().placement.rejections == {"Insufficient memory": 1, "Too many pods": 1}
    fed.delete(*huge)
    fed.clock.advance(11)
    assert fed.bind().node == "n1"


def _asking(name: str, requests: dict[str, int], on: str = "") -> Any:
    asked = {key: str(amount) for key, amount in requests.items()}
    return live_pod(name, on=on, containers=[{"name": "c", "resources": {"requests": asked}}])


def test_a_node_that_cannot_be_understood_is_not_half_there() -> None:
    cluster = Cluster()
    cluster.put_node(node("n0"))
    with pytest.raises(BadInput):
        cluster.put_node(node("n1", more={"example.com/gpu": "1e30"}))
    with pytest.raises(BadInput):
        cluster.put_node(node("n0", labels={"zone": "a"}, more={"example.com/gpu": "1e30"}))
    assert cluster.table.row_of == {"n0": 0}
    assert "zone" not in cluster.nodes[0].metadata.labels
