"""The index of reservations by labels, and the gates of the plugin."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from koord.api.configuration.features import SchedulerGate
from koord.api.configuration.scheduler_config import SchedulerConfiguration, parse
from koord.api.protocol.annotations.reservation import RESERVATION_ALLOCATED
from koord.scheduler.core.core import Core
from koord.scheduler.plugins.reservation.plugin import Reservation
from koord.scheduler.profiles import profiles_of
from tests.scheduler.builders import node
from tests.scheduler.reservations import World, pod, reservation

INDEX: dict[str, Any] = {"enabled": True, "keys": ["team", ""], "keyPrefixes": ["pool.example.com/"]}


def configured(index: dict[str, Any] | None) -> SchedulerConfiguration:
    version = "kubescheduler.config.k8s.io/v1"
    args = {"apiVersion": version, "kind": "ReservationArgs", "reservationSelectorIndex": index or {}}
    profile = {
        "schedulerName": "koord-scheduler",
        "plugins": {"multiPoint": {"enabled": [{"name": "Reservation"}]}},
        "pluginConfig": [{"name": "Reservation", "args": args}],
    }
    return parse({"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": [profile]})


def world(index: dict[str, Any] | None = INDEX) -> World:
    found = World(
        node("n0", cpu="8"),
        node("n1", cpu="8", labels={"team": "red"}),
        node("n2", cpu="8"),
        config=configured(index),
    )
    found.put(
        reservation("blue", on="n0", labels={"team": "blue", "pool.example.com/hot": "yes"}, allocateOnce=False),
        reservation("by-node", on="n1", allocateOnce=False),
        reservation("red", on="n2", labels={"team": "red"}, allocateOnce=False),
    )
    return found


def plugin(found: World) -> Reservation:
    return next(plugin for plugin in found.core.profiles.plugins() if isinstance(plugin, Reservation))


@pytest.mark.parametrize(
    ("selector", "rooms"),
    [
        ({"team": "blue"}, {"blue"}),
        ({"team": "red"}, {"by-node", "red"}),
        ({"team": "green"}, set()),
        ({"team": "blue", "pool.example.com/hot": "yes"}, {"blue"}),
        ({"team": "red", "pool.example.com/hot": "yes"}, set()),
        ({"pool.example.com/hot": "no"}, set()),
        ({"kubernetes.io/hostname": "n0"}, set()),
    ],
)
def test_pods_find_the_same_reservations_with_the_index_and_without(selector: dict[str, str], rooms: set[str]) -> None:
    for index in (INDEX, None):
        found = world(index)
        asking = json.dumps({"reservationSelector": selector})
        found.put(*(pod(f"p{i}", cpu="1", affinity=asking) for i in range(3)))
        found.settle()
        assert {found.inside(f"shop/p{i}") for i in range(3)} - {""} <= rooms
        assert bool(rooms) == any(found.inside(f"shop/p{i}") for i in range(3))


def test_the_index_follows_reservations_and_nodes() -> None:
    found = world()
    told = plugin(found).controller.services["reservationSelectorIndex"]
    assert told("") == {
        "enabled": True,
        "prefixes": ["pool.example.com/"],
        "keys": ["team"],
        "indexedReservations": 3,
        "byPrefix": {"pool.example.com/": {"nodes": 1, "reservations": 1}},
        "byKey": {"team": {"nodes": 3, "reservations": 3}},
    }
    found.put(node("n1", cpu="8"))
    found.delete("blue")
    whole: Any = plugin(found).controller.services["reservationSelectorIndex?detail=true"]("")
    assert whole["byPrefix"] == {}
    one = {"nodes": 1, "reservations": 1, "byNode": {"n2": ["uid-red"]}}
    assert (whole["byKey"], whole["byKeyValue"]) == ({"team": one}, {"team": {"red": one}})


def test_figures_tell_how_often_the_index_was_of_use() -> None:
    found = world()
    for i, selector in enumerate(({"team": "red"}, {"team": "green"}, {"other": "x"})):
        found.put(pod(f"p{i}", affinity=json.dumps({"reservationSelector": selector})))
    found.settle()
    told = [
        (measure.name.rpartition("selector_")[2], dict(measure.labels), measure.value)
        for measure in plugin(found).controller.measures()
    ]
    asked = [each for each in told if each[0].startswith("index")]
    assert ("index_query_total", {"result": "hit"}, 2) in asked
    assert ("index_query_total", {"result": "miss"}, 1) in asked
    assert ("index_candidates_count", {}, 2) in asked


def gated(gates: Mapping[SchedulerGate, bool]) -> World:
    found = World()
    found.core = Core(profiles_of(found.config, gates=gates), alone=True)
    found.wait(0)
    return found


@pytest.mark.parametrize("omits", [False, True])
def test_labels_of_a_node_are_those_of_its_reservations_unless_a_gate_says_otherwise(omits: bool) -> None:
    found = gated({SchedulerGate.OMIT_NODE_LABELS_FOR_RESERVATION: omits})
    found.put(node("n0", cpu="8", labels={"team": "red"}), reservation(on="n0"))
    found.put(pod("p", affinity='{"reservationSelector": {"team": "red"}}'))
    assert found.settle() == ({} if omits else {"p": "n0"})


@pytest.mark.parametrize("cleans", [False, True])
def test_owners_of_a_deleted_reservation_say_so_unless_a_gate_cleans_that_up(cleans: bool) -> None:
    found = gated({SchedulerGate.CLEAN_EXPIRED_RESERVATION_ALLOCATED: cleans})
    found.put(node("n0", cpu="8"), reservation(allocateOnce=False))
    found.settle()
    found.put(pod("p"), pod("elsewhere", app="other", annotations={"a": "b"}, on="n0"))
    found.settle()
    assert found.inside("shop/p") == "r"
    # One that is only changed is not deleted.
    held = found.reservations["r"]
    found.put(replace(held, spec=replace(held.spec, unschedulable=True)))
    found.settle()
    assert found.inside("shop/p") == "r"
    found.delete("r")
    found.settle()
    assert (RESERVATION_ALLOCATED.key in found.pods["shop/p"].metadata.annotations) is not cleans
    assert found.requested() == 2_000
