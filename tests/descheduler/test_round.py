"""A round as a whole: profiles, extension points, node selectors, the user's own plugins."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from koord.api.configuration.descheduler_config import parse
from koord.api.kubernetes.pod import Pod
from koord.descheduler.arbitration import MoveRequest, in_order
from koord.descheduler.compiled import compiled
from koord.descheduler.moves import Moves
from koord.descheduler.own_plugins import load
from koord.descheduler.plugin import ANYHOW, Plugin, Proposal, Turn
from koord.descheduler.round import TOO_FEW, run
from koord.scheduler.own_plugins import PluginError
from tests.descheduler.build import Scene, deployment, node, pod, profile
from tests.descheduler.plugins.test_upstream import FREELY, moved

OLD = {"PodLifeTime": {"maxPodLifeTimeSeconds": 50}}


class Nightly(Plugin):
    """Everything moves."""

    name = "Nightly"
    point = "deschedule"

    def propose(self, turn: Turn, memory: int | None) -> int:
        for name in turn.nodes:
            for each in turn.sight.pods_on.get(name, ()):
                if turn.never(each) is None:
                    turn.ask(Proposal(each, self.name, "it is night"), ANYHOW)
        return (memory or 0) + 1


class NotOnFridays(Plugin):
    name = "NotOnFridays"

    def keeps(self, given: Pod) -> str | None:
        return "it is Friday" if given.metadata.name == "p1" else None

    def rank(self, given: Pod) -> float:
        return -float(given.metadata.name[1:])


def three_pods() -> Scene:
    return Scene([node("a"), node("b")], [pod(f"p{i}", "a", age_s=100 + i) for i in range(3)])


def test_own_plugins_propose_filter_and_remember() -> None:
    given = profile({}, FREELY, own=[Nightly, NotOnFridays])
    first = run(given, three_pods().sight())
    assert moved(first) == ["p0", "p2"]
    assert first.moves[0].reason == "it is night"
    second = run(given, three_pods().sight(), first.memory)
    assert second.memory["koord-descheduler", "Nightly"] == 2


def test_own_plugins_rank_before_koords_own_order() -> None:
    rules = profile({}, FREELY, own=[NotOnFridays]).profiles[0].rules
    asked = [MoveRequest(pod.metadata.name, 0.0, pod, rules) for pod in three_pods().pods]
    assert [move_request.name for move_request in in_order(asked, Moves())] == ["p2", "p1", "p0"]


def test_of_equal_pods_the_younger_goes_first_then_the_newer_job_then_by_name() -> None:
    rules = profile({}, FREELY).profiles[0].rules

    def asked(name: str, pod_age_s: float, created_s: float) -> MoveRequest:
        return MoveRequest(name, created_s, pod(name, "a", age_s=pod_age_s), rules)

    equal = [asked("d", 60, 5.0), asked("c", 60, 5.9), asked("b", 60, 7.0), asked("a", 90, 9.0)]
    assert [move_request.name for move_request in in_order(equal, Moves())] == ["b", "c", "d", "a"], (
        "jobs by whole seconds"
    )


@pytest.mark.parametrize(("fits", "names"), [(True, []), (False, ["p"])])
def test_a_pod_that_asks_to_be_moved_passes_limits_and_still_needs_a_node_that_takes_it(
    fits: bool, names: list[str]
) -> None:
    """The annotation lifts the rules about who may move, not the question whether there is a place (nodeFit)."""
    asks = {"descheduler.alpha.kubernetes.io/evict": "true"}
    large = pod("p", "a", cpu="30", age_s=100, annotations=asks)
    scene = Scene([node("a"), node("b")], [large, pod("q", "b", cpu="30", age_s=1)], workloads=deployment("web", 1))
    strict = {"nodeFit": fits, "maxUnavailablePerWorkload": 0, "maxMigratingPerNode": 1}
    outcome = run(profile(OLD, strict), scene.sight())
    assert moved(outcome) == names
    if fits:
        assert [held_proposal.why for held_proposal in outcome.held] == ["no other node would take it"]


def test_without_the_sorter_moves_begin_as_they_were_asked_for() -> None:
    rules = compiled(parse({"profiles": [{"plugins": {"sort": {"disabled": [{"name": "*"}]}}}]})).profiles[0].rules
    first, second = pod("z", "a", priority=9500), pod("y", "a", priority=5500, qos="BE")
    asked = [MoveRequest("z", 0.0, first, rules), MoveRequest("y", 5.0, second, rules)]
    assert [move_request.name for move_request in in_order(asked, Moves())] == ["z", "y"]


def test_without_filters_the_rules_keep_nobody() -> None:
    scene = Scene([node("a"), node("b")], [pod("bare", "a", owner="", age_s=100)])
    point = {"deschedule": {"enabled": [{"name": "PodLifeTime"}]}}
    args = [{"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 50}}]
    filtered = compiled(parse({"profiles": [{"plugins": point, "pluginConfig": args}]}))
    assert moved(run(filtered, scene.sight())) == []
    free = {**point, "filter": {"disabled": [{"name": "*"}]}}
    assert moved(run(compiled(parse({"profiles": [{"plugins": free, "pluginConfig": args}]})), scene.sight())) == [
        "bare"
    ]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("nothing", "module:Class or file.py:Class"),
        ("tests.descheduler.test_round:Missing", "no Plugin of the name Missing"),
        ("tests.descheduler.test_round:Copy", "koord has a plugin LowNodeLoad already"),
        ("tests.descheduler.test_round:Idle", "must have propose, keeps or rank"),
        ("tests.descheduler.test_round:Nameless", "must have a name"),
    ],
)
def test_what_is_no_plugin_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(PluginError, match=wrong):
        load(text)
    assert load("tests.descheduler.test_round:Nightly").name == "Nightly"


class Broken(Nightly):
    name = "Broken"

    def propose(self, turn: Turn, memory: Any) -> Any:
        raise ValueError("out of order")


def test_a_plugin_that_raises_does_not_keep_the_others_from_their_turn() -> None:
    outcome = run(profile({}, FREELY, own=[Broken, Nightly]), three_pods().sight())
    assert moved(outcome) == ["p0", "p1", "p2"]
    assert [(name, str(error)) for name, error in outcome.failed] == [("Broken", "out of order")]


class Copy(Nightly):
    name = "LowNodeLoad"


class Idle(Plugin):
    name = "Idle"


class Nameless(Nightly):
    name = ""


def test_profiles_look_at_the_nodes_that_they_select_and_share_a_rounds_limits() -> None:
    scene = Scene(
        [node("a", labels={"pool": "x"}), node("b", labels={"pool": "y"}), node("c")],
        [pod(f"{name}{i}", name, age_s=100) for name in "abc" for i in range(2)],
    )

    def one(pool: str) -> dict[str, Any]:
        return {
            "name": pool,
            "nodeSelector": {"matchLabels": {"pool": pool}},
            "plugins": {"deschedule": {"enabled": [{"name": "PodLifeTime"}]}},
            "pluginConfig": [
                {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 50}},
                {"name": "MigrationController", "args": FREELY},
            ],
        }

    given = compiled(parse({"profiles": [one("x"), one("y")], "maxNoOfPodsToEvictTotal": 3}))
    outcome = run(given, scene.sight())
    assert moved(outcome) == ["a0", "a1", "b0"]
    assert {key: profile.name for key, profile in outcome.asked_by.items()} == {
        "default/a0": "x",
        "default/a1": "x",
        "default/b0": "y",
    }


def test_with_fewer_than_two_nodes_there_is_no_round() -> None:
    unready = node("b")
    unready = msgspec.structs.replace(
        unready,
        status=msgspec.convert(
            {"allocatable": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": "False"}]}, type(unready.status)
        ),
    )
    outcome = run(profile(OLD, FREELY), Scene([node("a"), unready], [pod("p", "a", age_s=100)]).sight())
    assert (outcome.skipped, outcome.moves) == (TOO_FEW, [])
    chosen = profile(OLD, FREELY, nodeSelector={"matchLabels": {"x": "y"}})
    assert run(chosen, Scene([node("a"), node("b")], [pod("p", "a", age_s=100)]).sight()).skipped == TOO_FEW


def test_no_pod_goes_where_a_sibling_leaves_in_the_same_round() -> None:
    """Both nodes have an old pod of one service, and no other node has room: a swap would help neither."""
    pods = [pod("p", "a", age_s=100), pod("q", "b", age_s=200)]
    outcome = run(profile(OLD, {**FREELY, "nodeFit": True}), Scene([node("a"), node("b")], pods).sight())
    assert [(move.pod.metadata.name, move.to) for move in outcome.moves] == [("q", "a")]


def test_a_priority_threshold_by_name_is_looked_up_and_holds_back_everybody_where_it_is_missing() -> None:
    pods = [pod("low", "a", age_s=100, priority=100), pod("high", "a", age_s=100, priority=900)]
    sight = Scene([node("a"), node("b")], pods).sight()
    given = profile(OLD, {**FREELY, "priorityThreshold": {"name": "vip"}})
    assert moved(run(given, sight)) == []
    assert moved(run(given, dataclasses.replace(sight, priorities={"vip": 900}))) == ["low"]
