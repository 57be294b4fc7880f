"""GPU requests, completed: `koordinator.sh/gpu` is short for gpu-core and gpu-memory-ratio; gpu.shared counts cards.

If the pod does not request a number of cards, it is ratio / 100 for a ratio of several whole cards. Without a ratio it
is gpu-core / 100 by the same rule, else 1. The request for a device is also its limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from koord.admission.plain import part, with_containers
from koord.admission.request import Json, refused
from koord.api.protocol import names
from koord.api.text.quantity import QuantityError, from_value, value

GPU_RESOURCES: Final = frozenset(
    {
        names.RESOURCE_GPU,
        names.RESOURCE_GPU_CORE,
        names.RESOURCE_GPU_MEMORY,
        names.RESOURCE_GPU_MEMORY_RATIO,
        names.RESOURCE_GPU_SHARED,
    }
)
_CARD: Final = 100


def completed(pod: Json) -> Json:
    """The pod with its GPU requests complete; the same object where they are."""
    return with_containers(pod, "containers", lambda i, container: _container(container, f"spec.containers[{i}]"))


def _container(container: Json, path: str) -> Json:
    resources = container.get("resources")
    if not resources:
        return container
    requests, limits = part(resources, "requests"), part(resources, "limits")
    if GPU_RESOURCES.isdisjoint(requests) and GPU_RESOURCES.isdisjoint(limits):
        return container
    # API servers take a limit for the request where there is none; manifests may still be without it.
    asked: dict[str, Any] = {**limits, **requests}
    where = f"{path}.resources.requests"
    added: dict[str, str] = {}
    gone: tuple[str, ...] = ()
    if names.RESOURCE_GPU in asked:
        cards = from_value(_value(asked, names.RESOURCE_GPU, where))
        added |= {names.RESOURCE_GPU_CORE: cards, names.RESOURCE_GPU_MEMORY_RATIO: cards}
        gone = (names.RESOURCE_GPU,)
    if names.RESOURCE_GPU_SHARED not in asked:
        added[names.RESOURCE_GPU_SHARED] = from_value(_cards({**asked, **added}, where))
    if not added:
        return container
    changed = {
        **resources,
        "requests": {name: amount for name, amount in {**requests, **added}.items() if name not in gone},
        "limits": {name: amount for name, amount in {**limits, **added}.items() if name not in gone},
    }
    return {**container, "resources": changed}


def _cards(asked: Mapping[str, Any], where: str) -> int:
    for name in (names.RESOURCE_GPU_MEMORY_RATIO, names.RESOURCE_GPU_CORE):
        if name in asked:
            amount = _value(asked, name, where)
            return amount // _CARD if amount > _CARD and amount % _CARD == 0 else 1
    return 1


def _value(asked: Mapping[str, Any], name: str, where: str) -> int:
    try:
        return value(asked[name])
    except QuantityError as error:
        raise refused(f"{where}[{name}]", str(error)) from None
