"""Reports of nodes become lines: services and batch apart, requests in a pod's first line only."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.faults import check
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.sim.history.reports import add_report, facts_of_node, facts_of_pod, report_time_s
from koord.sim.history.rows import Lines, NodeFacts, PodFacts

NODE = NodeFacts(8000, 1 << 34, "web")


def usage(cpu: str, memory: str = "1Gi") -> dict[str, Any]:
    return {"resources": {"cpu": cpu, "memory": memory}}


def report(*pods: dict[str, Any], time: str = "2026-01-31T12:00:00Z", applications: Any = ()) -> NodeMetric:
    status = {
        "updateTime": time,
        "nodeMetric": {"nodeUsage": usage("3"), "systemUsage": usage("250m")},
        "podsMetric": list(pods),
        "hostApplicationMetric": list(applications),
    }
    return check(NodeMetric, {"metadata": {"name": "n1"}, "status": status}, "report", allow_unknown=True)


WEB = {"namespace": "shop", "name": "web", "podUsage": usage("1500m", "2Gi"), "qos": "LS", "priority": "koord-prod"}
JOB = {"namespace": "lab", "name": "job", "podUsage": usage("700m"), "qos": "BE", "priority": "koord-batch"}
FACTS = {
    "shop/web": PodFacts(100, 2000, 1 << 32),
    "lab/job": PodFacts(1769860000, 1000, 1 << 30, queue="research", gang="lab/train"),
}


def test_services_and_batch_pods_have_their_own_lines() -> None:
    lines = Lines()
    first = report(WEB, JOB)
    time_s = report_time_s(first)
    assert time_s == 1769860800
    add_report(lines, first, time_s, NODE, FACTS.get)
    taken = lines.taken()
    assert taken["services"] == [(time_s, "shop/web", 1500, 2 << 30, 2000, 1 << 32, "n1")]
    assert taken["batch"] == [(time_s, "lab/job", 700, 1769860000, 1000, 1 << 30, "research", "lab/train")]
    assert taken["nodes"] == [(time_s, "n1", 8000, 1 << 34, "web", 250)]


def test_only_the_first_line_of_a_pod_has_its_requests() -> None:
    lines = Lines()
    for minute in range(2):
        add_report(lines, report(WEB, JOB), minute, NODE, FACTS.get)
    taken = lines.taken()
    assert taken["services"][1] == (1, "shop/web", 1500, 2 << 30, None, None, None)
    assert taken["batch"][1] == (1, "lab/job", 700, None, None, None, "", "")
    assert lines.taken()["services"] == []


def test_host_applications_are_a_part_of_the_system() -> None:
    lines = Lines()
    add_report(lines, report(applications=[{"name": "nginx", "usage": usage("100m")}]), 0, NODE, FACTS.get)
    assert lines.taken()["nodes"][0][-1] == 350


def test_pods_that_the_api_does_not_know_are_counted() -> None:
    lines = Lines()
    for minute in range(2):
        add_report(lines, report(WEB, JOB), minute, None, lambda name: None)
    assert (lines.pods, lines.unknown_pods) == (2, 2)
    assert lines.taken()["nodes"] == []


@pytest.mark.parametrize("data", [{}, {"updateTime": "2026-01-31T12:00:00Z"}, {"nodeMetric": {}}])
def test_a_node_that_has_not_measured_yet_has_no_report(data: dict[str, Any]) -> None:
    assert report_time_s(check(NodeMetric, {"metadata": {"name": "n1"}, "status": data}, "report")) is None


def test_batch_pods_request_what_is_lent() -> None:
    containers = [{"name": "a", "resources": {"requests": {"kubernetes.io/batch-cpu": "1500"}}}]
    labels = {"quota.scheduling.koordinator.sh/name": "team"}
    metadata = {"name": "a", "namespace": "b", "creationTimestamp": "2026-01-31T12:00:00Z", "labels": labels}
    facts = facts_of_pod(check(Pod, {"metadata": metadata, "spec": {"containers": containers}}, "pod"))
    assert facts == PodFacts(1769860800, 1500, 0, queue="team")


def test_nodes_have_their_capacity_and_the_pool_of_a_label() -> None:
    metadata = {"name": "n", "labels": {"pool": "web"}}
    node = check(Node, {"metadata": metadata, "status": {"capacity": {"cpu": "8", "memory": "16Gi"}}}, "node")
    assert facts_of_node(node, "pool") == NodeFacts(8000, 16 << 30, "web")
    assert facts_of_node(node, "") == NodeFacts(8000, 16 << 30, "")
    assert facts_of_node(check(Node, {"metadata": {"name": "n"}}, "node"), "") is None
