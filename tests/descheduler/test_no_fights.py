"""Descheduler and scheduler together: with constant load everything comes to rest, and no pod goes back and forth."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.configuration.scheduler_config import parse as parse_scheduler
from koord.api.configuration.thresholds import COOL_DOWN_S
from koord.api.kinds import NODE_METRICS, NODES, PODS
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.text.timestamp import from_seconds
from koord.descheduler.cooling import note_of_move
from koord.descheduler.places import Places
from koord.descheduler.round import Outcome, run
from koord.descheduler.sight import Sight
from koord.descheduler.workloads import workloads_of
from koord.scheduler.core.core import Core
from koord.scheduler.core.moment import Moment
from koord.scheduler.framework.ask import Ask
from koord.scheduler.profiles import profiles_of
from tests.descheduler.build import NOW_S, config, deployment, metric, node, pod

INTERVAL_S = 60.0
MARKS = {
    "lowThresholds": {"cpu": 45},
    "highThresholds": {"cpu": 75},
    "anomalyCondition": {"consecutiveAbnormalities": 1},
}
SLOWLY = {"maxMigratingPerNode": 2, "maxMigratingPerWorkload": 3, "maxUnavailablePerWorkload": 3}
SCHEDULER = parse_scheduler(
    {
        "profiles": [
            {
                "schedulerName": "koord-scheduler",
                "plugins": {"multiPoint": {"enabled": [{"name": "LoadAwareScheduling"}]}},
                "pluginConfig": [{"name": "LoadAwareScheduling", "args": {"usageThresholds": {"cpu": 65}}}],
            }
        ]
    }
)


class Story:
    """Some nodes of 16 cores; every pod uses what it uses, wherever it runs."""

    def __init__(self, nodes: int, pods: dict[str, tuple[str, float, str]]) -> None:
        """`pods`: by name, node, cores that it uses, and its Deployment."""
        self.now_s = NOW_S
        self.core = Core(profiles_of(SCHEDULER), seed=0, alone=True, now=Moment(NOW_S, NOW_S))
        self.nodes: dict[str, Node] = {f"n{i}": node(f"n{i}", cpu=16, memory_gi=64) for i in range(nodes)}
        self.uses = {name: cores for name, (_, cores, _) in pods.items()}
        self.pods = {name: pod(name, on, owner=f"Deployment {owner}") for name, (on, _, owner) in pods.items()}
        self.owners = sorted({owner for _, _, owner in pods.values()})
        for each in self.nodes.values():
            self.core.put(NODES, each)
        for running in self.pods.values():
            self.core.put(PODS, running)
        self.memory: Any = None
        self.takes_long = False
        "Pods take so long to end that agents report without them before their replicas are placed."
        self.left: list[tuple[float, str, str]] = []
        "When a pod left a node, by owner and node."

    def usage(self, name: str) -> float:
        return 1.0 + sum(self.uses[each] for each, running in self.pods.items() if running.spec.node_name == name)

    def round(self) -> Outcome:
        """Agents report, the descheduler moves, and the scheduler finds places for what is made again."""
        self.now_s += INTERVAL_S
        self.core.at(Moment(self.now_s, self.now_s))
        pods_on: dict[str, list[Pod]] = {}
        for running in self.pods.values():
            pods_on.setdefault(running.spec.node_name, []).append(running)
        reports = self.report()
        workloads = workloads_of([each for owner in self.owners for each in deployment(owner, 10)], self.pods.values())
        places = Places(self.core.cluster, self.core.feed.engine_of)
        sight = Sight(self.now_s, self.nodes, pods_on, reports, workloads, places)
        outcome = run(config(MARKS, SLOWLY), sight, self.memory)
        self.memory = outcome.memory
        for move in outcome.moves:
            self.replace(move.pod, move.by)
        return outcome

    def report(self, without: str = "") -> dict[str, NodeMetric]:
        found = {}
        for name in self.nodes:
            here = [each for each, running in self.pods.items() if running.spec.node_name == name and each != without]
            found[name] = metric(name, (1.0, 4.0), {each: (self.uses[each], 1.0) for each in here}, at_s=self.now_s)
            self.core.put(NODE_METRICS, found[name])
        return found

    def replace(self, gone: Pod, by: str) -> None:
        name, old = gone.metadata.name, gone.spec.node_name
        said = note_of_move(self.nodes[old], gone, by, self.now_s)
        assert said is not None
        before = self.nodes[old]
        annotations = {**before.metadata.annotations, **said}
        self.nodes[old] = replace(before, metadata=replace(before.metadata, annotations=annotations))
        self.core.put(NODES, self.nodes[old])
        self.core.removed(PODS, gone)
        if self.takes_long:
            self.report(without=name)
        meta = replace(gone.metadata, creation_timestamp=from_seconds(self.now_s))
        fresh = replace(gone, metadata=meta, spec=replace(gone.spec, node_name=""))
        engine = self.core.feed.engine_of(Ask(fresh))
        assert engine is not None
        found = engine.place(Ask(fresh)).node
        owner = gone.metadata.controller
        assert owner is not None
        for at_s, uid, where in self.left:
            assert (uid, where) != (owner.uid, found) or self.now_s - at_s >= COOL_DOWN_S, "a sibling just left there"
        assert found != old, "a sibling just left there"
        self.left.append((self.now_s, owner.uid, old))
        if found is None:
            del self.pods[name]
        else:
            self.pods[name] = replace(fresh, spec=replace(fresh.spec, node_name=found))


def test_a_hot_node_cools_down_below_its_mark_and_then_nothing_moves() -> None:
    pods = {f"p{i}": ("n0", 2.0, f"web{i % 2}") for i in range(7)} | {"q": ("n1", 1.0, "web0")}
    story = Story(4, pods)
    moves = [len(story.round().moves) for _ in range(12)]
    assert sum(moves) > 0
    assert moves[-6:] == [0] * 6
    assert len(story.pods) == len(pods)
    assert all(story.usage(name) <= 12.0 for name in story.nodes)


@settings(max_examples=12, deadline=None, derandomize=True, phases=[Phase.generate])
@given(st.data())
def test_with_constant_load_everything_comes_to_rest(data: st.DataObject) -> None:
    """Pods use what they ask for or less, or more than that by half."""
    nodes = data.draw(st.integers(3, 5))
    pods = {}
    for i in range(data.draw(st.integers(4, 16))):
        on = f"n{data.draw(st.integers(0, 1))}"
        pods[f"p{i}"] = (on, data.draw(st.sampled_from([0.25, 0.5, 1.0, 1.5])), f"web{i % 3}")
    story = Story(nodes, pods)
    moves = [len(story.round().moves) for _ in range(30)]
    assert moves[-8:] == [0] * 8
    assert sum(moves) <= len(pods), "no pod moves twice"


def test_what_a_node_says_names_the_owner_and_where_it_was_hot_the_band() -> None:
    running = pod("p", "n")
    said = note_of_move(node("n"), running, "LowNodeLoad", NOW_S)
    assert said is not None
    (text,) = said.values()
    assert json.loads(text) == {"owner/replicaset-web": from_seconds(NOW_S), "koord-prod": from_seconds(NOW_S)}
    told = node("n", annotations=said)
    later = note_of_move(told, pod("q", "n", owner="Job x"), "RemoveDuplicates", NOW_S + COOL_DOWN_S)
    assert later is not None
    (text,) = later.values()
    assert json.loads(text) == {"koord-prod": from_seconds(NOW_S), "owner/job-x": from_seconds(NOW_S + COOL_DOWN_S)}


def tempting() -> Story:
    """n0 is hot by half a core. Without `big`, which uses four times what it asks for, it is the emptiest node by
    requests, and the scheduler would send the replica back. n1 has room for it by usage, and looks full by requests."""
    busy = {"big": ("n0", 4.0, "web"), "other": ("n0", 7.5, "api")}
    story = Story(2, busy | {f"idle{i}": ("n1", 0.5, "idle") for i in range(12)})
    story.takes_long = True
    return story


def test_a_replica_does_not_come_back_to_the_node_that_it_looks_best_on() -> None:
    story = tempting()
    moves = [[move.pod.metadata.name for move in story.round().moves] for _ in range(10)]
    assert moves == [["big"]] + [[]] * 9
    assert story.pods["big"].spec.node_name == "n1"


def test_without_the_nodes_note_it_would_go_back_and_forth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.descheduler.test_no_fights.note_of_move", lambda *_: {"nothing": "said"})
    story = tempting()
    with pytest.raises(AssertionError, match="a sibling just left there"):
        for _ in range(10):
            story.round()
