"""What would have to be otherwise for a node to have the devices that a pod asks for: changes to try out.

Other pods gone from devices, a pod that asks for less, or one that does not insist on where its devices lie.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from koord.api.kubernetes.pod import Pod
from koord.api.protocol import names
from koord.scheduler.framework.change import Change, asking_for_less, listed, smaller, without_pods
from koord.scheduler.plugins.devices.inventory import Unit
from koord.scheduler.plugins.devices.requests import CORE, GPU, GPU_NAMES, MEMORY, OTHERS, RATIO, WHOLE, Request, Wanted
from koord.scheduler.plugins.devices.room import Room, filled
from koord.scheduler.state.pods import Amounts

OFF_SCOPE = 1.5
"""Size: a user who asked for devices close together had a reason."""


def changes(room: Room, wanted: Wanted, pod: Pod, asked: Amounts) -> Iterator[Change]:
    """`asked`: what the pod asks of devices, as it says it."""
    for request in wanted.requests:
        fitting = [unit for unit in room.units(request) if room.fits(unit, request)]
        if len(fitting) < max(1, request.count):
            yield from _less(room, request, pod, asked, len(fitting))
            yield from _gone(room, request, len(fitting))
    yield from _without_scope(pod)


def _gone(room: Room, request: Request, fitting: int) -> Iterator[Change]:
    """Pods off the devices that need the fewest of them to go."""
    crowded = []
    for unit in room.units(request):
        if not room.fits(unit, request):
            pods = _in_the_way(room, request, unit)
            if pods:
                crowded.append((len(pods), unit.minor, pods))
    missing = max(1, request.count) - fitting
    if len(crowded) < missing:
        return
    chosen = sorted(crowded)[:missing]
    leaving = {pod for _, _, of_device in chosen for pod in of_device}
    minors = listed(str(minor) for _, minor, _ in sorted(chosen, key=lambda device: device[1]))
    yield without_pods(leaving, f"which would free {request.type} {minors}")


def _in_the_way(room: Room, request: Request, unit: Unit) -> tuple[str, ...]:
    """The pods that would have to leave a device for the request to fit; none where that is of no help."""
    if any(unit.total.get(name, amount) < amount for name, amount in filled(request.per_device, unit)):
        return ()
    return tuple(sorted(room.usage.holders.get(unit.key, ())))


def _less(room: Room, request: Request, pod: Pod, asked: Amounts, fitting: int) -> Iterator[Change]:
    """Fewer devices, or a smaller part of one."""
    most = _fewer(request, asked, fitting) if request.count > 1 else _smaller_share(room, request, asked)
    if not most or min(most.values()) <= 0:
        return
    changed = smaller(pod, most)
    if changed is None:
        return
    before = dict(asked)
    lowered = [name for name in most if name != names.RESOURCE_GPU_SHARED and most[name] < before[name]]
    if lowered:
        part = max(1 - most[name] / before[name] for name in lowered)
        yield asking_for_less(changed, {name: (most[name], before[name]) for name in lowered}, size=1 + part)


def _fewer(request: Request, asked: Amounts, fitting: int) -> dict[str, int]:
    return {name: amount * fitting // request.count for name, amount in asked if _is_of(name, request)}


def _smaller_share(room: Room, request: Request, asked: Amounts) -> dict[str, int]:
    """What is left on the device that has the largest part of the request free."""
    best: dict[str, int] = {}
    most = 0.0
    wants = request.amounts
    for unit in room.units(request):
        used = room.used(unit)
        free = {name: unit.total.get(name, amount) - used.get(name, 0) for name, amount in wants.items()}
        part = min(free[name] / amount for name, amount in wants.items())
        if part > most:
            best, most = {name: min(free[name], amount) for name, amount in wants.items()}, part
    if not best or request.type != GPU:
        return {name: best[name] for name, _ in asked if name in best}
    whole = min(best.get(CORE, WHOLE), best.get(RATIO, WHOLE))
    named = {name: amount for name, amount in asked if _is_of(name, request)}
    return {
        name: amount if name == names.RESOURCE_GPU_SHARED else best.get(name, whole)
        for name, amount in named.items()
        if name in best or name in (names.RESOURCE_GPU, names.RESOURCE_GPU_SHARED)
    } | ({MEMORY: best[MEMORY]} if MEMORY in named and MEMORY in best else {})


def _is_of(name: str, request: Request) -> bool:
    return name in GPU_NAMES if request.type == GPU else name == OTHERS.get(request.type)


def _without_scope(pod: Pod) -> Iterator[Change]:
    """The pod without what it says of where its devices must lie, or how they must be linked."""
    said = pod.metadata.annotations
    for key, field, what in (
        (names.ANNOTATION_DEVICE_JOINT_ALLOCATE, "requiredScope", "devices that need not lie on the same PCIe switch"),
        (names.ANNOTATION_DEVICE_ALLOCATE_HINT, "requiredTopologyScope", "devices that may lie further apart"),
        (names.ANNOTATION_DEVICE_ALLOCATE_HINT, "selector", "devices of any labels"),
        (names.ANNOTATION_DEVICE_ALLOCATE_HINT, "vfSelector", "devices without a virtual function of its own"),
    ):
        if field in said.get(key, ""):
            kept = json.dumps(_dropped(json.loads(said[key]), field))
            yield _annotated(pod, {**said, key: kept}, f"{what} ({field} of {key.partition('/')[2]} left out)")
    if names.ANNOTATION_GPU_PARTITION_SPEC in said:
        kept_ = {key: text for key, text in said.items() if key != names.ANNOTATION_GPU_PARTITION_SPEC}
        yield _annotated(pod, kept_, "GPUs that need not be linked (gpu-partition-spec left out)")


def _annotated(pod: Pod, annotations: Mapping[str, str], text: str) -> Change:
    changed = replace(pod, metadata=replace(pod.metadata, annotations=annotations))
    return Change(text, pod=changed, size=OFF_SCOPE)


def _dropped(value: Any, field: str) -> Any:
    """A JSON value without a field, wherever it is."""
    if isinstance(value, dict):
        return {key: _dropped(part, field) for key, part in value.items() if key != field}
    return value
