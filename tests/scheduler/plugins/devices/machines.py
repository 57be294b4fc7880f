"""Builders for tests of devices: machine("n", gpus=8), pods that hold parts of them, and an engine that places more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from koord.api.configuration.scheduler_args import DeviceShareArgs
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.machinery.faults import check
from koord.api.protocol.crd.device import Device
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.plugins.devices.grants import Granted, read
from koord.scheduler.plugins.devices.ledger import Devices
from koord.scheduler.plugins.devices.plugin import DeviceShare
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.build import node, pod

GI = 1 << 30
K = "koordinator.sh"
ALLOCATED = "scheduling.koordinator.sh/device-allocated"
HINT = "scheduling.koordinator.sh/device-allocate-hint"
JOINT = "scheduling.koordinator.sh/device-joint-allocate"
PARTITION = "scheduling.koordinator.sh/gpu-partition-spec"


def gpu(minor: int, *, pcie: int | None = None, numa: int = 0, memory: str = "80Gi", **more: Any) -> dict[str, Any]:
    """A healthy GPU, in a place where a PCIe switch is given."""
    found: dict[str, Any] = {
        "type": "gpu",
        "id": f"GPU-{minor}",
        "minor": minor,
        "health": True,
        "resources": {f"{K}/gpu-core": "100", f"{K}/gpu-memory-ratio": "100", f"{K}/gpu-memory": memory},
    }
    return {**found, **_place(pcie, numa), **more}


def rdma(minor: int, *, pcie: int | None = None, numa: int = 0, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "rdma", "id": f"0000:0{minor}", "minor": minor, "health": True}
    return {**found, "resources": {f"{K}/rdma": "100"}, **_place(pcie, numa), **more}


def fpga(minor: int, **more: Any) -> dict[str, Any]:
    return {"type": "fpga", "minor": minor, "health": True, "resources": {f"{K}/fpga": "100"}, **more}


def _place(pcie: int | None, numa: int) -> dict[str, Any]:
    return {} if pcie is None else {"topology": {"socketID": numa, "nodeID": numa, "pcieID": str(pcie)}}


def eight(**more: Any) -> list[dict[str, Any]]:
    """Two GPUs on each of four PCIe switches, two switches on each of two NUMA nodes."""
    return [gpu(i, pcie=i // 2, numa=i // 4, **more) for i in range(8)]


def device(name: str, devices: Sequence[Mapping[str, Any]], **meta: Any) -> Device:
    return convert(Device, {"metadata": {"name": name, **meta}, "spec": {"devices": list(devices)}})


def held(**of_type: Mapping[int, Mapping[str, str | int]]) -> dict[str, str]:
    """The annotation of a pod that has devices: held(gpu={0: {"gpu-core": 50}})."""
    said = {
        type_: [
            {"minor": minor, "resources": {f"{K}/{name}": str(amount) for name, amount in amounts.items()}}
            for minor, amounts in of.items()
        ]
        for type_, of in of_type.items()
    }
    return {ALLOCATED: json.dumps(said)}


def asking(**number: int) -> dict[str, str]:
    """Requests for N whole devices of each type: a pod that has less than that asked for it."""
    found = {f"{K}/{type_}": str(100 * of_type) for type_, of_type in number.items() if type_ != "gpu"}
    if "gpu" in number:
        gpus = number["gpu"]
        found |= {f"{K}/gpu.shared": str(gpus), f"{K}/gpu-core": str(100 * gpus)}
        found[f"{K}/gpu-memory-ratio"] = str(100 * gpus)
    return found


def share(percent: int, memory_gi: int = 80) -> dict[str, str | int]:
    """What a share of a GPU comes to."""
    return {"gpu-core": percent, "gpu-memory-ratio": percent, "gpu-memory": memory_gi * GI * percent // 100}


class Scene:
    """A cluster, and DeviceShare alone on it."""

    def __init__(self, *plugins: Plugin, seed: int = 0, **args: Any) -> None:
        self.cluster = Cluster(seed)
        self.plugin = DeviceShare(check(DeviceShareArgs, args, "args"))
        used = (*plugins, self.plugin)
        self.engine = Engine(self.cluster, Profile("s", used, {plugin.name: 1 for plugin in used}))
        self.devices = self.cluster.notes(Devices)
        self._number = 0

    def node(self, name: str = "n", devices: Sequence[Mapping[str, Any]] | None = None, **more: Any) -> Scene:
        """A node, with a Device object where devices are given."""
        labels, annotations = more.pop("device_labels", {}), more.pop("annotations", {})
        self.cluster.put_node(node(name, **more))
        if devices is not None:
            self.devices.put_device(device(name, devices, labels=labels, annotations=annotations))
        return self

    def holds(self, on: str = "n", **of_type: Mapping[int, Mapping[str, str | int]]) -> Pod:
        """A pod that has devices, as its annotation says."""
        self._number += 1
        number = {type_: len(of) for type_, of in of_type.items()}
        found = pod(f"there-{self._number}", on=on, requests=asking(**number), annotations=held(**of_type))
        self.put(found)
        return found

    def busy(self, *minors: int, on: str = "n", percent: int = 100) -> Pod:
        return self.holds(on, gpu={minor: share(percent) for minor in minors})

    def put(self, bound: Pod) -> None:
        record = Ask(bound).record()
        record = msgspec.structs.replace(record, notes=self.cluster.noted(bound))
        self.cluster.place(record, self.cluster.table.row_of[bound.spec.node_name])

    def place(self, name: str = "", annotations: Mapping[str, str] | None = None, **requests: str | int) -> Got:
        """Place a pod that asks for these resources of koordinator.sh; an underscore stands for a hyphen."""
        asked = {resource(key): amount for key, amount in requests.items()}
        return self.ask(Ask(pod(name or f"p-{self._next()}", requests=asked, annotations=annotations)))

    def ask(self, ask: Ask) -> Got:
        return Got(self, ask)

    def _next(self) -> int:
        self._number += 1
        return self._number


def resource(key: str) -> str:
    vendors = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "npu_core": "huawei.com/npu-core"}
    return vendors.get(key) or f"{K}/{key.replace('shared', 'gpu.shared').replace('_', '-')}"


class Got:
    """What became of a pod."""

    def __init__(self, scene: Scene, ask: Ask) -> None:
        self.placement = scene.engine.place(ask, explain=True)
        self.node = self.placement.node
        self.why_not = " ".join(self.placement.why_not.get("DeviceShare", {})) or self.placement.refusal
        self.granted: Granted | None = None
        self.patch: Mapping[str, Any] = {}
        if self.node is not None:
            row = scene.cluster.table.row_of[self.node]
            patch = scene.engine.plan(ask, row).patch
            if patch is not None:
                self.patch = patch.body
                said = patch.body["metadata"]["annotations"]
                self.granted = read(convert(Pod, {"metadata": {"annotations": said}}).metadata)

    def minors(self, type_: str = "gpu") -> list[int]:
        return [] if self.granted is None else [grant.minor for grant in self.granted.of(type_)]

    def of(self, minor: int, type_: str = "gpu") -> dict[str, int]:
        assert self.granted is not None
        (grant,) = (grant for grant in self.granted.of(type_) if grant.minor == minor)
        return {name.partition("/")[2]: amount for name, amount in grant.amounts}
