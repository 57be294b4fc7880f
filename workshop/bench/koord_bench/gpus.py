"""Device objects of made-up nodes with GPUs, two on a PCIe switch and four on a NUMA node."""

from __future__ import annotations

from typing import Any

from koord.api.protocol import names


def device(node: str, gpus: int, memory: str) -> dict[str, Any]:
    """The Device object of a node with this number of GPUs, each with this memory."""
    offers = {
        names.RESOURCE_GPU_CORE: "100",
        names.RESOURCE_GPU_MEMORY_RATIO: "100",
        names.RESOURCE_GPU_MEMORY: memory,
    }
    devices = [
        {
            "type": "gpu",
            "minor": minor,
            "id": f"GPU-{node}-{minor}",
            "health": True,
            "resources": offers,
            "topology": {"socketID": minor // 4, "nodeID": minor // 4, "pcieID": str(minor // 2)},
        }
        for minor in range(gpus)
    ]
    return {"metadata": {"name": node}, "spec": {"devices": devices}}
