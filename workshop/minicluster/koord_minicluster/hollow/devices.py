"""GPUs of modelled nodes, published as a driver of dynamic resource allocation would: a slice for each node.

The devices are modelled, too: nothing prepares them, and pods see nothing of them. Half of a node's GPUs are on each
of two NUMA nodes.
"""

from __future__ import annotations

from typing import Any, Final

from koord.api.kinds import DEVICE_CLASSES, RESOURCE_SLICES
from koord.api.kubernetes.node import Node

DRIVER: Final = "gpu.hollow.koord.sh"
MEMORY: Final = "80Gi"


def device_class() -> dict[str, Any]:
    """The class that claims name."""
    expression = f'device.driver == "{DRIVER}"'
    return {
        "apiVersion": DEVICE_CLASSES.api_version,
        "kind": DEVICE_CLASSES.kind,
        "metadata": {"name": DRIVER},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def slice_of(node: Node, gpus: int) -> dict[str, Any]:
    """The GPUs of one node. The slice goes with the node."""
    name = node.metadata.name
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid, "controller": True}
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"model": {"string": "hollow"}, "numa": {"int": 2 * number // gpus}},
            "capacity": {"memory": {"value": MEMORY}},
        }
        for number in range(gpus)
    ]
    return {
        "apiVersion": RESOURCE_SLICES.api_version,
        "kind": RESOURCE_SLICES.kind,
        "metadata": {"name": f"{name}-gpus", "ownerReferences": [owner]},
        "spec": {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }
