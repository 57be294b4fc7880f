"""What the scheduler's state takes for a large cluster, measured in a process of its own: one line of JSON.

Nodes, Services and pods are decoded from what an API server sends, as informers would, fed to the state with the
default profile attached, and dropped; then pods of many classes are placed. The peak is that of the whole process,
Python and all modules included; CPU seconds are those of feeding alone.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import Any

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kubernetes.core import Service
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import decode, encode
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.profiles import profiles_of
from koord.scheduler.state.cluster import Cluster
from koord_bench.children import status_kb
from koord_bench.harness import Figures
from koord_bench.pods import PODS_PER_APP, pod

BATCH = 1_000
IMAGES = 40
CLASSES = 200


def measure(nodes: int, pods: int) -> Figures:
    """Feed a state, and place pods of some classes in it."""
    before_kb = status_kb("VmRSS")
    cluster = Cluster()
    profile = next(iter(profiles_of(SHIPPED).profiles.values()))
    engine = Engine(cluster, profile)
    for i in range(nodes):
        cluster.put_node(decode(Node, encode(_node(i))))
    services: set[str] = set()
    feeding_s = 0.0
    for start in range(0, pods, BATCH):
        # What is made up here is not the state's; collecting it is not its work.
        gc.disable()
        sent = [_bound_pod(i, nodes) for i in range(start, min(start + BATCH, pods))]
        for raw in sent:
            app = raw["metadata"]["labels"]["app.kubernetes.io/name"]
            if app not in services:
                services.add(app)
                cluster.put_service(decode(Service, encode(_service(app, raw["metadata"]["namespace"]))))
        decoded = [decode(Pod, encode(raw)) for raw in sent]
        del sent
        gc.enable()
        began = time.thread_time()
        for bound in decoded:
            ask = Ask(bound)
            notes = cluster.noted(bound, template=ask.template)
            cluster.place(ask.record(cluster.now_s, notes), cluster.table.row_of[bound.spec.node_name])
        feeding_s += time.thread_time() - began
    for i in range(CLASSES):
        waiting = pod(pods + i * PODS_PER_APP)
        del waiting["spec"]["nodeName"]
        engine.place(Ask(decode(Pod, encode(waiting))))
    return {
        "peak_mib": status_kb("VmHWM") / 1024,
        "state_mib": (status_kb("VmRSS") - before_kb) / 1024,
        "feeding_s": feeding_s,
    }


def _bound_pod(i: int, nodes: int) -> dict[str, Any]:
    """A pod of a template that it shares with a few others, on some node."""
    raw = pod(i)
    del raw["metadata"]["managedFields"]
    raw["spec"] = {**pod(i - i % PODS_PER_APP)["spec"], "nodeName": _node_name(i % nodes)}
    return raw


def _node_name(i: int) -> str:
    return f"node-{i:05d}"


def _node(i: int) -> dict[str, Any]:
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
