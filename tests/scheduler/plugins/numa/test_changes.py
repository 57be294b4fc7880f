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
    found = explain(world.engine, ask)
    assert found.chosen is None
    return f"{found.why_not[0].reason}: {found.why_not[0].detail}", {each.steps[0].text for each in found.changes}


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
            "node(s) requested cpus not multiple cpus per core: ",
            {"a request of 2 cpu instead of 3"},
            id="half a core",
        ),
        pytest.param(
            {},
            bound("p", "1", spec=FULL),
            "node(s) requested cpus not multiple cpus per core: ",
            {"FullPCPUs as the preferred instead of the required CPU bind policy"},
            id="less than a core",
        ),
        pytest.param(
            {BIND: "SpreadByPCPUs"},
            bound("p", "4", spec=FULL),
            "node(s) cpu bind policy conflicts with pod's required cpu bind policy: ",
            {f"the label {BIND} taken off it"},
            id="another bind policy",
        ),
        pytest.param(
            {POLICY: "Restricted"},
            pod("p", "4", numa={"numaTopologyPolicy": "SingleNUMANode"}),
            "node(s) NUMA Topology policy not match: ",
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
    services = world.numa.services()
    options: Any = services["cpuTopologyOptions/:nodeName"]("n1")
    topology = options["cpuTopology"]
    assert [topology[each] for each in ("numCPUs", "numCores", "numNodes", "numSockets")] == [24, 12, 2, 1]
    available: Any = services["availableCPUs/:nodeName"]("n1")
    assert available["availableCPUs"] == "2-23"
    assert available["allocated"]["0"]["exclusivePolicy"] == "PCPULevel"
    node: Any = services["nodes/:nodeName"]("n1")
    assert [(each["name"], each["cpuset"]) for each in node["allocatedPods"]] == [("p", "0-1")]
    assert node["remainingNUMANodeResources"][0]["resources"] == {"cpu": "10", "memory": "48Gi"}
    assert services["nodes/:nodeName"]("n2") is None
