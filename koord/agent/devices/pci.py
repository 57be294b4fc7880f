"""Where a PCI device is attached: its NUMA node and socket, and the root that it hangs on."""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple

from koord.agent.host.files import Files
from koord.agent.host.topology import Topology

DEVICES: Final = "sys/bus/pci/devices"
_ROOT: Final = re.compile(r"pci[0-9a-f]{4}:[0-9a-f]{2}")


class Place(NamedTuple):
    socket: int
    node: int
    "The NUMA node; -1 if unknown."
    pcie: str
    "The PCIe root that the device is attached to; empty if unknown."


def place_of(files: Files, topology: Topology, bus_id: str) -> Place:
    try:
        node = int(files.once(f"{DEVICES}/{bus_id}/numa_node"))
    except (OSError, ValueError):
        node = -1
    if node < 0 and len(topology.nodes) == 1:
        # A machine with one NUMA node need not say so.
        node = next(iter(topology.nodes))
    sockets = {cpu.socket for cpu in topology.cpus if cpu.node == node}
    root = _ROOT.search(os.path.realpath(files.path(f"{DEVICES}/{bus_id}")))
    return Place(sockets.pop() if len(sockets) == 1 else -1, node, root[0] if root else "")
