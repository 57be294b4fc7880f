"""Hardware of the nodes in a story, as manifests: CPU topologies, GPUs and RDMA cards."""

from __future__ import annotations

import json
from typing import Any, Final

K: Final = "koordinator.sh"
CPU_TOPOLOGY: Final = "node.koordinator.sh/cpu-topology"
CPU_MANAGER: Final = "kubelet.koordinator.sh/cpu-manager-policy"
WHOLE: Final = "100"


def topology(name: str, shape: str, *, memory: str) -> dict[str, Any]:
    """A NodeResourceTopology. `shape`: sockets x NUMA nodes per socket x cores per NUMA node x threads per core."""
    sockets, zones_per_socket, cores, threads = map(int, shape.split("x"))
    cpus = [
        {"id": (zone * cores + core) * threads + thread, "core": zone % zones_per_socket * cores + core}
        | {"socket": zone // zones_per_socket, "node": zone}
        for zone in range(sockets * zones_per_socket)
        for core in range(cores)
        for thread in range(threads)
    ]
    amounts = {"cpu": str(cores * threads), "memory": memory}
    resources = [
        {"name": resource, "capacity": amount, "allocatable": amount, "available": amount}
        for resource, amount in amounts.items()
    ]
    annotations = {CPU_TOPOLOGY: json.dumps({"detail": cpus}), CPU_MANAGER: json.dumps({"policy": "none"})}
    zones = [
        {"name": f"node-{zone}", "type": "Node", "resources": resources} for zone in range(sockets * zones_per_socket)
    ]
    return {
        "metadata": {"name": name, "annotations": annotations},
        "topologyPolicies": [],
        "zones": zones,
    }


def gpu(minor: int, *, numa_node: int | None = None, pcie: int = 0) -> dict[str, Any]:
    """A healthy GPU with 80Gi; on a PCIe switch where its NUMA node is given."""
    resources = {f"{K}/gpu-core": WHOLE, f"{K}/gpu-memory-ratio": WHOLE, f"{K}/gpu-memory": "80Gi"}
    return {"type": "gpu", "id": f"GPU-{minor}", "minor": minor, "health": True, "resources": resources} | _place(
        numa_node, pcie
    )


def rdma(minor: int, *, numa_node: int | None = None, pcie: int = 0, functions: int = 0) -> dict[str, Any]:
    """A healthy RDMA card, with virtual functions where a number is given."""
    card = {"type": "rdma", "id": f"0000:0{minor}:00.0", "minor": minor, "health": True}
    groups = [{"vfs": [{"minor": vf, "busID": f"0000:0{minor}:00.{vf + 1}"} for vf in range(functions)]}]
    return (
        card
        | {"resources": {f"{K}/rdma": WHOLE}}
        | ({"vfGroups": groups} if functions else {})
        | _place(numa_node, pcie)
    )


def _place(numa_node: int | None, pcie: int) -> dict[str, Any]:
    if numa_node is None:
        return {}
    return {"topology": {"socketID": numa_node, "nodeID": numa_node, "pcieID": str(pcie)}}
