"""Reservations of CPUs: held like a pod's, written on the reservation, and given to its owners."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from koord.api.kinds import NODE_RESOURCE_TOPOLOGIES
from koord.scheduler.plugins.numa.allocation import Allocation
from koord.scheduler.plugins.numa.topology import topology_of
from koord.scheduler.plugins.reservation.giving_back import cpus_kept
from tests.scheduler.builders import node
from tests.scheduler.plugins.numa.machines import details, report
from tests.scheduler.reservations import PREFIX, World, pod, reservation

STATUS = "scheduling.koordinator.sh/resource-status"
LSR = {"koordinator.sh/qosClass": "LSR"}
MANY: dict[str, Any] = {"allocateOnce": False}
SINGLE = {"node.koordinator.sh/numa-topology-policy": "SingleNUMANode"}


def world(labels: dict[str, str] | None = None) -> World:
    """One node with two NUMA nodes of 4 CPUs."""
    found = World(node("n0", cpu="8", memory="96Gi", labels=labels))
    found.core.put(NODE_RESOURCE_TOPOLOGIES, report("n0", "1x2x2x2"))
    return found


def bound(name: str, cpu: str, **more: Any) -> Any:
    return pod(name, cpu=cpu, labels=LSR, priority=9500, **more)


def cpus(found: World, key: str) -> str:
    return str(json.loads(found.pods[key].metadata.annotations.get(STATUS, "{}")).get("cpuset", ""))


def test_owners_get_the_cpus_of_their_reservation_and_others_do_not() -> None:
    found = world()
    found.put(reservation(cpu="4", labels=LSR, **MANY))
    assert found.settle() == {"reservation:r": "n0"}
    held = json.loads(found.reservations["r"].metadata.annotations[STATUS])["cpuset"]
    assert held == "0-3"
    found.put(bound("other", "4", app="other"), bound("late", "2", app="other"))
    found.settle()
    assert (cpus(found, "shop/other"), cpus(found, "shop/late")) == ("4-7", "")
    found.put(bound("a", "2"), bound("b", "2"))
    found.settle()
    assert sorted([cpus(found, "shop/a"), cpus(found, "shop/b")]) == ["0-1", "2-3"]
    found.put(bound("c", "2"))
    found.settle()
    assert cpus(found, "shop/c") == ""


def test_a_restarted_scheduler_gives_owners_the_same_cpus() -> None:
    found = world()
    found.put(reservation(cpu="4", labels=LSR, **MANY), bound("other", "4", app="other"))
    found.settle()
    found.put(bound("a", "2"))
    found.settle()
    again = found.restarted()
    # Topologies may arrive after reservations.
    again.core.put(NODE_RESOURCE_TOPOLOGIES, report("n0", "1x2x2x2"))
    again.put(bound("b", "2"))
    again.settle()
    assert {cpus(again, "shop/a"), cpus(again, "shop/b")} == {"0-1", "2-3"}


def test_a_reservation_on_one_numa_node_keeps_it_for_its_owners() -> None:
    found = world(SINGLE)
    found.put(reservation(cpu="4"))
    found.settle()
    found.put(pod("other", app="other", cpu="4"))
    assert found.settle() == {"other": "n0"}
    found.put(pod("owner", cpu="4"))
    assert found.settle() == {"owner": "n0"}
    zones = [
        json.loads(found.pods[key].metadata.annotations[STATUS])["numaNodeResources"][0]["node"]
        for key in ("shop/other", "shop/owner")
    ]
    assert sorted(zones) == [0, 1]


ONLY: dict[str, Any] = {"allocateOnce": False, "allocatePolicy": "Restricted"}


def zones(found: World, key: str) -> dict[int, str]:
    said = json.loads(found.pods[key].metadata.annotations.get(STATUS, "{}")).get("numaNodeResources", [])
    return {each["node"]: each["resources"]["cpu"] for each in said}


def test_owners_of_a_restricted_reservation_get_its_cpus_and_no_others() -> None:
    found = world()
    found.put(reservation(cpu="2", labels=LSR, **ONLY))
    found.settle()
    held = json.loads(found.reservations["r"].metadata.annotations[STATUS])["cpuset"]
    found.put(bound("large", "4", affinity="{}"))
    found.settle()
    assert cpus(found, "shop/large") == ""
    found.put(bound("fits", "2", affinity="{}"), bound("late", "2", affinity="{}"))
    found.settle()
    assert (cpus(found, "shop/fits"), cpus(found, "shop/late")) == (held, "")


def test_owners_of_other_reservations_take_more_cpus_from_the_node() -> None:
    found = world()
    found.put(reservation(cpu="2", labels=LSR, **MANY), bound("large", "4", affinity="{}"))
    found.settle()
    # Its own first, the rest where most is free.
    assert cpus(found, "shop/large") == "0-1,4-5"
    found.put(bound("other", "4", app="other"))
    found.settle()
    assert cpus(found, "shop/other") == "2-3,6-7"


def test_amounts_of_a_numa_node_that_owners_use_are_not_held_as_well() -> None:
    found = world(SINGLE)
    found.put(reservation(cpu="2", **MANY))
    found.settle()
    found.put(pod("owner", cpu="2"))
    found.settle()
    assert found.inside("shop/owner") == "r"
    (zone,) = zones(found, "shop/owner")
    # 4 CPUs a NUMA node: 2 are the owner's, out of the reservation, and 2 are left.
    found.put(pod("four", app="other", cpu="4"), pod("two", app="other", cpu="2"))
    found.settle()
    assert (zones(found, "shop/four"), zones(found, "shop/two")) == ({1 - zone: "4"}, {zone: "2"})


def test_a_restricted_reservation_gives_no_more_of_a_numa_node_than_it_holds() -> None:
    found = world(SINGLE)
    found.put(reservation(cpu="2", memory="1Gi", **ONLY))
    found.settle()
    found.put(pod("large", cpu="3", affinity="{}"), pod("fits", cpu="2", affinity="{}"))
    found.settle()
    assert not zones(found, "shop/large")
    assert found.inside("shop/fits") == "r"
    assert zones(found, "shop/fits") == {0: "2"}


def test_of_two_reservations_the_one_is_taken_whose_cpus_suffice() -> None:
    found = world()
    first = {"scheduling.koordinator.sh/reservation-order": "1"}
    found.put(reservation("plain", cpu="4", labels=first, **MANY), reservation("own", cpu="4", labels=LSR, **MANY))
    assert found.settle() == {"reservation:plain": "n0", "reservation:own": "n0"}
    # The first one holds 4 CPUs' worth and no CPUs: the other four are not for its owners.
    found.put(bound("a", "4", affinity="{}"), bound("b", "4", affinity="{}"))
    found.settle()
    taken = {found.inside(key): cpus(found, key) for key in ("shop/a", "shop/b")}
    assert taken == {"plain": "4-7", "own": "0-3"}


def shrink(found: World, **resources: str) -> None:
    held = found.reservations["r"]
    said = {f"{PREFIX}reservation-resize-allocatable": json.dumps({"resources": resources})}
    annotations = {**held.metadata.annotations, **said}
    found.put(replace(held, metadata=replace(held.metadata, annotations=annotations)))
    found.settle()


def test_one_that_is_made_smaller_gives_back_cpus_that_no_owner_has() -> None:
    found = world()
    found.put(reservation(cpu="6", labels=LSR, **MANY))
    found.settle()
    found.put(bound("a", "2"))
    found.settle()
    mine = cpus(found, "shop/a")
    shrink(found, cpu="4")
    held = json.loads(found.reservations["r"].metadata.annotations[STATUS])["cpuset"]
    assert held == "0-3"
    found.put(bound("other", "4", app="other"))
    found.wait(60)
    found.settle()
    assert (cpus(found, "shop/a"), cpus(found, "shop/other")) == (mine, "4-7")
    assert found.restarted().requested() == found.requested()


def test_one_that_is_made_smaller_than_what_its_owners_have_keeps_theirs() -> None:
    found = world()
    found.put(reservation(cpu="4", labels=LSR, **MANY))
    found.settle()
    found.put(bound("a", "2"), bound("b", "2"))
    found.settle()
    shrink(found, cpu="1")
    assert json.loads(found.reservations["r"].metadata.annotations[STATUS])["cpuset"] == "0-3"
    found.delete("shop/b")
    found.settle()
    assert json.loads(found.reservations["r"].metadata.annotations[STATUS])["cpuset"] == cpus(found, "shop/a")


@pytest.mark.parametrize(
    ("held", "inside", "asked", "kept"),
    [
        # Nothing is over.
        (Allocation(0b1111), (), {"cpu": 4000}, Allocation(0b1111)),
        # Whole cores (0,1), (2,3), ... go from the last one on.
        (Allocation(0b1111), (), {"cpu": 2000}, Allocation(0b0011)),
        (Allocation(0b1111), (), {"cpu": 2500}, Allocation(0b0111)),
        # An owner's core stays, also beside a free thread of it.
        (Allocation(0b1111), (Allocation(0b0100),), {"cpu": 2000}, Allocation(0b0101)),
        (Allocation(0b1111), (Allocation(0b1110),), {"cpu": 1000}, Allocation(0b1110)),
        # A NUMA node gives as much as its CPUs: 4-7 are of the second one.
        (
            Allocation(0b11110000 | 0b11, ((0, (("cpu", 2000),)), (1, (("cpu", 4000),)))),
            (),
            {"cpu": 4000},
            Allocation(0b110011, ((0, (("cpu", 2000),)), (1, (("cpu", 2000),)))),
        ),
        # Amounts alone: the last NUMA node gives first, but not what an owner has there.
        (
            Allocation(0, ((0, (("memory", 8),)), (1, (("memory", 8),)))),
            (Allocation(0, ((1, (("memory", 6),)),)),),
            {"memory": 10},
            Allocation(0, ((0, (("memory", 4),)), (1, (("memory", 6),)))),
        ),
    ],
)
def test_what_is_kept(
    held: Allocation, inside: tuple[Allocation, ...], asked: dict[str, int], kept: Allocation
) -> None:
    assert cpus_kept(held, inside, asked, topology_of(details("1x2x2x2"))) == kept
