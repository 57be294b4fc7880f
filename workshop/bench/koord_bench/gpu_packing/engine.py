"""The same replay by koord's scheduling engine: nodes with Device objects, pods with requests, the real plugins.

Only DeviceShare scores, by the policy of its arguments; NodeResourcesFit, NodeAffinity and DeviceShare filter. Ties go
to the first node of a trace, as in a plain replay: which name a node gets is chosen so that the engine's hashes of
names come in that order.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Final
from zlib import crc32

from koord.api.configuration.scheduler_config import parse
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol import names
from koord.api.protocol.crd.device import Device
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.stable import stable_hash, tie
from koord.scheduler.plugins.devices.grants import Granted
from koord.scheduler.plugins.devices.ledger import Devices
from koord.scheduler.plugins.packing.demand import Demand
from koord.scheduler.plugins.packing.shapes import WHOLE, PodShape
from koord.scheduler.profiles import profiles_of
from koord.scheduler.state.cluster import Cluster
from koord_bench.gpu_packing.replay import MOST_PODS, Placed
from koord_bench.gpu_packing.traces import Trace, TraceNode

GPU_BYTES: Final = 16 << 30
SCHEDULER: Final = "packing"
ROUND_S: Final = 60.0


class EngineReplay:
    """A cluster of the engine's own, under a policy of DeviceShare."""

    def __init__(self, trace: Trace, policy: str, *, knows_lives: bool = False) -> None:
        self._cluster = cluster = Cluster(seed=0)
        (profile,) = profiles_of(parse(configuration(policy))).profiles.values()
        self._engine = Engine(cluster, replace(profile, ties="fixed"))
        demand = cluster.notes(Demand)
        for number, pod in enumerate(trace.pods):
            demand.see(f"known/{number}", pod.shape, 0.0, pod.life_s if knows_lives else 0.0)
        for name, node in zip(_in_order(len(trace.nodes)), trace.nodes, strict=True):
            cluster.put_node(convert(Node, _node(name, node)))
            cluster.notes(Devices).put_device(convert(Device, _device(name, node)))
        self._place_of = {cluster.table.row_of[name]: i for i, name in enumerate(_in_order(len(trace.nodes)))}
        self._specs: dict[PodShape, dict[str, Any]] = {}
        self._keys: dict[Placed, list[str]] = {}
        self._number = 0
        self._next_round_s = 0.0
        self.took_s = 0.0
        "For decisions alone: pods come from an API server in another form anyway."

    def now(self, now_s: float) -> None:
        """Between decisions, plugins do what a running scheduler has them do each round."""
        self._cluster.now_s = now_s
        if now_s >= self._next_round_s:
            self._next_round_s = now_s + ROUND_S
            for plugin in self._engine.profile.plugins:
                if plugin.controller is not None:
                    list(plugin.controller.writes())

    def place(self, shape: PodShape) -> Placed | None:
        ask = Ask(convert(Pod, self._pod(shape)))
        began_s = time.thread_time()
        placement = self._engine.place(ask)
        self.took_s += time.thread_time() - began_s
        if placement.node is None:
            return None
        record, row = self._cluster.pods[ask.key]
        granted = dict(record.notes).get(Devices.name)
        devices: tuple[int, ...] = ()
        if isinstance(granted, Granted):
            devices = tuple(grant.minor for _, grants in granted.by_type for grant in grants)
        placed = Placed(self._place_of[row], devices)
        self._keys.setdefault(placed, []).append(ask.key)
        return placed

    def remove(self, shape: PodShape, placed: Placed) -> None:
        # Pods of one shape at one place are alike; others at the same place are told apart by what they ask for.
        keys = self._keys[placed]
        wanted = self._cluster.notes(Demand).name
        at = next(i for i, key in enumerate(keys) if dict(self._cluster.pods[key][0].notes).get(wanted) == shape)
        self._cluster.remove_pod(keys.pop(at))

    def _pod(self, shape: PodShape) -> dict[str, Any]:
        spec = self._specs.get(shape)
        if spec is None:
            spec = self._specs[shape] = _spec(shape)
        self._number += 1
        name = f"pod-{self._number}"
        return {"metadata": {"name": name, "namespace": "replay", "uid": name}, "spec": spec}


def configuration(policy: str) -> dict[str, Any]:
    """A profile in which nothing but the policy scores."""
    filters = [{"name": name} for name in ("NodeResourcesFit", "NodeAffinity", "DeviceShare")]
    off = {"disabled": [{"name": "*"}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": SCHEDULER,
                "plugins": {
                    "preFilter": {**off, "enabled": filters},
                    "filter": {**off, "enabled": filters},
                    "postFilter": off,
                    "preScore": {**off, "enabled": [{"name": "DeviceShare"}]},
                    "score": {**off, "enabled": [{"name": "DeviceShare", "weight": 1}]},
                    "reserve": {**off, "enabled": [{"name": "DeviceShare"}]},
                    "permit": off,
                    "preBind": {**off, "enabled": [{"name": "DeviceShare"}]},
                },
                "pluginConfig": [
                    {
                        "name": "DeviceShare",
                        "args": {
                            "scoringStrategy": {"type": policy},
                            "disableDeviceNUMATopologyAlignment": True,
                        },
                    }
                ],
            }
        ],
    }


def _in_order(number: int) -> list[str]:
    """Names of nodes, in the order in which the engine breaks ties."""
    salt = stable_hash((), 0)
    return sorted((f"node-{i:05}" for i in range(number)), key=lambda name: -tie(crc32(name.encode(), 0), salt))


def _node(name: str, node: TraceNode) -> dict[str, Any]:
    room = {"cpu": f"{node.cpu_milli}m", "memory": f"{node.memory_mib}Mi", "pods": str(MOST_PODS)}
    percent = str(100 * node.gpus)
    gpus = {names.RESOURCE_GPU_CORE: percent, names.RESOURCE_GPU_MEMORY_RATIO: percent} if node.gpus else {}
    labels = {names.LABEL_GPU_MODEL: node.model} if node.gpus else {}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {**room, **gpus}}}


def _device(name: str, node: TraceNode) -> dict[str, Any]:
    offers = {
        names.RESOURCE_GPU_CORE: "100",
        names.RESOURCE_GPU_MEMORY_RATIO: "100",
        names.RESOURCE_GPU_MEMORY: str(GPU_BYTES),
    }
    devices = [
        {"type": "gpu", "minor": minor, "id": f"{name}-{minor}", "health": True, "resources": offers}
        for minor in range(node.gpus)
    ]
    return {"metadata": {"name": name}, "spec": {"devices": devices}}


def _spec(shape: PodShape) -> dict[str, Any]:
    asked = {"cpu": f"{shape.cpu_milli}m", "memory": f"{shape.memory_mib}Mi"}
    if shape.gpus:
        percent = str(shape.total_milli * 100 // WHOLE)
        asked |= {names.RESOURCE_GPU_CORE: percent, names.RESOURCE_GPU_MEMORY_RATIO: percent}
    spec: dict[str, Any] = {
        "schedulerName": SCHEDULER,
        "containers": [{"name": "main", "image": "trace/pod:1", "resources": {"requests": asked}}],
    }
    if shape.models:
        rule = {"key": names.LABEL_GPU_MODEL, "operator": "In", "values": sorted(shape.models)}
        required = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return spec
