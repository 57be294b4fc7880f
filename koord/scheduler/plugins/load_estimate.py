"""How much a pod is taken to use before its node reports it: a part of what it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from koord.api.protocol import names
from koord.api.protocol.priority import PriorityClass
from koord.scheduler.plugins.load_basis import LoadBasis
from koord.scheduler.plugins.load_threshold import rounded

REAL_NAMES: Final[Mapping[PriorityClass, Mapping[str, str]]] = {
    PriorityClass.BATCH: {"cpu": names.RESOURCE_BATCH_CPU, "memory": names.RESOURCE_BATCH_MEMORY},
    PriorityClass.MID: {"cpu": names.RESOURCE_MID_CPU, "memory": names.RESOURCE_MID_MEMORY},
    PriorityClass.FREE: {},
}
"""What pods of a class ask for in place of cpu and memory. Others ask by the name itself."""
_UNSTATED: Final[Mapping[str, int]] = {
    "cpu": 250,
    names.RESOURCE_BATCH_CPU: 250,
    "memory": 200 * 1024**2,
    names.RESOURCE_BATCH_MEMORY: 200 * 1024**2,
}
"""What a pod that asks for nothing is taken to use."""


def estimate_of(basis: LoadBasis, resource: str, factor: int) -> int:
    """How much of a resource a pod is taken to use: a part of its limit or request, never above its limit."""
    class_ = basis.priority_class
    name = REAL_NAMES[class_].get(resource, "") if class_ in REAL_NAMES else resource
    limit = dict(basis.limits).get(name, 0)
    asked = max(limit, dict(basis.requests).get(name, 0))
    if asked == 0:
        return _UNSTATED.get(name, 0)
    estimated = rounded(float(asked) * float(factor) / 100)
    return min(estimated, limit) if limit > 0 else estimated
