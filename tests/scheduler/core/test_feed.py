"""What informers say, taken into state and queue."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import NAMESPACES, NODES, PODS, RESERVATIONS
from koord.api.kubernetes.core import Namespace
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.scheduler.core.core import Core
from koord.scheduler.core.entity import Where
from koord.scheduler.profiles import profiles_of
from tests.scheduler.core.build import Fed, changed, deleting, finished, node, pod
from tests.scheduler.reservations import reservation

KEY = "shop/a"


def test_a_pod_with_a_node_counts_there_until_it_is_gone_or_has_finished() -> None:
    fed = Fed()
    running, other = pod("a", on="n1"), pod("b", on="n1")
    fed.put(node("n1"), running, other)
    assert fed.placed == {"shop/a": "n1", "shop/b": "n1"}
    fed.put(finished(running))
    fed.delete(other)
    assert fed.placed == {}


@pytest.mark.parametrize("order", [("node", "pod"), ("pod", "node")])
def test_a_pod_of_a_node_that_is_not_known_yet_counts_when_the_node_comes(order: tuple[str, str]) -> None:
    fed = Fed()
    things: dict[str, Node | Pod] = {"node": node("n1"), "pod": pod("a", on="n1")}
    for each in order:
        fed.put(things[each])
    assert fed.placed == {KEY: "n1"}
    assert not fed.waiting


def test_pods_of_a_node_that_goes_and_comes_back_count_again() -> None:
    fed = Fed()
    fed.put(node("n1"), pod("a", on="n1"), pod("b", on="n1"))
    fed.delete(node("n1"))
    assert fed.placed == {}
    fed.delete(pod("b"))
    fed.put(node("n1"))
    assert fed.placed == {KEY: "n1"}


@pytest.mark.parametrize(
    ("scheduler", "alone", "ours"),
    [
        ("koord-scheduler", False, True),
        ("other-profile", False, True),
        ("default-scheduler", False, False),
        ("default-scheduler", True, True),
        ("volcano", True, False),
    ],
)
def test_pods_of_our_profiles_wait_for_us_and_with_no_other_scheduler_those_that_name_none(
    scheduler: str, alone: bool, ours: bool
) -> None:
    fed = Fed(alone=alone)
    fed.put(pod("a", schedulerName=scheduler))
    assert fed.waiting == ({KEY} if ours else set())


@pytest.mark.parametrize("end", ["deleted", "deleting", "finished", "bound"])
def test_a_pod_waits_no_more_when_it_is_gone_or_has_a_node(end: str) -> None:
    fed, waiting = Fed(), pod("a")
    fed.put(node("n1"), waiting)
    assert fed.waiting == {KEY}
    if end == "deleted":
        fed.delete(waiting)
    else:
        fed.put(
            {"deleting": deleting(waiting), "finished": finished(waiting), "bound": changed(waiting, node_name="n1")}[
                end
            ]
        )
    assert not fed.waiting
    assert fed.placed == ({KEY: "n1"} if end == "bound" else {})


def test_the_binding_that_we_hear_of_changes_nothing() -> None:
    fed, waiting = Fed(), pod("a")
    fed.put(node("n1"), waiting)
    bind = fed.bind()
    assert fed.placed == {KEY: "n1"}
    record = fed.feed.cluster.pods[KEY][0]
    fed.put(changed(waiting, node_name="n1"))
    fed.feed.queue.done(bind.attempt)
    assert fed.placed == {KEY: "n1"}
    assert not fed.feed.assumed
    assert not fed.waiting
    assert fed.feed.cluster.pods[KEY][0] is record


def test_a_pod_that_turns_up_elsewhere_counts_there() -> None:
    fed, waiting = Fed(), pod("a")
    fed.put(node("n1"), node("n2"), waiting)
    bind = fed.bind()
    other = {"n1": "n2", "n2": "n1"}[bind.node]
    fed.put(changed(waiting, node_name=other))
    assert fed.placed == {KEY: other}
    assert fed.feed.stands(bind.ask, bind.node) is None
    assert not fed.feed.let_go(bind.ask)
    assert fed.placed == {KEY: other}


def test_what_was_not_bound_counts_no_more_and_wakes_whom_it_kept_out() -> None:
    fed = Fed()
    fed.put(node("n1", cpu="1"), pod("a"), pod("b"))
    bind = fed.bind()
    assert fed.nowhere().message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert fed.feed.queue.where("shop/b") is Where.UNSCHEDULABLE
    assert fed.feed.let_go(bind.ask)
    fed.feed.queue.failed(bind.attempt, fed.clock.monotonic())
    assert fed.placed == {}
    assert fed.feed.queue.where("shop/b") is not Where.UNSCHEDULABLE


def test_another_pod_of_the_same_name_is_another_pod() -> None:
    fed, first = Fed(), pod("a", uid="1")
    fed.put(node("n1"), first)
    bind = fed.bind()
    second = pod("a", uid="2")
    fed.put(second)
    assert fed.placed == {}
    assert not fed.feed.let_go(bind.ask)
    fed.feed.queue.done(bind.attempt)
    assert fed.waiting == {KEY}
    again = fed.bind()
    assert again.ask.meta.uid == "2"
    assert not fed.feed.let_go(bind.ask), "the binding of the first must not undo that of the second"
    assert fed.placed == {KEY: "n1"}


def test_another_pod_of_the_same_name_is_told_apart_even_without_a_deletion() -> None:
    fed, first, second = Fed(), pod("a", uid="1", on="n1"), pod("a", uid="2")
    fed.put(node("n1"), first)
    fed.core.put(PODS, second, first)
    assert fed.placed == {}
    assert fed.waiting == {KEY}


def test_a_pod_that_changes_while_it_is_bound_comes_back_as_it_is_then() -> None:
    fed, waiting = Fed(), pod("a")
    fed.put(node("n1", cpu="8"), waiting)
    bind = fed.bind()
    labelled = changed(waiting)
    labelled = replace(labelled, metadata=replace(labelled.metadata, labels={"app": "web"}))
    fed.put(labelled)
    assert fed.step() is None, "it has its place"
    fed.feed.let_go(bind.ask)
    fed.feed.queue.failed(bind.attempt, fed.clock.monotonic())
    fed.clock.advance(10)
    assert fed.bind().ask.meta.labels == {"app": "web"}


def test_a_pod_that_changes_after_it_was_bound_and_before_we_hear_of_it_is_not_placed_again() -> None:
    fed, waiting = Fed(), pod("a")
    fed.put(node("n1"), waiting)
    bind = fed.bind()
    fed.feed.queue.done(bind.attempt)
    gated = changed(waiting)
    fed.put(replace(gated, metadata=replace(gated.metadata, labels={"app": "web"})))
    assert fed.step() is None
    assert not fed.waiting


def test_a_node_that_goes_takes_the_placement_along_and_brings_it_back() -> None:
    fed, waiting = Fed(), pod("a")
    fed.put(node("n1"), waiting)
    bind = fed.bind()
    fed.delete(node("n1"))
    assert fed.feed.stands(bind.ask, "n1") is None
    assert fed.placed == {}
    fed.put(node("n1"))
    assert fed.feed.stands(bind.ask, "n1") is not None
    assert fed.placed == {KEY: "n1"}


def test_a_pod_that_has_lost_its_node_by_a_restored_history_waits_again() -> None:
    fed, bound = Fed(), pod("a", on="n1")
    fed.put(node("n1"), bound)
    fed.put(changed(bound, node_name=""))
    assert fed.placed == {}
    assert fed.waiting == {KEY}


def test_a_waiting_pod_whose_status_changes_is_not_asked_about_anew() -> None:
    fed, waiting = Fed(), pod("a", cpu="100")
    fed.put(node("n1"), waiting)
    fed.nowhere()
    fed.put(changed(waiting))
    assert fed.feed.queue.where(KEY) is Where.UNSCHEDULABLE
    assert fed.queued == [("active", "UnschedulablePodAdd"), ("unschedulable", "ScheduleAttemptFailure")]


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]}}},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["many"]}]}]}}}},
        {"cpu": "a lot"},
    ],
)  # fmt: skip
def test_a_pod_that_cannot_be_understood_is_told_of_and_stops_nobody(spec: dict[str, object]) -> None:
    fed = Fed()
    fed.put(node("n1", cpu="2"), pod("bad", **spec), pod("good"))  # type: ignore[arg-type]
    decisions = [fed.step(), fed.step()]
    names = {type(decision).__name__: decision.ask.key for decision in decisions if decision is not None}
    assert names["Bind"] == "shop/good"
    assert "shop/bad" in names.values()
    assert fed.placed == {"shop/good": "n1"}


def test_a_bound_pod_whose_affinity_cannot_be_understood_still_takes_its_room() -> None:
    fed = Fed()
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}
    odd = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    fed.put(node("n1", cpu="1"), pod("a", on="n1", affinity=odd), pod("b"))
    assert fed.placed == {KEY: "n1"}
    fed.nowhere()


def test_a_namespace_that_changes_wakes_whom_affinity_kept_out() -> None:
    fed = Fed()
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {},
        "namespaceSelector": {"matchLabels": {"team": "red"}},
    }
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    elsewhere = pod("b", on="n1", metadata={"namespace": "bank"})
    fed.put(node("n1", labels={"kubernetes.io/hostname": "n1"}), elsewhere, pod("a", affinity=near))
    fed.nowhere()
    fed.core.put(NAMESPACES, Namespace(ObjectMeta(name="bank", labels={"team": "red"})))
    fed.clock.advance(5)
    assert fed.bind().node == "n1"


def test_without_nodes_a_pod_is_tried_again_as_soon_as_one_comes() -> None:
    fed = Fed()
    fed.put(pod("a"))
    assert fed.nowhere().message == "no nodes available to schedule pods"
    assert fed.feed.queue.where(KEY) is Where.UNSCHEDULABLE
    fed.put(node("n1"))
    assert fed.feed.queue.where(KEY) is not Where.UNSCHEDULABLE
    fed.clock.advance(3)
    assert fed.bind().node == "n1"


@pytest.mark.parametrize(
    ("happens", "told"),
    [
        (lambda fed: fed.put(node("n2", cpu="200")), "NodeAdd"),
        (lambda fed: fed.put(node("n1", cpu="200")), "NodeUpdateNodeAllocatable"),
        (lambda fed: fed.delete(fed.pods.get("shop/full")), "AssignedPodDelete"),
        (lambda fed: fed.put(pod("a", cpu="1")), "UnschedulablePodUpdate"),
        (lambda fed: fed.feed.queue.activate([KEY], 0.0), "ForceActivate"),
    ],
)
def test_what_brings_a_pod_back_into_a_queue_is_told_in_the_words_of_kube_scheduler(
    happens: Callable[[Fed], None], told: str
) -> None:
    fed = Fed()
    fed.put(node("n1"), pod("full", cpu="3", on="n1", priority=1), pod("a", cpu="4"))
    fed.nowhere()
    happens(fed)
    assert fed.queued[-1][1] == told
    assert fed.queued[-1][0] in ("active", "backoff")


def test_time_brings_pods_back_too() -> None:
    fed = Fed()
    fed.put(node("n1"), pod("a", cpu="100", nodeSelector={"for": "a"}))
    fed.nowhere()
    fed.put(node("n2"))
    assert fed.queued[-1] == ("backoff", "NodeAdd")
    fed.clock.advance(3)
    fed.feed.queue.tick(fed.clock.monotonic())
    assert fed.queued[-1] == ("active", "BackoffComplete")
    fed.nowhere()
    fed.clock.advance(400)
    fed.feed.queue.tick(fed.clock.monotonic())
    assert fed.queued[-1] == ("active", "UnschedulableTimeout")


def test_a_pod_that_goes_before_its_binding_is_heard_of_leaves_its_room_to_others() -> None:
    fed = Fed()
    first = pod("first", cpu="3")
    fed.put(node("n1"), first)
    fed.bind()
    fed.put(pod("second", cpu="3"))
    fed.nowhere()
    fed.delete(first)
    assert fed.feed.queue.where("shop/second") is not Where.UNSCHEDULABLE


def test_a_pod_that_somebody_else_bound_leaves_the_room_that_was_kept_for_it() -> None:
    fed = Fed()
    first = pod("first", cpu="3")
    fed.put(node("n1"), first)
    fed.bind()
    fed.put(node("n2"), pod("second", cpu="4", on="n2"), pod("third", cpu="3"))
    fed.nowhere()
    fed.put(changed(first, node_name="n2"))
    assert fed.feed.queue.where("shop/third") is not Where.UNSCHEDULABLE


def test_a_pod_whose_promised_node_went_away_has_room_made_elsewhere() -> None:
    fed = Fed()
    first = node("n1")
    fed.put(first, pod("victim", cpu="4", on="n1"), pod("high", cpu="4", priority=10))
    assert fed.nowhere().remedy.node == "n1"
    fed.put(pod("other", cpu="4", on="n2"), node("n2"))
    assert fed.nowhere().ask.key == "shop/high"
    fed.delete(first)
    assert fed.nowhere().remedy.node == "n2"


def test_drivers_get_the_current_objects_that_are_placed_like_pods_whatever_the_order_of_changes() -> None:
    core = Core(profiles_of(SHIPPED))
    first = reservation("night")
    successor = replace(first, metadata=replace(first.metadata, uid="another"))
    core.put(NODES, node("n1"))
    core.put(RESERVATIONS, first)
    assert core.objects(RESERVATIONS) == {"night": first}
    core.put(RESERVATIONS, successor)
    core.removed(RESERVATIONS, first)
    assert core.objects(RESERVATIONS) == {"night": successor}
    core.removed(RESERVATIONS, successor)
    assert core.objects(RESERVATIONS) == {}
    assert core.objects(NODES) == {}, "those are no objects of a plugin"
