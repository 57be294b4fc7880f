"""Kubernetes' QoS class of a pod, by the requests and limits of its spec.

Only cpu and memory count. Guaranteed: every container limits both, and in sum requests equal limits. BestEffort: none
asks for any. Burstable: all else. Resources of the pod as a whole count instead of the containers'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from koord.api.quantity import Number, parse
from koord.apiserver.builtin.checks import Part

_COUNTED = ("cpu", "memory")
_FINEST = 9


def qos_class(spec: Part) -> str:
    parts: Sequence[Part]
    if spec.get("resources"):
        parts = (spec["resources"],)
        limited = not parts[0].get("limits") or len(_positive(parts[0].get("limits"))) == len(_COUNTED)
    else:
        containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        parts = [container.get("resources") or {} for container in containers]
        limited = all(len(_positive(part.get("limits"))) == len(_COUNTED) for part in parts)
    requests, limits = _total(parts, "requests"), _total(parts, "limits")
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if limited and requests == limits else "Burstable"


def _positive(amounts: Mapping[str, Number] | None) -> dict[str, int]:
    found: dict[str, int] = {}
    if amounts:
        for name in _COUNTED:
            if (quantity := amounts.get(name)) is not None:
                mantissa, exponent, _ = parse(quantity)
                if mantissa > 0:
                    # Absurd exponents must not cost memory.
                    found[name] = mantissa * int(10 ** min(exponent + _FINEST, 60))
    return found


def _total(parts: Sequence[Part], key: str) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in _positive(part.get(key)).items():
            total[name] = total.get(name, 0) + amount
    return total
