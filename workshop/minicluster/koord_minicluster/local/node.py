"""This machine, or the part of it that is the node, as a node."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Final

from koord.api.text.quantity import render
from koord_minicluster.kubelet.node_status import Build, OwnNode

MOST_PODS: Final = 110
LABEL_LOCAL: Final = "local.koord.sh/node"


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    cpu_milli: int
    memory_bytes: int

    def resources(self) -> dict[str, str]:
        return {
            "cpu": render("cpu", self.cpu_milli),
            "memory": render("memory", self.memory_bytes),
            "pods": str(MOST_PODS),
        }


def own_node(machine: Machine, version: str) -> OwnNode:
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    system = "koord local node: processes without a sandbox"
    return OwnNode(
        machine.name,
        Build(architecture, platform.release(), f"koord-local://{version}", system),
        machine.resources(),
        mark=(LABEL_LOCAL, "true"),
        provider="local",
        labels={},
    )
