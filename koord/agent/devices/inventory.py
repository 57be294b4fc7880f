"""What GPUs and RDMA cards a node has, as plain values: what the driver and sysfs said, and nothing worked out from it.

A GPU that is split by MIG cannot be used whole: CUDA counts only its instances. So each instance is a device of its
own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from koord.api.machinery.struct import EMPTY, Struct

FIRST_INSTANCE: Final = 1000
"""Instances are numbered from here on, clear of all GPUs: 1000 and the number of the instance's capability, which the
driver keeps the same for the same place on the same GPU."""


class MigInstance(Struct):
    """A part of a GPU with memory and processors of its own."""

    uuid: str
    minor: int
    profile: str
    "As NVIDIA names it: 1g.18gb."
    memory_bytes: int
    nodes: tuple[str, ...] = ()
    "The device files that let a process use it, beside its GPU's."


class Gpu(Struct):
    minor: int
    "The number of its device file: /dev/nvidia0."
    uuid: str
    model: str
    memory_bytes: int
    bus_id: str
    "As sysfs names it: 0000:3a:00.0."
    is_split: bool = False
    "By MIG."
    instances: tuple[MigInstance, ...] = ()
    links: Mapping[str, int] = EMPTY
    "By the bus id of another GPU, or of a switch, how many NVLinks lead there."
    trouble: str = ""
    "Why it cannot be used; empty where it can."

    @property
    def node(self) -> str:
        return f"nvidia{self.minor}"


class RdmaCard(Struct):
    name: str
    "As the kernel names it: mlx5_0."
    minor: int
    bus_id: str
    verbs: str = ""
    "Its device file below /dev/infiniband."
    functions: Mapping[str, str] = EMPTY
    "By bus id, the device files of its virtual functions."
    is_active: bool = True
    "Whether all its ports are up."


class VendorDevice(Struct):
    """A device of a vendor whose driver writes a file about it (`vendor_files`)."""

    vendor: str
    model: str
    uuid: str
    minor: int
    resources: Mapping[str, str] = EMPTY
    socket: int = -1
    node: int = -1
    pcie: str = ""
    bus_id: str = ""
    links: Mapping[int, str] = MappingProxyType({})
    "By the minor of another device, the kind of link."
    must_honor: bool = False
    "Whether only sets of linked devices may be given out together."
    is_healthy: bool = True
    error: str = ""
    message: str = ""


class UsableGpu(NamedTuple):
    """A GPU or an instance of one: what pods are given."""

    minor: int
    uuid: str
    memory_bytes: int
    nodes: tuple[str, ...]
    "The device files that it takes, below /dev."


class Inventory(Struct):
    driver: str = ""
    "The version of NVIDIA's driver; empty where there is none."
    gpus: tuple[Gpu, ...] = ()
    cards: tuple[RdmaCard, ...] = ()
    others: tuple[VendorDevice, ...] = ()
    cdi: tuple[str, ...] = ()
    "CDI names that container runtimes can resolve (`cdi`)."

    def usable_gpus(self) -> Iterator[UsableGpu]:
        for gpu in self.gpus:
            if not gpu.is_split:
                yield UsableGpu(gpu.minor, gpu.uuid, gpu.memory_bytes, (gpu.node,))
            for instance in gpu.instances:
                yield UsableGpu(instance.minor, instance.uuid, instance.memory_bytes, (gpu.node, *instance.nodes))


NO_DEVICES: Final = Inventory()
