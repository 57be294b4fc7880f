"""A pod that waits is tried again when something could help, and only then."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SchedulerConfiguration, parse
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.storage import PersistentVolumeClaim
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.scheduler.core.entity import Entity, Where
from koord.scheduler.core.events import load_event, node_event, pod_event, storage_event
from koord.scheduler.core.queue import ClusterEvent, Queue
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.profiles import profiles_of
from koord.scheduler.state.table import Reason
from koord_chaos.stories.dice import Dice
from tests.scheduler import generate
from tests.scheduler.build import node, pod
from tests.scheduler.generate import Sizes
from tests.scheduler.story import Story


def reasons(event: ClusterEvent | None) -> Reason:
    return Reason(0) if event is None else Reason(event.reasons)


WAITING = pod("p", requests={"cpu": "2"})
THERE = pod("p", on="n", requests={"cpu": "2"})
LIMITED = pod("p", on="n", requests={"cpu": "2"}, limits={"cpu": "4"})


def noted(pod: Pod, key: str) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, annotations={key: "{}"}))


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        (None, WAITING, Reason(0)),
        (WAITING, None, Reason(0)),
        (WAITING, THERE, Reason.PODS),
        (None, THERE, Reason.PODS),
        (THERE, None, Reason.PODS | Reason.FREED),
        (THERE, pod("p", on="n", requests={"cpu": "2"}, phase="Succeeded"), Reason.PODS | Reason.FREED),
        (THERE, THERE, Reason(0)),
        (THERE, pod("p", on="n", requests={"cpu": "2"}, labels={"a": "b"}), Reason.PODS),
        (THERE, pod("p", on="n", requests={"cpu": "2"}, deleted=True), Reason.PODS),
        (THERE, pod("p", on="n", requests={"cpu": "1"}), Reason.FREED),
        (THERE, pod("p", on="n", requests={"cpu": "3"}), Reason(0)),
        (LIMITED, THERE, Reason.FREED),
        (THERE, LIMITED, Reason(0)),
        (THERE, replace(THERE, metadata=replace(THERE.metadata, uid="another")), Reason.FREED),
        (pod("p", on="n", ports=[{"hostPort": 80}]), pod("p", on="n"), Reason.FREED),
        (noted(THERE, "scheduling.koordinator.sh/device-allocated"), THERE, Reason.FREED),
        (noted(THERE, "cni.example.com/address"), THERE, Reason(0)),
    ],
)
def test_a_pod_helps_by_coming_near_and_by_leaving_room(old: Pod | None, new: Pod | None, wanted: Reason) -> None:
    assert reasons(pod_event(old, new)) == wanted


RESERVES = {"node.koordinator.sh/reservation": '{"resources": {"cpu": "4"}}'}


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        (None, node("n"), Reason.NODE),
        (node("n"), None, Reason.LABELS),
        (node("n"), node("n"), Reason(0)),
        (node("n", cpu=8), node("n", cpu=9), Reason.ALLOCATABLE),
        (node("n", cpu=8), node("n", cpu=7), Reason(0)),
        (node("n"), node("n", more={"example.com/gpu": 1}), Reason.ALLOCATABLE),
        (node("n", annotations=RESERVES), node("n"), Reason.ALLOCATABLE | Reason.LOAD),
        (node("n"), node("n", annotations=RESERVES), Reason.LOAD),
        (node("n"), node("n", labels={"zone": "a"}), Reason.LABELS),
        (node("n", taints=[{"key": "k", "effect": "NoSchedule"}]), node("n"), Reason.TAINTS),
        (node("n", unschedulable=True), node("n"), Reason.UNSCHEDULABLE),
        (node("n"), node("n", unschedulable=True), Reason(0)),
    ],
)
def test_a_node_helps_by_what_it_gains(old: Node | None, new: Node | None, wanted: Reason) -> None:
    assert reasons(node_event(old, new)) == wanted


def waiting(by: str) -> Queue:
    """A queue of the default profile with one pod, which a plugin has turned away."""
    queue = profiles_of(parse({})).queue()
    queue.put(Entity("p", ()), 0.0)
    attempt = queue.pop(0.0)
    assert attempt is not None
    queue.rejected(attempt, [by], 0.0)
    return queue


CLAIM = convert(PersistentVolumeClaim, {"metadata": {"name": "c", "namespace": "default"}})
EVENTS: dict[str, ClusterEvent | None] = {
    "a pod is bound": pod_event(WAITING, THERE),
    "a pod ends": pod_event(THERE, None),
    "a node comes": node_event(None, node("n")),
    "a node grows": node_event(node("n", cpu=8), node("n", cpu=9)),
    "a label": node_event(node("n"), node("n", labels={"zone": "a"})),
    "a taint": node_event(node("n", taints=[{"key": "k", "effect": "NoSchedule"}]), node("n")),
    "a cordon is lifted": node_event(node("n", unschedulable=True), node("n")),
    "a claim": storage_event(None, CLAIM),
    "a report": load_event(None, NodeMetric(ObjectMeta(name="n"))),
}
HELPS: dict[str, set[str]] = {
    "NodeResourcesFit": {"a pod ends", "a node comes", "a node grows"},
    "NodePorts": {"a pod ends", "a node comes"},
    "NodeAffinity": {"a node comes", "a label"},
    "TaintToleration": {"a node comes", "a taint"},
    "NodeUnschedulable": {"a node comes", "a cordon is lifted"},
    "NodeName": {"a node comes"},
    "InterPodAffinity": {"a pod is bound", "a pod ends", "a node comes", "a label"},
    "PodTopologySpread": {"a pod is bound", "a pod ends", "a node comes", "a label", "a taint"},
    "VolumeBinding": {"a pod ends", "a node comes", "a label", "a claim"},
    "VolumeZone": {"a node comes", "a label", "a claim"},
    "VolumeRestrictions": {"a pod ends", "a node comes", "a claim"},
    "NodeVolumeLimits": {"a pod is bound", "a pod ends", "a node comes", "a claim"},
}


@pytest.mark.parametrize("plugin", HELPS)
def test_a_pod_waits_for_what_could_change_the_mind_of_who_turned_it_away(plugin: str) -> None:
    woke = set()
    for name, event in EVENTS.items():
        queue = waiting(plugin)
        assert event is not None
        queue.happened(event, 100.0)
        if queue.where("p") is not Where.UNSCHEDULABLE:
            woke.add(name)
    assert woke == HELPS[plugin]


FEW_NODES = Sizes(nodes=(1, 3), placed=(0, 12), pending=(4, 8))
"""So that many pods find no place, and one event decides."""


@settings(max_examples=15)
@given(st.integers(0, 2**32))
@example(1274260).via("a pod brings volumes to a full node, where others then find them attached")
@example(1274440).via("the same, where no other plugin turns the pod away")
@example(675332815).via("the limit of a pod falls, and with it what it is taken to use")
@example(313202494).via("a pod gives up its ports")
def test_no_pod_that_could_be_placed_is_left_among_the_unschedulable(seed: int) -> None:
    """Whatever happens, but for time, owners and namespaces, which send no event: there the sweep helps."""
    story = Story(generate._scene(Dice(seed), FEW_NODES, stock=False), Dice(seed ^ 0x5EED), heard_of_only=True)
    queue = profiles_of(SchedulerConfiguration(profiles=(story.profile,))).queue(story.engine.cluster)
    now_s = 0.0
    asks = [Ask(pod) for pod in story.asked]
    for ask in asks:
        queue.put(Entity.of(ask), now_s)
    for i in range(60):
        now_s += 20.0
        if i % 6 == 0:
            asks.append(Ask(story.new_pod()))
            queue.put(Entity.of(asks[-1]), now_s)
        try_all(story.engine, queue, now_s)
        before = len(story.heard)
        story.event()
        for event in story.heard[before:]:
            queue.happened(event, now_s)
        for ask in asks:
            if story.engine.class_of(ask).best() is not None:
                assert queue.where(ask.key) is not Where.UNSCHEDULABLE, (ask.key, story.heard[before:])


def try_all(engine: Engine, queue: Queue, now_s: float) -> None:
    """All ready pods are tried. A pod that could be placed comes back at once: this is about the others."""
    placeable = []
    while (attempt := queue.pop(now_s)) is not None:
        (ask,) = attempt.entity.pods
        pod_class = engine.class_of(ask)
        if pod_class.best() is None:
            queue.rejected(attempt, pod_class.why_not(), now_s)
        else:
            queue.done(attempt)
            placeable.append(attempt.entity)
    for entity in placeable:
        queue.put(entity, now_s)
