"""Whether what a pod asks of GPUs can be given: whole cards or parts of them, not both, parts that divide evenly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from koord.api.kubernetes.pod import Container, Pod
from koord.api.machinery.faults import Fault
from koord.api.protocol import names
from koord.api.text.quantity import QuantityError, value

_CARD: Final = 100


def faults(pod: Pod) -> Iterator[Fault]:
    """All that is wrong, container by container."""
    for i, container in enumerate(pod.spec.containers):
        path = f"spec.containers[{i}].resources.requests"
        try:
            for fault in _container_faults(container):
                yield fault.under(path)
        except QuantityError as error:
            yield Fault(path, str(error))


def _container_faults(container: Container) -> Iterator[Fault]:
    asked: Mapping[str, Any] = {**container.resources.limits, **container.resources.requests}
    whole, shared = names.RESOURCE_GPU in asked, names.RESOURCE_GPU_SHARED in asked
    if whole and shared:
        yield Fault(f"[{names.RESOURCE_GPU}]", f"must not be asked for together with {names.RESOURCE_GPU_SHARED}")
    elif whole:
        amount = value(asked[names.RESOURCE_GPU])
        if amount <= 0:
            yield Fault(f"[{names.RESOURCE_GPU}]", f"must be above 0, not {amount}")
        elif amount > _CARD and amount % _CARD:
            yield Fault(f"[{names.RESOURCE_GPU}]", f"must be a multiple of {_CARD} where it is above it, not {amount}")
    elif shared:
        yield from _shared_faults(asked)


def _shared_faults(asked: Mapping[str, Any]) -> Iterator[Fault]:
    cards = value(asked[names.RESOURCE_GPU_SHARED])
    if cards <= 0:
        yield Fault(f"[{names.RESOURCE_GPU_SHARED}]", f"must be above 0, not {cards}")
    if value(asked.get(names.RESOURCE_HUAWEI_NPU_CORE, 0)):
        return
    memory, ratio = (value(asked.get(name, 0)) for name in (names.RESOURCE_GPU_MEMORY, names.RESOURCE_GPU_MEMORY_RATIO))
    either = f"{names.RESOURCE_GPU_MEMORY} or {names.RESOURCE_GPU_MEMORY_RATIO}"
    if not memory and not ratio:
        yield Fault("", f"must say how much memory of the cards is wanted, by {either}")
    elif memory and ratio:
        yield Fault("", f"must say how much memory of the cards is wanted by {either}, not by both")
    for name in (names.RESOURCE_GPU_CORE, names.RESOURCE_GPU_MEMORY_RATIO):
        amount = value(asked.get(name, 0))
        if cards > 0 and amount % cards:
            yield Fault(f"[{name}]", f"must be a multiple of {names.RESOURCE_GPU_SHARED} ({cards}), not {amount}")
