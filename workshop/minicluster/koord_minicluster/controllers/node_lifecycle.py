"""Node lifecycle: whether a node still reports, and the taints that follow.

A node that neither renews its lease nor reports its status for a grace period is Unknown, and so are its conditions.
Its Ready condition then decides its taints: Unknown is `unreachable`, False is `not-ready`, both NoSchedule (no new
pods) and NoExecute (pods that do not tolerate it go). Pressure and cordoning taint against new pods only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from koord.api.kinds import NODES, PODS
from koord.api.kubernetes.core import Node, Pod
from koord.api.kubernetes.node import Taint
from koord.api.kubernetes.words import TaintEffect, TaintKey
from koord.api.text.timestamp import from_seconds
from koord_minicluster.controllers.actions import Patch

GRACE_S: Final = 40.0
STARTUP_GRACE_S: Final = 60.0
"""A node that has never reported gets longer."""

JUDGED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""Conditions that say nothing any more when the node is silent."""

BY_CONDITION: Final[Mapping[tuple[str, str], TaintKey]] = {
    ("Ready", "False"): TaintKey.NOT_READY,
    ("Ready", "Unknown"): TaintKey.UNREACHABLE,
    ("MemoryPressure", "True"): TaintKey.MEMORY_PRESSURE,
    ("DiskPressure", "True"): TaintKey.DISK_PRESSURE,
    ("PIDPressure", "True"): TaintKey.PID_PRESSURE,
    ("NetworkUnavailable", "True"): TaintKey.NETWORK_UNAVAILABLE,
}
NO_SCHEDULE: Final = frozenset({*BY_CONDITION.values(), TaintKey.UNSCHEDULABLE})
NO_EXECUTE: Final = frozenset({TaintKey.NOT_READY, TaintKey.UNREACHABLE})


def ready(node: Node) -> str:
    """True, False or Unknown; a node that never said is Unknown."""
    condition = node.status.condition("Ready")
    return str(condition.status) if condition is not None else "Unknown"


def unknown(node: Node, now_s: float) -> list[Patch]:
    """A silent node's conditions become Unknown, those that are not yet."""
    now = from_seconds(now_s)
    changed: list[dict[str, Any]] = []
    for type_ in JUDGED:
        old = node.status.condition(type_)
        if old is not None and old.status == "Unknown":
            continue
        reason = "NodeStatusUnknown" if old is not None else "NodeStatusNeverUpdated"
        message = "The node has not been heard of." if old is not None else "The node has never reported."
        changed.append(
            {
                "type": type_,
                "status": "Unknown",
                "reason": reason,
                "message": message,
                "lastTransitionTime": now,
                **({} if old is not None else {"lastHeartbeatTime": node.metadata.creation_timestamp}),
            }
        )
    if not changed:
        return []
    return [Patch(NODES, "", node.metadata.name, {"status": {"conditions": changed}}, "status")]


def wanted_taints(node: Node) -> set[tuple[TaintKey, TaintEffect]]:
    taints: set[tuple[TaintKey, TaintEffect]] = set()
    for condition in node.status.conditions:
        key = BY_CONDITION.get((condition.type, condition.status))
        if key is not None:
            taints.add((key, TaintEffect.NO_SCHEDULE))
            if key in NO_EXECUTE:
                taints.add((key, TaintEffect.NO_EXECUTE))
    if node.spec.unschedulable:
        taints.add((TaintKey.UNSCHEDULABLE, TaintEffect.NO_SCHEDULE))
    return taints


def tainted(node: Node, now_s: float) -> list[Patch]:
    """The node's taints as its conditions have it; those of others stay. A taint has the time since when it holds."""
    wanted = wanted_taints(node)
    if node.status.condition("Ready") is None:
        # Nothing is known yet: the taint that the API gave it at birth stays.
        wanted |= {_place(taint) for taint in node.spec.taints if taint.key == TaintKey.NOT_READY}
    kept = [taint for taint in node.spec.taints if not _is_ours(taint) or _place(taint) in wanted]
    present = {_place(taint) for taint in kept}
    missing = sorted(place for place in wanted if place not in present)
    if not missing and len(kept) == len(node.spec.taints):
        return []
    now = from_seconds(now_s)
    added = [Taint(key, effect, time_added=now) for key, effect in missing]
    taints = [
        {
            "key": str(taint.key),
            "effect": str(taint.effect),
            **({"value": taint.value} if taint.value else {}),
            **({"timeAdded": taint.time_added} if taint.time_added else {}),
        }
        for taint in (*kept, *added)
    ]
    # Based on what was read: others write taints too, and the list is replaced whole.
    body = {"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": taints or None}}
    return [Patch(NODES, "", node.metadata.name, body, type="merge")]


def _place(taint: Taint) -> tuple[TaintKey, TaintEffect]:
    return taint.key, taint.effect


def _is_ours(taint: Taint) -> bool:
    if taint.effect == TaintEffect.NO_SCHEDULE:
        return taint.key in NO_SCHEDULE
    return taint.effect == TaintEffect.NO_EXECUTE and taint.key in NO_EXECUTE


def not_ready(pod: Pod, now_s: float) -> list[Patch]:
    """A pod on a node that does not report is not ready, whatever its last status."""
    condition = pod.status.condition("Ready")
    if condition is None or condition.status != "True":
        return []
    unready = {
        "type": "Ready",
        "status": "False",
        "reason": "NodeNotReady",
        "lastTransitionTime": from_seconds(now_s),
    }
    meta = pod.metadata
    body = {"metadata": {"uid": meta.uid}, "status": {"conditions": [unready]}}
    return [Patch(PODS, meta.namespace, meta.name, body, "status", gone_ok=True)]
