"""Native resources become those of a pod's priority class: a batch pod asks for batch-cpu and batch-memory, not cpu.

In requests and limits of every container, and in the overhead:
    cpu    -> <class>-cpu, in milli-cores        memory -> <class>-memory, as written
A limit without a request is also the request. Prod and free pods keep what they ask for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from koord.admission.plain import NOTHING, part, with_containers, with_part
from koord.admission.request import Json, refused
from koord.api.protocol import names
from koord.api.protocol.priority import PriorityClass
from koord.api.text.quantity import QuantityError, from_value, milli

RESOURCES: Final[Mapping[PriorityClass, tuple[str, str]]] = {
    PriorityClass.BATCH: (names.RESOURCE_BATCH_CPU, names.RESOURCE_BATCH_MEMORY),
    PriorityClass.MID: (names.RESOURCE_MID_CPU, names.RESOURCE_MID_MEMORY),
}
"""What stands for cpu and memory, by class."""


def translated(pod: Json, class_: PriorityClass) -> Json:
    """The pod with the resources of its class; the same object if nothing needs translation."""
    targets = RESOURCES.get(class_)
    return pod if targets is None else with_names(pod, targets)


def with_names(pod: Json, targets: tuple[str, str]) -> Json:
    """The pod with these names for cpu, in milli-cores, and memory."""
    for field in ("initContainers", "containers"):
        pod = with_containers(pod, field, partial(_container, targets, f"spec.{field}"))
    overhead = part(pod, "spec", "overhead")
    after = _amounts(overhead, targets, "spec.overhead")
    return pod if after is overhead else with_part(pod, after, "spec", "overhead")


def _container(targets: tuple[str, str], field: str, index: int, container: Json) -> Json:
    path = f"{field}[{index}].resources"
    resources = part(container, "resources")
    old_requests, old_limits = part(resources, "requests"), part(resources, "limits")
    requests = _amounts(old_requests, targets, f"{path}.requests")
    limits = _amounts(old_limits, targets, f"{path}.limits")
    missing = {name: limits[name] for name in targets if name in limits and name not in requests}
    if missing:
        requests = {**requests, **missing}
    if requests is old_requests and limits is old_limits:
        return container
    changed = dict(resources)
    if requests is not old_requests:
        changed["requests"] = requests
    if limits is not old_limits:
        changed["limits"] = limits
    return {**container, "resources": changed}


def _amounts(amounts: Json, targets: tuple[str, str], path: str) -> Json:
    if amounts is NOTHING or (names.RESOURCE_CPU not in amounts and names.RESOURCE_MEMORY not in amounts):
        return amounts
    for_cpu, for_memory = targets
    result = dict(amounts)
    if names.RESOURCE_CPU in result:
        written = result.pop(names.RESOURCE_CPU)
        try:
            result[for_cpu] = from_value(milli(written))
        except QuantityError as error:
            raise refused(f"{path}[{names.RESOURCE_CPU}]", str(error)) from None
    if names.RESOURCE_MEMORY in result:
        result[for_memory] = result.pop(names.RESOURCE_MEMORY)
    return result
