"""A modelled machine: the Node object that it registers, its status, its lease and its addresses.

All nodes of a fleet have one size and are dealt over zones in turn. Every one answers on the loopback address, on the
one port that serves all of them; pods get addresses from a block of their node's own.
"""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from koord.api.kubernetes.node import Node
from koord.api.text.quantity import render
from koord.minicluster.kubelet.node_status import Build, Json
from koord.minicluster.kubelet.node_status import node_status as kubelet_status

LABEL_FLEET: Final = "hollow.koord.sh/fleet"
"""On every modelled node: the prefix of the fleet's names."""
ANNOTATION_DOWN: Final = "hollow.koord.sh/down"
"""`true` on a node makes it fall silent, as if it had lost power; without the annotation it comes back."""

_POD_NETWORK: Final = ipaddress.ip_network("10.0.0.0/8")
_POD_BITS: Final = 10
_IDENTITY: Final = uuid.UUID("5a1de7ab-0000-4000-8000-000000000000")


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


def node_object(machine: Machine, now_s: float, *, kubelet_port: int, version: str) -> Json:
    """The Node as it is registered, status included."""
    labels = {
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": "hollow",
        "topology.kubernetes.io/zone": machine.zone,
        "node.kubernetes.io/instance-type": "hollow",
        LABEL_FLEET: machine.fleet,
    }
    return {
        "metadata": {"name": machine.name, "labels": labels},
        "spec": {"podCIDR": machine.pod_cidr, "podCIDRs": [machine.pod_cidr], "providerID": f"hollow://{machine.name}"},
        "status": node_status(machine, None, now_s, kubelet_port=kubelet_port, version=version),
    }


def node_status(machine: Machine, known: Node | None, now_s: float, *, kubelet_port: int, version: str) -> Json:
    identity = uuid.uuid5(_IDENTITY, machine.name)
    build = Build(identity, "amd64", "6.12.0-hollow", f"hollow://{version}", "koord hollow node")
    return kubelet_status(build, machine.resources(), known, now_s, kubelet_port=kubelet_port)


def is_down(node: Node) -> bool:
    """Whether a user has switched this node off."""
    return node.metadata.annotations.get(ANNOTATION_DOWN) == "true"


def renew_period_s(nodes: int) -> float:
    """Between two renewals of one lease: 10 s as kubelets do, up to 20 s where those would be over 50 a second."""
    return min(20.0, max(10.0, nodes / 50))
