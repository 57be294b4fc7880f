"""What becomes of owners and of the room when a reservation ends, shrinks, or loses its node; and reservations as a
descheduler makes them, for the pod that takes another's place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from koord.api.kinds import DEVICES, NODE_RESOURCE_TOPOLOGIES
from koord.api.kubernetes.meta import ObjectReference, OwnerReference
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert, encode
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob, PodMigrationJobSpec
from koord.api.protocol.crd.reservation import Reservation, ReservationPhase
from koord.descheduler.replacement import reservation_for
from koord.scheduler.core.decision import Bind
from tests.scheduler.builders import node
from tests.scheduler.plugins.devices.machines import ALLOCATED, K, device, gpu
from tests.scheduler.plugins.numa.machines import report
from tests.scheduler.reservations import MADE_S, PREFIX, World, pod, reservation

MANY: dict[str, Any] = {"allocateOnce": False}
STATUS = f"{PREFIX}resource-status"
LSR = {"koordinator.sh/qosClass": "LSR"}
HALF = {f"{K}/gpu-core": "50", f"{K}/gpu-memory-ratio": "50"}


def used() -> World:
    """8 CPUs: 6 are held, an owner uses 2 of them, and a pod of others waits for 4."""
    world = World(8)
    world.put(reservation(cpu="6", ttl="10m", **MANY))
    world.settle()
    world.put(pod("owner", cpu="2"))
    world.settle()
    world.put(pod("other", app="other", cpu="4"))
    assert world.settle() == {}
    assert world.requested() == 6_000
    return world


@pytest.mark.parametrize("end", ["deleted", "expired", "shrunk"])
def test_owners_stay_and_the_rest_of_the_room_is_free_for_others(end: str) -> None:
    world = used()
    if end == "deleted":
        world.delete("r")
    elif end == "expired":
        world.wait(601)
    else:
        held = world.reservations["r"]
        said = {f"{PREFIX}reservation-resize-allocatable": '{"resources": {"cpu": "3"}}'}
        world.put(replace(held, metadata=replace(held.metadata, annotations=said)))
    world.settle()
    world.wait(400)
    world.settle()
    assert world.pods["shop/other"].spec.node_name == "n0"
    assert world.pods["shop/owner"].spec.node_name == "n0"
    assert world.requested() == (7_000 if end == "shrunk" else 6_000)
    if end == "expired":
        status = world.reservations["r"].status
        assert (status.phase, [owner.name for owner in status.current_owners]) == (ReservationPhase.FAILED, ["owner"])
    assert world.restarted().requested() == world.requested()


def test_one_that_is_shrunk_below_what_its_owners_use_counts_with_what_they_use() -> None:
    world = used()
    held = world.reservations["r"]
    said = {f"{PREFIX}reservation-resize-allocatable": '{"resources": {"cpu": "1"}}'}
    world.put(replace(held, metadata=replace(held.metadata, annotations=said)))
    world.settle()
    assert world.reservations["r"].status.allocatable == {"cpu": "1"}
    assert world.reservations["r"].status.allocated == {"cpu": "2"}
    world.put(pod("late", cpu="1", affinity="{}"))
    world.wait(60)
    world.settle()
    # Aligned: nothing is left of it, and the node has 2.
    assert world.requested() == 2_000 + 4_000 + 1_000


def test_one_that_ends_while_its_owner_is_being_bound_costs_the_owner_nothing() -> None:
    world = World(4)
    world.put(reservation(cpu="4", ttl="10m", **MANY))
    world.settle()
    world.put(pod("owner", cpu="3"))
    decision = world.decide()
    assert isinstance(decision, Bind)
    world.wait(601)
    world.write()
    assert world.reservations["r"].status.phase is ReservationPhase.FAILED
    world.put(pod("other", app="other", cpu="2"))
    assert not isinstance(world.decide(), Bind)
    world.bind(decision)
    world.settle()
    assert world.pods["shop/owner"].spec.node_name == "n0"
    assert world.pods["shop/other"].spec.node_name == ""
    assert world.requested() == world.restarted().requested() == 3_000


def test_one_whose_owner_cannot_be_bound_is_there_for_the_next() -> None:
    world = World(4)
    world.put(reservation(cpu="4"))
    world.settle()
    world.put(pod("first", cpu="4"))
    decision = world.decide()
    assert isinstance(decision, Bind)
    world.core.failed(decision, decision.ask)
    world.delete("shop/first")
    world.put(pod("second", cpu="4"))
    assert world.settle() == {"second": "n0"}
    assert world.inside("shop/second") == "r"
    status = world.reservations["r"].status
    assert (status.phase, [owner.name for owner in status.current_owners]) == (ReservationPhase.SUCCEEDED, ["second"])


def test_one_owner_alone_gets_in_whenever_the_scheduler_is_killed() -> None:
    """After each step of two owners' bindings another scheduler goes on, from the objects alone."""
    for killed_after in ("placed", "decided", "patched", "bound"):
        world = World(8)
        world.put(reservation(cpu="4"), pod("other", app="other", cpu="4", on="n0"))
        world.settle()
        if killed_after == "placed":
            world = world.restarted()
        world.put(pod("a", cpu="4"), pod("b", cpu="4"))
        decision = world.decide()
        assert isinstance(decision, Bind)
        if killed_after == "patched":
            # What it says of itself is written, and its binding is not.
            (placed,) = decision.members
            assert placed.plan.patch is not None
            said = placed.plan.patch.body["metadata"]["annotations"]
            owner = world.pods[placed.ask.key]
            world.put(replace(owner, metadata=replace(owner.metadata, annotations=said)))
        elif killed_after == "bound":
            world.hear(decision.members[0])
        if killed_after != "placed":
            world = world.restarted()
        else:
            world.bind(decision)
        world.settle()
        inside = [key for key in ("shop/a", "shop/b") if world.pods[key].spec.node_name]
        status = world.reservations["r"].status
        assert len(inside) == 1, killed_after
        assert world.inside(inside[0]) == "r"
        assert [f"{owner.namespace}/{owner.name}" for owner in status.current_owners] == inside
        assert (status.phase, status.allocated) == (ReservationPhase.SUCCEEDED, {"cpu": "4"})
        assert world.requested() == 8_000


def test_without_its_node_it_fails_and_its_owners_are_not_held_against_it() -> None:
    world = used()
    world.put(node("n1", cpu="4"))
    world.delete(world.nodes["n0"])
    world.settle()
    world.wait(5)
    world.settle()
    assert world.deleted == ["r"] or world.reservations["r"].status.phase is ReservationPhase.FAILED
    assert world.pods["shop/other"].spec.node_name == "n1"
    world.put(node("n0", cpu="8"))
    world.settle()
    assert world.requested("n0") == 2_000, "the owner is there again, and nothing is held"


CONTROLLER = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="uid-web", controller=True)


def of_controller(name: str, **more: Any) -> Pod:
    found = pod(name, labels=LSR, priority=9500, cpu="2", more=HALF, **more)
    return replace(found, metadata=replace(found.metadata, owner_references=(CONTROLLER,)))


def machines() -> World:
    """Three nodes with CPUs and GPUs to hand out; the pod that is to move is on the emptiest."""
    totals = {f"{K}/gpu-core": "100", f"{K}/gpu-memory-ratio": "100", f"{K}/gpu-memory": "80Gi"}
    world = World(*(node(f"n{i}", cpu="8", memory="96Gi", extended=totals) for i in range(3)))
    for i in range(3):
        world.core.put(NODE_RESOURCE_TOPOLOGIES, report(f"n{i}", "1x2x2x2"))
        world.core.put(DEVICES, device(f"n{i}", [gpu(0)]))
    world.put(pod("busy-1", app="other", cpu="3", on="n1"), pod("busy-2", app="other", cpu="4", on="n2"))
    return world


def test_the_pod_that_takes_anothers_place_goes_into_the_room_that_was_held_for_it() -> None:
    world = machines()
    world.put(of_controller("old"))
    assert world.settle() == {"old": "n0"}
    old = world.pods["shop/old"]
    job = PodMigrationJob(spec=PodMigrationJobSpec(pod_ref=ObjectReference(namespace="shop", name="old")))
    job = replace(job, metadata=replace(job.metadata, name="job", uid="uid-job"))
    plain = json.loads(encode(old))
    made = convert(Reservation, reservation_for(job, plain, "5m", MADE_S))
    made = replace(
        made, metadata=replace(made.metadata, uid="uid-made", creation_timestamp=old.metadata.creation_timestamp)
    )
    world.put(made)
    (where,) = world.settle().values()
    assert where == "n1", "any node but that of the pod"
    held = world.reservations[made.metadata.name]
    got = {key: held.metadata.annotations[key] for key in (STATUS, ALLOCATED)}
    # Others want CPUs and GPUs as well.
    world.put(*(pod(f"rival-{i}", app="other", labels=LSR, priority=9500, cpu="2", more=HALF) for i in range(8)))
    world.settle()
    world.delete("shop/old")
    world.put(of_controller("new"))
    world.settle()
    new = world.pods["shop/new"]
    assert (new.spec.node_name, world.inside("shop/new")) == ("n1", made.metadata.name)
    assert json.loads(new.metadata.annotations[STATUS])["cpuset"] == json.loads(got[STATUS])["cpuset"]
    assert json.loads(new.metadata.annotations[ALLOCATED]) == json.loads(got[ALLOCATED])
    status = world.reservations[made.metadata.name].status
    assert (status.phase, [owner.name for owner in status.current_owners]) == (ReservationPhase.SUCCEEDED, ["new"])
    # A second one finds nothing that is held for it.
    world.put(of_controller("newer"))
    world.settle()
    assert world.inside("shop/newer") == ""


def test_what_a_running_pod_got_is_not_what_a_reservation_made_like_it_has() -> None:
    world = World(node("n0", cpu="8"))
    template = {"metadata": {"annotations": {ALLOCATED: '{"gpu": [{"minor": 0}]}', STATUS: '{"cpuset": "0-3"}'}}}
    held = reservation(cpu="2")
    spec = replace(held.spec, template={**template, "spec": held.spec.template["spec"]})
    world.put(replace(held, spec=spec))
    assert world.settle() == {"reservation:r": "n0"}
    (record, _) = world.core.cluster.pods["default/reservation:r"]
    assert {name for name, _ in record.notes}.isdisjoint({"DeviceShare", "NodeNUMAResource"})
