"""What would let a pod in is tried out, and what a node lacks is told in numbers."""

from typing import Any

import pytest

from koord.scheduler.explain import explain
from tests.scheduler.plugins.numa.machines import World, big, bound, pod, report

POLICY, BIND = "node.koordinator.sh/numa-topology-policy", "node.koordinator.sh/cpu-bind-policy"
FULL = {"requiredCPUBindPolicy": "FullPCPUs"}


def told(labels: dict[str, str], ask: Any) -> tuple[str, set[str]]:
    """The first reason with its detail, and all changes, on a node with two NUMA nodes of 6 cores."""
    world = World()
    world.put(big("n1", labels=labels), report("n1"))
    explanation = explain(world.engine, ask)
    assert explanation.chosen is None
    return f"{explanation.why_not[0].reason}: {explanation.why_not[0].detail}", {
        change.steps[0].text for change in explanation.changes
    }


@pytest.mark.parametrize(
    ("labels", "ask", "why", "change"),
    [
        pytest.param(
            {POLICY: "SingleNUMANode"},
            pod("p", "14"),
            "Unsatisfied NUMA cpu: at most 12 cpu free on one NUMA node, 14 needed (SingleNUMANode)",
            {f"the label {POLICY}=Restricted on it", "a request of 12 cpu instead of 14"},
            id="no NUMA node is large enough",
        ),
        pytest.param(
            {},
            bound("p", "14", spec={"requiredCPUBindPolicy": "SpreadByPCPUs"}),
            "not enough cpus available to satisfy request: at most 12 cores with a free CPU, 14 needed",
            {"a request of 12 cpu instead of 14"},
            id="fewer cores than CPUs",
        ),
        pytest.param(
            {},
            bound("p", "3", spec=FULL),
            "node(s) requested cpus not multiple cpus per core: 3 CPUs, 2 in a core",
            {"a request of 2 cpu instead of 3"},
            id="half a core",
        ),
        pytest.param(
            {},
            bound("p", "1", spec=FULL),
            "node(s) requested cpus not multiple cpus per core: 1 CPU, 2 in a core",
            {"FullPCPUs as the preferred instead of the required CPU bind policy"},
            id="less than a core",
        ),
        pytest.param(
            {BIND: "SpreadByPCPUs"},
            bound("p", "4", spec=FULL),
            "node(s) cpu bind policy conflicts with pod's required cpu bind policy: the pod requires FullPCPUs, "
            "the node binds by SpreadByPCPUs",
            {f"the label {BIND} taken off it"},
            id="another bind policy",
        ),
        pytest.param(
            {POLICY: "Restricted"},
            pod("p", "4", numa={"numaTopologyPolicy": "SingleNUMANode"}),
            "node(s) NUMA Topology policy not match: the pod wants SingleNUMANode, the node has Restricted",
            {
                "the NUMA policy Restricted instead of SingleNUMANode",
                f"the label {POLICY}=SingleNUMANode on it",
            },
            id="another NUMA policy",
        ),
    ],
)
def test_changes_are_the_smallest_that_help(labels: dict[str, str], ask: Any, why: str, change: set[str]) -> None:
    reason, changes = told(labels, ask)
    assert reason == why
    assert changes >= change


@pytest.mark.parametrize(
    ("asked", "taken", "labels", "change"),
    [
        pytest.param("1500m", "", {}, "a request of 2 cpu instead of 1500m", id="the next whole number"),
        pytest.param("1500m", "22500m", {}, "a request of 1 cpu instead of 1500m", id="no room for that"),
        pytest.param(
            "4", "21500m", {}, "a request of 2 cpu instead of 4", id="what a node has left is no whole number"
        ),
        pytest.param("500m", "23600m", {}, None, id="no whole CPU is free"),
        pytest.param(
            "1500m", "", {BIND: "SpreadByPCPUs"}, "a request of 2 cpu instead of 1500m", id="nodes that bind all pods"
        ),
    ],
)
def test_cpus_of_their_own_are_whole_ones(asked: str, taken: str, labels: dict[str, str], change: str | None) -> None:
    world = World()
    world.put(big("n1", labels=labels), report("n1"))
    if taken:
        world.place(pod("there", taken))
    wanting = pod("p", asked) if labels else bound("p", asked)
    explanation = explain(world.engine, wanting)
    assert explanation.chosen is None
    changes = [change.steps[0].text for change in explanation.changes if len(change.steps) == 1]
    assert [text for text in changes if "request" in text] == ([change] if change else [])


def test_a_pod_whose_cpus_would_do_is_proposed_to_go() -> None:
    world = World()
    world.put(big("n1", "60"), report("n1"))
    for name, cpus in (("large", "12"), ("small", "4"), ("tiny", "2")):
        world.place(bound(name, cpus))
    explanation = explain(world.engine, bound("p", "10", spec=FULL))
    assert explanation.why_not[0].detail == "at most 6 free CPUs in whole cores, 10 needed"
    gone = [step.text for change in explanation.changes for step in change.steps if step.on == "others"]
    assert [text.partition("/")[2] for text in gone] == ["small gone, which would free 4 CPUs"]


def test_a_numa_node_that_a_pod_cannot_have_for_itself_is_told_and_may_be_shared() -> None:
    world = World()
    world.put(big("n1"), report("n1"))
    world.place(bound("spans", "14"))
    wants = bound("p", "2", numa={"numaTopologyPolicy": "SingleNUMANode"})
    explanation = explain(world.engine, wants)
    assert explanation.feasible == 0
    assert explanation.why_not[0].detail == "it wants a NUMA node for itself, and pods span NUMA nodes 0 and 1"
    (change,) = explanation.changes
    assert "singleNUMANodeExclusive: Preferred" in change.steps[0].text


def test_amplified_cpus_are_told_as_they_count() -> None:
    world = World()
    ratio = {"node.koordinator.sh/resource-amplification-ratio": '{"cpu": 1.5}'}
    world.put(big("n1", "36", annotations=ratio), report("n1"))
    world.place(bound("there", "12"))
    (against,) = explain(world.engine, bound("p", "14")).why_not
    detail = "18 cpu free, 21 needed, where a CPU of a pod's own counts 1.5"
    assert (against.reason, against.detail) == ("Insufficient amplified cpu", detail)


def test_what_is_not_reported_is_told() -> None:
    world = World()
    world.put(big("n1", labels={POLICY: "SingleNUMANode"}))
    (against,) = explain(world.engine, pod("p", "2")).why_not
    assert against.detail == "its NodeResourceTopology tells none"


def test_an_explanation_names_the_cpus_that_the_pod_would_get() -> None:
    world = World()
    world.put(big("n1", labels={POLICY: "SingleNUMANode"}), report("n1"))
    assert explain(world.engine, bound("p")).gets == {"NodeNUMAResource": "CPUs 0-3 of NUMA node 0"}
    assert explain(world.engine, pod("q", "2", "1Gi")).gets == {
        "NodeNUMAResource": "2 cpu and 1Gi memory of NUMA node 0"
    }


def test_services_tell_the_topology_and_what_is_free() -> None:
    world = World()
    world.put(big("n1"), report("n1"))
    world.place(bound("p", "2", spec={"preferredCPUExclusivePolicy": "PCPULevel"}))
    services = world.numa.controller.services
    options: Any = services["cpuTopologyOptions/:nodeName"]("n1")
    topology = options["cpuTopology"]
    assert [topology[each] for each in ("numCPUs", "numCores", "numNodes", "numSockets")] == [24, 12, 2, 1]
    available: Any = services["availableCPUs/:nodeName"]("n1")
    assert available["availableCPUs"] == "2-23"
    assert available["allocated"]["0"]["exclusivePolicy"] == "PCPULevel"
    node: Any = services["nodes/:nodeName"]("n1")
    assert [(pod["name"], pod["cpuset"]) for pod in node["allocatedPods"]] == [("p", "0-1")]
    assert node["remainingNUMANodeResources"][0]["resources"] == {"cpu": "10", "memory": "48Gi"}
    assert services["nodes/:nodeName"]("n2") is None
