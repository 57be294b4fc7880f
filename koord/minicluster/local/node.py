"""The Node object of this machine, or of the part of it that is the node."""

from __future__ import annotations

import platform
import uuid
from dataclasses import dataclass
from typing import Final

from koord.api.kubernetes.node import Node
from koord.api.text.quantity import render
from koord.minicluster.kubelet.node_status import Build, Json
from koord.minicluster.kubelet.node_status import node_status as kubelet_status

MOST_PODS: Final = 110
LABEL_LOCAL: Final = "local.koord.sh/node"
_IDENTITY: Final = uuid.UUID("5a1de7ab-0000-4000-8000-00000000000c")


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


def node_object(machine: Machine, now_s: float, *, kubelet_port: int, version: str) -> Json:
    labels = {
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        LABEL_LOCAL: "true",
    }
    return {
        "metadata": {"name": machine.name, "labels": labels},
        "spec": {"providerID": f"local://{machine.name}"},
        "status": node_status(machine, None, now_s, kubelet_port=kubelet_port, version=version),
    }


def node_status(machine: Machine, known: Node | None, now_s: float, *, kubelet_port: int, version: str) -> Json:
    build = Build(
        uuid.uuid5(_IDENTITY, machine.name),
        platform.machine(),
        platform.release(),
        f"koord-local://{version}",
        "koord local node: processes without a sandbox",
    )
    return kubelet_status(build, machine.resources(), known, now_s, kubelet_port=kubelet_port)
