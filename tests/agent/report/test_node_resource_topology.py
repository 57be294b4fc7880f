"""The report of a node's CPUs: which pod has which, and what its zones have for pods."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as changed

from koord.agent.host.topology import Cpu, Topology
from koord.agent.live.kubelet import _Config, reserved_cpus, topology_policy
from koord.agent.report.node_resource_topology import change, topology_annotations, zones
from koord.agent.state import Kubelet, NodeState
from koord.api.kubernetes.resources import amounts
from koord.api.machinery.codec import convert
from koord.api.protocol import names
from koord.api.protocol.annotations import cpu
from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology
from koord.api.text.cpuset import NO_CPUS, CPUSet
from tests.agent.states import GIB, cpus, node, pod
from tests.agent.trees import Tree

EIGHT = Topology(tuple(Cpu(i, i // 2, i // 4, i // 4, 0) for i in range(8)))
"""Two NUMA nodes of two cores; the threads of a core are numbered one after the other."""
TWELVE = Topology(tuple(Cpu(i, i % 6, i % 2, i % 2, 0) for i in range(12)))
"""Two sockets whose cores take turns: 0, 2 and 4 on the first, with their second threads 6, 8 and 10."""


def bound(name: str, qos: str, text: str) -> Any:
    return pod(name, qos, annotations={"scheduling.koordinator.sh/resource-status": json.dumps({"cpuset": text})})


def told(state: NodeState, of: str) -> Any:
    return json.loads(topology_annotations(state)[of])


def shared(state: NodeState) -> list[str]:
    return [each["cpuset"] for each in told(state, cpu.CPU_SHARED_POOLS.key)]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "2000m"}}, "0-1"),
        ({"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "1"}, "systemReserved": {"cpu": "1500m"}}, "0-2"),
        ({"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "2"}, "reservedSystemCPUs": "3,7"}, "3,7"),
        ({"cpuManagerPolicy": "static", "kubeReserved": None}, ""),
        ({"cpuManagerPolicy": "none", "kubeReserved": {"cpu": "2"}}, ""),
    ],
)
def test_kubelet_reserves_the_cpus_it_names_or_the_first_cores(config: dict[str, Any], expected: str) -> None:
    assert reserved_cpus(convert(_Config, config), EIGHT) == CPUSet.parse(expected)


@pytest.mark.parametrize(
    ("reservation", "expected"),
    [
        ({}, {}),
        ({"resources": {"cpu": "2"}}, {"reservedCPUs": "0,6", "resources": {"cpu": "2"}}),
        ({"resources": {"cpu": "2500m"}}, {"reservedCPUs": "0,2,6", "resources": {"cpu": "2500m"}}),
        ({"reservedCPUs": "0-1"}, {"reservedCPUs": "0-1"}),
        (
            {"reservedCPUs": "0-1", "resources": {"cpu": "10"}},
            {"reservedCPUs": "0-1", "resources": {"cpu": "10"}},
        ),
    ],
)
def test_an_amount_that_the_node_reserves_becomes_cpus(reservation: dict[str, Any], expected: dict[str, Any]) -> None:
    state = node(topology=TWELVE, annotations={"node.koordinator.sh/reservation": json.dumps(reservation)})
    assert told(state, cpu.NODE_RESERVATION.key) == expected
    kept = CPUSet.parse(expected.get("reservedCPUs", ""))
    assert CPUSet.parse(",".join(shared(state))) == TWELVE.all - kept


@pytest.mark.parametrize(
    ("annotations", "options", "expected"),
    [
        ({}, {}, ["0-2", "6-7"]),  # kubelet's 0-1 are shared too
        ({}, {"strict-cpu-reservation": "true"}, ["2", "6-7"]),
        (
            {
                "node.koordinator.sh/reservation": '{"reservedCPUs": "1-2"}',
                "node.koordinator.sh/system-qos-resource": '{"cpuset": "7"}',
            },
            {},
            ["0", "6"],
        ),
        ({"node.koordinator.sh/system-qos-resource": '{"cpuset": "7", "cpusetExclusive": false}'}, {}, ["0-2", "6-7"]),
    ],
)
def test_services_share_what_nobody_has_for_himself(
    annotations: dict[str, str], options: dict[str, str], expected: list[str]
) -> None:
    pods = [bound("a", "LSR", "4"), bound("b", "", "3"), bound("c", "LSE", "5"), pod("d")]
    kubelet = Kubelet("static", CPUSet([0, 1]), cpu_options=options)
    state = node(*pods, topology=EIGHT, annotations=annotations, kubelet=kubelet)
    assert shared(state) == expected
    policy = told(state, cpu.CPU_MANAGER_POLICY.key)
    assert (policy["policy"], policy["reservedCPUs"], policy.get("options", {})) == ("static", "0-1", options)


def test_what_kubelet_gave_is_told_of_pods_whose_cpus_are_not_set_here() -> None:
    given = {"own": "1", "gone": "6", "lsr": "5", "ls": "2", "be": "4", "numa": "3", "nothing": ""}
    only_numa = {"scheduling.koordinator.sh/resource-status": '{"numaNodeResources": [{"node": 0}]}'}
    pods = [pod("own"), pod("numa", annotations=only_numa), bound("lsr", "LSR", "7"), pod("nothing")]
    pods += [pod("ls", "LS"), pod("be", "BE")]
    kubelet = Kubelet("static", NO_CPUS, {uid: CPUSet.parse(text) for uid, text in given.items()})
    state = node(*pods, topology=EIGHT, kubelet=kubelet)
    assert told(state, cpu.POD_CPU_ALLOCS.key) == [
        {"uid": "gone", "cpuset": "6", "managedByKubelet": True},
        {"namespace": "ns", "name": "numa", "uid": "numa", "cpuset": "3", "managedByKubelet": True},
        {"namespace": "ns", "name": "own", "uid": "own", "cpuset": "1", "managedByKubelet": True},
    ]
    assert shared(state) == ["0,2", "4-5"]


@pytest.mark.parametrize(
    ("policy", "scope", "expected"),
    [
        ("", "", "None"),
        ("", "container", "None"),
        ("best-effort", "", "None"),
        ("none", "pod", "None"),
        ("single-numa-node", "container", "SingleNUMANodeContainerLevel"),
        ("restricted", "container", "RestrictedContainerLevel"),
        ("best-effort", "container", "BestEffortContainerLevel"),
        ("single-numa-node", "pod", "SingleNUMANodePodLevel"),
        ("restricted", "pod", "RestrictedPodLevel"),
        ("best-effort", "pod", "BestEffortPodLevel"),
    ],
)
def test_the_topology_managers_policy_has_one_word(policy: str, scope: str, expected: str) -> None:
    assert topology_policy(policy, scope) == expected


def labelled(value: str, *, reserved_cpu: int = 0, reserved_memory: int = 0) -> NodeState:
    has = cpus(2, 4, 2)
    allocatable = {"cpu": str(len(has.cpus) - reserved_cpu), "memory": str(16 * GIB - reserved_memory)}
    state = node(topology=has, memory=16 * GIB, allocatable=allocatable)
    labels = {str(names.LABEL_ENABLE_NUMA_RESERVATION): value} if value else {}
    meta = changed(state.node.metadata, labels=labels)
    return replace(state, node=changed(state.node, metadata=meta))


@pytest.mark.parametrize(
    ("label", "cpu_kept", "memory_kept", "expected"),
    [
        ("true", 4, 2 * GIB, (6000, 7 * GIB)),
        ("true", 1, 1, (7500, 8 * GIB - 1)),
        ("true", 0, 0, (8000, 8 * GIB)),
        ("false", 4, 2 * GIB, (8000, 8 * GIB)),
        ("", 4, 2 * GIB, (8000, 8 * GIB)),
    ],
)
def test_zones_keep_back_their_share_of_what_kubelet_keeps(
    tmp_path: Path, label: str, cpu_kept: int, memory_kept: int, expected: tuple[int, int]
) -> None:
    files = Tree(tmp_path, sockets=2, memory_bytes=16 * GIB).files
    state = labelled(label, reserved_cpu=cpu_kept, reserved_memory=memory_kept)
    for zone in zones(state, files, None):
        assert amounts({resource.name: resource.capacity for resource in zone.resources}) == {
            "cpu": 8000,
            "memory": 8 * GIB,
        }
        for_pods = amounts({resource.name: resource.allocatable for resource in zone.resources})
        assert (for_pods["cpu"], for_pods["memory"]) == expected
        assert all(resource.available == resource.allocatable for resource in zone.resources)


def test_a_report_says_what_changed_and_leaves_what_others_wrote(tmp_path: Path) -> None:
    files = Tree(tmp_path, sockets=2, memory_bytes=16 * GIB).files
    state = labelled("true")
    new = json.loads(json.dumps(change(state, files, None)))
    assert new["metadata"]["labels"] == {
        names.LABEL_MANAGED_BY: "Koordinator",
        names.LABEL_ENABLE_NUMA_RESERVATION: "true",
    }
    assert new["metadata"]["ownerReferences"][0]["kind"] == "Node"
    assert new["topologyPolicies"] == ["None"]
    new["zones"][0]["costs"] = [{"name": "node-1", "value": 20}]
    new["zones"][0]["resources"].append({"name": "gpu", "capacity": "1", "allocatable": "1", "available": "1"})
    new["zones"].append({"name": "gone", "type": "Node"})
    node_resource_topology = convert(NodeResourceTopology, new)
    again = json.loads(json.dumps(change(state, files, node_resource_topology)))
    assert [zone["name"] for zone in again["zones"]] == ["node-0", "node-1"]
    assert again["zones"][0] == new["zones"][0], "distances and other resources are others' to tell"
    settled = convert(NodeResourceTopology, {**new, "zones": again["zones"]})
    assert change(state, files, settled) is None
    unlabelled = change(labelled(""), files, settled)
    assert unlabelled is not None
    assert unlabelled["metadata"]["labels"] == {names.LABEL_ENABLE_NUMA_RESERVATION: None}
