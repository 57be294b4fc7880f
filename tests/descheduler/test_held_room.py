"""Two jobs of one workload; the replacement of one uses the room of the other: they trade, and both end."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.protocol.crd.reservation import Reservation
from koord.api.text.timestamp import from_seconds
from koord.descheduler.held_room import Sibling, is_held_for_nobody, reservation_name
from koord.descheduler.migration import step
from koord.descheduler.migration_step import DropReservation, EvictPod, MigrationState, Step, TakeOverReservation
from tests.descheduler.build import NOW_S, pod

ARGS = MigrationControllerArgs().completed()
OWNERS = [{"controller": {"kind": "ReplicaSet", "name": "web", "uid": "rs", "apiVersion": "apps/v1"}}]
CONTAINER = {"name": "c", "resources": {"requests": {"cpu": "1"}}}


def job(name: str, of: str, *, evicted: bool = False, refers_to: str = "") -> PodMigrationJob:
    at = from_seconds(NOW_S)
    steps = ["ReservationCreated", "ReservationScheduled", *(["Eviction"] if evicted else [])]
    options = {"reservationRef": {"name": refers_to or f"uid-{name}"}}
    return convert(
        PodMigrationJob,
        {
            "metadata": {"name": name, "uid": f"uid-{name}", "creationTimestamp": at},
            "spec": {
                "podRef": {"namespace": "default", "name": of, "uid": f"uid-{of}"},
                "reservationOptions": options,
            },
            "status": {
                "phase": "Running",
                "conditions": [{"type": step, "status": "True", "lastTransitionTime": at} for step in steps],
            },
        },
    )


def room(of: str, node: str, *, user: str = "", owner: str = "") -> Reservation:
    meta: dict[str, Any] = {
        "name": f"uid-{of}",
        "labels": {
            "app.kubernetes.io/created-by": "koord-descheduler",
            "scheduling.koordinator.sh/reservation-order": "1",
        },
        "ownerReferences": [{"kind": "PodMigrationJob", "name": owner or of, "uid": f"uid-{owner or of}"}],
    }
    status: dict[str, Any] = {"phase": "Succeeded" if user else "Available", "nodeName": node}
    if user:
        status["currentOwners"] = [{"namespace": "default", "name": user, "uid": f"uid-{user}"}]
    spec = {"template": {"spec": {"containers": [CONTAINER]}}, "owners": OWNERS}
    return convert(Reservation, {"metadata": meta, "spec": spec, "status": status})


A, B = job("a", "web-1", evicted=True), job("b", "web-2")
ROOM_A, ROOM_B = room("a", "n3"), room("b", "n4", user="web-3")


def steps_of_b(*siblings: Sibling, of: PodMigrationJob = B, on: Reservation = ROOM_B) -> Step:
    return step(of, MigrationState(pod("web-2", "n2"), on, pod("web-3", "n4"), siblings=siblings), ARGS, NOW_S + 1)


def test_the_job_whose_pod_is_gone_goes_on_with_the_room_that_its_replacement_uses() -> None:
    other = Sibling(B, ROOM_B, None, pod_stays=True)
    taken = step(A, MigrationState(None, ROOM_A, siblings=(other,)), ARGS, NOW_S + 1)
    assert (reservation_name(taken.job), taken.actions) == ("uid-b", ())
    done = step(taken.job, MigrationState(None, ROOM_B, pod("web-3", "n4"), siblings=(other,)), ARGS, NOW_S + 1).job
    assert (done.status.phase, done.status.pod_ref and done.status.pod_ref.name) == ("Succeeded", "web-3")


def test_the_other_job_takes_over_the_room_that_is_left_and_moves_its_pod() -> None:
    waits = steps_of_b(Sibling(A, ROOM_A, None, pod_stays=False))
    assert (waits.job.status.phase, waits.actions) == ("Running", ()), (
        "until the first has written which it goes on with"
    )
    traded = job("a", "web-1", evicted=True, refers_to="uid-b")
    taken = steps_of_b(Sibling(traded, ROOM_B, ROOM_A, pod_stays=False))
    assert (reservation_name(taken.job), taken.job.status.node_name) == ("uid-a", "n3")
    assert taken.actions == (TakeOverReservation("uid-a"),)
    own = room("a", "n3", owner="b")
    goes = steps_of_b(of=taken.job, on=own)
    goes = steps_of_b(of=goes.job, on=own)
    assert [type(action) for action in goes.actions] == [EvictPod]


def test_without_a_job_to_trade_with_a_room_that_is_taken_fails_the_move() -> None:
    failed = steps_of_b(Sibling(job("a", "web-1"), ROOM_A, None, pod_stays=True))
    assert (failed.job.status.phase, failed.job.status.reason) == ("Failed", "ForbiddenMigratePod")


def test_a_room_that_somebody_goes_on_with_already_is_not_taken_by_a_third() -> None:
    second = job("c", "web-9", evicted=True, refers_to="uid-b")
    siblings = (Sibling(B, ROOM_B, None, pod_stays=True), Sibling(second, ROOM_B, None, pod_stays=False))
    waits = step(A, MigrationState(None, ROOM_A, siblings=siblings), ARGS, NOW_S + 1).job
    assert (reservation_name(waits), waits.status.reason) == ("uid-a", "WaitForPodBindReservation")


def whole(since_s: float) -> tuple[Pod, ...]:
    new = pod("web-5", "n5")
    return (replace(new, metadata=replace(new.metadata, creation_timestamp=from_seconds(since_s))),)


def test_a_job_whose_replacement_went_elsewhere_ends_and_gives_its_room_back() -> None:
    soon, later = (step(A, MigrationState(None, ROOM_A, whole=whole(NOW_S + 1)), ARGS, NOW_S + s) for s in (2, 20))
    assert (soon.job.status.phase, soon.actions) == ("Running", ())
    assert (later.job.status.phase, later.actions) == ("Succeeded", (DropReservation("uid-a"),))
    assert (later.job.status.pod_ref and later.job.status.pod_ref.name, later.job.status.node_name) == ("web-5", "n5")
    smaller = step(A, MigrationState(None, ROOM_A, whole=whole(NOW_S - 60)), ARGS, NOW_S + 20).job
    assert (smaller.status.phase, smaller.status.pod_ref) == ("Succeeded", None), "the workload was scaled down"


def test_a_room_is_held_for_nobody_once_all_who_might_need_it_are_over() -> None:
    over = replace(A, status=replace(A.status, phase=convert(type(A.status.phase), "Succeeded")))
    assert not is_held_for_nobody(ROOM_A, A, [])
    assert not is_held_for_nobody(ROOM_A, over, [B]), "it may take it over yet"
    assert is_held_for_nobody(ROOM_A, over, [over])
    assert not is_held_for_nobody(ROOM_B, over, []), "a pod uses it"


def test_a_pod_that_waits_for_a_place_has_moved_once_it_is_where_its_room_is() -> None:
    mine = replace(room("b", "n4", user="web-2"), metadata=ROOM_B.metadata)
    owners = convert(Reservation, {"spec": {"template": {}, "owners": [{"object": {"uid": "uid-web-2"}}]}}).spec.owners
    mine = replace(mine, spec=replace(mine.spec, owners=owners))
    done = step(B, MigrationState(pod("web-2", "n4"), mine, pod("web-2", "n4")), ARGS, NOW_S + 1).job
    assert done.status.phase == "Succeeded"
