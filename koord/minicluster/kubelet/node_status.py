"""What a node says of itself: what it has, how it is, where it answers."""

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


@dataclass(frozen=True, slots=True)
class Build:
    """What stands in a node's `nodeInfo`."""

    identity: uuid.UUID
    architecture: str
    kernel: str
    runtime: str
    os_image: str


def node_status(
    build: Build, resources: Mapping[str, str], known: Node | None, now_s: float, *, kubelet_port: int
) -> Json:
    """The whole status. `known` is the node as it is: conditions keep the time since when they hold, and what others
    have added, such as batch resources, is theirs."""
    return {
        "capacity": dict(resources),
        "allocatable": dict(resources),
        "conditions": conditions(known, now_s),
        # No Hostname: API servers would prefer it, and nothing resolves it.
        "addresses": [{"type": "InternalIP", "address": HOST_IP}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
        "nodeInfo": {
            "architecture": build.architecture,
            "bootID": str(build.identity),
            "containerRuntimeVersion": build.runtime,
            "kernelVersion": build.kernel,
            "kubeProxyVersion": "",
            "kubeletVersion": KUBELET_VERSION,
            "machineID": build.identity.hex,
            "operatingSystem": "linux",
            "osImage": build.os_image,
            "systemUUID": str(build.identity),
        },
    }
