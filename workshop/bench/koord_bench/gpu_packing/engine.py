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
from koord.api.kubernetes.pod import Pod
from koord.api.protocol import names
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.stable import stable_hash, tie
from koord.scheduler.plugins.devices.grants import Granted
from koord.scheduler.plugins.devices.ledger import Devices
from koord.scheduler.plugins.packing.demand import Demand
from koord.scheduler.plugins.packing.shapes import PodShape
from koord.scheduler.profiles import profiles_of
from koord.scheduler.state.cluster import Cluster
from koord.sim import pods
from koord.sim.columns import GpuShare, NodeGpus
from koord.sim.packing import MIB, device
from koord_bench.gpu_packing.replay import Placed
from koord_bench.gpu_packing.traces import Trace

CREATED: Final = pods.stamp(0.0)


class EngineReplay:
    """A cluster of the engine's own, under a policy of DeviceShare."""

    def __init__(self, trace: Trace, policy: str) -> None:
        self._cluster = cluster = Cluster(seed=0)
        (profile,) = profiles_of(parse(configuration(policy))).profiles.values()
        self._engine = Engine(cluster, replace(profile, ties="fixed"))
        demand = cluster.notes(Demand)
        for number, pod in enumerate(trace.pods):
            demand.see(f"known/{number}", pod.shape, 0.0, 0.0)
        for name, node in zip(_in_order(len(trace.nodes)), trace.nodes, strict=True):
            gpus = NodeGpus(node.gpus, node.model)
            cluster.put_node(pods.node(name, node.cpu_milli, node.memory_mib * MIB, {}, gpus if node.gpus else None))
            cluster.notes(Devices).put_device(device(name, gpus))
        self._place_of = {cluster.table.row_of[name]: i for i, name in enumerate(_in_order(len(trace.nodes)))}
        self._number = 0
        self.took_s = 0.0
        "For decisions alone: pods come from an API server in another form anyway."

    def place(self, shape: PodShape) -> Placed | None:
        ask = Ask(self._pod(shape))
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
        return Placed(self._place_of[row], devices)

    def _pod(self, shape: PodShape) -> Pod:
        self._number += 1
        name, memory_bytes = f"pod-{self._number}", shape.memory_mib * MIB
        gpu = GpuShare(shape.gpus, shape.gpu_milli, shape.models)
        return pods.batch_pod(name, "plain", shape.cpu_milli, memory_bytes, CREATED, "", "", 0, name, gpu)


def configuration(policy: str) -> dict[str, Any]:
    """A profile in which nothing but the policy scores, and only the filters that the traces need."""
    filters = [{"name": name} for name in ("NodeResourcesFit", "NodeAffinity", "DeviceShare")]
    off = {"disabled": [{"name": "*"}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": names.SCHEDULER_KOORD,
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
