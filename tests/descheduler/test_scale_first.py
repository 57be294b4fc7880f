"""Scale first: the replacement is ready before the old pod goes, whatever else scales, and wherever it is killed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.pod_costs import DELETION_COST
from koord.api.kubernetes.workloads import Deployment
from koord.api.machinery.codec import convert
from koord.api.protocol.annotations.notice import SCALE_FIRST, SCALED_FIRST
from koord.descheduler.evictable import is_available
from koord.descheduler.scale_first import (
    LOWEST_COST,
    SETTLE_S,
    Done,
    EvictOld,
    GiveUp,
    Next,
    PatchDeployment,
    PatchPod,
    Scene,
    Wait,
    is_wanted,
    plan,
    undo,
    unmark,
)
from koord_minicluster.controllers.pods import deleted_first
from tests.descheduler.build import NOW_S, pod


def annotated(given: Pod, texts: dict[str, str | None]) -> Pod:
    said = {**given.metadata.annotations, **texts}
    kept = {key: text for key, text in said.items() if text is not None}
    return replace(given, metadata=replace(given.metadata, annotations=kept))


@dataclass
class World:
    """A Deployment with its controller, which hears of pods late, and a descheduler that keeps nothing."""

    replicas: int = 1
    now_s: float = NOW_S
    texts: dict[str, str] = field(default_factory=lambda: {SCALE_FIRST.key: "true"})
    version: int = 1
    pods: dict[str, Pod] = field(default_factory=dict)
    heard: dict[str, Pod] = field(default_factory=dict)
    "The pods as the controller last received them."
    heard_s: float = NOW_S
    made: int = 0
    begun: bool = False
    quota: bool = False
    "Whether a quota refuses more pods."
    rolling: bool = False
    others: int | None = None
    "What another user has set."
    taken_by: str = ""
    "The pod that uses the reservation."
    ended: str = ""
    lowest_ready: int = 1 << 30

    def __post_init__(self) -> None:
        for _ in range(self.replicas):
            self._make(ready=True)
        self.old = next(iter(self.pods))
        self.initial = self.replicas
        self.see()

    def _make(self, *, ready: bool = False) -> str:
        self.made += 1
        name = f"web-{self.made}"
        self.pods[name] = pod(name, "n1" if ready else "n2", ready=ready, age_s=NOW_S - self.now_s)
        return name

    @property
    def deployment(self) -> Deployment:
        meta: dict[str, Any] = {"name": "web", "namespace": "default", "uid": "d1", "annotations": self.texts}
        status = {"replicas": len(self.pods)}
        body = {"metadata": {**meta, "resourceVersion": str(self.version)}, "spec": {"replicas": self.replicas}}
        return convert(Deployment, {**body, "status": status})

    def controller(self) -> None:
        """What a ReplicaSet does; it may not have received the newest annotations."""
        pods = [self.heard.get(name, pod) for name, pod in self.pods.items()]
        for victim in deleted_first(pods, pods, self.now_s)[: max(0, len(pods) - self.replicas)]:
            del self.pods[victim.metadata.name]
        while len(self.pods) < self.replicas and not (self.quota and len(self.pods) >= self.initial):
            name = self._make()
            self.taken_by = self.taken_by or name
        self.see()

    def hear(self) -> None:
        self.heard, self.heard_s = dict(self.pods), self.now_s

    def see(self) -> None:
        self.lowest_ready = min(self.lowest_ready, sum(map(is_available, self.pods.values())))

    def ready(self) -> None:
        for name, each in self.pods.items():
            if not is_available(each):
                conditions = convert(Pod, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
                self.pods[name] = replace(each, status=replace(each.status, conditions=conditions.status.conditions))

    def others_set(self, replicas: int) -> None:
        self.replicas, self.others, self.version = replicas, replicas, self.version + 1

    def _patch(self, patch: Any) -> None:
        assert patch["metadata"]["resourceVersion"] == str(self.version)
        said = {**self.texts, **patch["metadata"]["annotations"]}
        self.texts = {key: text for key, text in said.items() if text is not None}
        self.replicas = patch.get("spec", {}).get("replicas", self.replicas)
        self.version += 1

    def next(self) -> Next:
        taken = self.pods.get(self.taken_by)
        scene = Scene("j1", self.deployment, self.pods.get(self.old), taken, self.begun, is_changing=self.rolling)
        return plan(scene, self.now_s)

    def step(self, *, killed: bool = False) -> None:
        """One pass of the descheduler. Killed: what it has done is not noted on the job."""
        taken = self.next()
        match taken:
            case PatchDeployment():
                self._patch(taken.patch)
            case PatchPod():
                self.pods[self.old] = annotated(self.pods[self.old], taken.patch["metadata"]["annotations"])
            case EvictOld():
                del self.pods[self.old]
                self.see()
            case GiveUp():
                self.give_up()
            case Done():
                self.ended = "done"
            case Wait():
                pass
        if SCALED_FIRST.key in self.texts and not killed:
            self.begun = True

    def give_up(self) -> None:
        if self.old in self.pods:
            patch = unmark(self.pods[self.old], SCALED_FIRST.read(self.deployment.metadata, "Deployment"))
            if patch is not None:
                self.pods[self.old] = annotated(self.pods[self.old], patch["metadata"]["annotations"])
                self.hear()
        found = undo(self.deployment, "j1")
        if found is not None:
            self._patch(found)
        self.ended = "gave up"

    def passes(self, time_s: float) -> None:
        """Time passes; a controller hears of everything within the time that it is given."""
        self.now_s += time_s
        if self.now_s - self.heard_s >= SETTLE_S - 1:
            self.hear()

    def settle(self) -> None:
        for _ in range(60):
            if self.ended:
                break
            self.controller()
            self.ready()
            self.step()
            self.passes(1.0)
        if not self.ended:
            self.give_up()
        self.controller()


def test_a_single_replica_is_replaced_without_a_gap() -> None:
    world = World()
    world.step()
    assert (world.replicas, len(world.pods)) == (2, 1)
    world.controller()
    assert isinstance(world.next(), Wait)
    world.ready()
    world.step()
    assert world.pods["web-1"].metadata.annotations[DELETION_COST] == LOWEST_COST
    world.settle()
    assert (world.ended, sorted(world.pods), world.replicas) == ("done", ["web-2"], 1)
    assert world.lowest_ready == 1
    assert SCALED_FIRST.key not in world.texts


def test_only_who_asks_for_it_and_has_no_autoscaler_is_scaled() -> None:
    world = World()
    assert is_wanted(world.deployment, autoscaled=False)
    assert not is_wanted(world.deployment, autoscaled=True)
    world.texts = {}
    assert not is_wanted(world.deployment, autoscaled=False)


def test_what_somebody_else_sets_stays() -> None:
    world = World(replicas=2)
    world.step()
    world.controller()
    world.others_set(5)
    world.settle()
    assert world.replicas == 5
    assert world.old not in world.pods
    assert SCALED_FIRST.key not in world.texts


def test_a_replica_that_somebody_takes_away_keeps_the_old_pod() -> None:
    world = World()
    world.step()
    world.controller()
    world.others_set(1)
    world.controller()
    world.settle()
    assert (world.ended, list(world.pods), world.replicas) == ("gave up", ["web-1"], 1)


def test_a_quota_that_refuses_the_replacement_is_told_and_undone_in_time() -> None:
    world = World(quota=True)
    world.step()
    world.controller()
    assert world.next() == Wait("its replacement is not there yet")
    world.give_up()
    world.controller()
    assert (world.replicas, list(world.pods), world.lowest_ready) == (1, ["web-1"], 1)


def test_a_rollout_in_between_is_left_alone() -> None:
    world = World()
    world.step()
    world.rolling = True
    world.step()
    assert (world.ended, world.replicas) == ("gave up", 1)
    assert SCALED_FIRST.key not in world.texts


def test_another_job_of_the_same_deployment_waits() -> None:
    world = World(replicas=3)
    world.step()
    scene = Scene("j2", world.deployment, world.pods["web-2"], None)
    assert isinstance(plan(scene, NOW_S), Wait)
    assert undo(world.deployment, "j2") is None


happening = st.sampled_from(
    ["step", "step", "step", "killed", "controller", "controller", "ready", "pass", "hear", "quota", "abort", "scale"]
)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 3), st.lists(st.tuples(happening, st.integers(0, 4)), max_size=40))
def test_in_any_order_nobody_is_missed_and_nothing_is_left_over(replicas: int, story: list[tuple[str, int]]) -> None:
    world = World(replicas)
    for what, number in story:
        if world.ended:
            break
        match what:
            case "step" | "killed":
                world.step(killed=what == "killed")
            case "controller":
                world.controller()
            case "ready":
                world.ready()
            case "pass":
                world.passes(1.0)
            case "hear":
                world.hear()
            case "quota":
                world.quota = not world.quota
            case "abort" if number == 0:
                world.give_up()
            case "scale" if number == 0:
                world.others_set(number + 1)
        assert world.replicas <= (world.initial if world.others is None else world.others) + 1
    world.quota = False
    world.settle()
    assert world.ended
    assert SCALED_FIRST.key not in world.texts
    if world.others is None:
        assert world.replicas == world.initial
        assert world.lowest_ready >= world.initial
    else:
        assert world.replicas in (world.others, world.initial)
