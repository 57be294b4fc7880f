"""Reservations of CPUs: held like a pod's, written on the reservation, and given to its owners."""

from __future__ import annotations

import json
from typing import Any

from koord.api.kinds import NODE_RESOURCE_TOPOLOGIES
from tests.scheduler.builders import node
from tests.scheduler.plugins.numa.machines import report
from tests.scheduler.reservations import World, pod, reservation

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
    # Topologies may be heard of after reservations.
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
