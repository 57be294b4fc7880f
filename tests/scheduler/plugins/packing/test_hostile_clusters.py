"""Packing where clusters and tenants do not behave: existing pods count, and no tenant spoils prices for all others."""

from __future__ import annotations

import numpy as np
import pytest

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.plugins.packing.demand import Demand
from koord.scheduler.plugins.packing.policy import rows_of
from koord.scheduler.plugins.packing.rows import FEWEST_PODS, RENEW_S
from koord.scheduler.plugins.packing.shapes import PodShape
from tests.scheduler.builders import node
from tests.scheduler.plugins.packing.test_policy import a_pod, add_node, engine


def renew(made: Engine) -> None:
    """A round between decisions, late enough for new prices."""
    made.cluster.now_s += RENEW_S
    controller = made.profile.plugins[1].controller
    assert controller is not None
    assert list(controller.writes()) == []


def points(made: Engine, gpu: int, cpu: str = "2") -> dict[str, int]:
    """What nodes are worth to a pod, as its class has kept it."""
    pod_class, names = made.class_of(Ask(a_pod("next", gpu=gpu, cpu=cpu))), made.cluster.table.names
    return {names[row]: pod_class.points().item(row) for row in pod_class.feasible_rows().tolist()}


def test_a_cluster_that_starts_empty_packs_as_soon_as_it_has_nodes_and_pods() -> None:
    made = engine(known=0)
    rows = rows_of(made.cluster, "ShadowPrices")
    assert made.place(Ask(a_pod("early", gpu=50))).node is None
    for i in range(FEWEST_PODS // 8):
        add_node(made.cluster, f"n{i}", gpus=8, cpu="64")
    assert made.place(Ask(a_pod("first", gpu=50))).node is not None
    assert rows.in_force == "least GPU left"
    renew(made)
    assert rows.in_force == "FGD"
    for i in range(FEWEST_PODS):
        assert made.place(Ask(a_pod(f"p{i}", gpu=50))).node is not None
    assert "within 5 minutes" in rows.remark
    renew(made)
    assert rows.in_force == "ShadowPrices"
    # All shares of one half: they are on as few GPUs as can be.
    used = len(np.flatnonzero((rows._fleet.devices < 1000).any(axis=1) & made.cluster.table.alive))
    assert used == -(-(FEWEST_PODS + 1) // 16)


def test_a_model_whose_nodes_all_go_away_and_come_back_is_priced_as_before() -> None:
    made, fresh = (engine("a1", "t1", "a2", "t2", known=400) for _ in range(2))
    before = points(made, 50)
    for name in ("a1", "a2"):
        made.cluster.remove_node(name)
    renew(made)
    rows = rows_of(made.cluster, "ShadowPrices")
    assert {group.model for group in rows._fleet.groups} == {"T4"}
    assert points(made, 50).keys() == {"t1", "t2"}
    for name in ("a1", "a2"):
        add_node(made.cluster, name, gpus=2, model="A100")
    assert points(made, 50).keys() == before.keys()
    renew(made)
    assert points(made, 50) == points(fresh, 50) == before


def test_pods_whose_shape_never_came_before_are_placed_and_scored_like_others() -> None:
    made = engine("n1", "n2", "n3", "n4", "n5", "n6")
    for i, (gpu, cpu) in enumerate(((37, "3"), (99, "1"), (1, "5"), (400, "15"), (200, "100m"))):
        kept = points(made, gpu, cpu)
        assert kept
        placed = made.place(Ask(a_pod(f"odd-{i}", gpu=gpu, cpu=cpu))).node
        assert placed is not None
        assert kept[placed] == max(kept.values())


def test_a_hundred_thousand_short_pods_of_one_tenant_do_not_make_the_prices_of_all_others() -> None:
    made = engine(known=0)
    for i in range(4):
        add_node(made.cluster, f"n{i}", gpus=8, cpu="64")
    cluster, demand = made.cluster, made.cluster.notes(Demand)
    for i in range(60):
        assert made.place(Ask(a_pod(f"stays-{i}", gpu=50))).node is not None
    cluster.now_s = 3 * 86_400.0
    absurd = PodShape(1, 1, 8, 1000)
    for i in range(100_000):
        demand.see(f"spam/{i}", absurd, cluster.now_s, stayed_s=1.0)
    # By their number they are nearly everything; of the time that pods were there, not a hundredth.
    assert demand.mix(cluster.now_s)[absurd] > 0.99 * sum(demand.mix(cluster.now_s).values())
    assert demand.standing(cluster.now_s)[absurd] < 0.2


def test_a_restart_in_between_prices_from_the_pods_that_are_there() -> None:
    made = engine(known=0)
    for i in range(40):
        add_node(made.cluster, f"n{i}", gpus=8, cpu="64")
    pods = [a_pod(f"p{i}", gpu=50 if i % 3 else 100, cpu="3" if i % 2 else "1") for i in range(FEWEST_PODS + 20)]
    placed = {pod.metadata.name: made.place(Ask(pod)).node for pod in pods}
    renew(made)
    again = engine(known=0)
    for i in range(40):
        add_node(again.cluster, f"n{i}", gpus=8, cpu="64")
    for pod in pods:
        record, row = made.cluster.pods[f"a/{pod.metadata.name}"]
        again.cluster.place(record, again.cluster.table.row_of[placed[pod.metadata.name] or ""])
        assert made.cluster.table.names[row] == placed[pod.metadata.name]
    again.cluster.now_s = made.cluster.now_s
    assert rows_of(made.cluster, "ShadowPrices").in_force == "ShadowPrices"
    for gpu, cpu in ((50, "3"), (100, "1"), (0, "8"), (200, "4")):
        assert points(again, gpu, cpu) == points(made, gpu, cpu)


@pytest.mark.parametrize("policy", ["FGD", "ShadowPrices"])
@pytest.mark.parametrize("known", [0, 400])
def test_a_cluster_without_any_gpu_takes_pods_that_need_none(policy: str, known: int) -> None:
    made = engine(policy=policy, known=known)
    for i in range(3):
        made.cluster.put_node(node(f"n{i}", cpu="16", memory="64Gi"))
    for round_ in range(2):
        assert made.place(Ask(a_pod(f"plain-{round_}"))).node is not None
        assert made.place(Ask(a_pod(f"share-{round_}", gpu=50))).node is None
        assert made.place(Ask(a_pod(f"whole-{round_}", gpu=100))).node is None
        renew(made)
    add_node(made.cluster, "gpus", gpus=2)
    assert made.place(Ask(a_pod("late", gpu=50))).node == "gpus"
