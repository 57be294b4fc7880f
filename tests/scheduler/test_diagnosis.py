"""What a running scheduler can be asked to say: in the words and forms that the specification gives."""

from __future__ import annotations

import json

import pytest

from koord.scheduler.diagnosis import (
    FailedNodes,
    Flags,
    diagnosis,
    diagnosis_line,
    filter_lines,
    node_told,
    score_table,
)
from koord.scheduler.framework.remedy import Remedy
from koord.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from koord.scheduler.plugins.node_ports import NodePorts
from koord.scheduler.plugins.volume_restrictions import VolumeRestrictions
from koord.scheduler.state.nominations import Nomination
from koord.scheduler.suggestion import suggestion_for
from tests.scheduler.builders import ROW_LOCAL, ask, engine, node, recorded

GPU = {"key": "gpu", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("flag", "text", "told"),
    [
        ("s", "3\n", "successfully set debugTopNScores to 3"),
        ("f", "true", "successfully set debugFilterFailure to true"),
        ("d", "1", "successfully set debugFilterFailure to 1"),
        ("db", "false", "successfully set debugFilterFailure to false"),
    ],
)
def test_flags_answer_as_they_do_in_koordinator(flag: str, text: str, told: str) -> None:
    flags = Flags()
    assert flags.set(flag, text) == told
    assert flags.any == (flag != "db")


@pytest.mark.parametrize(("flag", "text"), [("s", "many"), ("f", "yes"), ("d", ""), ("x", "1")])
def test_what_is_no_value_changes_nothing(flag: str, text: str) -> None:
    flags = Flags()
    with pytest.raises(ValueError, match=r"failed set|no flag"):
        flags.set(flag, text)
    assert not flags.any


def test_scores_are_a_table_of_weighted_scores_the_best_first() -> None:
    found = engine(node("small", cpu="2"), node("large", cpu="16"), node("middle", cpu="8"))
    text = score_table(found, ask("p", cpu="1"), 2)
    assert text is not None
    first, heads, rule, *rows = text.splitlines()
    plugins = first.partition("plugins:[")[2].rstrip("]").split()
    assert first.startswith("Top2 scores for Pod: shop/p, feasibleNodes: 3, plugins:[")
    assert heads == "| # | Pod | Node | Score | " + " | ".join(plugins) + " |"
    assert rule == "| --- | --- | --- | ---:| " + " ".join(["---:|"] * len(plugins))
    assert len(rows) == 2
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [(row[0], row[1]) for row in cells] == [("0", "shop/p"), ("1", "shop/p")]
    assert int(cells[0][3]) >= int(cells[1][3])
    assert all(int(row[3]) == sum(map(int, row[4:])) for row in cells)
    # Weight 3 of a score of 100.
    assert cells[0][4 + plugins.index("TaintToleration")] == "300"
    assert found.place(ask("p", cpu="1")).node == cells[0][2]


def test_one_node_is_not_scored() -> None:
    assert score_table(engine(node("n1")), ask("p"), 5) is None


def test_every_failed_filter_is_a_line() -> None:
    found = engine(node("n2", cpu="1"), node("n1", taints=[GPU]), node("n3"))
    assert filter_lines(found, ask("p", cpu="2")) == [
        'Failed to filter for Pod "shop/p" on Node "n1" (pass 1), failedPlugin: TaintToleration, '
        "reason: node(s) had untolerated taint(s)",
        'Failed to filter for Pod "shop/p" on Node "n2" (pass 1), failedPlugin: NodeResourcesFit, '
        "reason: Insufficient cpu",
    ]


def test_a_node_that_only_promised_pods_would_make_fit_fails_in_the_second_pass() -> None:
    near = {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
    ]}  # fmt: skip
    names = [node(name, labels={"kubernetes.io/hostname": name}) for name in ("n1", "n2")]
    found = engine(*names, plugins=(*ROW_LOCAL, InterPodAffinity()))
    promised = ask("db", labels={"app": "db"}, priority=100).record()
    found.cluster.nominations.put(Nomination(promised, found.cluster.table.row_of["n1"]))
    lines = filter_lines(found, ask("web", affinity={"podAffinity": near}))
    assert [line.partition(", failedPlugin")[0].partition("on ")[2] for line in lines] == [
        'Node "n1" (pass 2)',
        'Node "n2" (pass 1)',
    ]
    assert all("failedPlugin: InterPodAffinity" in line for line in lines)


def test_a_diagnosis_groups_nodes_by_what_failed_and_whether_preemption_might_help() -> None:
    found = engine(node("n1", cpu="1"), node("n2", cpu="4"), node("n3", taints=[GPU]), node("n4", taints=[GPU]))
    found.cluster.place(ask("other", cpu="4").record(), found.cluster.table.row_of["n2"])
    wanted = ask("p", cpu="2", labels={"scheduling.koordinator.sh/topology-key-to-explain": "zone"})
    placement, remedy = found.place(wanted), Remedy("n2", ("shop/other",), "preemption: yes")
    told = diagnosis(found, wanted, placement, remedy, 0.0, suggestion_for(found, wanted, placement, remedy))
    details = [
        (detail.failed_plugin, detail.reason, detail.preempt_might_help, detail.failed_nodes)
        for detail in told.schedule_diagnosis.node_failed_details
    ]
    assert details == [
        ("NodeResourcesFit", "Insufficient cpu", False, ("n1",)),
        ("NodeResourcesFit", "Insufficient cpu", True, ("n2",)),
        ("TaintToleration", "node(s) had untolerated taint(s)", False, ("n3", "n4")),
    ]
    assert told.suggestion is not None
    assert told.suggestion.type == "WaitingVictimReleased"
    line = diagnosis_line(wanted, told)
    assert line.startswith("dump diagnosis for shop/p, targetPod: shop/p/p: $")
    assert json.loads(line.partition("$")[2]) == {
        "timestamp": "1970-01-01T00:00:00Z",
        "questionedKey": "shop/p",
        "nominatedNode": "n2",
        "topologyKeyToExplain": "zone",
        "isRootCausePod": True,
        "scheduleDiagnosis": {
            "alreadyWaitForBound": 0,
            "nodeFailedDetails": [
                {"failedPlugin": plugin, "reason": reason, "preemptMightHelp": helps, "failedNodes": list(nodes)}
                for plugin, reason, helps, nodes in details
            ],
        },
        "preemptionDiagnosis": {
            "dryRunFilterDiagnosis": None,
            "otherDiagnosis": None,
            "failedMessage": "preemption: yes",
        },
        "suggestion": {"type": "WaitingVictimReleased", "message": "shop/other must be gone from n2 first"},
    }


def test_nodes_are_gone_through_once_as_long_as_nothing_changes() -> None:
    found, failed = engine(node("n1", cpu="1"), node("n2", cpu="1")), FailedNodes()
    first = failed.of(found, ask("p", cpu="2"))
    assert failed.of(found, ask("q", cpu="2")) is first
    other = failed.of(found, ask("r", cpu="3", nodeSelector={"a": "b"}))
    assert [detail.failed_plugin for detail in other] == ["NodeAffinity"]
    found.cluster.put_node(node("n2", cpu="4"))
    assert [detail.failed_nodes for detail in failed.of(found, ask("p", cpu="2"))] == [("n1",)]


def test_a_node_is_told_as_it_is_counted() -> None:
    found = engine(node("n1", cpu="4", memory="8Gi"))
    found.cluster.place(ask("p", cpu="1500m", memory="1Gi").record(), found.cluster.table.row_of["n1"])
    told = node_told(found.cluster, "n1")
    assert told is not None
    assert told["requested"] == {"cpu": "1500m", "memory": "1Gi"}
    assert told["remaining"] == {"cpu": "2500m", "memory": "7Gi", "pods": "109"}
    assert told["allocatable"] == {"cpu": "4", "memory": "8Gi", "pods": "110"}
    assert told["podCount"] == 1
    assert "usedPorts" not in told
    assert "pvcRefCounts" not in told
    assert node_told(found.cluster, "n2") is None


def test_a_node_tells_of_ports_claims_and_affinities_of_its_pods() -> None:
    found = engine(node("n1"), plugins=(NodePorts(), VolumeRestrictions()))
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    claimed = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    container = {"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}]}
    pods = (
        ask("web", affinity=apart, volumes=claimed),
        ask("db", volumes=claimed),
        ask("edge", containers=[container]),
    )
    for pod in pods:
        found.cluster.place(recorded(found.cluster, pod), found.cluster.table.row_of["n1"])
    told = node_told(found.cluster, "n1")
    assert told is not None
    assert told["podsWithAffinity"] == told["podsWithRequiredAntiAffinity"] == ["shop/web"]
    assert told["pvcRefCounts"] == {"shop/data": 2}
    assert told["usedPorts"] == {"0.0.0.0": [{"Protocol": "TCP", "Port": 8080}]}
