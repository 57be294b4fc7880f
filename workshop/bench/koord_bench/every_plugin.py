"""A cluster for schedulers that have every plugin on, and one configuration that koord and Koordinator both read.

Every node reports its usage (NodeMetric) and its CPUs (NodeResourceTopology: 64 in two NUMA nodes), every tenth node
has 8 GPUs (Device), and twenty teams share the cluster (ElasticQuota). The profile is the one that Koordinator ships,
with the two scoring plugins that are not in it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, Final

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import DEVICES, ELASTIC_QUOTAS, NODE_METRICS, NODE_RESOURCE_TOPOLOGIES, NODES, Kind
from koord.api.machinery import codec
from koord.api.protocol import names
from koord.api.protocol.annotations.cpu import CPU_TOPOLOGY, CPUInfo, CPUTopology
from koord.api.text.timestamp import from_seconds
from koord.kube.client import Client
from koord.kube.locate import locate
from koord_bench import gpus
from koord_bench.api_load import MERGE_PATCH, Target, encode
from koord_bench.api_servers import RunningServer
from koord_minicluster.up.bootstrap import bootstrap

NAMESPACE: Final = "bench"
TEAMS: Final = 20
CPUS: Final = 64
GPUS: Final = 8
EVERY: Final = 10
"""One of this many nodes has GPUs."""
CLIENTS: Final = 8
_SCORING: Final[dict[str, dict[str, Any]]] = {
    "NodeResourcesFitPlus": {
        "resources": {
            "cpu": {"type": "LeastAllocated", "weight": 1},
            names.RESOURCE_GPU_CORE: {"type": "MostAllocated", "weight": 2},
        }
    },
    "ScarceResourceAvoidance": {"resources": [names.RESOURCE_GPU_CORE]},
}
_TOPOLOGY: Final = CPU_TOPOLOGY.render(
    CPUTopology(tuple(CPUInfo(id=i, core=i // 2 % 16, socket=i // 32, node=i // 32) for i in range(CPUS)))
)
Object = dict[str, Any]


def configuration() -> Object:
    """A KubeSchedulerConfiguration; usage that was reported at the start of a long run still counts at its end."""
    config: Object = json.loads(codec.encode(SHIPPED))
    (profile,) = config["profiles"]
    for point in ("preScore", "score"):
        profile["plugins"][point]["enabled"] += [{"name": name} for name in _SCORING]
    profile["pluginConfig"] += [{"name": name, "args": args} for name, args in _SCORING.items()]
    for plugin in profile["pluginConfig"]:
        if plugin["name"] == "LoadAwareScheduling":
            plugin["args"]["nodeMetricExpirationSeconds"] = 3600
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [profile],
    }


async def make(server: RunningServer, nodes: int) -> None:
    """koord's kinds and priority classes, and the cluster."""
    async with Client(locate(str(server.kubeconfig))) as client:
        await bootstrap(client)
    target, created_s = Target(server.config), time.time()
    await target.spread(1, [encode("POST", "/api/v1/namespaces", _json({"metadata": {"name": NAMESPACE}}))], 201)
    await target.spread(CLIENTS, [create(kind, obj) for kind, obj in objects(nodes)], 201)
    # A server ignores the status of an object that is created.
    reports = (_usage(i, created_s) for i in range(nodes))
    await target.spread(CLIENTS, [_status(NODE_METRICS, name, usage) for name, usage in reports], 200)


def create(kind: Kind[Any], obj: Object) -> bytes:
    body = {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
    return encode("POST", kind.path(namespace=NAMESPACE), _json(body))


def _status(kind: Kind[Any], name: str, status: Object) -> bytes:
    return encode("PATCH", kind.path(name, subresource="status"), _json({"status": status}), MERGE_PATCH)


def _json(data: Object) -> bytes:
    return json.dumps(data).encode()


def objects(nodes: int) -> Iterator[tuple[Kind[Any], Object]]:
    """The cluster, without what nodes report of their usage."""
    everything = {"cpu": str(nodes * CPUS), "memory": f"{nodes * 256}Gi"}
    of_team = {"cpu": str(nodes * CPUS // TEAMS), "memory": f"{nodes * 256 // TEAMS}Gi"}
    company = {"name": "company", "labels": {names.LABEL_QUOTA_IS_PARENT: "true"}}
    yield ELASTIC_QUOTAS, {"metadata": company, "spec": {"min": everything, "max": everything}}
    for team in range(TEAMS):
        meta = {"name": f"team-{team}", "labels": {names.LABEL_QUOTA_PARENT: "company"}}
        yield ELASTIC_QUOTAS, {"metadata": meta, "spec": {"min": of_team, "max": everything}}
    for i in range(nodes):
        yield NODES, _node(i)
        yield NODE_RESOURCE_TOPOLOGIES, _cpus(i)
        yield NODE_METRICS, {"metadata": {"name": _name(i)}, "spec": {}}
        if i % EVERY == 0:
            yield DEVICES, gpus.device(_name(i), GPUS, "80Gi")


def _name(i: int) -> str:
    return f"node-{i:05}"


def _node(i: int) -> Object:
    amounts = {"cpu": str(CPUS), "memory": "256Gi", "pods": "110"}
    amounts |= {names.RESOURCE_BATCH_CPU: str(CPUS * 500), names.RESOURCE_BATCH_MEMORY: "128Gi"}
    if i % EVERY == 0:
        percent = str(100 * GPUS)
        amounts |= {names.RESOURCE_GPU_CORE: percent, names.RESOURCE_GPU_MEMORY_RATIO: percent}
    labels = {"kubernetes.io/hostname": _name(i), "topology.kubernetes.io/zone": f"zone-{i % 3}"}
    return {"metadata": {"name": _name(i), "labels": labels}, "status": {"allocatable": amounts, "capacity": amounts}}


def _cpus(i: int) -> Object:
    resources = [
        {"name": what, "capacity": has, "allocatable": has, "available": has}
        for what, has in (("cpu", str(CPUS // 2)), ("memory", "128Gi"))
    ]
    zones = [{"name": f"node-{zone}", "type": "Node", "resources": resources} for zone in range(2)]
    meta = {"name": _name(i), "annotations": {CPU_TOPOLOGY.key: _TOPOLOGY}}
    return {"metadata": meta, "topologyPolicies": ["None"], "zones": zones}


def _usage(i: int, now_s: float) -> tuple[str, Object]:
    """Nodes use 5 to 25% of their CPUs."""
    used = {"cpu": f"{CPUS * 10 * (5 + i * 7 % 21)}m", "memory": f"{8 + i % 32}Gi"}
    return _name(i), {"updateTime": from_seconds(now_s), "nodeMetric": {"nodeUsage": {"resources": used}}}
