"""Whatever is stored, the descheduler's rounds, rulings and moves go on, and others move as if it were not there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from hypothesis import Phase, given, settings

from koord.api import kinds
from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.machinery.shield import Failure, Shield
from koord.api.protocol.annotations.load import PASSED_ARBITRATION
from koord.api.protocol.eviction_notice import Asker, decide, withdrawal
from koord.descheduler.arbitration import arbitrate
from koord.descheduler.job_request import job_request, sorted_out
from koord.descheduler.job_status import is_forgotten
from koord.descheduler.migration import step
from koord.descheduler.migration_step import MigrationState
from koord.descheduler.moves import pod_of
from koord.descheduler.places import Places
from koord.descheduler.round import run
from koord.descheduler.sight import Sight
from koord.descheduler.workloads import KINDS as WORKLOADS
from koord.descheduler.workloads import workloads_of
from koord.scheduler.core.inputs import BY_KIND
from tests.descheduler.build import profile
from tests.enemies.cases import Enemy, enemies
from tests.enemies.checking import check, telling
from tests.enemies.honest import Thing, honest
from tests.enemies.scheduler_world import LATER_S, SchedulerWorld

KINDS: Final = (*BY_KIND, *(kind for kind in WORKLOADS if kind not in BY_KIND), kinds.POD_MIGRATION_JOBS)
ARGS: Final = MigrationControllerArgs().completed()
HOT: Final = {
    "lowThresholds": {"cpu": 5, "memory": 5},
    "highThresholds": {"cpu": 10, "memory": 10},
    "nodeMetricExpirationSeconds": 3600,
    "anomalyCondition": {"consecutiveAbnormalities": 1},
}
COMPILED: Final = profile(
    {
        "PodLifeTime": {"maxPodLifeTimeSeconds": 600},
        "RemovePodsHavingTooManyRestarts": {"podRestartThreshold": 1},
        "RemovePodsViolatingNodeAffinity": {"nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]},
        "LowNodeLoad": HOT,
        "RemoveDuplicates": {},
        "RemovePodsViolatingTopologySpreadConstraint": {},
        "CustomPriority": {
            "evictionOrder": [
                {"name": each, "nodeSelector": {"matchLabels": {"pool": each}}} for each in ("bad", "good")
            ]
        },
    },
    {"maxMigratingPerNode": 100, "maxMigratingPerWorkload": 100, "maxUnavailablePerWorkload": 100},
)
FOUND: Final = (
    Enemy(kinds.POD_MIGRATION_JOBS, "bad-move", ("spec", "ttl"), "99999999999h"),
    Enemy(kinds.POD_MIGRATION_JOBS, "bad-move", ("spec", "ttl"), "-1h"),
    Enemy(kinds.RESERVATIONS, "bad-had", ("spec", "ttl"), "99999999999h"),
)


class DeschedulerWorld(SchedulerWorld):
    """Rounds look at what the scheduler's core was fed; jobs of the enemies are stepped beside."""

    def look(self) -> None:
        by_kind: dict[Any, list[Any]] = {}
        for (kind, _), thing in self.known.items():
            by_kind.setdefault(kind, []).append(thing)
        pods = by_kind.get(kinds.PODS, [])
        pods_on: dict[str, list[Any]] = {}
        for pod in pods:
            if pod.spec.node_name and not pod.is_finished:
                pods_on.setdefault(pod.spec.node_name, []).append(pod)
        known = [each for kind in WORKLOADS for each in by_kind.get(kind, ())]
        jobs, shield = by_kind.get(kinds.POD_MIGRATION_JOBS, []), Shield(self._failed)
        workloads = workloads_of(known, pods, {})
        sight = Sight(
            self.now_s,
            {each.metadata.name: each for each in by_kind.get(kinds.NODES, ())},
            pods_on,
            {each.metadata.name: each for each in by_kind.get(kinds.NODE_METRICS, ())},
            workloads,
            Places(self.core.cluster, self.core.feed.engine_of),
        )
        outcome = run(COMPILED, sight, shield=shield)
        self.defects += [Failure(name, error) for name, error in outcome.failed]
        for move in outcome.moves:
            job_request(move, ARGS, name="job", created_by="test", profile="p")
            self._tell(move.pod.metadata.key, f"moves by {move.by}: {move.reason}")
        by_key = {pod.metadata.key: pod for pod in pods}
        asked, moves = sorted_out(jobs, by_key.get, self.now_s, lambda _: COMPILED.profiles[0].rules, shield)
        for ruling in arbitrate(asked, workloads, moves, shield):
            self._tell(ruling.request.name, f"{ruling.outcome} {ruling.why}")
        reservations = {each.metadata.name: each for each in by_kind.get(kinds.RESERVATIONS, ())}
        for job in jobs:
            with shield.about("step", kinds.POD_MIGRATION_JOBS, job.metadata):
                passed = {**job.metadata.annotations, PASSED_ARBITRATION.key: "true"}
                meta = type(job.metadata)(**{**_fields(job.metadata), "annotations": passed})
                seen = MigrationState(pod_of(job, by_key.get), reservations.get("bad-had"))
                taken = step(type(job)(metadata=meta, spec=job.spec, status=job.status), seen, ARGS, self.now_s)
                self._tell(job.metadata.name, f"{taken.actions} {is_forgotten(job, ARGS, self.now_s)}")
        for pod in pods:
            with shield.about("notice", kinds.PODS, pod.metadata):
                asker = Asker("koord-descheduler", "test", "test", "test")
                decide(pod, asker, self.now_s)
                withdrawal(pod, asker, self.now_s)


def _fields(meta: Any) -> dict[str, Any]:
    return {name: getattr(meta, name) for name in meta.__struct_fields__}


def story(innocents: Sequence[Thing], bad: Sequence[Thing], crowd: Sequence[Thing]) -> DeschedulerWorld:
    scene = DeschedulerWorld()
    for kind, thing in (*bad, *innocents, *crowd):
        scene.known[kind, thing.metadata.key] = thing
    scene.put([*bad, *innocents, *crowd])
    scene.look()
    for seconds in LATER_S[2:]:
        scene.wait(seconds)
        scene.core.take_writes()
        scene.look()
    return scene


@cache
def undisturbed() -> DeschedulerWorld:
    return story(honest("good"), honest("bad"), [])


def test_innocents_are_moved_in_the_first_place() -> None:
    assert telling(undisturbed(), "good/good-runs: moves by PodLifeTime")
    assert telling(undisturbed(), "good-move: ")


def test_what_was_found_once_disturbs_nobody() -> None:
    check(FOUND, story, undisturbed())


@settings(max_examples=3, phases=(Phase.explicit, Phase.generate))
@given(enemies(KINDS, 60))
def test_no_stored_value_ends_the_descheduler_or_changes_what_becomes_of_others(crowd: Sequence[Enemy]) -> None:
    check(crowd, story, undisturbed())
