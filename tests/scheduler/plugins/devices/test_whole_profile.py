"""Devices with all of the shipped plugins: gangs, NUMA policies of nodes, and pods that wait for a device."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from koord.api.kinds import DEVICES, NODE_RESOURCE_TOPOLOGIES
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.device import Device
from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology
from tests.scheduler.builders import node
from tests.scheduler.gangs import PREFIX as GANG
from tests.scheduler.plugins.devices.machines import ALLOCATED, K, device, gpu
from tests.scheduler.reservations import World, pod

WHOLE = {f"{K}/gpu-core": "100", f"{K}/gpu-memory-ratio": "100"}
SHARE = {f"{K}/gpu-core": "40", f"{K}/gpu-memory-ratio": "40"}


def totals(gpus: int) -> dict[str, str]:
    return {f"{K}/gpu-core": str(100 * gpus), f"{K}/gpu-memory-ratio": str(100 * gpus)}


def put_devices(world: World, name: str, devices: Sequence[dict[str, Any]], old: Device | None = None) -> Device:
    new = device(name, devices)
    world.core.put(DEVICES, new, old)
    return new


def minors(world: World, name: str) -> list[int]:
    said = world.pods[f"shop/{name}"].metadata.annotations.get(ALLOCATED, "{}")
    return [each["minor"] for each in json.loads(said).get("gpu", [])]


def test_a_pod_that_waits_for_a_device_goes_when_one_recovers() -> None:
    world = World(node("n0", cpu="32", extended=totals(1)))
    ill = put_devices(world, "n0", [gpu(0, health=False)])
    world.put(pod("waits", more=SHARE))
    assert world.nowhere().placement.rejections == {"Insufficient gpu devices": 1}
    put_devices(world, "n0", [gpu(0)], ill)
    world.wait(20)
    assert world.settle() == {"waits": "n0"}
    assert minors(world, "waits") == [0]


def test_members_of_a_gang_that_look_alike_get_devices_of_their_own_or_none_at_all() -> None:
    world = World(*(node(f"n{i}", cpu="32", extended=totals(2)) for i in range(2)))
    for i in range(2):
        put_devices(world, f"n{i}", [gpu(0, pcie=0), gpu(1, pcie=0)])
    four = {f"{GANG}name": "train", f"{GANG}min-available": "4"}
    five = {f"{GANG}name": "large", f"{GANG}min-available": "5"}
    world.put(*(pod(f"large-{i}", more=WHOLE, annotations=five, app="") for i in range(5)))
    assert world.settle() == {}
    world.put(*(pod(f"train-{i}", more=WHOLE, annotations=four, app="") for i in range(4)))
    placed = world.settle()
    assert len(placed) == 4
    taken = [(placed[f"train-{i}"], *minors(world, f"train-{i}")) for i in range(4)]
    assert sorted(taken) == [("n0", 0), ("n0", 1), ("n1", 0), ("n1", 1)]


def test_cpus_and_devices_come_from_one_numa_node_where_the_node_says_so() -> None:
    label = {"node.koordinator.sh/numa-topology-policy": "SingleNUMANode"}
    world = World(node("n0", cpu="16", extended=totals(2), labels=label))
    put_devices(world, "n0", [gpu(0, pcie=0, numa=0), gpu(1, pcie=1, numa=1)])
    world.core.put(NODE_RESOURCE_TOPOLOGIES, _two_numa_nodes("n0", 8))
    world.put(pod("first", more=WHOLE, cpu="6"), pod("second", more=WHOLE, cpu="6"))
    assert world.settle() == {"first": "n0", "second": "n0"}
    assert sorted(minors(world, "first") + minors(world, "second")) == [0, 1]
    for name in ("first", "second"):
        said = json.loads(world.pods[f"shop/{name}"].metadata.annotations["scheduling.koordinator.sh/resource-status"])
        assert [resource["node"] for resource in said["numaNodeResources"]] == minors(world, name)
    # The GPU that is free is where the other pod left 3 of 8 CPUs.
    world.delete("shop/first")
    world.put(pod("cpus", cpu="5"), pod("third", more=WHOLE, cpu="6"))
    world.wait(20)
    assert "third" not in world.settle()


def _two_numa_nodes(name: str, cpus: int) -> NodeResourceTopology:
    detail = [{"id": i, "core": i // 2, "socket": i // cpus, "node": i // cpus} for i in range(2 * cpus)]
    zones = [
        {
            "name": f"node-{i}",
            "type": "Node",
            "resources": [
                {"name": "cpu", "capacity": str(cpus), "allocatable": str(cpus), "available": str(cpus)},
                {"name": "memory", "capacity": "32Gi", "allocatable": "32Gi", "available": "32Gi"},
            ],
        }
        for i in range(2)
    ]
    meta = {"name": name, "annotations": {"node.koordinator.sh/cpu-topology": json.dumps({"detail": detail})}}
    return convert(NodeResourceTopology, {"metadata": meta, "zones": zones})
