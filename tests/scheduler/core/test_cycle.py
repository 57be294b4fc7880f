"""Decisions one after the other, whatever pods and plugins do."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.configuration.scheduler_config import parse
from koord.api.kubernetes.node import Node
from koord.api.machinery.codec import convert
from koord.scheduler.core.entity import Where
from koord.scheduler.core.patience import MESSAGE, MOST, REST_S
from koord.scheduler.framework.engine import Engine
from koord.scheduler.live.metrics import Point, Status
from koord.scheduler.live.onlooker import Onlooker
from tests.kube.manual_clock import ManualClock
from tests.scheduler.core.build import Fed, node, pod


def test_the_more_important_pod_comes_first() -> None:
    fed = Fed()
    fed.put(node("n1"), pod("low"), pod("high", priority=10))
    assert [fed.bind().ask.key, fed.bind().ask.key] == ["shop/high", "shop/low"]
    assert fed.step() is None


def test_each_profile_decides_for_its_own() -> None:
    fed = Fed()
    fed.put(node("n1"), pod("a"), pod("b", schedulerName="other-profile"))
    assert {fed.bind().profile, fed.bind().profile} == {"koord-scheduler", "other-profile"}


@pytest.mark.parametrize("point", ["place", "plan", "permit"])
def test_a_plugin_that_fails_ends_nothing_and_keeps_no_room(point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fed = Fed()
    fed.put(node("n1"), pod("a"), pod("b", priority=10))
    real = getattr(Engine, point)

    def failing(self: Engine, ask, *args, **more):  # type: ignore[no-untyped-def]
        if ask.key == "shop/b":
            raise ZeroDivisionError("oh")
        return real(self, ask, *args, **more)

    monkeypatch.setattr(Engine, point, failing)
    broken = fed.broken()
    assert broken.message == "a plugin failed: ZeroDivisionError: oh"
    assert fed.feed.queue.where("shop/b") is Where.BACKOFF
    assert fed.bind().ask.key == "shop/a"
    assert fed.placed == {"shop/a": "n1"}
    monkeypatch.undo()
    fed.clock.advance(5)
    assert fed.bind().ask.key == "shop/b"


def test_a_giant_keeps_nobody_else_waiting() -> None:
    fed = Fed()
    fed.put(node("n1"), pod("giant", cpu="100", priority=1000), *(pod(f"p{number}") for number in range(4)))
    assert fed.nowhere().ask.key == "shop/giant"
    assert {fed.bind().ask.key for _ in range(4)} == {f"shop/p{number}" for number in range(4)}
    assert fed.step() is None


def test_room_that_is_made_is_kept_for_whom_it_is_made() -> None:
    fed = Fed()
    victim = pod("victim", cpu="4", on="n1")
    fed.put(node("n1"), victim, pod("high", cpu="3", priority=10))
    found = fed.nowhere()
    assert (found.remedy.node, found.remedy.victims) == ("n1", ("shop/victim",))
    fed.delete(victim)
    fed.put(pod("snatcher", cpu="3", priority=5))
    fed.clock.advance(5)
    decisions = {decision.ask.key: type(decision).__name__ for decision in (fed.step(), fed.step()) if decision}
    assert decisions == {"shop/high": "Bind", "shop/snatcher": "Nowhere"}


def test_a_promise_ends_with_the_pod_and_others_are_woken() -> None:
    fed = Fed()
    victim, high = pod("victim", cpu="4", on="n1"), pod("high", cpu="3", priority=10)
    fed.put(node("n1"), victim, high)
    fed.nowhere()
    fed.put(pod("low", cpu="3"))
    fed.delete(victim)
    fed.delete(high)
    assert not len(fed.feed.cluster.nominations)
    fed.clock.advance(5)
    assert fed.bind().ask.key == "shop/low"


def test_a_promise_of_before_our_time_is_kept() -> None:
    fed = Fed()
    fed.put(
        node("n1"),
        pod("high", cpu="3", priority=10, status={"nominatedNodeName": "n1"}, schedulingGates=[{"name": "g"}]),
        pod("low", cpu="3"),
    )
    assert fed.nowhere().ask.key == "shop/low"


@pytest.mark.parametrize("lower", [0, 1], ids=["no pod would have to go", "a pod has to go elsewhere"])
def test_a_pod_that_loses_its_promise_is_tried_once_and_keeps_its_message(lower: int) -> None:
    fed = Fed()
    fed.put(
        node("n1"), node("n2"), pod("a", cpu="4", on="n1", priority=9), pod("b", cpu="4", on="n2", priority=9 - lower)
    )
    fed.put(pod("p", cpu="3", priority=9, status={"nominatedNodeName": "n1"}))
    told = fed.nowhere()
    if lower:
        assert told.remedy.victims == ("shop/b",)
        assert "shop/b must be gone from n2 first" in told.message
    else:
        assert "Insufficient cpu" in told.message
    assert fed.step() is None
    promise = fed.feed.cluster.nominations.of("shop/p")
    assert (promise is None) == (not lower)


def test_whoever_else_could_have_the_room_of_a_lost_promise_is_tried() -> None:
    fed = Fed()
    fed.put(node("n1"), pod("a", cpu="2", on="n1", priority=9), pod("p", cpu="3", priority=9))
    fed.put(pod("small", cpu="2"))
    fed.put(pod("p", cpu="3", priority=9, status={"nominatedNodeName": "n1"}))
    assert fed.nowhere().ask.key == "shop/p"
    assert fed.bind().ask.key == "shop/small"


def test_a_promise_that_cannot_be_kept_is_taken_back() -> None:
    fed = Fed()
    fed.put(node("n1"), pod("victim", cpu="4", on="n1"), pod("high", cpu="3", priority=10))
    fed.nowhere()
    fed.clock.advance(5)
    fed.feed.take_back("shop/high")
    assert fed.nowhere().remedy.victims == ("shop/victim",), "it is tried again, and finds the same"


def test_who_had_others_go_comes_before_those_who_are_made_in_their_place() -> None:
    fed = Fed()
    fed.put(node("n", cpu="2"))
    victims = [pod("a", on="n", priority=0), pod("b", on="n", priority=0)]
    fed.put(*victims)
    fed.put(pod("wanted", cpu="2", priority=9))
    assert set(fed.nowhere().remedy.victims) == {"shop/a", "shop/b"}
    # It backs off; a pod that is created again does not.
    fed.delete(victims[0])
    fed.put(pod("a2", priority=0))
    assert fed.nowhere().ask.key == "shop/a2"
    fed.delete(victims[1])
    fed.put(pod("b2", priority=0))
    assert fed.bind().ask.key == "shop/wanted"


def test_a_pod_for_which_others_went_in_vain_has_nobody_go_for_a_while() -> None:
    fed = Fed()
    zones = [node(name, cpu="4", labels={"zone": name}) for name in ("n1", "n2")]
    selector = {"labelSelector": {"matchLabels": {"app": "web"}}}
    rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **selector}
    web: dict[str, Any] = {"metadata": {"labels": {"app": "web"}}}
    fed.put(*zones, pod("fills", cpu="4", on="n2", priority=9))
    made = pod("w0", on="n1", priority=0, **web)
    fed.put(made)
    fed.put(pod("wanted", priority=5, topologySpreadConstraints=[rule], **web))
    for number in range(1, MOST + 1):
        decision = fed.nowhere()
        assert decision.remedy.victims == (made.metadata.key,)
        # The next one of its kind is there before it is gone, and takes up what was made.
        then = pod(f"w{number}", on="n1", priority=0, **web)
        fed.put(then)
        fed.delete(made)
        made = then
        fed.clock.advance(12)
    last = fed.nowhere()
    assert not last.remedy.victims
    assert MESSAGE in last.message
    fed.clock.advance(REST_S)
    assert fed.nowhere().remedy.victims == (made.metadata.key,)


def test_who_fits_on_no_empty_node_is_not_tried_again_for_every_pod_that_leaves() -> None:
    fed = Fed()
    small = pod("small", on="n1")
    fed.put(node("n1", cpu="4"), node("n2", cpu="2"), small, pod("full", cpu="2", on="n2"))
    fed.put(pod("giant", cpu="9"), pod("big", cpu="4"))
    assert {fed.nowhere().ask.key, fed.nowhere().ask.key} == {"shop/giant", "shop/big"}
    fed.clock.advance(12)
    fed.delete(small)
    assert fed.bind().ask.key == "shop/big"
    assert fed.step() is None
    # More of what it does not ask for, and more of what it does but not enough.
    grown = convert(Node, {"metadata": {"name": "n2"}, "status": {"allocatable": {"cpu": "2", "gpu": "8"}}})
    fed.put(grown, node("n2", cpu="8"))
    assert fed.step() is None
    fed.put(node("n2", cpu="11"))
    assert fed.bind().ask.key == "shop/giant"


def test_room_is_made_by_a_named_plugin_whichever_filters_are_off() -> None:
    off = {"filter": {"disabled": [{"name": "NodePorts"}, {"name": "PodTopologySpread"}]}}
    config = parse({"profiles": [{"schedulerName": "koord-scheduler", "plugins": off}]})
    told: list[tuple[str, str]] = []

    def spent(point: Point, status: Status, profile: str, seconds: float, plugin: str = "") -> None:
        told.append((point, plugin))

    fed = Fed(config, observer=Onlooker(ManualClock(), spent))
    fed.put(node("n1"), pod("victim", cpu="4", on="n1"), pod("high", cpu="3", priority=10))
    assert fed.nowhere().remedy.node == "n1"
    assert ("PostFilter", "DefaultPreemption") in told
