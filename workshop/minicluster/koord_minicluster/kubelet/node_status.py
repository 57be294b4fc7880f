"""A node's own status: its resources, its conditions, and its addresses."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from koord.api.kubernetes.heartbeat import conditions
from koord.api.kubernetes.node import Node

Json: TypeAlias = dict[str, object]

HOST_IP: Final = "127.0.0.1"
KUBELET_VERSION: Final = "v1.35.0"
_IDENTITY: Final = uuid.UUID("5a1de7ab-0000-4000-8000-000000000000")


@dataclass(frozen=True, slots=True)
class Build:
    """Content of a node's `nodeInfo`. `architecture` uses Go's names: amd64, arm64."""

    architecture: str
    kernel: str
    runtime: str
    os_image: str


@dataclass(frozen=True, slots=True)
class OwnNode:
    """A node as its kubelet describes it."""

    name: str
    build: Build
    resources: Mapping[str, str]
    mark: tuple[str, str]
    "The label that tells this kubelet's nodes from others'."
    provider: str
    labels: Mapping[str, str]
    "Beyond the mark, and what every kubelet sets."
    pod_cidr: str = ""

    def owns(self, node: Node) -> bool:
        """Whether `node` is this node, and not another node of the same name."""
        key, value = self.mark
        return node.metadata.labels.get(key) == value


def node_object(own: OwnNode, now_s: float, *, kubelet_port: int) -> Json:
    """The Node object for registration, including its status."""
    labels = {
        "kubernetes.io/hostname": own.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": own.build.architecture,
        **own.labels,
        **dict([own.mark]),
    }
    network = {"podCIDR": own.pod_cidr, "podCIDRs": [own.pod_cidr]} if own.pod_cidr else {}
    return {
        "metadata": {"name": own.name, "labels": labels},
        "spec": {"providerID": f"{own.provider}://{own.name}", **network},
        "status": node_status(own, None, now_s, kubelet_port=kubelet_port),
    }


def node_status(own: OwnNode, node: Node | None, now_s: float, *, kubelet_port: int) -> Json:
    """The whole status. `known` is the current node: conditions keep their transition time. Entries that other
    components have added, for example batch resources, belong to those components."""
    identity = uuid.uuid5(_IDENTITY, f"{own.provider}/{own.name}")
    return {
        "capacity": dict(own.resources),
        "allocatable": dict(own.resources),
        "conditions": conditions(node, now_s),
        # No Hostname: API servers would prefer it, and nothing resolves it.
        "addresses": [{"type": "InternalIP", "address": HOST_IP}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
        "nodeInfo": {
            "architecture": own.build.architecture,
            "bootID": str(identity),
            "containerRuntimeVersion": own.build.runtime,
            "kernelVersion": own.build.kernel,
            "kubeProxyVersion": "",
            "kubeletVersion": KUBELET_VERSION,
            "machineID": identity.hex,
            "operatingSystem": "linux",
            "osImage": own.build.os_image,
            "systemUUID": str(identity),
        },
    }
