"""NodeResourcesFitPlus and ScarceResourceAvoidance score nodes as Koordinator's plugins do."""

from __future__ import annotations

from msgspec.structs import replace

from koord.api.configuration.scheduler_args import (
    FitPlusResource,
    NodeResourcesFitPlusArgs,
    ScarceResourceAvoidanceArgs,
)
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import One
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.plugins.node_resources_fit_plus import NodeResourcesFitPlus
from koord.scheduler.plugins.scarce_resource_avoidance import ScarceResourceAvoidance
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.koordinator.recording import Answer, Question, read, unexplained


def scores(question: Question) -> dict[str, int]:
    wanted = {
        name: FitPlusResource(each["Type"], each["Weight"]) for name, each in question["fit_plus"]["Resources"].items()
    }
    fit_plus = NodeResourcesFitPlus(NodeResourcesFitPlusArgs(wanted))
    scarce = ScarceResourceAvoidance(ScarceResourceAvoidanceArgs(tuple(question["scarce"]["Resources"])))
    cluster = Cluster(0)
    cluster.put_node(convert(Node, question["node"]))
    Engine(cluster, Profile("s", (fit_plus, scarce), {fit_plus.name: 1, scarce.name: 1}))
    row = cluster.table.row_of["n"]
    for pod in question["pods"]:
        there = Ask(convert(Pod, pod))
        cluster.place(replace(there.record(), notes=cluster.noted(there.pod)), row)
    ask = Ask(convert(Pod, question["pod"]))
    judges = {"fit_plus": fit_plus.compile(ask, cluster), "scarce": scarce.compile(ask, cluster)}
    return {name: int(judge.score(One(cluster.table.columns, row))) for name, judge in judges.items()}


def differences(question: Question, answer: Answer) -> list[str]:
    ours = scores(question)
    return [f"{name} {score}, not {answer[name]}" for name, score in ours.items() if score != answer[name]]


def test_scores_are_those_of_koordinator() -> None:
    assert unexplained("scores", differences) == []


def test_the_recording_is_of_many_scores() -> None:
    answers = [case.answers[0] for case in read("scores").cases]
    assert len({answer["fit_plus"] for answer in answers}) >= 40
    assert len({answer["scarce"] for answer in answers}) >= 4
