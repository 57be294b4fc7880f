"""DefaultPreemption: worked cases, and against a plain reading of the rules on full clusters."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SchedulerProfile
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.policy import PodDisruptionBudget
from koord.api.machinery.codec import convert
from koord.api.text.timestamp import from_seconds
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.remedy import Remedy
from koord.scheduler.state.nominations import Nomination
from tests.scheduler.build import node, pod
from tests.scheduler.builders import recorded
from tests.scheduler.generate import random_scene
from tests.scheduler.preemption_scenes import Crowd, crowded
from tests.scheduler.reference.cluster import Cluster as Plain
from tests.scheduler.reference.preemption_rules import preempt, verdict
from tests.scheduler.world import engine_of

PROFILE = SchedulerProfile("default-scheduler")


def full(*pods: Pod, nodes: tuple[str, ...] = ("a", "b"), budgets: tuple[PodDisruptionBudget, ...] = ()) -> Engine:
    """Nodes of 4 cpu, and the pods on them."""
    engine = engine_of(Plain(nodes=tuple(node(name, cpu=4) for name in nodes), pods=pods), PROFILE)
    for budget in budgets:
        engine.cluster.put_budget(budget)
    return engine


def running(name: str, on: str, cpu: int, priority: int, *, minute: int | None = None, **more: Any) -> Pod:
    found = pod(name, on=on, requests={"cpu": cpu}, priority=priority, **more)
    if minute is None:
        return found
    status = {"phase": "Running", "startTime": from_seconds(60 * minute)}
    return convert(Pod, {"metadata": _plain(found.metadata), "spec": _plain(found.spec), "status": status})


def _plain(thing: Any) -> Any:
    return msgspec.to_builtins(thing)


def important(name: str = "important", cpu: int = 2, priority: int = 100, **more: Any) -> Ask:
    return Ask(pod(name, requests={"cpu": cpu}, priority=priority, **more))


def budget(app: str, allowed: int, disrupted: tuple[str, ...] = ()) -> PodDisruptionBudget:
    return convert(
        PodDisruptionBudget,
        {
            "metadata": {"name": f"for-{app}", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {
                "disruptionsAllowed": allowed,
                "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
            },
        },
    )


def test_the_least_important_pod_goes_and_only_as_many_as_needed() -> None:
    engine = full(running("high", "a", 2, 50), running("low", "a", 1, 1), running("lower", "a", 1, 0), nodes=("a",))
    assert engine.remedy(important(cpu=1)) == Remedy("a", ("default/lower",))
    assert engine.remedy(important(cpu=2)) == Remedy("a", ("default/low", "default/lower"))
    assert engine.remedy(important(cpu=3)) == Remedy("a", ("default/high", "default/lower"))
    assert engine.remedy(important(cpu=4)) == Remedy("a", ("default/high", "default/low", "default/lower"))


def test_pods_of_the_same_priority_stay() -> None:
    engine = full(running("same", "a", 4, 100), running("low", "b", 1, 5), running("equal", "b", 3, 100))
    assert engine.remedy(important(cpu=2)).message == (
        "preemption: 0/2 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod."
    )


def test_a_pod_that_no_node_could_hold_has_no_victims() -> None:
    engine = full(running("low", "a", 4, 0))
    assert engine.remedy(important(cpu=5)) == Remedy(
        message="preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.", clears=True
    )


def test_a_pod_may_be_told_never_to_preempt() -> None:
    engine = full(running("low", "a", 4, 0), nodes=("a",))
    never = important(preemptionPolicy="Never")
    assert engine.remedy(never) == Remedy(message="preemption: not eligible due to preemptionPolicy=Never.")


CHOICES = {
    "fewest violations of budgets": (
        [running("a1", "a", 4, 1, labels={"app": "kept"}), running("b1", "b", 4, 50)],
        "b",
    ),
    "the lowest highest priority": (
        [running("a1", "a", 2, 10), running("a2", "a", 2, 1), running("b1", "b", 2, 9), running("b2", "b", 2, 9)],
        "b",
    ),
    "the lowest sum of priorities": (
        [running("a1", "a", 2, 10), running("a2", "a", 2, 5), running("b1", "b", 2, 10), running("b2", "b", 2, 4)],
        "b",
    ),
    "the fewest victims": (
        # All made positive, a negative priority does not make up for another victim.
        [running("a1", "a", 2, -1), running("a2", "a", 2, -1), running("b1", "b", 4, -1)],
        "b",
    ),
    "the latest start of the oldest among the most important": (
        [
            running("a1", "a", 2, 5, minute=1),
            running("a2", "a", 2, 5, minute=9),
            running("b1", "b", 2, 5, minute=2),
            running("b2", "b", 2, 5, minute=3),
        ],
        "b",
    ),
}


@pytest.mark.parametrize("rule", CHOICES)
def test_a_node_is_chosen_by(rule: str) -> None:
    pods, expected = CHOICES[rule]
    for name in ("x", "y", "z"):
        remedy = full(*pods, budgets=(budget("kept", 0),)).remedy(important(name, cpu=4))
        assert remedy.node == expected
        assert set(remedy.victims) == {pod.metadata.key for pod in pods if pod.spec.node_name == expected}


def test_pods_of_a_budget_are_let_stay_first_however_unimportant() -> None:
    kept = running("kept", "a", 2, 0, labels={"app": "kept"})
    engine = full(kept, running("other", "a", 2, 50), nodes=("a",), budgets=(budget("kept", 0),))
    assert engine.remedy(important()).victims == ("default/other",)
    engine.cluster.put_budget(budget("kept", 1))
    assert engine.remedy(important()).victims == ("default/kept",)
    engine.cluster.put_budget(budget("kept", 0, disrupted=("kept",)))
    assert engine.remedy(important()).victims == ("default/kept",)
    engine.cluster.put_budget(budget("kept", 0))
    engine.cluster.remove_budget("default", "for-kept")
    assert engine.remedy(important()).victims == ("default/kept",)


def test_of_equally_important_pods_the_youngest_goes() -> None:
    pods = [running(f"p{minute}", "a", 2, 0, minute=minute) for minute in (5, 7)]
    assert full(*pods, nodes=("a",)).remedy(important()).victims == ("default/p7",)


def test_a_pod_that_shuns_another_has_it_go() -> None:
    shunned = running("shunned", "a", 1, 0, labels={"app": "x"})
    engine = full(shunned, running("beside", "a", 1, 0), nodes=("a",))
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    ask = important(cpu=1, affinity=anti)
    assert engine.place(ask).node is None
    assert engine.remedy(ask) == Remedy("a", ("default/shunned",))


def test_a_pod_whose_victims_are_going_waits_for_them() -> None:
    engine = full(running("low", "a", 4, 0), nodes=("a",))
    ask = important()
    remedy = engine.remedy(ask)
    engine.nominate(ask, remedy)
    again = engine.remedy(ask)
    assert again == Remedy(message="preemption: not eligible due to a terminating pod on the nominated node.")
    engine.cluster.remove_pod("default/low")
    assert engine.place(ask).node == "a"
    assert len(engine.cluster.nominations) == 0


def test_a_new_pod_of_the_name_of_a_victim_is_not_waited_for() -> None:
    engine = full(running("low", "a", 4, 0), nodes=("a",))
    ask = important()
    engine.nominate(ask, engine.remedy(ask))
    record, row = engine.cluster.pods["default/low"]
    engine.cluster.remove_pod("default/low")
    engine.cluster.place(replace(record, uid="another"), row)
    assert engine.place(ask).node is None
    assert engine.remedy(ask) == Remedy("a", ("default/low",))


def test_a_pod_that_goes_for_another_is_waited_for_after_a_restart() -> None:
    """Then only the pods themselves tell."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    going = pod("low", on="a", requests={"cpu": 4}, priority=0, deleted=True, conditions=[condition])
    engine = full(going, running("other", "b", 4, 0))
    plain = important()
    nominated = Ask(convert(Pod, {**_plain(plain.pod), "status": {"nominatedNodeName": "a"}}))
    assert engine.remedy(nominated).node is None
    assert engine.remedy(plain).node is not None


def test_room_that_was_promised_is_taken_by_nobody_of_the_same_or_a_lower_priority() -> None:
    engine = full(running("low", "a", 4, 0), nodes=("a",))
    ask = important(cpu=3)
    engine.nominate(ask, engine.remedy(ask))
    engine.cluster.remove_pod("default/low")
    assert engine.place(important("equal", cpu=2)).node is None
    assert engine.place(important("lower", cpu=2, priority=0)).rejections == {"Insufficient cpu": 1}
    assert engine.place(important("small", cpu=1, priority=0)).node == "a"
    assert engine.place(ask).node == "a"


def test_a_more_important_pod_takes_promised_room_and_the_promise() -> None:
    engine = full(running("low", "a", 4, 0), nodes=("a",))
    first, second = important(cpu=3), important("second", cpu=3, priority=200)
    assert engine.nominate(first, engine.remedy(first)) == ()
    assert engine.remedy(second) == Remedy("a", ("default/low",))
    assert engine.nominate(second, engine.remedy(second)) == ("default/important",)
    engine.cluster.remove_pod("default/low")
    assert engine.place(first).node is None
    assert engine.place(second).node == "a"


def test_a_port_that_was_promised_is_taken_by_nobody() -> None:
    ports = [{"hostPort": 80, "containerPort": 80}]
    low = running("low", "a", 1, 0, ports=ports)
    engine = full(low, nodes=("a",))
    ask = important(cpu=1, ports=ports)
    engine.nominate(ask, engine.remedy(ask))
    engine.cluster.remove_pod("default/low")
    other = important("other", cpu=1, priority=0, ports=ports)
    placement = engine.place(other)
    assert placement.rejections == {"node(s) didn't have free ports for the requested pod ports": 1}
    assert engine.place(important("third", cpu=1, priority=0)).node == "a"
    assert engine.place(ask).node == "a"


def test_a_promise_ends_with_its_node() -> None:
    engine = full(running("low", "a", 4, 0))
    engine.cluster.nominations.put(Nomination(important().record(), engine.cluster.table.row_of["a"]))
    engine.cluster.remove_node("a")
    assert len(engine.cluster.nominations) == 0


def engine_with(crowd: Crowd, seed: int = 0) -> Engine:
    engine = engine_of(crowd.cluster(), PROFILE, seed=seed)
    for budget_ in crowd.disruption_budgets():
        engine.cluster.put_budget(budget_)
    for each in crowd.pods():
        node = crowd.nominated.get(each.metadata.key)
        if node is not None:
            engine.cluster.nominations.put(
                Nomination(recorded(engine.cluster, Ask(each)), engine.cluster.table.row_of[node])
            )
    return engine


def assert_as_the_rules_say(crowd: Crowd) -> int:
    """How many pods were helped."""
    engine, plain, helped = engine_with(crowd), crowd.cluster(), 0
    before = {name: column.tobytes() for name, column in engine.cluster.table.columns.items()}
    pods = crowd.pods()
    promised = [(pod, node) for pod in pods if (node := crowd.nominated.get(pod.metadata.key))]
    for waiting in pods:
        ask = Ask(waiting)
        others = [(pod, node) for pod, node in promised if pod.metadata.key != ask.key]
        if any(verdict(waiting, node.metadata.name, plain, PROFILE, others) for node in plain.nodes):
            continue
        assert engine.place(ask).node is None
        remedy = engine.remedy(ask)
        if waiting.spec.preemption_policy == "Never":
            assert remedy.node is None
            continue
        expected = preempt(waiting, plain, PROFILE, crowd.disruption_budgets(), others)
        # A port or a term of a promised pod may be the first reason where amounts are told.
        if not crowd.nominated:
            assert remedy.message == expected.message
        if expected.best:
            assert remedy.node in expected.best
            assert remedy.victims == expected.candidates[remedy.node].keys
            helped += 1
        else:
            assert remedy.node is None
        assert {name: engine.cluster.table.columns[name].tobytes() for name in before} == before
    return helped


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_victims_by_amounts_are_those_of_the_rules(seed: int) -> None:
    assert_as_the_rules_say(crowded(seed, plain=True))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_victims_are_those_of_the_rules(seed: int, nominations: bool) -> None:
    assert_as_the_rules_say(crowded(seed, nominations=nominations))


def test_the_random_clusters_have_pods_to_help() -> None:
    assert sum(assert_as_the_rules_say(crowded(seed)) for seed in range(10)) >= 5


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_decide_evict_and_bind_come_to_rest(seed: int, plain: bool) -> None:
    """No pod goes in vain: the pod that preempted gets the place. And after some rounds no pod moves any more."""
    crowd = crowded(seed, plain=plain)
    engine = engine_with(crowd)
    waiting = {pod.metadata.key: Ask(pod) for pod in crowd.pods()}
    rounds = 0
    while waiting:
        changed = False
        for key, ask in sorted(waiting.items(), key=lambda item: (-item[1].priority, item[0])):
            if engine.place(ask).node is not None:
                del waiting[key]
                changed = True
                continue
            remedy = engine.remedy(ask)
            engine.nominate(ask, remedy)
            if remedy.node is None:
                continue
            assert remedy.victims
            for victim in remedy.victims:
                assert engine.cluster.pods[victim][0].priority < ask.priority
                engine.cluster.remove_pod(victim)
            assert engine.place(ask).node == remedy.node
            del waiting[key]
            changed = True
        rounds += 1
        assert rounds <= 2 + len(crowd.pending)
        if not changed:
            break
    assert len(engine.cluster.nominations) == 0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_victims_are_those_of_the_rules_where_anything_decides(seed: int) -> None:
    """Volumes, images, extended resources and profiles of all kinds: the usual random clusters, with important pods."""
    scene = random_scene(seed, stock=True)
    plain = scene.cluster()
    engine = engine_of(plain, scene.profile)
    for waiting in scene.pods():
        waiting = replace(waiting, spec=replace(waiting.spec, priority=9_500))
        if any(verdict(waiting, node.metadata.name, plain, scene.profile, ()) for node in plain.nodes):
            continue
        remedy, expected = engine.remedy(Ask(waiting)), preempt(waiting, plain, scene.profile)
        assert remedy.message == expected.message
        if expected.best:
            assert remedy.node in expected.best
            assert remedy.victims == expected.candidates[str(remedy.node)].keys
