"""The workloads of the demo's cluster: services, two tenants with batch jobs, GPUs with a gang. Pure data from a seed.

Services request most of the cluster and use a part of it, more by day than by night. Batch jobs of both tenants run on
the rest. Their manifests do not mention co-location: a profile turns their pods into batch pods. Each tenant has a
quota: the other tenant borrows the part of the guarantee that it does not use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from koord.api.kinds import (
    CLUSTER_COLOCATION_PROFILES,
    DEPLOYMENTS,
    DEVICES,
    ELASTIC_QUOTAS,
    NAMESPACES,
    Kind,
)
from koord.api.protocol import names
from koord.api.protocol.names import RESOURCE_BATCH_CPU, RESOURCE_BATCH_MEMORY
from koord_minicluster.hollow.chance import spread
from koord_minicluster.hollow.machine import LABEL_FLEET
from koord_minicluster.hollow.phases import ANNOTATION_DURATION

Json = dict[str, Any]
Manifest = tuple[Kind[Any], Json]

NODES: Final = 50
GPU_NODES: Final = 4
GPUS: Final = 8
"""Of each node that has any."""
NODE_CPU_MILLI: Final = 32_000
LABEL_POOL: Final = "demo.koord.sh/pool"
LABEL_BATCH: Final = "demo.koord.sh/batch"
FLEET: Final = "hollow"
SHOP: Final = "shop"
RESEARCH: Final = "research"
ANALYTICS: Final = "analytics"
MODELS: Final = "models"
HERE: Final = "here"
TENANTS: Final = (RESEARCH, ANALYTICS)
GANG_SIZE: Final = 3
KEPT_S: Final = 15
"""How long a job that is done can still be looked at."""


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    replicas: int
    cpu: int
    memory_gib: int


SERVICES: Final = (
    Service("web", 68, 8, 20),
    Service("search", 46, 8, 22),
    Service("cart", 34, 8, 18),
    Service("api", 28, 8, 18),
)
CHAT: Final = 8
"""Copies of the model that answers: two share a GPU."""


@dataclass(frozen=True, slots=True)
class JobShape:
    """A batch job: the number of parallel pods, the size of each, and roughly how long it runs."""

    tenant: str
    name: str
    pods: int
    cpu: int
    memory_gib: int
    run_s: float


ENCODE: Final = JobShape(RESEARCH, "encode", 8, 4, 6, 45.0)
REPORT: Final = JobShape(ANALYTICS, "report", 30, 4, 6, 40.0)
TUNE: Final = JobShape(MODELS, "tune", GANG_SIZE, 4, 16, 25.0)
TRAIN: Final = JobShape(MODELS, "train", GANG_SIZE, 4, 16, 45.0)

GUARANTEED: Final[Mapping[str, tuple[int, int]]] = {RESEARCH: (200, 900), ANALYTICS: (250, 900)}
"""Cores by tenant in a cluster of 50 nodes: what it is guaranteed, and what it may use at most."""


@dataclass(frozen=True, slots=True)
class RealNode:
    """A node on which pods are real processes, with a Python to run and a port that is free."""

    name: str
    python: str
    port: int


_ANSWERS: Final = """
import http.server, sys
class Ok(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *words):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Ok).serve_forever()
"""


@dataclass(frozen=True, slots=True)
class Scenario:
    nodes: int = NODES
    seed: int = 0
    local: RealNode | None = None

    @property
    def gpu_nodes(self) -> int:
        return min(GPU_NODES, self.nodes)

    def node_names(self) -> list[str]:
        return [f"{FLEET}-{number:04}" for number in range(1, self.nodes + 1)]

    def pools(self) -> dict[str, str]:
        """The pool of each node. The last nodes have GPUs: the first of them serves models, and the others train."""
        pool_of_node = dict.fromkeys(self.node_names(), "general")
        gpus = self.node_names()[self.nodes - self.gpu_nodes :]
        return {**pool_of_node, **dict.fromkeys(gpus, "training"), **dict.fromkeys(gpus[:1], "serving")}

    def replicas(self, wanted: int) -> int:
        """Replicas of a service or a job, scaled to this cluster's number of nodes without GPUs."""
        return max(1, wanted * (self.nodes - self.gpu_nodes) // (NODES - GPU_NODES))

    def foundation(self) -> list[Manifest]:
        """All initial objects, in the order of their dependencies."""
        return [
            *_namespaces(),
            *self._quotas(),
            *self._devices(),
            *(_service(service, self.replicas(service.replicas)) for service in SERVICES),
            _chat(),
            *(_real_pods(self.local) if self.local else ()),
        ]

    def guaranteed(self, tenant: str) -> tuple[int, int]:
        """Cores that the tenant is sure of, and that it may use at most."""
        least, most = GUARANTEED[tenant]
        return least * self.nodes // NODES, most * self.nodes // NODES

    def _quotas(self) -> Iterator[Manifest]:
        for tenant in TENANTS:
            least, most = (
                {RESOURCE_BATCH_CPU: str(cores * 1000), RESOURCE_BATCH_MEMORY: f"{cores * 4}Gi"}
                for cores in self.guaranteed(tenant)
            )
            meta = {"name": tenant, "namespace": tenant}
            yield ELASTIC_QUOTAS, {"metadata": meta, "spec": {"min": least, "max": most}}

    def _devices(self) -> Iterator[Manifest]:
        for node, pool in self.pools().items():
            if pool != "general":
                yield DEVICES, {"metadata": {"name": node}, "spec": {"devices": [_gpu(node, i) for i in range(GPUS)]}}

    def job(self, shape: JobShape, number: int) -> Json:
        """The manifest of a tenant's `number`th job of a kind."""
        name = f"{shape.name}-{number}"
        run_s, pods = self.run_s(shape, number), self.pods(shape)
        pod: Json = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {LABEL_FLEET: FLEET},
            "containers": [_container(shape.name, shape.cpu, f"{shape.memory_gib}Gi")],
        }
        meta: Json = {"annotations": {ANNOTATION_DURATION: f"{run_s:.0f}s"}}
        if shape.tenant == MODELS:
            pod["nodeSelector"] = {LABEL_POOL: "training"}
            pod["priorityClassName"] = "koord-prod"
            for amounts in pod["containers"][0]["resources"].values():
                amounts[names.RESOURCE_GPU] = str(GPUS * 100)
        if shape is TRAIN:
            meta["annotations"] |= {names.ANNOTATION_GANG_NAME: name, names.ANNOTATION_GANG_MIN_AVAILABLE: str(pods)}
        return {
            "metadata": {"name": name, "namespace": shape.tenant},
            "spec": {
                "completions": pods,
                "parallelism": pods,
                # A pod that is evicted has not failed: the job makes another one.
                "backoffLimit": 100_000,
                "ttlSecondsAfterFinished": KEPT_S,
                "template": {"metadata": meta, "spec": pod},
            },
        }

    def pods(self, shape: JobShape) -> int:
        return shape.pods if shape.tenant == MODELS else self.replicas(shape.pods)

    def run_s(self, shape: JobShape, number: int) -> float:
        return spread(self.seed, "job", shape.name, number, around=shape.run_s, by=0.25)


def _namespaces() -> Iterator[Manifest]:
    for name in (SHOP, MODELS):
        yield NAMESPACES, {"metadata": {"name": name}}
    for name in TENANTS:
        yield NAMESPACES, {"metadata": {"name": name, "labels": {LABEL_BATCH: "true"}}}
    yield (
        CLUSTER_COLOCATION_PROFILES,
        {
            "metadata": {"name": "demo-batch"},
            "spec": {
                "namespaceSelector": {"matchLabels": {LABEL_BATCH: "true"}},
                "qosClass": "BE",
                "priorityClassName": "koord-batch",
                "schedulerName": names.SCHEDULER_KOORD,
            },
        },
    )


def _service(service: Service, replicas: int) -> Manifest:
    container = _container(service.name, service.cpu, f"{service.memory_gib}Gi")
    return _deployment(service.name, SHOP, replicas, {LABEL_POOL: "general"}, container)


def _chat() -> Manifest:
    container = _container("chat", 2, "8Gi")
    for amounts in container["resources"].values():
        amounts[names.RESOURCE_GPU] = "50"
    return _deployment("chat", MODELS, CHAT, {LABEL_POOL: "serving"}, container)


def _real_pods(node: RealNode) -> Iterator[Manifest]:
    """On a node that is a real machine: a service that answers, and a batch job that takes all CPU that it is left."""
    on = {"kubernetes.io/hostname": node.name}
    answer = _container("answer", "100m", "64Mi", [node.python, "-c", _ANSWERS, str(node.port)])
    answer["readinessProbe"] = {"httpGet": {"port": node.port, "path": "/"}, "periodSeconds": 1}
    yield NAMESPACES, {"metadata": {"name": HERE}}
    yield _deployment("answer", HERE, 1, on, answer)
    crunch = _container("crunch", "500m", "64Mi", ["sh", "-c", "while :; do :; done"])
    kind, manifest = _deployment("crunch", RESEARCH, 1, on, crunch)
    template = manifest["spec"]["template"]
    del template["spec"]["priorityClassName"], template["metadata"]["labels"][names.LABEL_QOS_CLASS]
    yield kind, manifest


def _deployment(name: str, namespace: str, replicas: int, nodes: Mapping[str, str], container: Json) -> Manifest:
    labels = {"app": name}
    spec = {
        "priorityClassName": "koord-prod",
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": dict(nodes),
        "containers": [container],
    }
    return DEPLOYMENTS, {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": {**labels, names.LABEL_QOS_CLASS: "LS"}}, "spec": spec},
        },
    }


def _container(name: str, cpu: int | str, memory: str, command: Sequence[str] = ()) -> Json:
    amounts = {"cpu": str(cpu), "memory": memory}
    made: Json = {"name": name, "image": f"{name}:1", "resources": {"requests": amounts, "limits": dict(amounts)}}
    return {**made, "command": list(command)} if command else made


def _gpu(node: str, minor: int) -> Json:
    half = str(minor // (GPUS // 2))
    return {
        "type": "gpu",
        "minor": minor,
        "id": f"GPU-{node}-{minor}",
        "health": True,
        "resources": {
            names.RESOURCE_GPU_CORE: "100",
            names.RESOURCE_GPU_MEMORY_RATIO: "100",
            names.RESOURCE_GPU_MEMORY: "80Gi",
        },
        "topology": {"socketID": int(half), "nodeID": int(half), "pcieID": half},
    }


def service_pods(scenario: Scenario) -> int:
    """How many pods services have in all."""
    return sum(scenario.replicas(service.replicas) for service in SERVICES) + CHAT
