"""Kubernetes' QoS class of a pod, by the requests and limits of its spec.

Only cpu and memory count. Guaranteed: every container limits both, and in sum requests equal limits. BestEffort: none
asks for any. Burstable: all else. Resources of the pod as a whole count instead of the containers'.
"""

from __future__ import annotations

from collections.abc import Sequence

from koord.api.machinery.short_cache import short_cache
from koord.api.text.quantity import Number, parse
from koord_minicluster.apiserver.builtin.checks import Part

_COUNTED = ("cpu", "memory")
_FINEST = 9


def qos_class(spec: Part) -> str:
    parts: Sequence[Part]
    if spec.get("resources"):
        parts = (spec["resources"],)
        limited = not parts[0].get("limits") or _are_all_limited(parts)
    else:
        containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        parts = [container.get("resources") or {} for container in containers]
        limited = _are_all_limited(parts)
    requests, limits = _total(parts, "requests"), _total(parts, "limits")
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if limited and requests == limits else "Burstable"


def _are_all_limited(parts: Sequence[Part]) -> bool:
    for part in parts:
        limits = part.get("limits")
        if not limits:
            return False
        for name in _COUNTED:
            if name not in limits or _nano(limits[name]) <= 0:
                return False
    return True


def _total(parts: Sequence[Part], key: str) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        if amounts := part.get(key):
            for name in _COUNTED:
                if name in amounts and (amount := _nano(amounts[name])) > 0:
                    total[name] = total.get(name, 0) + amount
    return total


@short_cache(4096)
def _nano(quantity: Number) -> int:
    """In thousand millionths."""
    mantissa, exponent, _ = parse(quantity)
    # Absurd exponents must not cost memory.
    return mantissa * int(10 ** min(exponent + _FINEST, 60))
