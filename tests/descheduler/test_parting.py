"""Jobs whose pods ask for notice: told once, waited for within the job's time, and let stay when the job fails."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.pod_costs import DELETION_COST
from koord.api.kubernetes.words import ConditionStatus
from koord.api.kubernetes.workloads import Deployment
from koord.api.machinery.codec import convert
from koord.api.protocol.annotations.notice import (
    EVICTION_ASKED_BY,
    EVICTION_DEADLINE,
    SCALE_FIRST,
    SCALED_FIRST,
    ScaledFirst,
)
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob, PodMigrationJobCondition, PodMigrationJobPhase
from koord.api.text.timestamp import from_seconds, parse_timestamp
from koord.descheduler.migration import step
from koord.descheduler.migration_step import EvictPod, MakeReservation, MigrationState
from koord.descheduler.parting import Change, Scaling
from koord.descheduler.scale_first import LOWEST_COST
from tests.notice.build import START_S, annotated, patched, pod

ARGS = MigrationControllerArgs().completed()


def job(**spec: Any) -> PodMigrationJob:
    said = {
        "descheduler.koordinator.sh/passed-arbitration": "true",
        "koordinator.sh/evict-reason": "node n1 is hot",
        "koordinator.sh/evict-trigger": "LowNodeLoad",
    }
    head = {"name": "move", "uid": "job-1", "creationTimestamp": from_seconds(START_S), "annotations": said}
    reference = {"namespace": "shop", "name": "train", "uid": "u1"}
    return convert(PodMigrationJob, {"metadata": head, "spec": {"podRef": reference, "mode": "EvictDirectly", **spec}})


class Cluster:
    def __init__(self, given: Pod, moved: PodMigrationJob) -> None:
        self.pod: Pod | None = given
        self.job, self.now_s = moved, START_S
        self.told = self.evicted = 0

    def step(self) -> None:
        taken = step(self.job, MigrationState(self.pod), ARGS, self.now_s)
        for action in taken.actions:
            if isinstance(action, Change) and self.pod is not None:
                self.pod = patched(self.pod, action.patch)
                self.told += bool(action.event_text)
            elif isinstance(action, EvictPod):
                self.evicted += 1
                if action.policy != "SoftEviction":
                    self.pod = None
        self.job = taken.job

    def go_on(self, until_s: float = 0.0) -> None:
        self.now_s += until_s
        for _ in range(6):
            self.step()


def test_a_pod_is_told_by_the_descheduler_and_goes_at_its_deadline() -> None:
    cluster = Cluster(pod("2m"), job())
    cluster.go_on()
    assert cluster.pod is not None
    (entry,) = EVICTION_ASKED_BY.read(cluster.pod.metadata)
    assert (entry.by, entry.reason, entry.message, entry.about) == (
        *("koord-descheduler", "LowNodeLoad", "node n1 is hot", "move"),
    )
    assert cluster.job.status.status == "Notice"
    cluster.go_on(119.0)
    assert (cluster.told, cluster.evicted) == (1, 0)
    cluster.go_on(1.0)
    assert (cluster.told, cluster.evicted, cluster.job.status.phase) == (1, 1, "Succeeded")


def test_a_pod_that_says_it_is_ready_or_ends_by_itself_need_not_wait() -> None:
    cluster = Cluster(pod("2m"), job())
    cluster.go_on()
    assert cluster.pod is not None
    cluster.pod = annotated(cluster.pod)
    cluster.go_on(1.0)
    assert (cluster.evicted, cluster.job.status.phase) == (1, "Succeeded")
    by_itself = Cluster(pod("2m"), job())
    by_itself.go_on()
    by_itself.pod = None
    by_itself.go_on(1.0)
    assert (by_itself.evicted, by_itself.job.status.phase) == (0, "Succeeded")


@pytest.mark.parametrize(
    ("notice", "ttl", "after_s"), [("30m", "5m", 270.0), ("1m", "5m", 60.0), ("30m", "0s", 1800.0)]
)
def test_no_notice_is_longer_than_the_job_has_time(notice: str, ttl: str, after_s: float) -> None:
    cluster = Cluster(pod(notice), job(ttl=ttl))
    cluster.go_on()
    assert cluster.pod is not None
    assert parse_timestamp(cluster.pod.metadata.annotations[EVICTION_DEADLINE.key]) == START_S + after_s
    cluster.go_on(after_s)
    assert (cluster.evicted, cluster.job.status.phase) == (1, "Succeeded")


def test_a_job_without_time_to_give_notice_leaves_the_pod_alone() -> None:
    cluster = Cluster(pod("5m"), job(ttl="20s"))
    cluster.go_on()
    assert (cluster.told, cluster.evicted, cluster.job.status.reason) == (0, 0, "TooLate")
    cluster.go_on(20.0)
    assert (cluster.evicted, cluster.job.status.phase, cluster.job.status.reason) == (0, "Failed", "Timeout")
    ready = Cluster(annotated(pod("5m")), job(ttl="20s"))
    ready.go_on()
    assert (ready.evicted, ready.job.status.phase) == (1, "Succeeded")


def test_a_job_that_fails_withdraws_its_notice() -> None:
    cluster = Cluster(pod("2m"), job())
    cluster.go_on()
    # Nobody looked for so long that the job is too late.
    cluster.now_s += 301.0
    cluster.step()
    assert (cluster.job.status.phase, cluster.job.status.reason) == ("Failed", "Timeout")
    assert cluster.pod is not None
    assert cluster.pod.metadata.annotations == pod("2m").metadata.annotations


def test_a_job_that_is_over_leaves_the_notice_of_the_next_one_alone() -> None:
    cluster = Cluster(pod("2m"), job())
    cluster.go_on()
    before = cluster.pod
    earlier = replace(cluster.job, metadata=replace(cluster.job.metadata, name="earlier"))
    failed = replace(earlier, status=replace(earlier.status, phase=PodMigrationJobPhase.FAILED))
    assert step(failed, MigrationState(before), ARGS, cluster.now_s).actions == ()


def test_an_operator_that_moves_pods_itself_is_asked_at_once_and_the_job_times_out() -> None:
    given = pod("2m")
    soft = convert(
        PodMigrationJob,
        {
            "metadata": {
                "name": "move",
                "uid": "job-1",
                "creationTimestamp": from_seconds(START_S),
                "labels": {"koordinator.sh/evict-policy": "SoftEviction"},
                "annotations": {"descheduler.koordinator.sh/passed-arbitration": "true"},
            },
            "spec": {"podRef": {"namespace": "shop", "name": "train", "uid": "u1"}, "mode": "EvictDirectly"},
        },
    )
    cluster = Cluster(given, soft)
    for _ in range(3):
        cluster.step()
    assert (cluster.told, cluster.evicted) == (0, 1)
    cluster.now_s += 300.0
    cluster.step()
    assert (cluster.job.status.phase, cluster.job.status.reason) == ("Failed", "Timeout")
    assert cluster.pod is not None


def deployment(replicas: int, **annotations: str) -> Deployment:
    meta = {"name": "shop", "namespace": "shop", "uid": "d1", "resourceVersion": "7", "annotations": annotations}
    return convert(Deployment, {"metadata": meta, "spec": {"replicas": replicas}, "status": {"replicas": replicas}})


def running(moved: PodMigrationJob) -> PodMigrationJob:
    return step(moved, MigrationState(pod(None)), ARGS, START_S).job


def test_the_only_replica_of_an_autoscaled_deployment_stays() -> None:
    scaling = Scaling(deployment(1, **{SCALE_FIRST.key: "true"}), autoscaled=True)
    taken = step(running(job()), MigrationState(pod(None), scaling=scaling), ARGS, START_S)
    assert (taken.job.status.phase, taken.job.status.reason) == ("Failed", "ForbiddenMigratePod")
    assert taken.actions == ()


def test_a_deployment_that_asks_for_it_has_room_reserved_first_whatever_the_mode() -> None:
    scaling = Scaling(deployment(1, **{SCALE_FIRST.key: "true"}))
    taken = step(running(job()), MigrationState(pod(None), scaling=scaling), ARGS, START_S)
    assert [type(action) for action in taken.actions] == [MakeReservation]


def test_a_job_that_fails_takes_its_replica_back_and_leaves_what_others_set() -> None:
    record = SCALED_FIRST.render(ScaledFirst("job-1", "u1", 1, 2, from_seconds(START_S)))
    said = {SCALE_FIRST.key: "true", SCALED_FIRST.key: record}
    for replicas, back in ((2, 1), (5, 5)):
        scaling = Scaling(deployment(replicas, **said))
        taken = step(running(job()), MigrationState(pod(None), scaling=scaling), ARGS, START_S + 301)
        assert taken.job.status.reason == "Timeout"
        (change,) = taken.actions
        assert isinstance(change, Change)
        assert change.patch["spec"] == {"replicas": back}
        assert change.patch["metadata"]["annotations"] == {SCALED_FIRST.key: None}


def test_a_pod_that_stays_because_its_replacement_is_gone_costs_what_others_cost() -> None:
    marked = annotated(pod(None), DELETION_COST, LOWEST_COST)
    scaled = PodMigrationJobCondition("ScaledFirst", ConditionStatus.FALSE)
    begun = running(job())
    begun = replace(begun, status=replace(begun.status, conditions=(scaled,)))
    scaling = Scaling(deployment(1, **{SCALE_FIRST.key: "true"}))
    taken = step(begun, MigrationState(marked, scaling=scaling), ARGS, START_S + 301)
    (change,) = taken.actions
    assert isinstance(change, Change)
    assert change.patch["metadata"]["annotations"] == {DELETION_COST: None}
