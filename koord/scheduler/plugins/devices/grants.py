"""Which devices a pod was allocated: its `device-allocated` annotation, as a note.

Notes are values, and their amounts are integers. The annotation counts, unchanged, if the pod requests devices of that
type. Admission ensures that only a scheduler writes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests, stored_amounts
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.protocol.annotations.device import (
    DEVICE_ALLOCATE_HINT,
    DEVICE_ALLOCATED,
    AllocatedDevice,
    AllocatedVF,
    AllocationExtension,
)
from koord.api.text.quantity import from_value
from koord.scheduler.framework.change import listed
from koord.scheduler.plugins.devices.requests import NAMES_OF
from koord.scheduler.state.pods import Amounts
from koord.scheduler.state.stand_ins import is_stand_in

_IN_BYTES: Final = frozenset({names.RESOURCE_GPU_MEMORY})
PCIE_LEVEL: Final = "PCIeLevel"


class VF(NamedTuple):
    """A virtual function."""

    minor: int
    bus_id: str


class Grant(NamedTuple):
    """A device, or a part of one."""

    minor: int
    amounts: Amounts
    id: str = ""
    vfs: tuple[VF, ...] = ()
    template: str = ""


class Granted(NamedTuple):
    """All that one pod has. This is its note."""

    by_type: tuple[tuple[str, tuple[Grant, ...]], ...]
    "Sorted by type."
    alone_on_pcie: tuple[str, ...] = ()
    "Types whose devices no other pod may use on the same PCIe switches."

    def of(self, type_: str) -> tuple[Grant, ...]:
        return next((grants for name, grants in self.by_type if name == type_), ())


def held_by(pod: Pod) -> Granted | None:
    """What counts of what a pod says that it has: devices of types that it asks for. What stands for a reservation is
    the scheduler's own."""
    said = read(pod.metadata)
    if said is None or is_stand_in(pod.metadata.name):
        return said
    asked_for = {name for name, amount in pod_requests(pod, capped=True).items() if amount}
    by_type = tuple(of_type for of_type in said.by_type if not asked_for.isdisjoint(NAMES_OF.get(of_type[0], ())))
    return said._replace(by_type=by_type) if by_type else None


def read(meta: ObjectMeta) -> Granted | None:
    """What a pod says that it has; None: nothing, or nothing that can be understood."""
    if names.ANNOTATION_DEVICE_ALLOCATED not in meta.annotations:
        return None
    try:
        said = DEVICE_ALLOCATED.read(meta)
        by_type = [(type_, tuple(map(_grant, devices))) for type_, devices in said.items() if devices]
    except BadInput:
        return None
    return Granted(tuple(sorted(by_type)), alone_on_pcie(meta)) if by_type else None


def alone_on_pcie(meta: ObjectMeta) -> tuple[str, ...]:
    """Types for which a pod wants PCIe switches to itself."""
    if names.ANNOTATION_DEVICE_ALLOCATE_HINT not in meta.annotations:
        return ()
    try:
        hints = DEVICE_ALLOCATE_HINT.read(meta)
    except BadInput:
        return ()
    return tuple(sorted(type_ for type_, hint in hints.items() if hint.exclusive_policy == PCIE_LEVEL))


def render(granted: Granted) -> str:
    """The text of the annotation."""
    return DEVICE_ALLOCATED.render({type_: tuple(map(_device, grants)) for type_, grants in granted.by_type})


def words_of(granted: Granted) -> str:
    """For people: `50% of gpu 0`, `gpu 0 and 1, 1% of rdma 2`, `vir04 of gpu 0`."""
    return ", ".join(_some(type_, grants) for type_, grants in granted.by_type)


def _some(type_: str, grants: tuple[Grant, ...]) -> str:
    percent = max((amount for name, amount in grants[0].amounts if name not in _IN_BYTES), default=100)
    minors = listed(str(grant.minor) for grant in grants)
    if grants[0].template:
        return f"{grants[0].template} of {type_} {minors}"
    return f"{type_} {minors}" if percent >= 100 else f"{percent}% of {type_} {minors}"


def _grant(device: AllocatedDevice) -> Grant:
    extension = device.extension or AllocationExtension()
    vfs = tuple(VF(vf.minor, vf.bus_id) for vf in extension.vfs)
    taken = tuple(
        sorted((name, quantity) for name, quantity in stored_amounts(device.resources).items() if quantity > 0)
    )
    return Grant(device.minor, taken, device.id, vfs, extension.gpu_shared_resource_template)


def _device(grant: Grant) -> AllocatedDevice:
    extension = None
    if grant.vfs or grant.template:
        extension = AllocationExtension(tuple(AllocatedVF(*vf) for vf in grant.vfs), grant.template)
    resources = {name: from_value(amount, binary=name in _IN_BYTES) for name, amount in grant.amounts}
    return AllocatedDevice(grant.minor, resources, grant.id, extension)


def rest_of(held: Granted, inside: Iterable[Granted]) -> Granted:
    """What is left of some devices when others have theirs out of them: nothing of it is there twice."""
    had: dict[tuple[str, int], dict[str, int]] = {}
    vfs: dict[tuple[str, int], set[str]] = {}
    for note in inside:
        for type_, grants in note.by_type:
            for grant in grants:
                of_device = had.setdefault((type_, grant.minor), {})
                for name, amount in grant.amounts:
                    of_device[name] = of_device.get(name, 0) + amount
                vfs.setdefault((type_, grant.minor), set()).update(vf.bus_id for vf in grant.vfs)
    if not had:
        return held
    by_type = []
    for type_, grants in held.by_type:
        rest = [_left(grant, had.get((type_, grant.minor), {}), vfs.get((type_, grant.minor), ())) for grant in grants]
        kept = tuple(grant for grant in rest if grant.amounts or grant.vfs)
        if kept:
            by_type.append((type_, kept))
    return held._replace(by_type=tuple(by_type))


def _left(grant: Grant, had: Mapping[str, int], vfs: Collection[str]) -> Grant:
    left = tuple((name, amount - had.get(name, 0)) for name, amount in grant.amounts if amount > had.get(name, 0))
    return grant._replace(amounts=left, vfs=tuple(vf for vf in grant.vfs if vf.bus_id not in vfs))


def granted(by_type: Iterable[tuple[str, tuple[Grant, ...]]], alone: tuple[str, ...]) -> Granted:
    return Granted(tuple(sorted(by_type)), alone)
