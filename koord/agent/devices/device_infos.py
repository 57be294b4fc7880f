"""From what a node has to what its Device object says of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from koord.agent.devices import partitions
from koord.agent.devices.inventory import Gpu, Inventory, MigInstance, RdmaCard, VendorDevice
from koord.agent.devices.pci import Place
from koord.api.kubernetes.meta import Condition
from koord.api.protocol import names
from koord.api.protocol.annotations.device import GPU_PARTITION_POLICY, GPU_PARTITIONS
from koord.api.protocol.crd.device import (
    DeviceInfo,
    DeviceTopology,
    VirtualFunction,
    VirtualFunctionGroup,
)
from koord.api.text.quantity import ResourceList, render

HEALTHY: Final = "Healthy"
MIG_PROFILE: Final = "mig-profile"
MIG_GPU: Final = "mig-gpu"
"""Labels of an instance: a pod's device hint can ask for a profile, or for instances of one GPU, by its minor."""
_NOT_OF_LABELS: Final = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST_LABEL: Final = 63
WHOLE: Final = "100"
NO_NUMBER: Final = -1
"""Virtual functions are named by their bus ids."""


def device_infos(
    inventory: Inventory, place_of: Callable[[str], Place], reported: Iterable[DeviceInfo], at: str
) -> tuple[DeviceInfo, ...]:
    """By type and minor. `known`: as the object has them, for conditions that stay; `at`: when others changed."""
    infos: list[DeviceInfo] = []
    if inventory.others:
        # A vendor's files about the machine's devices take precedence over NVML.
        infos += map(_of_vendor, inventory.others)
    else:
        for gpu in inventory.gpus:
            infos += _of_gpu(gpu, place_of(gpu.bus_id))
    infos += (_of_card(card, place_of(card.bus_id)) for card in inventory.cards)
    before = {(info.type, info.id): info for info in reported}
    reported_since = [_since(info, before.get((info.type, info.id)), at) for info in infos]
    gone = [info for key, info in before.items() if key not in {(new.type, new.id) for new in reported_since}]
    reported_since += _lost(gone, {(info.type, info.minor) for info in reported_since}, inventory, at)
    return tuple(sorted(reported_since, key=lambda info: (info.type, info.minor or 0)))


def device_labels(inventory: Inventory) -> dict[str, str]:
    if inventory.others:
        first = inventory.others[0]
        labels: dict[str, str] = {names.LABEL_GPU_VENDOR: first.vendor, names.LABEL_GPU_MODEL: first.model}
        if first.links:
            policy = "Honor" if first.must_honor else "Prefer"
            labels[GPU_PARTITION_POLICY.key] = policy
        return {name: _label(value) for name, value in labels.items()}
    if not inventory.gpus:
        return {}
    labels = {names.LABEL_GPU_VENDOR: "nvidia", names.LABEL_GPU_DRIVER_VERSION: inventory.driver}
    models = {gpu.model for gpu in inventory.gpus}
    if len(models) == 1:
        # A label speaks of the node as a whole: where GPUs differ there is none.
        labels[names.LABEL_GPU_MODEL] = models.pop().removeprefix("NVIDIA ")
    return {name: _label(value) for name, value in labels.items()}


def _label(text: str) -> str:
    """As a label may have it: one that may not would keep the whole object out."""
    return _NOT_OF_LABELS.sub("-", text)[:_LONGEST_LABEL].strip("-_.")


def device_annotations(inventory: Inventory) -> dict[str, str]:
    table = partitions.of_others(inventory.others) if inventory.others else partitions.of_gpus(inventory.gpus)
    return {GPU_PARTITIONS.key: GPU_PARTITIONS.render(table)} if table else {}


def _of_gpu(gpu: Gpu, place: Place) -> Iterator[DeviceInfo]:
    attached = _topology(place, gpu.bus_id)
    for instance in gpu.instances:
        yield _instance(gpu, instance, attached)
    if gpu.instances:
        return
    trouble = gpu.trouble or ("MIG is on and there is no instance" if gpu.is_split else "")
    reason = gpu.trouble.replace(" ", "") if gpu.trouble.startswith("Xid") else "NotUsable"
    yield _gpu_info(gpu.uuid, gpu.minor, gpu.memory_bytes, attached, _condition(reason, trouble))


def _instance(gpu: Gpu, own: MigInstance, attached: DeviceTopology | None) -> DeviceInfo:
    info = _gpu_info(own.uuid, own.minor, own.memory_bytes, attached, _condition("OfItsGPU", gpu.trouble))
    return replace(info, labels={MIG_PROFILE: own.profile, MIG_GPU: str(gpu.minor)})


def _gpu_info(
    uuid: str, minor: int, memory_bytes: int, attached: DeviceTopology | None, condition: Condition
) -> DeviceInfo:
    resources: ResourceList = {
        names.RESOURCE_GPU_CORE: WHOLE,
        names.RESOURCE_GPU_MEMORY: render(names.RESOURCE_GPU_MEMORY, memory_bytes),
        names.RESOURCE_GPU_MEMORY_RATIO: WHOLE,
    }
    return DeviceInfo(
        type="gpu",
        id=uuid,
        minor=minor,
        health=condition.status == "True",
        resources=resources,
        topology=attached,
        conditions=(condition,),
    )


def _of_card(card: RdmaCard, place: Place) -> DeviceInfo:
    functions = tuple(VirtualFunction(NO_NUMBER, bus_id) for bus_id in sorted(card.functions))
    condition = _condition("PortDown", "" if card.is_active else "a port is not active")
    return DeviceInfo(
        type="rdma",
        id=card.bus_id,
        minor=card.minor,
        health=card.is_active,
        resources={names.RESOURCE_RDMA: WHOLE},
        topology=_topology(place, card.bus_id),
        vf_groups=(VirtualFunctionGroup(vfs=functions),) if functions else (),
        conditions=(condition,),
    )


def _of_vendor(device: VendorDevice) -> DeviceInfo:
    is_placed = device.node >= 0 and bool(device.pcie)
    place = Place(device.socket, device.node, device.pcie)
    trouble = "" if device.is_healthy else device.message or "it is not healthy"
    condition = _condition(device.error or "NotUsable", trouble)
    return DeviceInfo(
        type="gpu",
        id=device.uuid,
        minor=device.minor,
        health=device.is_healthy,
        resources={names.RESOURCE_GPU_MEMORY_RATIO: WHOLE, **device.resources},
        topology=_topology(place, device.bus_id) if is_placed else None,
        conditions=(condition,),
    )


def _topology(place: Place, bus_id: str) -> DeviceTopology | None:
    """An incomplete place is not reported: the scheduler would take it for a complete one."""
    if place.node < 0 or not place.pcie:
        return None
    return DeviceTopology(place.socket, place.node, place.pcie, bus_id)


def _condition(reason: str, trouble: str) -> Condition:
    if trouble:
        return Condition(HEALTHY, "False", reason=reason, message=trouble)
    return Condition(HEALTHY, "True", reason="Works")


def _since(new: DeviceInfo, old: DeviceInfo | None, at: str) -> DeviceInfo:
    """Conditions tell since when they are so."""
    before = {condition.type: condition for condition in old.conditions} if old else {}
    kept = tuple(
        replace(condition, last_transition_time=same.last_transition_time)
        if (same := before.get(condition.type)) is not None and same.status == condition.status
        else replace(condition, last_transition_time=at)
        for condition in new.conditions
    )
    return replace(new, conditions=kept)


def _lost(
    gone: Iterable[DeviceInfo], taken: set[tuple[str, int | None]], inventory: Inventory, at: str
) -> Iterator[DeviceInfo]:
    """A GPU that stopped answering stays, as not healthy, so that people see which. MIG instances, cards and others'
    devices that are gone were taken away."""
    for old in gone:
        if old.type != "gpu" or inventory.others or MIG_PROFILE in old.labels:
            continue
        if (old.type, old.minor) in taken or _is_split(inventory, old.minor):
            continue
        yield _since(replace(old, health=False, conditions=(_condition("Lost", "it does not answer"),)), old, at)


def _is_split(inventory: Inventory, minor: int | None) -> bool:
    return any(gpu.minor == minor and gpu.is_split for gpu in inventory.gpus)
