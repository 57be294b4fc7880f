"""Conditions that the server itself puts on pods: when they are bound, when they are evicted."""

from __future__ import annotations

from koord_minicluster.apiserver.resource import Obj


def set_condition(obj: Obj, condition: Obj, now: str) -> None:
    conditions = obj.setdefault("status", {}).setdefault("conditions", [])
    for i, existing in enumerate(conditions):
        if existing.get("type") == condition["type"]:
            same = existing.get("status") == condition["status"]
            time_ = existing.get("lastTransitionTime") if same else now
            conditions[i] = {"lastProbeTime": None, "lastTransitionTime": time_ or now, **condition}
            return
    conditions.append({"lastProbeTime": None, "lastTransitionTime": now, **condition})
