"""InterferenceAvoidance: workloads that disturb each other are kept apart where there is a choice, and only then."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.configuration.scheduler_config import SHIPPED, parse
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.interference_pair import InterferencePair
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.framework.explains import explanation_of
from koord.scheduler.plugins.interference_avoidance import InterferenceAvoidance, Pairs
from koord.scheduler.profiles import profiles_of
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.builders import node, recorded


def pair(weight: int, victim: str = "web", culprit: str = "build", name: str = "pair") -> InterferencePair:
    data = {
        "metadata": {"name": name},
        "spec": {
            "victim": {"namespace": "shop", "kind": "Deployment", "name": victim},
            "culprit": {"namespace": "shop", "kind": "Job", "name": culprit},
        },
        "status": {"weight": weight},
    }
    return convert(InterferencePair, data)


def pod(name: str, owner: str = "", kind: str = "Job") -> Pod:
    """`web` is a Deployment, all others are Jobs."""
    labels, refs = {}, []
    if owner:
        own = owner
        if owner == "web":
            kind, own, labels = "ReplicaSet", "web-5d8f", {"pod-template-hash": "5d8f"}
        refs = [{"apiVersion": "v1", "kind": kind, "name": own, "uid": owner, "controller": True}]
    meta: dict[str, Any] = {"name": name, "namespace": "shop", "uid": name, "labels": labels, "ownerReferences": refs}
    return convert(Pod, {"metadata": meta, "spec": {"containers": [{"name": "c"}]}})


class World:
    def __init__(self, *nodes: str) -> None:
        self.cluster = Cluster()
        self.plugin = InterferenceAvoidance()
        self.engine = Engine(self.cluster, Profile("s", (self.plugin,), {"InterferenceAvoidance": 1}))
        for name in nodes or ("a", "b", "c"):
            self.cluster.put_node(node(name))
        (taking,) = self.plugin.takes()
        self.learns, self.forgets = taking.put, taking.remove

    def runs(self, name: str, owner: str, on: str) -> None:
        self.cluster.place(recorded(self.cluster, Ask(pod(name, owner))), self.cluster.table.row_of[on])

    def scores(self, owner: str) -> dict[str, int]:
        pod_class = self.engine.class_of(Ask(pod("new", owner)))
        rows = self.cluster.table.row_of
        return {name: pod_class.scores(row).get("InterferenceAvoidance", 0) for name, row in rows.items()}


def test_a_pair_counts_both_ways_and_for_no_other_workload() -> None:
    world = World()
    world.runs("web-1", "web", on="a")
    world.runs("build-1", "build", on="b")
    world.learns(pair(60))
    assert world.scores("build") == {"a": 40, "b": 100, "c": 100}
    assert world.scores("web") == {"a": 100, "b": 40, "c": 100}
    assert world.scores("other") == {"a": 0, "b": 0, "c": 0}
    assert world.engine.place(Ask(pod("build-2", "build"))).node != "a"


def test_pairs_of_one_node_add_up_and_a_node_loses_no_more_than_everything() -> None:
    world = World()
    world.runs("web-1", "web", on="a")
    world.runs("web-2", "web", on="a")
    world.runs("db-1", "db", on="a")
    world.runs("db-2", "db", on="b")
    world.learns(pair(60))
    db = convert(InterferencePair, {
        "metadata": {"name": "db"},
        "spec": {"victim": {"namespace": "shop", "kind": "Job", "name": "db"},
                 "culprit": {"namespace": "shop", "kind": "Job", "name": "build"}},
        "status": {"weight": 70},
    })  # fmt: skip
    world.learns(db)
    assert world.scores("build") == {"a": 0, "b": 30, "c": 100}


def test_it_never_rules_a_node_out() -> None:
    world = World("a")
    world.runs("web-1", "web", on="a")
    world.learns(pair(100))
    assert world.engine.place(Ask(pod("build-1", "build"))).node == "a"


def test_scores_follow_pods_weights_and_pairs() -> None:
    world = World()
    world.learns(pair(60))
    assert world.scores("build") == {"a": 100, "b": 100, "c": 100}
    world.runs("web-1", "web", on="a")
    assert world.scores("build")["a"] == 40
    world.learns(pair(20))
    assert world.scores("build")["a"] == 80
    world.cluster.remove_pod("shop/web-1")
    assert world.scores("build")["a"] == 100
    world.runs("web-2", "web", on="b")
    assert world.scores("build") == {"a": 100, "b": 80, "c": 100}
    world.forgets(pair(20))
    assert world.scores("build") == {"a": 0, "b": 0, "c": 0}
    # What moved while no counter ran is known when the pair comes back.
    world.runs("web-3", "web", on="c")
    world.cluster.remove_pod("shop/web-2")
    world.learns(pair(50))
    assert world.scores("build") == {"a": 100, "b": 100, "c": 50}


def test_a_placement_that_is_taken_back_leaves_the_counts_as_they_were() -> None:
    world = World()
    world.learns(pair(60))
    before = world.scores("build")
    with world.cluster.transaction() as trial:
        placed = world.engine.place(Ask(pod("web-1", "web")))
        assert placed.node
        assert world.scores("build")[placed.node] == 40
        trial.undo()
    assert world.scores("build") == before


def test_pods_without_a_pair_are_one_class_whether_or_not_pairs_exist() -> None:
    world = World()
    key = world.plugin.key
    assert key(Ask(pod("p", "other")), world.cluster) is None
    world.learns(pair(60))
    assert key(Ask(pod("p", "other")), world.cluster) is None
    assert key(Ask(pod("p")), world.cluster) is None
    assert key(Ask(pod("p", "build")), world.cluster) == key(Ask(pod("q", "build")), world.cluster) is not None


def test_an_explanation_says_who_costs_a_node_how_many_points() -> None:
    world = World()
    world.learns(pair(60))
    judge = world.plugin.compile(Ask(pod("p", "build")), world.cluster)
    assert judge is not None
    assert explanation_of(judge).remarks() == [
        "InterferenceAvoidance: nodes with pods of shop/deployment/web lose 60 points: the two disturb each other"
    ]


OWN = {"name": "InterferenceAvoidance"}
LOAD = {"enabled": [{"name": "LoadAwareScheduling"}]}


@pytest.mark.parametrize(
    ("config", "weight"),
    [
        (SHIPPED, 2),
        (parse({}), None),
        (parse({"profiles": [{"plugins": {"filter": LOAD}}]}), 2),
        (parse({"profiles": [{"plugins": {"filter": LOAD, "score": {"disabled": [OWN]}}}]}), None),
        (parse({"profiles": [{"plugins": {"score": {"enabled": [{**OWN, "weight": 7}]}}}]}), 7),
    ],
)
def test_it_comes_with_the_look_at_load_unless_it_is_switched_off(config: Any, weight: int | None) -> None:
    (profile, *_) = profiles_of(config).profiles.values()
    assert profile.weights.get("InterferenceAvoidance") == weight
    assert ("InterferenceAvoidance" in [plugin.name for plugin in profile.plugins]) == (weight is not None)


def test_all_profiles_share_one_count() -> None:
    world = World()
    assert world.cluster.index(Pairs) is world.plugin.pairs
