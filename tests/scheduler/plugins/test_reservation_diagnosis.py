"""What people hear of reservations: messages, events, services and figures."""

from __future__ import annotations

from koord.scheduler.plugins.reservation.diagnosis import EVENT
from koord.scheduler.plugins.reservation.plugin import Reservation
from tests.scheduler.builders import node
from tests.scheduler.reservations import World, pod, reservation

TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


def plugin(world: World) -> Reservation:
    found = next(plugin for plugin in world.core.profiles.plugins() if isinstance(plugin, Reservation))
    assert isinstance(found, Reservation)
    return found


def test_a_pod_that_must_come_out_of_one_hears_how_each_fared() -> None:
    world = World(8, 8, 8)
    world.put(reservation("closed", on="n0", unschedulable=True))
    world.put(reservation("tainted", on="n0", taints=[TAINT]))
    world.put(reservation("other-pool", on="n1", labels={"pool": "b"}))
    world.put(reservation("small", cpu="1", on="n2", labels={"pool": "a"}, allocatePolicy="Restricted"))
    world.put(reservation("foreign", on="n1", owners=[{"object": {"name": "x"}}]))
    world.put(pod("p", cpu="2", affinity='{"reservationSelector":{"pool":"a"}}'))
    decision = world.nowhere()
    told = (
        "1 Reservation(s) Insufficient cpu, 1 Reservation(s) didn't match affinity rules, "
        "1 Reservation(s) had untolerated taint {k: v}, 1 Reservation(s) is unschedulable, "
        "4 Reservation(s) matched owner total."
    )
    assert told in decision.message
    assert decision.remedy.event == (
        EVENT,
        "0/4 reservations are available: 1 Reservation(s) Insufficient cpu, 1 Reservation(s) didn't match affinity "
        "rules, 1 Reservation(s) had untolerated taint {k: v}, 1 Reservation(s) is unschedulable.",
    )


def test_what_speaks_against_the_node_of_a_reservation_is_told_with_it() -> None:
    world = World(node("n0", cpu="8", unschedulable=True))
    world.put(reservation("a", on="n0"))
    world.put(pod("p", affinity='{"name":"a"}'))
    message = world.nowhere().message
    assert "1 Reservation(s) exactly matches the requested reservation name" in message
    assert "1 Reservation(s) for node reason that node(s) were unschedulable" in message


def test_a_name_that_no_reservation_has() -> None:
    world = World(8)
    world.put(reservation("a", on="n0"), reservation("b", on="n0"), pod("p", affinity='{"name":"c"}'))
    decision = world.nowhere()
    assert decision.placement.refusal == "node(s) no reservations match reservation affinity"
    assert decision.remedy.event is not None
    assert decision.remedy.event[1] == (
        "0/2 reservations are available: 2 Reservation(s) didn't match the requested reservation name."
    )


def test_pods_that_have_nothing_to_do_with_reservations_hear_nothing_of_them() -> None:
    world = World(8)
    world.put(reservation("a", on="n0"), pod("p", app="other", cpu="20"))
    decision = world.nowhere()
    assert "Reservation" not in decision.message
    assert decision.remedy.event is None


def test_a_reservation_that_fits_nowhere_says_so_on_itself() -> None:
    world = World(4)
    world.put(reservation("a", cpu="6"))
    decision = world.nowhere()
    kind, thing = world.core.subject(decision.ask)
    assert (kind.kind, thing.metadata.name) == ("Reservation", "a")
    assert decision.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_the_service_lists_what_a_node_holds_and_for_whom() -> None:
    world = World(8)
    world.put(reservation("a", cpu="4", on="n0", allocateOnce=False), pod("p", cpu="1", on="n0", inside="a"))
    told = plugin(world).controller.services["nodeReservations/:nodeName"]
    assert told("n0") == {
        "items": [
            {
                "name": "a",
                "uid": "uid-a",
                "available": True,
                "allocateOnce": False,
                "allocatePolicy": "Default",
                "order": 0,
                "unschedulable": False,
                "allocatable": {"cpu": "4"},
                "allocated": {"cpu": "1"},
                "assignedPods": ["shop/p"],
            }
        ]
    }
    assert told("none") is None


def test_figures_follow_each_reservation_until_it_is_gone() -> None:
    world = World(8)
    world.put(reservation("a", cpu="4", on="n0", allocateOnce=False), pod("p", cpu="1", on="n0", inside="a"))
    found = {tuple(measure.labels.values()): measure.value for measure in plugin(world).controller.measures()}
    assert found["a", "Available"] == 1
    assert found["a", "Pending"] == 0
    assert found["allocatable", "a", "cpu", "core"] == 4
    assert found["allocated", "a", "cpu", "core"] == 1
    assert found["utilization", "a", "cpu", "ratio"] == 0.25
    assert list(plugin(world).controller.measures()) == []
    world.delete("a")
    gone = {tuple(measure.labels.values()): measure.value for measure in plugin(world).controller.measures()}
    assert set(gone.values()) == {None}
    assert ("allocatable", "a", "cpu", "core") in gone
