"""Devices: which ones pods ask for and got, and how a node's GPUs may be divided.

Devices are told apart by type (gpu, rdma, fpga) and by minor, their number on the node. Virtual functions
are parts of a network card.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import Meta
from msgspec.structs import replace

from koord.api.machinery.faults import Fault, Invalid
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol import names
from koord.api.protocol.annotations.forms import INT64, MINORS, SWITCH, TEXT, json_map, json_object, one_of
from koord.api.protocol.annotations.value import (
    NODE,
    NODE_OR_DEVICE,
    POD_OR_RESERVATION,
    Annotation,
    Form,
    Label,
    Value,
)
from koord.api.protocol.crd.fields import Int32
from koord.api.protocol.old_names import with_current_names
from koord.api.text.quantity import Quantity, ResourceList, value
from koord.api.text.selector import LabelSelector, selector_faults
from koord.api.text.timestamp import from_seconds, parse_timestamp

DEVICE: Final = ("Device",)
_SIZE: Final = re.compile("[1-9][0-9]{0,3}")


class AllocatedVF(Struct):
    """A virtual function that a pod got."""

    minor: int = 0
    bus_id: str = ""


class AllocationExtension(Struct):
    vfs: tuple[AllocatedVF, ...] = ()
    gpu_shared_resource_template: str = ""


class AllocatedDevice(Struct):
    """A device, or a part of one, that a pod got."""

    minor: Int32
    resources: ResourceList
    id: str = ""
    extension: AllocationExtension | None = None


TYPES: Final = ("fpga", "gpu", "rdma")
"""Of devices that pods may ask for."""


class DeviceHint(Struct):
    """How to choose devices of one type."""

    selector: LabelSelector | None = None
    vf_selector: LabelSelector | None = None
    allocate_strategy: Literal["", "ApplyForAll", "RequestsAsCount"] = ""
    required_topology_scope: Literal["", "Device", "PCIe", "NUMANode", "Node"] = ""
    exclusive_policy: Literal["", "DeviceLevel", "PCIeLevel"] = ""


class JointAllocate(Struct):
    """Device types whose devices should be close together: the first leads."""

    device_types: tuple[Literal["gpu", "rdma", "fpga"], ...] = ()
    required_scope: Literal["", "SamePCIe"] = ""


class GPUPartitionSpec(Struct):
    """How linked a pod's GPUs must be. Policy Restricted insists on it, BestEffort, the default, does not."""

    allocate_policy: Literal["", "BestEffort", "Restricted"] = ""
    ring_bus_bandwidth: Quantity | None = None

    @property
    def is_restricted(self) -> bool:
        return self.allocate_policy == "Restricted"


class GPUPartition(Struct):
    """GPUs that may be given out together, and how well they are linked."""

    minors: tuple[Annotated[int, Meta(ge=0)], ...]
    gpu_link_type: str = ""
    ring_bus_bandwidth: Quantity | None = None
    allocation_score: int = 0


class NodeLock(NamedTuple):
    """A node whose vendor's device plugin handles one pod at a time: whose turn it is, and since when."""

    at_s: float
    namespace: str
    name: str

    @property
    def pod(self) -> str:
        return f"{self.namespace}/{self.name}"


def _parse_lock(text: str) -> NodeLock:
    at, *pod = text.split(",")
    if len(pod) != 2 or not all(pod):
        raise ValueError("must be a time, a namespace and the name of a pod, with commas in between")
    return NodeLock(parse_timestamp(at), *pod)


def _render_lock(lock: NodeLock) -> str:
    return f"{from_seconds(lock.at_s)},{lock.namespace},{lock.name}"


def _hint_faults(hints: Mapping[str, DeviceHint]) -> Iterator[Fault]:
    for type_, hint in hints.items():
        if type_ not in TYPES:
            yield Fault(f"[{type_[:40]}]", f"must be one of {', '.join(TYPES)}")
        for name, selector in (("selector", hint.selector), ("vfSelector", hint.vf_selector)):
            for fault in selector_faults(selector) if selector else ():
                yield fault.under(f"{type_}.{name}")


def _spec_faults(spec: GPUPartitionSpec) -> Iterator[Fault]:
    if spec.ring_bus_bandwidth is not None and value(spec.ring_bus_bandwidth) < 0:
        yield Fault("ringBusBandwidth", f"must not be negative, as {spec.ring_bus_bandwidth} is")


_ALLOCATIONS: Final = json_map(tuple[AllocatedDevice, ...], by_program=True)
_PARTITIONS: Final = json_map(tuple[GPUPartition, ...], by_program=True)


def _parse_allocations(text: str) -> Mapping[str, tuple[AllocatedDevice, ...]]:
    return {type_: tuple(map(_with_current_names, devices)) for type_, devices in _ALLOCATIONS.parse(text).items()}


def _with_current_names(device: AllocatedDevice) -> AllocatedDevice:
    resources = with_current_names(device.resources)
    return device if resources is device.resources else replace(device, resources=resources)


def _parse_partitions(text: str) -> Mapping[int, tuple[GPUPartition, ...]]:
    by_text = _PARTITIONS.parse(text)
    wrong = [size for size in by_text if not _SIZE.fullmatch(size)]
    if wrong:
        raise Invalid("", [Fault(f"[{size[:40]}]", "must be a number of GPUs") for size in wrong])
    faults = [
        Fault(f"[{size}][{i}].minors", f"must be {size} different GPUs, not {list(partition.minors)}"[:200])
        for size, partitions in by_text.items()
        for i, partition in enumerate(partitions)
        if not len(partition.minors) == len(set(partition.minors)) == int(size)
    ]
    if faults:
        raise Invalid("", faults)
    return {int(size): partitions for size, partitions in by_text.items()}


def _render_partitions(table: Mapping[int, tuple[GPUPartition, ...]]) -> str:
    return _PARTITIONS.render({str(size): partitions for size, partitions in table.items()})


DEVICE_ALLOCATED: Final = Annotation(
    names.ANNOTATION_DEVICE_ALLOCATED, Form(_parse_allocations, _ALLOCATIONS.render), EMPTY, on=POD_OR_RESERVATION
)
"""By device type."""
DEVICE_ALLOCATE_HINT: Final = Annotation(
    names.ANNOTATION_DEVICE_ALLOCATE_HINT, json_map(DeviceHint, faults=_hint_faults), EMPTY, on=POD_OR_RESERVATION
)
"""By device type."""
DEVICE_JOINT_ALLOCATE: Final = Annotation(
    names.ANNOTATION_DEVICE_JOINT_ALLOCATE, json_object(JointAllocate), None, on=POD_OR_RESERVATION
)
GPU_PARTITION_SPEC: Final = Annotation(
    names.ANNOTATION_GPU_PARTITION_SPEC, json_object(GPUPartitionSpec, _spec_faults), None, on=POD_OR_RESERVATION
)
GPU_ISOLATION_PROVIDER: Final = Label(names.LABEL_GPU_ISOLATION_PROVIDER, TEXT, "", on=("Pod", "Node"))

GPU_PARTITIONS: Final = Annotation(
    names.ANNOTATION_GPU_PARTITIONS, Form(_parse_partitions, _render_partitions), None, on=DEVICE
)
"""By number of GPUs. None: there is no table."""
GPU_PARTITION_POLICY: Final = Label(
    names.LABEL_GPU_PARTITION_POLICY, one_of("Honor", "Prefer"), "Prefer", on=NODE_OR_DEVICE, bad="Prefer"
)
GPU_VENDOR: Final = Label(names.LABEL_GPU_VENDOR, TEXT, "", on=NODE_OR_DEVICE)
GPU_MODEL: Final = Label(names.LABEL_GPU_MODEL, TEXT, "", on=NODE_OR_DEVICE, old_keys=(names.OLD_LABEL_GPU_MODEL,))
GPU_DRIVER_VERSION: Final = Label(
    names.LABEL_GPU_DRIVER_VERSION, TEXT, "", on=NODE_OR_DEVICE, old_keys=(names.OLD_LABEL_GPU_DRIVER,)
)
SECONDARY_DEVICE_WELL_PLANNED: Final = Label(
    names.LABEL_SECONDARY_DEVICE_WELL_PLANNED, SWITCH, None, on=DEVICE, bad=None
)
"""None if it is not set."""

_LOCK: Final = Form(_parse_lock, _render_lock)
HAMI_LOCK: Final = Annotation(names.ANNOTATION_HAMI_LOCK, _LOCK, None, on=NODE, bad=None)
CAMBRICON_DSMLU_LOCK: Final = Annotation(names.ANNOTATION_CAMBRICON_DSMLU_LOCK, _LOCK, None, on=NODE, bad=None)
HAMI_VGPU_NODE: Final = Label(names.LABEL_HAMI_VGPU_NODE, TEXT, "")
BIND_TIMESTAMP_NS: Final = Annotation(names.ANNOTATION_BIND_TIMESTAMP, INT64, None)
PREDICATE_TIME_NS: Final = Annotation(names.ANNOTATION_PREDICATE_TIME, INT64, None)
GPU_MINORS: Final = Annotation(names.ANNOTATION_GPU_MINORS, MINORS, ())

VALUES: Final[tuple[Value[Any, Any], ...]] = (
    DEVICE_ALLOCATED,
    DEVICE_ALLOCATE_HINT,
    DEVICE_JOINT_ALLOCATE,
    GPU_PARTITION_SPEC,
    GPU_ISOLATION_PROVIDER,
    GPU_PARTITIONS,
    GPU_PARTITION_POLICY,
    GPU_VENDOR,
    GPU_MODEL,
    GPU_DRIVER_VERSION,
    SECONDARY_DEVICE_WELL_PLANNED,
    HAMI_LOCK,
    CAMBRICON_DSMLU_LOCK,
    HAMI_VGPU_NODE,
    BIND_TIMESTAMP_NS,
    PREDICATE_TIME_NS,
    GPU_MINORS,
)
