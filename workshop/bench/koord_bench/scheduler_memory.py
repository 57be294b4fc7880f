"""What the scheduler's state takes for a large cluster, measured in a process of its own: one line of JSON.

Nodes, Services and pods come as an API server sends them, are decoded as informers do, put into the core with the
default profile, and dropped; then pods of one class and of many classes are placed. The peak is that of the whole
process, Python and all modules included. Times are CPU seconds: of decoding, of feeding, and of decisions.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import Any, Final

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import NODES, PODS, SERVICES
from koord.api.kubernetes.core import Service
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert, decode, encode
from koord.scheduler.core.core import Core
from koord.scheduler.framework.ask import Ask
from koord.scheduler.profiles import profiles_of
from koord_bench.children import status_kb
from koord_bench.decisions import Decisions, timed
from koord_bench.harness import Figures
from koord_bench.pods import PODS_PER_APP, pod, replicas

BATCH: Final = 1_000
IMAGES: Final = 40
POOLS: Final = 10
CLASSES: Final = 200
DECIDED: Final = 3_000
"""Pods of one class, and as many of `CLASSES`."""


def measure(nodes: int, pods: int, decided: int = DECIDED) -> Figures:
    """Feed a core, and place pods in it."""
    before_kb = status_kb("VmRSS")
    core = Core(profiles_of(SHIPPED))
    decoding_s = feeding_s = nodes_s = 0.0
    for start in range(0, nodes, BATCH):
        batch = [encode(node(i)) for i in range(start, min(start + BATCH, nodes))]
        began_s = time.thread_time()
        for text in batch:
            core.put(NODES, decode(Node, text))
        nodes_s += time.thread_time() - began_s
    for start in range(0, pods, BATCH):
        # What is made up here is not the state's; collecting it is not its work.
        gc.disable()
        sent: list[bytes] = []
        for first in range(start, min(start + BATCH, pods), PODS_PER_APP):
            metadata = pod(first)["metadata"]
            service = _service(metadata["labels"]["app.kubernetes.io/name"], metadata["namespace"])
            core.put(SERVICES, decode(Service, encode(service)))
            numbers = range(first, min(first + PODS_PER_APP, pods))
            sent += replicas(numbers, lambda i: _node_name(i % nodes))
        began_s = time.thread_time()
        decoded = [decode(Pod, text) for text in sent]
        decoding_s += time.thread_time() - began_s
        del sent
        gc.enable()
        began_s = time.thread_time()
        for bound in decoded:
            core.put(PODS, bound)
        feeding_s += time.thread_time() - began_s
    del decoded
    alike, mixed = (_placed(core, classes, decided) for classes in (1, CLASSES))
    return {
        "peak_mib": status_kb("VmHWM") / 1024,
        "state_mib": (status_kb("VmRSS") - before_kb) / 1024,
        "nodes_s": nodes_s,
        "decoding_s": decoding_s,
        "feeding_s": feeding_s,
        "pods_s_alike": alike.pods_s,
        "pods_s_mixed": mixed.pods_s,
        "placed": alike.placed + mixed.placed,
    }


def _placed(core: Core, classes: int, decided: int) -> Decisions:
    """Decisions about small pods of some classes, the first ones of each class left out."""
    (engine,) = core.engines.values()
    waiting = [Ask(convert(Pod, _waiting_pod(i, i % classes))) for i in range(classes + decided)]
    for ask in waiting[:classes]:
        engine.place(ask)
    return timed(engine, waiting[classes:])


def _waiting_pod(i: int, kind: int) -> dict[str, Any]:
    requests = {"cpu": f"{10 + kind}m", "memory": "16Mi"}
    labels = {"app": f"new-{kind % 20}"}
    return {
        "metadata": {"name": f"new-{kind}-{i}", "namespace": "new", "uid": f"new-{kind}-{i}", "labels": labels},
        "spec": {
            "schedulerName": "koord-scheduler",
            "containers": [{"name": "main", "image": "new:1", "resources": {"requests": requests}}],
            "nodeSelector": {"pool": f"pool-{kind % POOLS}"} if kind % 3 == 0 else {},
        },
    }


def _node_name(i: int) -> str:
    return f"node-{i:05d}"


def node(i: int) -> dict[str, Any]:
    """A node as its kubelet reports it, with the images that it has."""
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "500Gi"}
    batch = {"kubernetes.io/batch-cpu": str(20_000 + i % 1_000), "kubernetes.io/batch-memory": "64Gi"}
    conditions = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    return {
        "metadata": {
            "name": _node_name(i),
            "uid": f"00000000-0000-4000-8000-{i:012x}",
            "resourceVersion": str(1_000_000 + i),
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "labels": {
                "kubernetes.io/hostname": _node_name(i),
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "pool": f"pool-{i % POOLS}",
                "node.kubernetes.io/instance-type": f"standard-{i % 7}",
                "topology.kubernetes.io/region": "north",
                "topology.kubernetes.io/zone": f"north-{i % 3}",
            },
            "annotations": {"node.alpha.kubernetes.io/ttl": "0", "csi.volume.example.com/nodeid": f"id-{i}"},
        },
        "spec": {"podCIDR": f"10.{i >> 8 & 255}.{i & 255}.0/24", "providerID": f"cloud:///north/{i}"},
        "status": {
            "capacity": {**amounts, **batch},
            "allocatable": {**amounts, **batch},
            "conditions": [
                {
                    "type": type_,
                    "status": "True" if type_ == "Ready" else "False",
                    "reason": f"Kubelet{type_}",
                    "message": f"the kubelet says so about {type_}",
                    "lastHeartbeatTime": f"2026-11-15T00:{i % 60:02d}:00Z",
                    "lastTransitionTime": "2026-11-01T00:00:00Z",
                }
                for type_ in conditions
            ],
            "addresses": [{"type": "InternalIP", "address": f"192.168.{i >> 8 & 255}.{i & 255}"}],
            "images": [
                {
                    "names": [f"images.example.com/app-{n}@sha256:{n:064x}", f"images.example.com/app-{n}:v1"],
                    "sizeBytes": 100_000_000 + n,
                }
                for n in range(i % 10, i % 10 + IMAGES)
            ],
            "nodeInfo": {"kernelVersion": "6.8.0", "kubeletVersion": "v1.35.0", "machineID": f"{i:032x}"},
        },
    }


def _service(app: str, namespace: str) -> dict[str, Any]:
    return {
        "metadata": {"name": app, "namespace": namespace},
        "spec": {"selector": {"app.kubernetes.io/name": app}, "ports": [{"port": 80}]},
    }


def main() -> None:
    nodes, pods = map(int, sys.argv[1:])
    sys.stdout.write(json.dumps(measure(nodes, pods)) + "\n")


if __name__ == "__main__":
    main()
