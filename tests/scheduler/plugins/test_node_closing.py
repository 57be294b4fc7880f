"""NodeClosing: at which usage a node is closed to a band, for how long an eviction counts, and which pods are woken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord.api.configuration.scheduler_config import SHIPPED, parse
from koord.api.configuration.thresholds import COOL_DOWN_S
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_slo import NodeSLO
from koord.api.text.timestamp import from_seconds
from koord.scheduler.core.events import load_event, node_event
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.plugins.node_closing import REPORT_COUNTS_S, NodeClosing
from koord.scheduler.profiles import profiles_of
from koord.scheduler.smallest import ways
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.build import NOW_S, metric, node, pod
from tests.scheduler.builders import helps
from tests.scheduler.plugins.against_reference import verdicts

LAST_EVICTIONS = "node.koordinator.sh/last-evictions"
PRIORITIES = {"prod": 9500, "mid": 7500, "batch": 5500, "free": 3500}
BUSY = ("node(s) hold batch pods back for too much cpu usage",)
FULL = ("node(s) hold batch pods back for too much memory usage",)
EVICTED = ("node(s) evicted batch pods a short time ago",)


def slo(name: str = "n", **strategy: Any) -> NodeSLO:
    threshold = {"enable": True, "cpuSuppressThresholdPercent": 65, "memoryEvictThresholdPercent": 70, **strategy}
    return convert(NodeSLO, {"metadata": {"name": name}, "spec": {"resourceUsedThresholdWithBE": threshold}})


def evicting(seconds_ago: float = 0.0, band: str = "koord-batch", name: str = "n") -> Node:
    said = {band: from_seconds(NOW_S - seconds_ago)}
    return node(name, annotations={LAST_EVICTIONS: json.dumps(said)})


def wanted(band: str = "batch") -> Pod:
    return pod("p", priority=PRIORITIES[band])


class World:
    """A node `n` of 64 cores and 256Gi, and the plugin alone."""

    def __init__(self, first: Node | None = None) -> None:
        self.cluster = Cluster()
        self.cluster.now_s = NOW_S
        self.cluster.put_node(first or node("n"))
        self.plugin = NodeClosing()
        self.engine = Engine(self.cluster, Profile("s", (self.plugin,), {}))

    def reports(self, cpu: str = "0", memory: str = "0", age_s: float = 0) -> None:
        self.plugin.put_node_metric(metric("n", usage={"cpu": cpu, "memory": memory}, age_s=age_s))

    def verdict(self, band: str = "batch", after_s: float = 0) -> tuple[str, ...]:
        self.cluster.now_s = NOW_S + after_s
        return verdicts(self.engine, wanted(band))["n"]


@pytest.mark.parametrize(
    ("cpu", "memory", "verdict"),
    [
        ("41599m", "0", ()),  # below 65% of 64 cores, which is 41.6
        ("41600m", "0", BUSY),
        ("64", "0", BUSY),
        ("0", "174Gi", ()),  # 67.97% of 256Gi; evicting at 70 goes down to 68
        ("0", "175Gi", FULL),
        ("64", "256Gi", ("node(s) hold batch pods back for too much cpu and memory usage",)),
    ],
)
def test_a_node_is_closed_to_batch_from_the_lowest_rung_on(cpu: str, memory: str, verdict: tuple[str, ...]) -> None:
    world = World()
    world.plugin.put_node_slo(slo())
    world.reports(cpu, memory)
    assert world.verdict() == verdict


def test_only_the_bands_that_are_held_back_are_closed_out() -> None:
    world = World()
    world.plugin.put_node_slo(slo())
    world.reports("64", "256Gi")
    assert world.verdict("prod") == world.verdict("mid") == ()
    assert world.verdict("free") == ("node(s) hold free pods back for too much cpu and memory usage",)
    world.plugin.put_node_slo(
        slo(cpuEvictThresholdPercent=90, cpuEvictLowerPercent=80, evictEnabledPriorityThreshold=7999)
    )
    assert world.verdict("mid") == ("node(s) hold mid pods back for too much cpu and memory usage",)
    assert world.verdict("prod") == ()


def test_an_agent_that_does_nothing_closes_nothing() -> None:
    world = World()
    world.reports("64", "256Gi")
    assert world.verdict() == ()
    world.plugin.put_node_slo(slo(enable=False))
    assert world.verdict() == ()
    world.plugin.put_node_slo(slo())
    assert world.verdict() != ()
    world.plugin.remove_node_slo("n")
    assert world.verdict() == ()


def test_an_old_report_closes_nothing_and_time_alone_makes_it_old() -> None:
    world = World()
    world.plugin.put_node_slo(slo())
    world.reports("64")
    assert world.verdict(after_s=REPORT_COUNTS_S - 1) == BUSY
    assert world.verdict(after_s=REPORT_COUNTS_S) == ()
    world.plugin.remove_node_metric("n")
    assert world.verdict() == ()


def test_a_node_that_evicted_is_closed_to_that_band_for_the_cool_down() -> None:
    world = World(evicting(seconds_ago=100))
    assert world.verdict() == EVICTED
    assert world.verdict("free") == world.verdict("prod") == ()
    assert world.verdict(after_s=COOL_DOWN_S - 101) == EVICTED
    assert world.verdict(after_s=COOL_DOWN_S - 100) == ()


@pytest.mark.parametrize("skew_s", [-3600, 0, 3600])
def test_an_eviction_that_is_heard_of_counts_from_then_whatever_the_nodes_clock_says(skew_s: float) -> None:
    world = World()
    world.cluster.put_node(evicting(seconds_ago=skew_s))
    assert world.verdict() == EVICTED
    assert world.verdict(after_s=COOL_DOWN_S - 1) == EVICTED
    assert world.verdict(after_s=COOL_DOWN_S) == ()


def test_another_change_of_the_node_does_not_prolong_it() -> None:
    world = World(evicting(seconds_ago=10))
    world.cluster.now_s = NOW_S + 200
    world.cluster.put_node(node("n", annotations=dict(evicting(10).metadata.annotations), labels={"a": "b"}))
    assert world.verdict(after_s=COOL_DOWN_S - 10) == ()


@pytest.mark.parametrize("text", ["", "{", '{"koord-batch": "yesterday"}', '{"koord-other": "2027-01-15T08:00:00Z"}'])
def test_what_cannot_be_understood_closes_nothing(text: str) -> None:
    world = World(node("n", annotations={LAST_EVICTIONS: text}))
    assert world.verdict() == ()


def test_only_a_node_that_is_open_then_wakes_who_was_turned_away() -> None:
    world = World(evicting())
    world.plugin.put_node_slo(slo())
    ask, cluster = Ask(wanted()), world.cluster
    world.engine.place(ask)
    assert not helps(world.plugin, ask, load_event(None, metric("n", usage={})), cluster)
    cluster.now_s = NOW_S + COOL_DOWN_S
    assert helps(world.plugin, ask, load_event(None, metric("n", usage={})), cluster)
    world.plugin.put_node_metric(metric("n", usage={"cpu": "64"}, age_s=-COOL_DOWN_S))
    assert not helps(world.plugin, ask, load_event(None, metric("n", usage={})), cluster)
    cluster.put_node(node("m"))
    came = node_event(None, node("m"))
    assert came is not None
    assert helps(world.plugin, ask, came, cluster)


def test_an_explanation_says_what_to_wait_for() -> None:
    world = World(evicting(seconds_ago=100))
    world.plugin.put_node_slo(slo())
    world.reports("50")
    (way,) = ways(world.engine, Ask(wanted()))
    assert way.sentence == (
        "It would fit on n with cpu usage below 65% there (it is 78%) and 200 s more since it evicted pods."
    )
    assert world.verdict() == EVICTED


def test_it_comes_with_the_look_at_the_load_unless_switched_off() -> None:
    def names(config: Any) -> list[str]:
        (profile,) = profiles_of(config).profiles.values()
        return [plugin.name for plugin in profile.plugins]

    assert "NodeClosing" in names(SHIPPED)
    assert "NodeClosing" not in names(parse({}))
    look: dict[str, Any] = {"enabled": [{"name": "LoadAwareScheduling"}]}
    assert "NodeClosing" in names(parse({"profiles": [{"plugins": {"filter": look}}]}))
    off = {**look, "disabled": [{"name": "NodeClosing"}]}
    assert "NodeClosing" not in names(parse({"profiles": [{"plugins": {"filter": off}}]}))


def of_owner(name: str, uid: str) -> Pod:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": uid, "uid": uid, "controller": True}
    metadata = {"name": name, "namespace": "default", "ownerReferences": [owner]}
    return convert(Pod, {"metadata": metadata, "spec": {"priority": 9500, "containers": [{"name": "c"}]}})


def moved_from(uid: str, seconds_ago: float = 0.0) -> Node:
    return node("n", annotations={LAST_EVICTIONS: json.dumps({f"owner/{uid}": from_seconds(NOW_S - seconds_ago)})})


MOVED_AWAY = ("node(s) had a pod of the same owner moved away a short time ago",)


@pytest.mark.parametrize(
    ("uid", "seconds_ago", "verdict"),
    [("web", 0.0, MOVED_AWAY), ("web", COOL_DOWN_S - 1, MOVED_AWAY), ("web", COOL_DOWN_S, ()), ("api", 0.0, ())],
)
def test_no_replica_comes_back_to_where_its_sibling_was_moved_from(
    uid: str, seconds_ago: float, verdict: tuple[str, ...]
) -> None:
    world = World(moved_from("web", seconds_ago))
    assert verdicts(world.engine, of_owner("p", uid))["n"] == verdict


def test_news_of_a_move_closes_a_node_at_once_and_time_opens_it() -> None:
    world = World()
    assert verdicts(world.engine, of_owner("p", "web"))["n"] == ()
    world.cluster.put_node(moved_from("web"))
    assert verdicts(world.engine, of_owner("p", "web"))["n"] == MOVED_AWAY
    assert verdicts(world.engine, of_owner("q", "api"))["n"] == ()
    world.cluster.now_s = NOW_S + COOL_DOWN_S
    assert verdicts(world.engine, of_owner("p", "web"))["n"] == ()
    world.cluster.put_node(node("n"))
    assert verdicts(world.engine, of_owner("p", "web"))["n"] == ()
