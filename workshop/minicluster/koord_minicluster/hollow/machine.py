"""A modelled machine: its name, its size, its zone and its addresses.

All nodes of a fleet have one size and are dealt over zones in turn. Every one answers on the loopback address, on the
one port that serves all of them; pods get addresses from a block of their node's own.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from koord.api.kubernetes.node import Node
from koord.api.text.quantity import render
from koord_minicluster.kubelet.node_status import Build, OwnNode

LABEL_FLEET: Final = "hollow.koord.sh/fleet"
"""On every modelled node: the prefix of the fleet's names."""
ANNOTATION_DOWN: Final = "hollow.koord.sh/down"
"""`true` on a node makes it fall silent, as if it had lost power; without the annotation it comes back."""

_POD_NETWORK: Final = ipaddress.ip_network("10.0.0.0/8")
_POD_BITS: Final = 10


@dataclass(frozen=True, slots=True)
class Machine:
    """One modelled node. `index` counts from 0 within its fleet."""

    index: int
    fleet: str
    cpu_milli: int
    memory_bytes: int
    pods: int
    zones: int = 3

    @property
    def name(self) -> str:
        return f"{self.fleet}-{self.index + 1:04}"

    @property
    def zone(self) -> str:
        return f"zone-{'abcdefghijklmnopqrstuvwxyz'[self.index % self.zones]}"

    @property
    def pod_cidr(self) -> str:
        return str(ipaddress.ip_network((self._first_ip, 32 - _POD_BITS)))

    @property
    def _first_ip(self) -> int:
        blocks: int = 2 ** (32 - _POD_NETWORK.prefixlen - _POD_BITS)
        return int(_POD_NETWORK.network_address) + (self.index % blocks << _POD_BITS)

    def free_ip(self, used: Container[str], last: int) -> tuple[str, int]:
        """An address that no pod of this node has, searched for behind number `last`; and its number."""
        size = 2**_POD_BITS - 2
        for step in range(size):
            number = (last + step) % size + 1
            ip = str(ipaddress.ip_address(self._first_ip + number))
            if ip not in used:
                return ip, number
        raise ValueError(f"node {self.name}: all {size} pod addresses are in use")

    def resources(self) -> dict[str, str]:
        return {
            "cpu": render("cpu", self.cpu_milli),
            "memory": render("memory", self.memory_bytes),
            "pods": str(self.pods),
            "ephemeral-storage": "200Gi",
        }


def own_node(machine: Machine, version: str) -> OwnNode:
    return OwnNode(
        machine.name,
        Build("amd64", "6.12.0-hollow", f"hollow://{version}", "koord hollow node"),
        machine.resources(),
        mark=(LABEL_FLEET, machine.fleet),
        provider="hollow",
        labels={
            "topology.kubernetes.io/region": "hollow",
            "topology.kubernetes.io/zone": machine.zone,
            "node.kubernetes.io/instance-type": "hollow",
        },
        pod_cidr=machine.pod_cidr,
    )


def is_down(node: Node) -> bool:
    """Whether a user has switched this node off."""
    return node.metadata.annotations.get(ANNOTATION_DOWN) == "true"
