"""How a node shows that it is alive: its conditions, and its lease."""

from __future__ import annotations

from typing import Final, TypeAlias

from koord.api.kubernetes.node import Node
from koord.api.text.timestamp import from_seconds, micro_from_seconds

Json: TypeAlias = dict[str, object]

NODE_LEASES: Final = "kube-node-lease"
"""The namespace of the leases of nodes."""
LEASE_S: Final = 40


def conditions(node: Node | None, now_s: float) -> list[Json]:
    """Ready and without any pressure, as a node says it with each heartbeat.

    `known` is the present node: a condition keeps the time since when it holds.
    """
    wanted = (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    )
    said: list[Json] = []
    for type_, status, reason, message in wanted:
        was = node.status.condition(type_) if node is not None else None
        since = was.last_transition_time if was is not None and was.status == status else None
        times = {"lastHeartbeatTime": from_seconds(now_s), "lastTransitionTime": since or from_seconds(now_s)}
        said.append({"type": type_, "status": status, "reason": reason, "message": message, **times})
    return said


def is_ready(node: Node) -> bool:
    ready = node.status.condition("Ready")
    return ready is not None and ready.status == "True"


def lease_object(name: str, node_uid: str, now_s: float) -> Json:
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
    return {
        "metadata": {"name": name, "namespace": NODE_LEASES, "ownerReferences": [owner]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_S, "renewTime": micro_from_seconds(now_s)},
    }


def renewal(now_s: float) -> Json:
    return {"spec": {"renewTime": micro_from_seconds(now_s)}}
