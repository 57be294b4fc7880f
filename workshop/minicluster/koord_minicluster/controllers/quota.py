"""What is used of a ResourceQuota: the sum over the objects that it counts, and nothing that it does not limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from koord.api.kubernetes.quota_usage import Obj, countable, counts, usage
from koord.api.text.quantity import canonical, plus

Counted = tuple[str, str]
"""Group and plural of a resource."""


def counted(hard: Iterable[str], served: Iterable[Counted]) -> list[Counted]:
    """The resources whose objects a quota with these names counts."""
    names = list(hard)
    return [resource for resource in served if countable(*resource, names)]


def status(quota: Obj, objects: Mapping[Counted, Iterable[Obj]]) -> dict[str, Any]:
    """The status of a quota, from all objects of the resources that it counts."""
    hard: Mapping[str, Any] = (quota.get("spec") or {}).get("hard") or {}
    used = dict.fromkeys(hard, "0")
    for which, those in objects.items():
        for obj in those:
            if counts(quota, *which, obj):
                for name, amount in usage(*which, obj).items():
                    if name in used:
                        used[name] = plus(used[name], amount)
    return {"hard": {name: canonical(amount) for name, amount in hard.items()}, "used": used}


def status_change(quota: Obj, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """The merge patch that brings a quota's status there, for the version that it was worked out from; None if none."""
    now = quota.get("status") or {}
    change: dict[str, Any] = {}
    for key in ("hard", "used"):
        before = {name: canonical(amount) for name, amount in (now.get(key) or {}).items()}
        if before != wanted[key]:
            change[key] = {**dict.fromkeys(before.keys() - wanted[key].keys()), **wanted[key]}
    if not change:
        return None
    return {"metadata": {"resourceVersion": quota["metadata"]["resourceVersion"]}, "status": change}
