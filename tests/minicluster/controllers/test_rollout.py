"""Rollouts: single steps as tables, and whole rollouts in which everything may happen in any order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds import DEPLOYMENTS, REPLICA_SETS
from koord.api.kubernetes.workloads import Deployment, ReplicaSet
from koord.api.machinery.codec import convert
from koord.api.text.timestamp import from_seconds
from koord_minicluster.controllers.actions import Create, Delete, Patch, Plan
from koord_minicluster.controllers.deployment import State, decide
from koord_minicluster.controllers.rollout import RolloutLimits, limits, new_size, proportional, shrink_old
from tests.minicluster.controllers.builders import NOW, deployment, replica_set, rolling


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (10, "25%", "25%", RolloutLimits(3, 2)),
        (1, "25%", "25%", RolloutLimits(1, 0)),
        (4, 0, 1, RolloutLimits(0, 1)),
        (4, 0, "10%", RolloutLimits(0, 1)),
        (3, 2, 5, RolloutLimits(2, 3)),
        (0, "25%", "25%", RolloutLimits(0, 0)),
    ],
)
def test_limits_round_in_favour_of_availability(
    replicas: int, surge: int | str, unavailable: int | str, expected: RolloutLimits
) -> None:
    assert limits(deployment(replicas, strategy=rolling(surge, unavailable))) == expected


@pytest.mark.parametrize(
    ("replicas", "surge", "old", "new", "expected"),
    [
        (10, 3, [10], 0, 3),
        (10, 3, [8], 3, 5),
        (10, 0, [10], 0, 0),
        (10, 0, [8], 0, 2),
        (10, 3, [], 4, 10),
        (5, 3, [5], 8, 5),
        (10, 3, [20], 1, 1),
    ],
)
def test_the_new_replica_set_grows_as_far_as_the_surge_allows(
    replicas: int, surge: int, old: list[int], new: int, expected: int
) -> None:
    sets = [replica_set(f"old-{i}", size) for i, size in enumerate(old)]
    assert new_size(deployment(replicas, strategy=rolling(surge, 0 if surge else 1)), new, sets) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # 10 replicas, at least 8 available. Nothing new yet: two may go.
        ([(10, 10)], (0, 0), [8]),
        # The new pods are not available: nothing more may go.
        ([(8, 8)], (5, 0), [8]),
        ([(8, 8)], (5, 3), [5]),
        # Old pods that are of no use go first, also beyond what availability would allow.
        ([(10, 6)], (0, 0), [8]),
        ([(4, 0), (8, 8)], (1, 0), [0, 8]),
        # A set that was told to shrink to 3 has at most 3, though its status still says 10.
        ([(3, 10), (7, 7)], (0, 0), [1, 7]),
    ],
)
def test_old_replica_sets_shrink_as_far_as_availability_allows(
    old: list[tuple[int, int]], new: tuple[int, int], expected: list[int]
) -> None:
    sets = [replica_set(f"old-{i}", size, ready, age_s=100 - i) for i, (size, ready) in enumerate(old)]
    sizes = shrink_old(deployment(10, strategy=rolling(3, 2)), replica_set("new", *new), sets)
    assert [sizes.get(rs.metadata.name, rs.spec.replicas) for rs in sets] == expected


def test_a_deployment_scaled_in_a_rollout_grows_by_parts() -> None:
    # 10 replicas and a surge of 3 were 13 pods; 20 and 5 are 25. 8/13 of 25 is 15, 5/13 is 10.
    sets = [
        replica_set("old", 8, age_s=100, max_replicas="13"),
        replica_set("new", 5, 2, age_s=10, max_replicas="13"),
    ]
    assert proportional(deployment(20, strategy=rolling("25%", "25%")), sets) == {"old": 15, "new": 10}


def test_what_rounding_leaves_over_goes_to_the_biggest() -> None:
    sets = [replica_set(name, 1, age_s=age, max_replicas="3") for name, age in (("a", 30), ("b", 20), ("c", 10))]
    # 3 pods become 5 and nothing surges: each becomes 2, but there are only two: the newest first.
    sizes = proportional(deployment(5, strategy=rolling(0, 1)), sets)
    assert sizes == {"c": 2, "b": 2, "a": 1}
    assert proportional(deployment(0, strategy=rolling(0, 1)), sets) == {"a": 0, "b": 0, "c": 0}


@dataclass
class World:
    """A Deployment, its ReplicaSets and how many available and other pods each has; no time passes."""

    deployment: Deployment
    sets: dict[str, ReplicaSet] = field(default_factory=dict)
    pods: dict[str, list[bool]] = field(default_factory=dict)
    clock: int = 0

    def decide(self) -> Plan:
        return decide(State(self.deployment, tuple(self.sets.values())), NOW)

    def carry_out(self, plan: Plan) -> None:
        for action in plan.actions:
            self.clock += 1
            if isinstance(action, Create):
                body = {**action.body, "metadata": {**action.body["metadata"]}}
                name = body["metadata"]["name"]
                assert name not in self.sets
                body["metadata"] |= {"namespace": "default", "uid": f"uid-{name}", "generation": 1}
                body["metadata"]["creationTimestamp"] = from_seconds(NOW + self.clock)
                self.sets[name] = convert(ReplicaSet, body)
                self.pods[name] = []
            elif isinstance(action, Delete):
                assert not self.pods[action.name]
                del self.sets[action.name]
            elif isinstance(action, Patch) and action.kind is REPLICA_SETS:
                self.sets[action.name] = merged(self.sets[action.name], action.body)
            elif isinstance(action, Patch) and action.kind is DEPLOYMENTS:
                self.deployment = merged(self.deployment, action.body)

    def total(self) -> int:
        return sum(rs.spec.replicas for rs in self.sets.values())

    def sure(self) -> int:
        """Available pods that no ReplicaSet is about to delete."""
        return sum(min(sum(self.pods[n]), rs.spec.replicas) for n, rs in self.sets.items())

    def replica_set_steps(self, name: str) -> None:
        """The ReplicaSet controller: all its pods at once, the useless first to go; and its status."""
        rs, pods = self.sets[name], self.pods[name]
        pods.sort()
        surplus = len(pods) - rs.spec.replicas
        if surplus > 0:
            del pods[:surplus]
        pods += [False] * -surplus
        self.tell(name)

    def tell(self, name: str) -> None:
        pods = self.pods[name]
        count = {"replicas": len(pods), "readyReplicas": sum(pods), "availableReplicas": sum(pods)}
        seen = {"observedGeneration": self.sets[name].metadata.generation, "terminatingReplicas": 0}
        self.sets[name] = merged(self.sets[name], {"status": {**count, **seen}})

    def settle(self) -> None:
        """From here on all goes well: every pod becomes available in time, until nothing is left to do."""
        for _ in range(120):
            for name in list(self.sets):
                self.replica_set_steps(name)
                self.become_available(name)
            plan = self.decide()
            if not plan.actions:
                break
            self.carry_out(plan)
        else:
            raise AssertionError("the rollout does not end")
        sizes = {rs.spec.template["spec"]["containers"][0]["image"]: rs.spec.replicas for rs in self.sets.values()}
        assert sizes.pop("app:new") == self.deployment.spec.replicas
        assert not any(sizes.values())
        reasons = {c.type: c.reason for c in self.deployment.status.conditions}
        assert reasons["Progressing"] == "NewReplicaSetAvailable"

    def become_available(self, name: str) -> None:
        self.pods[name] = [True] * len(self.pods[name])
        self.tell(name)


def merged(obj: Any, patch: Any) -> Any:
    def merge(old: Any, new: Any, key: str = "") -> Any:
        if key == "conditions":
            gone = {c["type"] for c in new}
            return [c for c in old or [] if c["type"] not in gone] + [c for c in new if "$patch" not in c]
        if isinstance(old, dict) and isinstance(new, dict):
            return {**old, **{k: merge(old.get(k), v, k) for k, v in new.items()}}
        return new

    return convert(type(obj), merge(msgspec.to_builtins(obj), patch))


amounts = st.one_of(st.integers(0, 5), st.integers(0, 100).map(lambda n: f"{n}%"))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Any state that the limits allow: up to three old ReplicaSets and perhaps a new one, pods in any state."""
    replicas = draw(st.integers(0, 12))
    strategy = rolling(draw(amounts), draw(amounts))
    made = deployment(replicas, "app:new", strategy=strategy)
    bound = limits(made)
    world = World(made)
    room = replicas + bound.surge
    for number in range(draw(st.integers(0, 3))):
        size = draw(st.integers(0, room))
        room -= size
        image = "app:new" if number == 0 and draw(st.booleans()) else f"app:{number}"
        # Sized for the unchanged Deployment: scaling has its own rules, and its own test.
        notes = {"desired_replicas": str(replicas), "max_replicas": str(replicas + bound.surge)}
        rs = replica_set(f"rs-{number}", size, 0, image, age_s=100 - number, revision=str(number + 1), **notes)
        world.sets[rs.metadata.name] = rs
        world.pods[rs.metadata.name] = draw(st.lists(st.booleans(), min_size=size, max_size=size))
        world.tell(rs.metadata.name)
    return world


@settings(max_examples=150)
@given(worlds(), st.data())
def test_a_rollout_keeps_its_limits_whatever_happens_and_ends(world: World, data: st.DataObject) -> None:
    bound, replicas = limits(world.deployment), world.deployment.spec.replicas
    at_least, at_most = replicas - bound.unavailable, replicas + bound.surge
    for _ in range(25):
        name = data.draw(st.sampled_from(["", *world.sets]))
        if not name:
            sure, total = world.sure(), world.total()
            world.carry_out(world.decide())
            assert world.total() <= max(at_most, total), "more pods than the surge allows"
            assert world.sure() >= min(at_least, sure), "fewer available pods than there must be"
        elif data.draw(st.booleans()):
            world.replica_set_steps(name)
        else:
            world.become_available(name)
    world.settle()


@settings(max_examples=60)
@given(worlds(), st.integers(0, 12))
def test_a_deployment_scaled_at_any_time_ends_at_its_size(world: World, replicas: int) -> None:
    world.deployment = merged(world.deployment, {"spec": {"replicas": replicas}})
    world.settle()


def test_a_paused_deployment_scales_but_does_not_roll_out() -> None:
    paused = deployment(4, "app:2", paused=True)
    world = World(paused, {"old": replica_set("old", 2, image="app:1", desired_replicas="2")}, {"old": [True, True]})
    world.carry_out(world.decide())
    assert {name: rs.spec.replicas for name, rs in world.sets.items()} == {"old": 4}
    assert {c.type: c.reason for c in world.deployment.status.conditions}["Progressing"] == "DeploymentPaused"


def test_recreate_makes_the_new_only_when_nothing_of_the_old_is_left() -> None:
    made = deployment(2, "app:2", strategy={"type": "Recreate"})
    old = replica_set("old", 2, image="app:1", desired_replicas="2", revision="1")
    plan = decide(State(made, (old,), old_pods_exist=True), NOW)
    sizes = [a.body["spec"]["replicas"] for a in plan.actions if isinstance(a, Patch) and a.kind is REPLICA_SETS]
    assert sizes == [0]
    gone = replica_set("old", 0, image="app:1", desired_replicas="2", revision="1")
    waiting = decide(State(made, (gone,), old_pods_exist=True), NOW)
    assert not [action for action in waiting.actions if isinstance(action, Create)]
    (create,) = [a for a in decide(State(made, (gone,)), NOW).actions if isinstance(a, Create)]
    assert create.body["spec"]["replicas"] == 2
    assert create.body["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"


def test_history_beyond_the_limit_goes_lowest_revision_first() -> None:
    made = deployment(1, "app:9", revisionHistoryLimit=1)
    status = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1}
    made = merged(made, {"status": status})
    sets = [
        replica_set("new", 1, image="app:9", revision="4", desired_replicas="1", max_replicas="2"),
        replica_set("b", 0, image="app:2", revision="2"),
        replica_set("a", 0, image="app:1", revision="1"),
        replica_set("c", 0, image="app:3", revision="3"),
    ]
    plan = decide(State(made, tuple(sets)), NOW)
    assert [action.name for action in plan.actions if isinstance(action, Delete)] == ["a", "b"]


@pytest.mark.parametrize(("moved_s_ago", "reason"), [(599, "ReplicaSetUpdated"), (601, "ProgressDeadlineExceeded")])
def test_a_rollout_that_does_not_move_misses_its_deadline(moved_s_ago: float, reason: str) -> None:
    since = from_seconds(NOW - moved_s_ago)
    progressing = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated", "lastUpdateTime": since}
    told = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "unavailableReplicas": 2}
    made = merged(deployment(2), {"status": {**told, "conditions": [progressing]}})
    new = replica_set("new", 2, 0, revision="1", desired_replicas="2", max_replicas="3")
    world = World(made, {"new": new}, {"new": [False, False]})
    plan = world.decide()
    world.carry_out(plan)
    assert {c.type: c.reason for c in world.deployment.status.conditions}["Progressing"] == reason
    assert (plan.again_in_s is not None) == (reason == "ReplicaSetUpdated")


def test_an_undone_template_gets_the_highest_revision_again() -> None:
    made = deployment(1, "app:1")
    sets = (
        replica_set("first", 0, image="app:1", revision="1", desired_replicas="1"),
        replica_set("second", 1, image="app:2", revision="2", desired_replicas="1"),
    )
    notes = [
        a.body["metadata"]["annotations"]
        for a in decide(State(made, sets), NOW).actions
        if isinstance(a, Patch) and a.kind is REPLICA_SETS
    ]
    assert notes[0]["deployment.kubernetes.io/revision"] == "3"
    assert notes[0]["deployment.kubernetes.io/revision-history"] == "1"
