"""Reservations that take over running pods."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.configuration.scheduler_config import SchedulerConfiguration, parse
from koord.api.protocol.crd.reservation import ReservationPhase
from tests.scheduler.reservations import PREFIX, World, pod, reservation

TAKING: dict[str, Any] = {"preAllocation": True, "allocatePolicy": "Restricted", "allocateOnce": False}
REQUIRED = {f"{PREFIX}pre-allocation-required": "true"}


def configured(**taking: bool) -> SchedulerConfiguration:
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    args = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "ReservationArgs",
        "preAllocationConfig": taking,
    }
    profile = {
        "schedulerName": "koord-scheduler",
        "plugins": {"multiPoint": {"enabled": [{"name": "Reservation"}]}},
        "pluginConfig": [{"name": "Reservation", "args": args}],
    }
    return parse({**config, "profiles": [profile]})


def full(*cpus: int) -> World:
    """A node of 32 CPUs: owners that use N, others the rest."""
    world = World(32)
    world.put(pod("others", app="other", cpu=str(32 - sum(cpus)), on="n0"))
    for i, cpu in enumerate(cpus):
        world.put(pod(f"p{i}", cpu=str(cpu), on="n0"))
    return world


class TestOne:
    def test_35_it_takes_over_a_pod_whose_room_it_needs(self) -> None:
        world = full(8)
        world.put(reservation(cpu="8", **TAKING))
        assert world.settle() == {"reservation:r": "n0"}
        assert world.inside("shop/p0") == "r"
        assert world.requested() == 32_000
        status = world.reservations["r"].status
        assert [owner.name for owner in status.current_owners] == ["p0"]
        assert world.restarted().requested() == 32_000

    def test_each_of_two_that_look_alike_takes_over_pods_of_its_own_owners(self) -> None:
        world = World(16)
        world.put(pod("web", app="web", cpu="8", on="n0"), pod("db", app="db", cpu="8", on="n0"))
        owners = {app: [{"labelSelector": {"matchLabels": {"app": app}}}] for app in ("web", "db")}
        world.put(*(reservation(f"of-{app}", cpu="8", owners=owners[app], **TAKING) for app in ("web", "db")))
        assert world.settle() == {"reservation:of-web": "n0", "reservation:of-db": "n0"}
        assert (world.inside("shop/web"), world.inside("shop/db")) == ("of-web", "of-db")

    def test_one_that_finds_nobody_does_not_keep_the_next_from_taking_over_its_own(self) -> None:
        world = full(8)
        stranger = [{"labelSelector": {"matchLabels": {"app": "nobody"}}}]
        world.put(reservation("first", cpu="8", owners=stranger, **TAKING))
        world.nowhere()
        world.put(reservation("second", cpu="8", **TAKING))
        assert world.settle() == {"reservation:second": "n0"}
        assert world.inside("shop/p0") == "second"

    def test_35_what_it_needs_beyond_that_is_not_there(self) -> None:
        world = full(8)
        world.put(reservation(cpu="10", **TAKING))
        assert world.nowhere().placement.rejections == {"Insufficient cpu": 1}

    @pytest.mark.parametrize(
        ("labels", "against"),
        [(REQUIRED, {"Reservation(s) Insufficient cpu": 1}), ({}, {"Insufficient cpu by node": 1})],
    )
    def test_35_a_pod_that_does_not_fit_inside_is_not_taken(
        self, labels: dict[str, str], against: dict[str, int]
    ) -> None:
        world = full(8)
        world.put(reservation(cpu="6", labels=labels, **TAKING))
        assert world.nowhere().placement.rejections == against

    @pytest.mark.parametrize(("spares", "inside", "requested"), [(False, "r", 8_000), (True, "", 16_000)])
    def test_where_there_is_room_it_takes_one_all_the_same_unless_told_otherwise(
        self, spares: bool, inside: str, requested: int
    ) -> None:
        world = World(32, config=configured(preferNoPreAllocatedPods=spares))
        world.put(pod("p0", cpu="8", on="n0"), reservation(cpu="8", **TAKING))
        world.settle()
        assert world.inside("shop/p0") == inside
        assert world.requested() == requested

    @pytest.mark.parametrize("spares", [False, True])
    def test_where_nobody_can_be_taken_it_goes_into_the_room_that_is_there(self, spares: bool) -> None:
        world = World(32, config=configured(preferNoPreAllocatedPods=spares))
        world.put(pod("p0", cpu="9", on="n0"), reservation(cpu="8", **TAKING))
        assert world.settle() == {"reservation:r": "n0"}
        assert world.inside("shop/p0") == ""

    def test_of_several_pods_the_one_that_fills_it_best_is_taken(self) -> None:
        world = full(2, 7, 5)
        world.put(reservation(cpu="7", **TAKING))
        world.settle()
        assert [world.inside(f"shop/p{i}") for i in range(3)] == ["", "r", ""]

    def test_of_several_nodes_the_one_is_taken_whose_pod_fills_it_best(self) -> None:
        world = World(32, 32, 32)
        world.put(pod("small", cpu="2", on="n0"), pod("large", cpu="6", on="n2"), reservation(cpu="8", **TAKING))
        assert world.settle() == {"reservation:r": "n2"}

    def test_it_takes_one_where_it_must(self) -> None:
        world = World(32, 32)
        world.put(pod("p0", cpu="8", on="n1"), reservation(cpu="8", labels=REQUIRED, **TAKING))
        assert world.settle() == {"reservation:r": "n1"}
        assert world.inside("shop/p0") == "r"

    def test_it_needs_the_policy_restricted(self) -> None:
        world = full(8)
        world.put(reservation(cpu="8", preAllocation=True))
        refusal = "node(s) reservation pre allocation is unsupported with current attributes"
        assert world.nowhere().placement.refusal == refusal

    def test_pods_of_another_reservation_stay_where_they_are(self) -> None:
        world = World(8)
        world.put(reservation("a", cpu="8", on="n0", **{**TAKING, "preAllocation": False}))
        world.put(pod("p0", cpu="8", on="n0", inside="a"), reservation("b", cpu="8", **TAKING))
        assert world.nowhere().placement.rejections == {"Insufficient cpu": 1}

    def test_one_for_a_single_owner_has_served_its_purpose_then(self) -> None:
        world = full(8)
        world.put(reservation(cpu="8", **{**TAKING, "allocateOnce": True}))
        world.settle()
        assert world.reservations["r"].status.phase is ReservationPhase.SUCCEEDED
        assert world.requested() == 32_000


MANY: dict[str, Any] = {**TAKING, "preAllocationPolicy": {"mode": "Default", "enableMultiple": True}}


class TestSeveral:
    def test_pods_are_added_up_until_it_fits(self) -> None:
        world = full(4, 4, 4)
        world.put(reservation(cpu="8", **MANY))
        world.settle()
        inside = [world.inside(f"shop/p{i}") for i in range(3)]
        assert sorted(inside) == ["", "r", "r"]
        assert world.requested() == 32_000

    def test_one_that_would_not_fit_inside_is_passed_over(self) -> None:
        world = full(9, 4, 4)
        world.put(reservation(cpu="8", **MANY))
        world.settle()
        assert [world.inside(f"shop/p{i}") for i in range(3)] == ["", "r", "r"]

    def test_a_node_that_gives_fewer_pods_is_better(self) -> None:
        world = World(8, 8)
        for i in range(4):
            world.put(pod(f"small-{i}", cpu="2", on="n0"))
        world.put(pod("a", cpu="4", on="n1"), pod("b", cpu="4", on="n1"), reservation(cpu="8", **MANY))
        assert world.settle() == {"reservation:r": "n1"}
        assert world.inside("shop/a") == world.inside("shop/b") == "r"


class TestCluster:
    def test_marked_pods_go_by_their_priority(self) -> None:
        world = World(16, config=configured(enableClusterMode=True))
        mark = {"pod.koordinator.sh/is-pre-allocatable": "true"}
        for name, priority in (("low", "1"), ("high", "5")):
            said = {"pod.koordinator.sh/pre-allocatable-priority": priority}
            world.put(pod(name, app="other", cpu="8", on="n0", labels=mark, annotations=said))
        world.put(reservation(cpu="8", **TAKING, preAllocationPolicy={"mode": "Cluster"}))
        world.settle()
        assert (world.inside("shop/low"), world.inside("shop/high")) == ("", "r")
