"""PodMigrationJobs: every way that a move can go, taken up again by another process after each step."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.protocol.crd.reservation import Reservation
from koord.api.text.timestamp import from_seconds
from koord.descheduler.eviction import TAKEN
from koord.descheduler.job_status import cause_of, gives_up_late, is_forgotten
from koord.descheduler.migration import step
from koord.descheduler.migration_step import (
    DropReservation,
    EvictPod,
    MakeReservation,
    MigrationState,
    OrderReservation,
    Step,
    refused,
)
from koord.descheduler.moves import is_waiting
from koord.descheduler.replacement import reservation_for
from tests.descheduler.build import NOW_S, pod

ARGS = MigrationControllerArgs().completed()


def job(**spec: Any) -> PodMigrationJob:
    reference = {"namespace": "default", "name": "web-1", "uid": "uid-web-1"}
    return convert(
        PodMigrationJob,
        {
            "metadata": {
                "name": "move",
                "uid": "job-1",
                "creationTimestamp": from_seconds(NOW_S),
                "annotations": {"descheduler.koordinator.sh/passed-arbitration": "true"},
            },
            "spec": {"podRef": reference, **spec},
        },
    )


class Cluster:
    """As much of a cluster as a job can see. It does what it is asked, and what happens by itself when it happens."""

    def __init__(self, moved: PodMigrationJob) -> None:
        self.job = moved
        self.pod: Pod | None = pod("web-1", "n1")
        self.reservation: dict[str, Any] | None = None
        self.replacement: Pod | None = None
        self.evictions: list[str] = []
        self.made = 0
        self.now_s = NOW_S
        self.whole: tuple[Pod, ...] | None = None

    def seen(self) -> MigrationState:
        found = None if self.reservation is None else convert(Reservation, self.reservation)
        return MigrationState(self.pod, found, self.replacement, whole=self.whole)

    def step(self, *, dies_after: int | None = None) -> Step:
        """One step by the controller of the moment; it may die after some of its actions, before it writes the job."""
        found = step(self.job, self.seen(), ARGS, self.now_s)
        for number, action in enumerate(found.actions):
            if dies_after is not None and number >= dies_after:
                return found
            self.act(action)
        if dies_after is None:
            self.job = found.job
        return found

    def act(self, action: object) -> None:
        if isinstance(action, MakeReservation):
            if self.reservation is None:
                self.made += 1
                container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
                spec = {"template": {"spec": {"containers": [container]}}, "owners": [{"controller": {"name": "web"}}]}
                self.reservation = {"metadata": {"name": action.name}, "spec": spec, "status": {"phase": "Pending"}}
        elif isinstance(action, DropReservation):
            self.reservation = None
        elif isinstance(action, EvictPod) and self.pod is not None and self.pod.metadata.uid == action.uid:
            self.evictions.append(action.uid)
            self.pod = replace(
                self.pod, metadata=replace(self.pod.metadata, deletion_timestamp=from_seconds(self.now_s))
            )

    def scheduler_places(self, node: str = "n2") -> None:
        assert self.reservation is not None
        self.reservation["status"] = {"phase": "Available", "nodeName": node}

    def pod_ends(self) -> None:
        self.pod = None

    def replacement_comes(self, *, ready: bool = True) -> None:
        assert self.reservation is not None
        self.replacement = pod("web-2", "n2", ready=ready)
        owner = {"namespace": "default", "name": "web-2", "uid": "uid-web-2"}
        self.reservation["status"] = {"phase": "Succeeded", "nodeName": "n2", "currentOwners": [owner]}

    @property
    def phase(self) -> str:
        return str(self.job.status.phase)

    def until_rest(self) -> None:
        for _ in range(10):
            before = self.job
            if not self.step().actions and self.job == before:
                return


def test_room_is_reserved_before_the_pod_goes_and_the_job_ends_when_the_replacement_is_ready() -> None:
    cluster = Cluster(job())
    cluster.until_rest()
    assert (cluster.made, cluster.evictions) == (1, [])
    cluster.scheduler_places()
    cluster.until_rest()
    assert cluster.evictions == ["uid-web-1"]
    cluster.pod_ends()
    cluster.until_rest()
    assert cluster.job.status.reason == "WaitForPodBindReservation"
    cluster.replacement_comes(ready=False)
    cluster.until_rest()
    assert cluster.phase == "Running"
    cluster.replacement_comes()
    cluster.until_rest()
    assert (cluster.phase, cluster.job.status.status) == ("Succeeded", "Complete")
    assert cluster.job.status.node_name == "n2"
    assert cluster.job.status.pod_ref is not None
    assert cluster.job.status.pod_ref.name == "web-2"
    assert cluster.evictions == ["uid-web-1"], "once"


def test_directly_the_pod_goes_at_once() -> None:
    cluster = Cluster(job(mode="EvictDirectly"))
    cluster.until_rest()
    assert (cluster.made, cluster.evictions) == (0, ["uid-web-1"])
    cluster.pod_ends()
    cluster.until_rest()
    assert cluster.phase == "Succeeded"


def test_a_job_that_was_made_by_hand_names_itself_instead_of_a_reason() -> None:
    cluster = Cluster(job(mode="EvictDirectly"))
    cluster.until_rest()
    (evicting,) = [condition for condition in cluster.job.status.conditions if condition.type == "Eviction"]
    assert evicting.message == 'Pod "default/web-1" evicted from node "n1" by the PodMigrationJob move'
    said = replace(cluster.job.metadata, annotations={"koordinator.sh/evict-reason": "too hot"})
    assert cause_of(replace(cluster.job, metadata=said)) == 'by the reason "too hot"'


def test_a_pod_that_asks_for_nothing_has_moved_once_it_is_gone() -> None:
    cluster = Cluster(job())
    cluster.until_rest()
    assert cluster.reservation is not None
    cluster.reservation["spec"]["template"]["spec"]["containers"] = [{"name": "c"}]
    cluster.scheduler_places()
    cluster.until_rest()
    assert cluster.evictions == ["uid-web-1"]
    cluster.pod_ends()
    cluster.until_rest()
    assert cluster.phase == "Succeeded"
    assert not cluster.reservation


def test_for_a_pod_that_nothing_makes_anew_no_room_is_held() -> None:
    cluster = Cluster(job())
    assert cluster.pod is not None
    cluster.pod = replace(cluster.pod, metadata=replace(cluster.pod.metadata, owner_references=()))
    cluster.until_rest()
    assert (cluster.made, cluster.evictions) == (0, ["uid-web-1"])
    cluster.pod_ends()
    cluster.until_rest()
    assert cluster.phase == "Succeeded"


def reserved() -> Cluster:
    cluster = Cluster(job())
    cluster.until_rest()
    return cluster


def no_reservation(cluster: Cluster) -> None:
    cluster.reservation = None


def expired(cluster: Cluster) -> None:
    assert cluster.reservation is not None
    cluster.reservation["status"] = {
        "phase": "Failed",
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "Expired", "lastTransitionTime": from_seconds(NOW_S)}
        ],
    }


def failed(cluster: Cluster) -> None:
    assert cluster.reservation is not None
    cluster.reservation["status"] = {"phase": "Failed"}


def taken_by_another(cluster: Cluster) -> None:
    cluster.replacement_comes()


def replaced(cluster: Cluster) -> None:
    other = pod("web-1", "n1")
    cluster.pod = replace(other, metadata=replace(other.metadata, uid="another"))
    cluster.scheduler_places()


def gone_by_itself(cluster: Cluster) -> None:
    cluster.pod = None


def late(cluster: Cluster) -> None:
    cluster.now_s = NOW_S + 300


@pytest.mark.parametrize(
    ("happens", "reason"),
    [
        (no_reservation, "MissingReservation"),
        (expired, "ReservationExpired"),
        (failed, "Unschedulable"),
        (lambda cluster: cluster.scheduler_places("n1"), "ForbiddenMigratePod"),
        (taken_by_another, "ForbiddenMigratePod"),
        (replaced, "MissingPod"),
        (gone_by_itself, "MissingPod"),
        (late, "Timeout"),
    ],
)
def test_what_cannot_go_on_fails_for_a_reason_and_leaves_nothing_behind(happens: Any, reason: str) -> None:
    cluster = reserved()
    happens(cluster)
    cluster.until_rest()
    assert (cluster.phase, cluster.job.status.reason) == ("Failed", reason)
    assert cluster.reservation is None
    assert cluster.evictions == [], "no pod is evicted for a move that fails"


def evicted() -> Cluster:
    cluster = reserved()
    cluster.scheduler_places()
    cluster.until_rest()
    assert cluster.evictions == ["uid-web-1"]
    return cluster


@pytest.mark.parametrize("happens", [failed, expired])
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_reservation_that_fails_after_the_eviction_does_not_end_the_job(happens: Any, is_gone: bool) -> None:
    """The pod cannot stay any more: it has moved once its workload has all of its pods again, on any node."""
    cluster = evicted()
    if is_gone:
        cluster.pod_ends()
    happens(cluster)
    cluster.until_rest()
    assert cluster.phase == "Running"
    cluster.pod_ends()
    cluster.until_rest()
    assert cluster.phase == "Running"
    assert "has failed" in cluster.job.status.message
    cluster.whole = (pod("web-2", "n3", age_s=-10.0), pod("web-3", "n4"))
    cluster.now_s += 60
    cluster.until_rest()
    assert (cluster.phase, cluster.job.status.node_name) == ("Succeeded", "n3")
    assert cluster.reservation is None


def test_a_reservation_that_fails_while_the_eviction_is_refused_ends_the_job_and_the_pod_stays() -> None:
    cluster = reserved()
    cluster.scheduler_places()
    cluster.step()
    cluster.job = refused(cluster.job, EvictPod("default", "web-1", "uid-web-1", "Eviction", {}), "budget", NOW_S)
    failed(cluster)
    after = step(cluster.job, cluster.seen(), ARGS, NOW_S).job
    assert gives_up_late(cluster.job, after), "the pod is read again before"
    cluster.until_rest()
    assert (cluster.phase, cluster.job.status.reason, cluster.evictions) == ("Failed", "Unschedulable", [])


def succeeded_nowhere(cluster: Cluster, owner: str = "another") -> None:
    assert cluster.reservation is not None
    owners = [{"namespace": "default", "name": owner, "uid": f"uid-{owner}"}] if owner else []
    cluster.reservation["status"] = {"phase": "Succeeded", "currentOwners": owners}


@pytest.mark.parametrize("ttl", ["5m", "0s"])
@pytest.mark.parametrize("owner", ["", "another"])
def test_a_reservation_that_is_used_up_without_a_node_is_not_waited_for(ttl: str, owner: str) -> None:
    cluster = Cluster(job(ttl=ttl))
    cluster.until_rest()
    succeeded_nowhere(cluster, owner)
    cluster.until_rest()
    assert (cluster.phase, cluster.job.status.reason) == ("Failed", "ForbiddenMigratePod")
    assert cluster.job.status.message == TAKEN
    assert (cluster.evictions, cluster.reservation) == ([], None)


def test_after_the_eviction_the_pod_that_used_it_up_is_awaited() -> None:
    cluster = evicted()
    cluster.pod_ends()
    succeeded_nowhere(cluster, "web-2")
    cluster.replacement = pod("web-2", "n2", ready=False)
    cluster.until_rest()
    assert (cluster.phase, cluster.job.status.reason) == ("Running", "WaitForBoundPodReady")
    cluster.replacement = pod("web-2", "n2")
    cluster.until_rest()
    assert cluster.phase == "Succeeded"


@pytest.mark.parametrize(("owner", "phase"), [("web-1", "Running"), ("another", "Failed")])
def test_a_pending_pod_that_has_used_its_own_reservation_need_not_show_its_node_yet(owner: str, phase: str) -> None:
    cluster = Cluster(job())
    cluster.pod = pod("web-1", "")
    cluster.until_rest()
    assert cluster.reservation is not None
    cluster.reservation["spec"]["owners"] = [{"object": {"name": "web-1", "uid": "uid-web-1"}}]
    succeeded_nowhere(cluster, owner)
    cluster.until_rest()
    assert cluster.phase == phase
    if phase == "Running":
        cluster.pod = pod("web-1", "n2")
        cluster.until_rest()
        assert cluster.phase == "Succeeded"


MINE = {"reservationOptions": {"reservationRef": {"name": "mine"}}}


def with_my_reservation() -> Cluster:
    """A reservation that the user made, for a job that names it."""
    cluster = Cluster(job(**MINE))
    cluster.act(MakeReservation("mine"))
    return cluster


def test_a_reservation_that_the_user_made_is_used_first_and_stays_the_users() -> None:
    cluster = with_my_reservation()
    cluster.step()
    assert cluster.step().actions == (OrderReservation("mine"),), "it comes before others from now on"
    assert cluster.reservation is not None
    cluster.reservation["metadata"]["labels"] = {"scheduling.koordinator.sh/reservation-order": "1"}
    cluster.scheduler_places()
    cluster.until_rest()
    assert (cluster.made, cluster.evictions) == (1, ["uid-web-1"])
    late(cluster)
    cluster.until_rest()
    assert (cluster.phase, cluster.job.status.reason) == ("Failed", "Timeout")
    assert cluster.reservation, "its creator takes it away"


def test_a_reservation_that_is_named_and_not_there_is_told_at_once() -> None:
    cluster = Cluster(job(**MINE))
    cluster.until_rest()
    assert (cluster.phase, cluster.job.status.reason, cluster.made) == ("Failed", "MissingReservation", 0)


@pytest.mark.parametrize(
    ("spec", "gone", "reason"),
    [
        ({"podRef": {"name": "web-1", "uid": "uid-web-1"}}, False, "InvalidPodRef"),
        ({"podRef": {"namespace": "default", "name": "web-1"}}, True, "MissingPod"),
        ({}, True, "MissingPod"),
        ({"podRef": {"namespace": "default", "name": "web-1", "uid": "another"}}, False, "MissingPod"),
    ],
)
def test_a_job_without_its_pod_fails_at_once(spec: dict[str, Any], gone: bool, reason: str) -> None:
    cluster = Cluster(job(**spec))
    if gone:
        cluster.pod = None
    cluster.until_rest()
    assert (cluster.phase, cluster.job.status.reason) == ("Failed", reason)


def test_a_job_that_was_let_through_without_its_pod_is_ruled_on_again_if_another_gets_the_name() -> None:
    cluster = Cluster(job(podRef={"namespace": "default", "name": "web-1"}))
    cluster.until_rest()
    assert (cluster.phase, cluster.evictions) == ("", [])
    assert is_waiting(cluster.job)


def test_a_paused_job_stays_as_it_is() -> None:
    cluster = Cluster(job(paused=True))
    cluster.until_rest()
    assert (cluster.phase, cluster.made) == ("", 0)


@pytest.mark.parametrize("ttl", ["-5s", "99999999999h", "soon"])
def test_a_job_whose_ttl_cannot_be_meant_has_all_the_time_that_it_takes(ttl: str) -> None:
    cluster = Cluster(job(ttl=ttl))
    cluster.until_rest()
    assert (cluster.phase, cluster.made) == ("Running", 1)


def test_jobs_are_forgotten_some_time_after_they_must_have_ended() -> None:
    with_ttl, without = job(ttl="5m"), job(ttl="0s")
    assert [is_forgotten(with_ttl, ARGS, NOW_S + s) for s in (599, 600)] == [False, True]
    assert [is_forgotten(without, ARGS, NOW_S + s) for s in (1799, 1800)] == [False, True]


HAPPENINGS = ("step", "step", "step", "killed", "placed", "ends", "replaced", "ready", "expires", "lost", "late")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(HAPPENINGS), max_size=25), st.sampled_from([None, "EvictDirectly"]), st.data())
def test_killed_anywhere_a_job_ends_once_and_leaves_nothing_behind(
    story: list[str], mode: str | None, data: st.DataObject
) -> None:
    cluster = Cluster(job(mode=mode) if mode else job())
    for happens in story:
        if happens == "step":
            cluster.step()
        elif happens == "killed":
            cluster.step(dies_after=data.draw(st.integers(0, 1)))
        elif happens == "placed" and cluster.reservation and cluster.reservation["status"]["phase"] == "Pending":
            cluster.scheduler_places()
        elif happens == "ends" and cluster.pod is not None and cluster.pod.metadata.deletion_timestamp:
            cluster.pod_ends()
        elif happens == "replaced" and cluster.pod is None and cluster.reservation:
            cluster.replacement_comes(ready=False)
        elif happens == "ready" and cluster.replacement is not None and cluster.reservation:
            cluster.replacement_comes()
        elif happens == "expires" and cluster.reservation:
            expired(cluster)
        elif happens == "lost":
            cluster.reservation = None
        elif happens == "late":
            late(cluster)
    cluster.now_s = NOW_S + 3600
    cluster.until_rest()
    assert cluster.job.is_over
    ended = cluster.job
    cluster.until_rest()
    assert cluster.job == ended, "an ended job stays unchanged"
    assert len(cluster.evictions) <= 2, "a kill between eviction and its record repeats it for the same uid"
    assert set(cluster.evictions) <= {"uid-web-1"}
    if cluster.phase == "Failed":
        assert cluster.reservation is None


def test_the_reservation_asks_for_the_same_on_any_other_node() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in ("a", "b")]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}
    head = {"namespace": "shop", "name": "web-1", "uid": "u", "ownerReferences": [owner]}
    spec_: dict[str, Any] = {"nodeName": "n1", "containers": [{"name": "c"}], "affinity": {"nodeAffinity": required}}
    running = {"metadata": head, "spec": spec_}
    before = json.dumps(running)
    found = reservation_for(job(), running, "5m", NOW_S)
    typed = convert(Reservation, found)
    assert typed.metadata.name == "job-1"
    assert typed.spec.allocate_once
    controller = typed.spec.owners[0].controller
    assert controller is not None
    assert (controller.uid, controller.namespace) == ("rs", "shop")
    spec = found["spec"]["template"]["spec"]
    assert "nodeName" not in spec
    got = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    out = {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}
    assert [term["matchFields"] for term in got] == [[out], [out]]
    assert [term["matchExpressions"] for term in got] == [term["matchExpressions"] for term in terms]
    assert json.dumps(running) == before, "what was read stays unchanged"
    closed = reservation_for(job(), running, "5m", NOW_S, closed=["n1", "n3"])["spec"]["template"]["spec"]
    got = closed["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    also = {"key": "metadata.name", "operator": "NotIn", "values": ["n3"]}
    assert [term["matchFields"] for term in got] == [[out, also], [out, also]], "nor where its replacement may not go"
