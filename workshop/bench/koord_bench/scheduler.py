"""How many placements a second does one core decide?

Timed in CPU seconds from a decoded Pod to its placement, with class, queue and reservation; every node is scored.
Clusters are half full; pods have unique names and labels, owners, and Services that select them, so that default
spreading is on.
Each case also tells how many rows were judged per pod, and how many times a plugin judged one, which is what the engine
is about. Equal runs place alike.

The baseline is the real kube-scheduler with identical pods on as many nodes, in the same run, where it is installed
(`peer_scheduler`). Above 5,000 nodes there is none: an API server would take too long to make them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration, parse
from koord.api.kinds import NODE_METRICS
from koord.api.kubernetes.core import Service
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.workloads import ReplicaSet
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.scheduler.core.entity import Entity
from koord.scheduler.core.queue import Queue
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.profiles import profiles_of
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import PodRecord
from koord_bench import api_servers, gpu_shares, own_cpus, preemption, reservations, reserved_room
from koord_bench.children import figures_of
from koord_bench.decisions import Decisions
from koord_bench.gpu_packing import speed as gpu_speed
from koord_bench.harness import Progress, Report, Result, Size, silent, undisturbed
from koord_bench.peer_scheduler import pods_per_second

BENCH = "scheduler"
DEFAULT = parse({})
"""Kubernetes' own plugins."""
MOST_PEER_NODES = 5_000
ZONES = 3
FULL = Size(nodes=(1_000, 5_000, 50_000), pods=5_000, peer_pods=400, memory_nodes=50_000, memory_pods=500_000)
QUICK = Size(nodes=(1_000,), pods=500, peer_pods=100, memory_nodes=1_000, memory_pods=5_000)


@dataclass(frozen=True, slots=True)
class Workload:
    """The pods to place, and what changes at the same time."""

    name: str
    pods: Callable[[int, random.Random], Iterator[dict[str, Any]]]
    goals: dict[int, int]
    "Pods a second, by number of nodes."
    meanwhile: Callable[[Engine, int, random.Random], None] | None = None
    config: SchedulerConfiguration = DEFAULT


def run(quick: bool = False, progress: Progress = silent) -> list[Result]:
    """All workloads at all sizes. `quick`: 1,000 nodes, few pods, without the goals."""
    report, size = Report(BENCH, quick, progress), QUICK if quick else FULL
    for nodes in size.nodes:
        baseline, versions = None, ""
        if nodes <= MOST_PEER_NODES:
            progress(f"kube-scheduler on {nodes} nodes")
            baseline = peer(nodes, pods=size.peer_pods)
            if baseline is not None:
                versions = api_servers.versions("kube-scheduler", "kube-apiserver", "etcd")
        for workload in WORKLOADS:
            if nodes == 50_000 and nodes not in workload.goals:
                continue
            progress(f"{workload.name} on {nodes} nodes")
            decisions = measure(workload, nodes, pods=size.pods)
            case = report.case(f"{workload.name}, {nodes} nodes", versions)
            decisions.add_rate(case, goal=workload.goals.get(nodes), baseline=baseline)
            case.add("p50", decisions.ms(0.5), "ms")
            case.add("p99", decisions.ms(0.99), "ms", goal=5.0 if nodes == 5_000 else None)
            case.add("rows judged", decisions.rows_judged / len(decisions.took_s), "rows/pod")
            case.add("plugins x rows", decisions.bodies_run / len(decisions.took_s), "1/pod")
        if nodes <= MOST_PEER_NODES:
            progress(f"preemption on {nodes} nodes")
            preemption.add_rows(report, full(nodes), _pod, pods=nodes // 20)
            progress(f"owners of reserved room on {nodes} nodes")
            add_owners(report, nodes, size.pods)
            progress(f"owners of reservations on {nodes} nodes")
            number, teams = (100, 20) if quick else (nodes * 2 // 5, 200)
            reservations.add_rows(report, map(_node, range(nodes)), _pod, number=number, teams=teams)
            progress(f"CPUs of their own on {nodes} nodes")
            own_cpus.add_rows(report, map(_node, range(nodes)), _pod, pods=size.pods)
    progress("GPU shares by how full GPUs are")
    gpu_shares.add_rows(report, pods=size.pods)
    progress("GPU shares by shadow prices")
    gpu_speed.add_rows(report, size.pods)
    nodes, pods = size.memory_nodes, size.memory_pods
    progress(f"memory of {nodes} nodes and {pods} bound pods")
    figures = figures_of("koord_bench.scheduler_memory", str(nodes), str(pods))
    case = report.case(f"{pods} bound pods, {nodes} nodes")
    case.add("peak memory", figures["peak_mib"], "MiB", goal=2048)
    case.add("fed", pods / figures["feeding_s"], "pods/s")
    return report.rows


def add_owners(report: Report, nodes: int, pods: int) -> None:
    """Pods that see room as free which is taken for others, and the same pods without that."""
    workloads = {
        name: list(make(pods, random.Random(0)))
        for name, make in (("identical", _identical), ("200 classes", _two_hundred_classes))
    }
    reserved_room.add_rows(report, lambda: half_full(nodes, random.Random(0))[0], _pod, workloads)


def peer(nodes: int, pods: int) -> float | None:
    """How many identical pods a second kube-scheduler decides, on half as full a cluster of the same nodes."""
    rng = random.Random(0)
    cluster: list[dict[str, Any]] = [{"kind": "Namespace", "metadata": {"name": "shop"}}]
    cluster += [{"kind": "Node", **_node_data(i)} for i in range(nodes)]
    for app in range(20):
        service, replica_set = _service(f"app-{app}"), _replica_set(f"app-{app}")
        service["spec"]["ports"] = [{"port": 80}]
        labels = {"app": f"app-{app}"}
        replica_set["spec"]["template"] = {"metadata": {"labels": labels}, "spec": _pod("", app="")["spec"]}
        cluster += [{"kind": "Service", **service}, {"kind": "ReplicaSet", **replica_set}]
    for i in range(nodes):
        # Fewer and larger than koord's: an API server takes long to make them.
        on = f"node-{rng.randrange(nodes):05}"
        cluster.append(_posted(_pod(f"running-{i}", app=f"app-{i % 20}", cpu="16", memory="64Gi", nodeName=on)))
    return pods_per_second(cluster, [_posted(pod) for pod in _identical(pods, rng)])


def _posted(pod: dict[str, Any]) -> dict[str, Any]:
    """A pod for an API server without a controller that marks nodes as ready."""
    (owner,) = pod["metadata"]["ownerReferences"]
    head = {**pod["metadata"], "ownerReferences": [{**owner, "uid": owner["name"]}]}
    tolerations = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]
    return {"kind": "Pod", "metadata": head, "spec": {**pod["spec"], "tolerations": tolerations}}


def measure(workload: Workload, nodes: int, pods: int, seed: int = 0) -> Decisions:
    """The first tenth of the pods warms up and is not counted."""
    rng = random.Random(seed)
    engine, queue = half_full(nodes, rng, workload.config)
    asks = [Ask(convert(Pod, raw)) for raw in workload.pods(pods, rng)]
    decisions, warm = Decisions(), len(asks) // 10
    with undisturbed():
        for i, ask in enumerate(asks):
            if i == warm:
                before = engine.rows_judged, engine.bodies_run
            if workload.meanwhile is not None:
                workload.meanwhile(engine, i, rng)
            began = time.thread_time()
            queue.put(Entity.of(ask), float(i))
            attempt = queue.pop(float(i))
            assert attempt is not None
            placement = engine.place(ask)
            if placement.node is None:
                queue.rejected(attempt, placement.rejected_by, float(i))
            else:
                queue.done(attempt)
            took = time.thread_time() - began
            if i >= warm:
                decisions.took_s.append(took)
                decisions.placed += placement.node is not None
    decisions.rows_judged, decisions.bodies_run = engine.rows_judged - before[0], engine.bodies_run - before[1]
    return decisions


def half_full(nodes: int, rng: random.Random, config: SchedulerConfiguration = DEFAULT) -> tuple[Engine, Queue]:
    """A cluster whose nodes are about half taken. Where a plugin looks at load, each node has reported some."""
    cluster = Cluster(seed=0)
    profiles = profiles_of(config)
    engine = Engine(cluster, next(iter(profiles.profiles.values())))
    for i in range(nodes):
        cluster.put_node(_node(i))
    for app in range(20):
        cluster.put_service(convert(Service, _service(f"app-{app}")))
        cluster.put_workload(convert(ReplicaSet, _replica_set(f"app-{app}")))
    running = [Ask(convert(Pod, _pod(f"running-{app}", app=f"app-{app}", cpu="4", memory="16Gi"))) for app in range(20)]
    for i in range(nodes * 4):
        # Records of running pods differ in their names only; the shape is shared.
        record = running[i % 20].record()
        cluster.place(_renamed(record, f"shop/running-{i}"), rng.randrange(nodes))
    for taking in (taking for plugin in profiles.plugins() for taking in plugin.takes() if taking.kind is NODE_METRICS):
        for i in range(nodes):
            taking.put(convert(NodeMetric, _report(i)))
    return engine, profiles.queue()


def full(nodes: int) -> Engine:
    """A cluster whose nodes are full of less important pods, with the default profile."""
    cluster = Cluster(seed=0)
    for i in range(nodes):
        cluster.put_node(_node(i))
    preemption.fill(cluster, _pod, random.Random(0))
    return Engine(cluster, next(iter(profiles_of(DEFAULT).profiles.values())))


def _renamed(record: PodRecord, key: str) -> PodRecord:
    return replace(record, key=key, uid=key)


def _node(i: int) -> Node:
    return convert(Node, _node_data(i))


def _node_data(i: int) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"node-{i:05}",
            "labels": {
                "kubernetes.io/hostname": f"node-{i:05}",
                "topology.kubernetes.io/zone": f"zone-{i % ZONES}",
                "pool": f"pool-{i % 10}",
            },
        },
        "spec": {"taints": [{"key": "batch", "effect": "NoSchedule"}] if i % 20 == 0 else []},
        "status": {"allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110"}},
    }


def _report(i: int) -> dict[str, Any]:
    used = {"resources": {"cpu": str(4 + i % 9), "memory": f"{16 + i % 40}Gi"}}
    head = {"name": f"node-{i:05}"}
    return {"metadata": head, "status": {"updateTime": "1970-01-01T00:00:00Z", "nodeMetric": {"nodeUsage": used}}}


def _service(app: str) -> dict[str, Any]:
    return {"metadata": {"name": app, "namespace": "shop"}, "spec": {"selector": {"app": app}}}


def _replica_set(app: str) -> dict[str, Any]:
    return {"metadata": {"name": app, "namespace": "shop"}, "spec": {"selector": {"matchLabels": {"app": app}}}}


def _pod(name: str, *, app: str, cpu: str = "100m", memory: str = "256Mi", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "shop/web:1", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": name,
            "labels": {"app": app, "statefulset.kubernetes.io/pod-name": name},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "controller": True}],
        },
        "spec": {"containers": [container], **spec},
    }


def _identical(number: int, _rng: random.Random) -> Iterator[dict[str, Any]]:
    for i in range(number):
        yield _pod(f"pod-{i}", app="app-0")


def _two_hundred_classes(number: int, rng: random.Random) -> Iterator[dict[str, Any]]:
    for i in range(number):
        kind = rng.randrange(200)
        app = f"app-{kind % 20}"
        spread = {
            "maxSkew": 5,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule" if kind % 2 else "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": app}},
        }
        yield _pod(
            f"pod-{i}",
            app=app,
            cpu=f"{100 + kind}m",
            nodeSelector={"pool": f"pool-{kind % 10}"} if kind % 3 == 0 else {},
            tolerations=[{"key": "batch", "operator": "Exists"}] if kind % 4 == 0 else [],
            topologySpreadConstraints=[spread],
        )


def _anti_affinity(number: int, _rng: random.Random) -> Iterator[dict[str, Any]]:
    for i in range(number):
        app = f"app-{i % 20}"
        selector = {"matchLabels": {"group": f"{app}-{i // 1000}"}}
        pod = _pod(
            f"pod-{i}",
            app=app,
            affinity={
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
                    ]
                },
                "podAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 10,
                            "podAffinityTerm": {
                                "topologyKey": "topology.kubernetes.io/zone",
                                "labelSelector": {"matchLabels": {"app": app}},
                            },
                        }
                    ]
                },
            },
        )
        pod["metadata"]["labels"]["group"] = f"{app}-{i // 1000}"
        yield pod


def _beside_giants(number: int, _rng: random.Random) -> Iterator[dict[str, Any]]:
    for i in range(number):
        if i % 2:
            yield _pod(f"giant-{i}", app="app-1", cpu="64")
        else:
            yield _pod(f"pod-{i}", app="app-0")


def _all_different(number: int, _rng: random.Random) -> Iterator[dict[str, Any]]:
    for i in range(number):
        yield _pod(f"pod-{i}", app=f"app-{i % 20}", cpu=f"{100 + i % 4000}m", memory=f"{256 + i}Mi")


def _one_ends(engine: Engine, i: int, _rng: random.Random) -> None:
    key = f"shop/running-{i}"
    if key in engine.cluster.pods:
        engine.cluster.remove_pod(key)


def _labels_change(engine: Engine, i: int, rng: random.Random) -> None:
    """5% of the nodes each second, at 5,000 pods a second: one node every 20 pods of 5,000 nodes."""
    cluster = engine.cluster
    if i % max(1, 100_000 // max(len(cluster.table), 1)) == 0:
        row = rng.randrange(len(cluster.table))
        node = cluster.nodes[row]
        labels = {**node.metadata.labels, "pool": f"pool-{rng.randrange(10)}"}
        metadata = replace(node.metadata, labels=labels)
        cluster.put_node(replace(node, metadata=metadata))


WORKLOADS = (
    Workload("(a) identical pods", _identical, {5_000: 20_000, 50_000: 10_000}),
    Workload("(b) 200 classes", _two_hundred_classes, {5_000: 8_000, 50_000: 4_000}),
    Workload("(c) anti-affinity", _anti_affinity, {5_000: 2_000}),
    Workload("(d) beside giants", _beside_giants, {5_000: 8_000}),
    Workload("(e) churn", _identical, {5_000: 8_000}, _one_ends),
    Workload("(g) all different", _all_different, {5_000: 1_000}),
    Workload("(h) labels change", _two_hundred_classes, {5_000: 5_000}, _labels_change),
    Workload("(k) identical, Koordinator's plugins", _identical, {5_000: 8_000, 50_000: 4_000}, config=SHIPPED),
    Workload(
        "(l) 200 classes, Koordinator's plugins", _two_hundred_classes, {5_000: 5_000, 50_000: 2_500}, config=SHIPPED
    ),
)
