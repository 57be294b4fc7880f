"""Device: the accelerators and special network cards of one node. Named as the node; the node agent writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from koord.api.kubernetes.meta import Condition, ObjectMeta
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol.crd.fields import Int32, served_default
from koord.api.text.quantity import ResourceList


class DeviceTopology(Struct):
    socket_id: Int32
    "CPU socket that the device is attached to; -1 if unknown."
    node_id: Int32
    "NUMA node that the device is attached to, numbered over all sockets; -1 if unknown."
    pcie_id: str
    "PCIe switch that the device is attached to, unique on the node."
    bus_id: str = ""
    "PCI address: domain:bus:device.function."


class VirtualFunction(Struct):
    minor: Int32
    "Number of the virtual function, from 0."
    bus_id: str = ""
    "PCI address of the virtual function: domain:bus:device.function."


class VirtualFunctionGroup(Struct):
    labels: Mapping[str, str] = EMPTY
    "Properties of the group, which a pod's device hint can select by."
    vfs: tuple[VirtualFunction, ...] = ()
    "The virtual functions in the group."


class DeviceInfo(Struct):
    type: str = ""
    "Kind of device: gpu, rdma or fpga."
    labels: Mapping[str, str] = EMPTY
    "Properties of the device, which a pod's device hint can select by."
    id: str = ""
    "Identifier that the vendor gave the device, such as a GPU's UUID."
    minor: Int32 | None = None
    "Number of the device among those of its type on the node, from 0. Allocations name devices by it."
    module_id: Int32 | None = None
    "Number of the slot that the device sits in."
    health: Annotated[bool, served_default(False)] = False
    "Whether the device works. Only healthy devices are allocated."
    resources: ResourceList = EMPTY
    "What the device offers, for example koordinator.sh/gpu-core: 100 and koordinator.sh/gpu-memory: 80Gi."
    topology: DeviceTopology | None = None
    "Where the device is attached."
    vf_groups: tuple[VirtualFunctionGroup, ...] = ()
    "Virtual functions that the device can be split into."
    conditions: tuple[Condition, ...] = ()
    "What is known about the state of the device. Type Healthy tells why a device is not healthy."


class DeviceSpec(Struct):
    devices: tuple[DeviceInfo, ...] = ()
    "The devices of the node."


class DeviceAllocationItem(Struct):
    name: str = ""
    "Name of the pod."
    namespace: str = ""
    "Namespace of the pod."
    uuid: str = ""
    "UID of the pod."
    minors: tuple[Int32, ...] = ()
    "Numbers of the devices that the pod has."


class DeviceAllocation(Struct):
    type: str = ""
    "Kind of device: gpu, rdma or fpga."
    entries: tuple[DeviceAllocationItem, ...] = ()
    "Allocations of devices of this kind."


class DeviceStatus(Struct):
    allocations: tuple[DeviceAllocation, ...] = ()
    "Allocations of devices."


class Device(Struct):
    """The accelerators and special network cards of one node, named as the node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceSpec = DeviceSpec()
    "What the node agent found on the node."
    status: DeviceStatus = DeviceStatus()
    "What of it is allocated."
