"""Machines with devices: answers of NVML that were recorded on real ones, and composed ones, named as such."""

from __future__ import annotations

from pathlib import Path

import msgspec

from koord.agent.devices.inventory import Gpu, Inventory
from koord.agent.devices.pci import Place

GIB = 1 << 30
AT = "2026-11-16T08:00:00Z"


def recorded(name: str) -> Inventory:
    """`h200`: a whole one. `h200-mig`: with an instance of a seventh and one of two sevenths."""
    return msgspec.json.decode((Path(__file__).parent / "answers" / f"{name}.json").read_bytes(), type=Inventory)


def composed(links: dict[int, dict[str, int]], model: str = "NVIDIA A100-SXM4-80GB") -> Inventory:
    """Of N GPUs, by minor what each is linked with: bus ids of others, or of switches."""
    return Inventory(
        "550.1",
        tuple(Gpu(minor, f"GPU-{minor}", model, 80 * GIB, bus(minor), links=peers) for minor, peers in links.items()),
    )


def bus(minor: int) -> str:
    return f"0000:{minor + 16:02x}:00.0"


def two_sockets(bus_id: str) -> Place:
    """GPUs 0 to 3 on one socket, the others on the other; two on each root."""
    minor = int(bus_id[5:7], 16) - 16
    return Place(minor // 4, minor // 4, f"pci0000:{minor // 2:02x}")


def nowhere(bus_id: str) -> Place:
    return Place(-1, -1, "")
