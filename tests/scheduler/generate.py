"""Small random clusters that touch every rule: zones, taints, affinities both ways, spreading, ports, images, volumes,
batch resources, over-full nodes, pods that go, and measured load.

`random_cluster(seed)` is the same for ever (recordings refer to seeds); `scenes()` is the same for Hypothesis.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import strategies as st

from koord.api.configuration.scheduler_args import LoadAwareAggregation, LoadAwareSchedulingArgs
from koord.api.configuration.scheduler_config import SchedulerProfile
from koord.api.kubernetes.core import Namespace, Service
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from koord.api.kubernetes.workloads import ReplicaSet, ReplicationController, StatefulSet
from koord.api.machinery.codec import convert
from koord.api.machinery.struct import Struct
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.text.timestamp import from_seconds
from koord_chaos.stories.dice import Dice
from tests.scheduler import generate_pod
from tests.scheduler.build import NOW_S
from tests.scheduler.generate_pod import APPS, HOSTNAME, IMAGES, OWNERS, REGION, ZONE, Manifest
from tests.scheduler.profiles import BATCH_CPU, BATCH_MEMORY, GPU, PROFILES
from tests.scheduler.reference.cluster import Cluster

CSI: Final = "csi.example.com"
SCARCE_CSI: Final = "scarce.example.com"
"""A driver that says how much it can still make, and where."""
KINDS: Final[dict[str, tuple[type[Struct], str]]] = {
    "Namespace": (Namespace, "namespaces"),
    "Service": (Service, "services"),
    "ReplicaSet": (ReplicaSet, "replica_sets"),
    "ReplicationController": (ReplicationController, "replication_controllers"),
    "StatefulSet": (StatefulSet, "stateful_sets"),
    "StorageClass": (StorageClass, "storage_classes"),
    "PersistentVolume": (PersistentVolume, "volumes"),
    "PersistentVolumeClaim": (PersistentVolumeClaim, "claims"),
    "CSINode": (CSINode, "csi_nodes"),
    "CSIDriver": (CSIDriver, "csi_drivers"),
    "CSIStorageCapacity": (CSIStorageCapacity, "storage_capacities"),
    "Node": (Node, "nodes"),
    "NodeMetric": (NodeMetric, "node_metrics"),
    "Pod": (Pod, "pods"),
}
"""By kind, its type and the field of `Cluster` that holds it, in an order in which they can be made."""

NAMESPACE_LABELS: Final = {"default": {"env": "prod"}, "team-a": {"env": "dev"}, "team-b": {}}


@dataclass(frozen=True)
class Scene:
    """A cluster as manifests, the pods that wait for a place in it, and how the scheduler is configured."""

    objects: list[Manifest]
    pending: list[Manifest]
    profile: SchedulerProfile = PROFILES[0]
    load_args: LoadAwareSchedulingArgs = field(default_factory=lambda: LoadAwareSchedulingArgs().completed())

    def cluster(self) -> Cluster:
        found: dict[str, list[Any]] = {name: [] for _, name in KINDS.values()}
        for manifest in self.objects:
            type_, name = KINDS[manifest["kind"]]
            found[name].append(convert(type_, manifest))
        fields: dict[str, Any] = {name: tuple(things) for name, things in found.items()}
        return Cluster(**fields, now_s=NOW_S)

    def pods(self) -> list[Pod]:
        return [convert(Pod, manifest) for manifest in self.pending]

    def digest(self) -> str:
        """Changes whenever the scene does."""
        text = json.dumps([self.objects, self.pending, self.profile.scheduler_name], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def random_scene(seed: int, *, stock: bool = False) -> Scene:
    """`stock` leaves out what only Koordinator reads and a stock scheduler must not see."""
    return _scene(Dice(seed), USUAL, stock=stock)


def random_cluster(seed: int) -> tuple[Cluster, list[Pod]]:
    """A cluster and the pods that wait for a place in it."""
    scene = random_scene(seed)
    return scene.cluster(), scene.pods()


def scenes(*, stock: bool = False) -> st.SearchStrategy[Scene]:
    """Smaller ones for Hypothesis, which shrinks them further, towards few nodes and plain pods."""
    return st.randoms(use_true_random=False).map(lambda source: _scene(Dice(source), SMALL, stock=stock))


def clusters() -> st.SearchStrategy[tuple[Cluster, list[Pod]]]:
    return scenes().map(lambda scene: (scene.cluster(), scene.pods()))


@dataclass(frozen=True)
class Sizes:
    """How many there are of each, from and to."""

    nodes: tuple[int, int] = (5, 15)
    placed: tuple[int, int] = (10, 60)
    pending: tuple[int, int] = (2, 4)


USUAL: Final = Sizes()
SMALL: Final = Sizes((1, 4), (0, 6), (1, 1))
"""Hypothesis makes no more choices than these need."""


def _scene(dice: Dice, sizes: Sizes, *, stock: bool) -> Scene:
    names = [f"n{i}" for i in range(dice.integer(*sizes.nodes))]
    nodes = [_node(dice, name) for name in names]
    storage = _storage(dice, names) if dice.chance(0.2) else []
    claims = [thing["metadata"]["name"] for thing in storage if thing["kind"] == "PersistentVolumeClaim"]
    if claims and dice.chance(0.2):
        claims.append("absent")
    placed: list[Manifest] = []
    for i in range(dice.integer(*sizes.placed)):
        pod = generate_pod.pod(dice, f"p{i}", names, [c for c in claims if c != "absent"], pending=False)
        generate_pod.place(dice, pod, _home(dice, pod, names))
        generate_pod.importance(dice, pod)
        _release_taken_ports(pod, placed)
        placed.append(pod)
    pending = []
    for i in range(dice.integer(*sizes.pending)):
        pod = generate_pod.pod(dice, f"pending-{i}", names, claims, pending=True)
        generate_pod.importance(dice, pod)
        pending.append(pod)
    metrics = [_metric(dice, node, placed) for node in names if dice.chance(0.9)]
    extras = [_own_words(dice, node) for node in nodes]
    if not stock:
        for node, extra in zip(nodes, extras, strict=True):
            node["metadata"].setdefault("annotations", {}).update(extra)
    objects = [*_namespaces(), *_owners(dice), *storage, *nodes, *metrics, *placed]
    return Scene(objects, pending, dice.one(PROFILES), _load_args(dice))


def _release_taken_ports(pod: Manifest, placed: list[Manifest]) -> None:
    """No two pods of a node share a host port: kube-scheduler forgets a shared port when the first of them ends."""
    there = [other for other in placed if other["spec"]["nodeName"] == pod["spec"]["nodeName"]]
    taken = {key for other in there for key, _ in generate_pod.host_ports(other)}
    for key, container in generate_pod.host_ports(pod):
        if key in taken:
            del container["ports"]


def _home(dice: Dice, pod: Manifest, names: list[str]) -> str:
    """Half of the pods crowd on few nodes, so that some nodes are over-full and others empty."""
    return dice.one(names[: max(1, len(names) // 2)]) if dice.chance(0.5) else dice.one(names)


def _namespaces() -> list[Manifest]:
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        for name, labels in NAMESPACE_LABELS.items()
    ]


def _owners(dice: Dice) -> list[Manifest]:
    """Services and workloads of some apps: pods without spread constraints of their own are spread by these."""
    found: list[Manifest] = []
    for namespace in NAMESPACE_LABELS:
        for app in APPS:
            meta = {"name": app, "namespace": namespace}
            if dice.chance(0.3):
                ports = [{"port": 80}]
                spec: Manifest = {"selector": {"app": app}, "ports": ports}
                if dice.chance(0.3):
                    spec["selector"]["tier"] = "front"
                found.append({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})
            if dice.chance(0.5):
                found.append(_workload(dice, app, meta))
    return found


def _workload(dice: Dice, app: str, meta: Manifest) -> Manifest:
    kind = OWNERS[app]
    template = {
        "metadata": {"labels": {"app": app, "rev": "1"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    chosen = {"app": app} if dice.chance(0.6) else {"app": app, "rev": "1"}
    if kind == "ReplicationController":
        spec = {"replicas": 1, "selector": chosen, "template": template}
        return {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": spec}
    spec = {"replicas": 1, "selector": {"matchLabels": chosen}, "template": template}
    if kind == "StatefulSet":
        spec["serviceName"] = app
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}


def _node(dice: Dice, name: str) -> Manifest:
    labels = {HOSTNAME: name} if dice.chance(0.95) else {}
    if dice.chance(0.85):
        zone = dice.integer(0, 2)
        labels |= {ZONE: f"z{zone}", REGION: f"r{zone // 2}"}
    if dice.chance(0.7):
        labels["disk"] = dice.one(("hdd", "ssd"))
    if dice.chance(0.7):
        labels["generation"] = str(dice.integer(1, 5))
    if dice.chance(0.2):
        labels["pool"] = "spare"
    taints = dice.some(
        (
            {"key": "dedicated", "value": "batch", "effect": "NoSchedule"},
            {"key": "noisy", "effect": "PreferNoSchedule"},
            {"key": "old", "value": "1", "effect": "PreferNoSchedule"},
            {"key": "spot", "effect": "NoExecute"},
        ),
        2,
    )
    has: dict[str, str | int] = {
        "cpu": dice.one(("3500m", "4", "8", "16", "32")),
        "memory": dice.one(("5Gi", "7.5Gi", "16Gi", "32Gi", "64Gi")),
        "pods": dice.one((4, 12, 110, 110, 110, 110)),
    }
    if dice.chance(0.6):
        has["ephemeral-storage"] = dice.one(("5Gi", "20Gi"))
    if dice.chance(0.3):
        has[GPU] = dice.integer(0, 4)
    if dice.chance(0.5):
        has |= {BATCH_CPU: dice.one((1000, 4000, 9000)), BATCH_MEMORY: dice.one(("1Gi", "5Gi"))}
    images = [
        {"names": [image, f"{image.rpartition(':')[0]}@sha256:{'0' * 64}"], "sizeBytes": size}
        for image, size in IMAGES.items()
        if dice.chance(0.4)
    ]
    spec: Manifest = {"taints": taints} if dice.chance(0.35) else {}
    if dice.chance(0.08):
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": has, "capacity": dict(has), "images": images},
    }


def _own_words(dice: Dice, node: Manifest) -> dict[str, str]:
    """What a node says to Koordinator: what it keeps, what it really has, how full it may be."""
    said = {}
    if dice.chance(0.1):
        said["node.koordinator.sh/reservation"] = dice.one(
            (
                '{"resources": {"cpu": "500m", "memory": "1Gi"}}',
                '{"resources": {"memory": "1Gi"}, "reservedCPUs": "0-1"}',
                '{"reservedCPUs": "0-1", "applyPolicy": "ReservedCPUsOnly"}',
            )
        )
    if dice.chance(0.1):
        said["node.koordinator.sh/raw-allocatable"] = '{"cpu": "3"}'
    if dice.chance(0.15):
        said["scheduling.koordinator.sh/usage-thresholds"] = dice.one(
            (
                '{"usageThresholds": {"cpu": 30, "memory": 40}}',
                '{"prodUsageThresholds": {"cpu": 20}}',
                '{"aggregatedUsage": {"usageThresholds": {"cpu": 35}, "usageAggregationType": "p95"}}',
                '{"aggregatedUsage": {"usageThresholds": {"cpu": 35}}}',
                "{",
            )
        )
    return said


def _metric(dice: Dice, node: str, placed: list[Manifest]) -> Manifest:
    """What a node reports: its usage, and that of most of its pods and of one that is gone."""
    spec: Manifest = {}
    if dice.chance(0.5):
        spec["metricCollectPolicy"] = {"reportIntervalSeconds": dice.one((30, 60, 90))}
    status: Manifest = {}
    if dice.chance(0.95):
        status["updateTime"] = from_seconds(NOW_S - dice.one((0, 10, 60, 179, 180, 299, 300, 4000)))
    if dice.chance(0.95):
        durations = dice.some(("5m0s", "10m0s", "30m0s"), 3)
        status["nodeMetric"] = {
            "nodeUsage": {"resources": _usage(dice, 6000, 9000)},
            "systemUsage": {"resources": _usage(dice, 500, 500)},
            "aggregatedNodeUsages": [
                {
                    "duration": duration,
                    "usage": {
                        type_: {"resources": _usage(dice, 7000, 9000)}
                        for type_ in ("avg", "p50", "p95")
                        if dice.chance(0.8)
                    },
                }
                for duration in durations
            ],
        }
    reports = []
    for pod in placed:
        if pod["spec"]["nodeName"] == node and dice.chance(0.75):
            meta = pod["metadata"]
            usage = _usage(dice, 1500, 1500) if dice.chance(0.95) else {}
            priority = dice.one(("", "koord-prod", "koord-prod", "koord-batch"))
            reports.append({**_key(meta), "podUsage": {"resources": usage}, "priority": priority})
    if dice.chance(0.2):
        gone = {"name": "gone", "namespace": "default", "podUsage": {"resources": {"cpu": "1"}}}
        reports.append({**gone, "priority": "koord-prod"})
    status["podsMetric"] = reports
    return {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": node},
        "spec": spec,
        "status": status,
    }


def _key(meta: Manifest) -> dict[str, str]:
    return {"name": meta["name"], "namespace": meta["namespace"]}


def _usage(dice: Dice, cpu_milli: int, memory_mib: int) -> dict[str, str]:
    return {"cpu": f"{dice.integer(0, cpu_milli)}m", "memory": f"{dice.integer(0, memory_mib)}Mi"}


def _load_args(dice: Dice) -> LoadAwareSchedulingArgs:
    aggregated = None
    if dice.chance(0.35):
        aggregated = LoadAwareAggregation(
            usage_thresholds=dice.one(({"cpu": 50}, {"cpu": 70, "memory": 60}, {})),
            usage_aggregation_type=dice.one(("p95", "p50", "")),
            usage_aggregated_duration=dice.one(("0s", "5m", "10m")),
            score_aggregation_type=dice.one(("p95", "avg", "")),
            score_aggregated_duration=dice.one(("0s", "5m", "30m")),
        )
    return LoadAwareSchedulingArgs(
        filter_expired_node_metrics=dice.chance(0.6),
        node_metric_expiration_seconds=dice.one((180, 300)),
        enable_schedule_when_node_metrics_expired=dice.chance(0.3),
        resource_weights=dice.one(({}, {"cpu": 3, "memory": 1}, {"cpu": 1, BATCH_CPU: 2})),
        dominant_resource_weight=dice.one((0, 0, 2)),
        usage_thresholds=dice.one(({}, {"cpu": 50, "memory": 80}, {"cpu": 0, "memory": 0}, {BATCH_CPU: 40})),
        prod_usage_thresholds=dice.one(({}, {}, {"cpu": 45}, {"cpu": 0, "memory": 30})),
        prod_usage_include_sys=dice.chance(0.3),
        score_according_prod_usage=dice.chance(0.3),
        estimated_scaling_factors=dice.one(({}, {"cpu": 50}, {"memory": 100, BATCH_CPU: 80})),
        estimated_seconds_after_pod_scheduled=dice.one((None, None, 0, 200)),
        estimated_seconds_after_initialized=dice.one((None, None, 100)),
        allow_customize_estimation=dice.chance(0.5),
        aggregated=aggregated,
        supported_resources=dice.one(((), (), (BATCH_MEMORY,))),
    ).completed()


def _storage(dice: Dice, nodes: list[str]) -> list[Manifest]:
    """Classes that wait or not, volumes here and there, and claims that have one, may find one, or never will."""
    in_z0 = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z0"]}]}]
    waits = {"volumeBindingMode": "WaitForFirstConsumer"}
    classes: dict[str, Manifest] = {
        "static": {"provisioner": "kubernetes.io/no-provisioner", **waits},
        "made": {"provisioner": CSI, "allowedTopologies": in_z0, **waits},
        "anywhere": {"provisioner": CSI, **waits},
        "scarce": {"provisioner": SCARCE_CSI, **waits},
        "at-once": {"provisioner": CSI, "volumeBindingMode": "Immediate"},
    }
    found: list[Manifest] = [
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, **class_}
        for name, class_ in classes.items()
    ]
    found.append(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": SCARCE_CSI},
            "spec": {"storageCapacity": True, "attachRequired": True},
        }
    )
    for zone in ("z0", "z1"):
        found.append(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIStorageCapacity",
                "metadata": {"name": zone, "namespace": "default"},
                "storageClassName": "scarce",
                "nodeTopology": {"matchLabels": {ZONE: zone}},
                "capacity": dice.one(("2Gi", "9Gi")),
            }
        )
    for i in range(dice.integer(1, 3)):
        found.append(_volume(dice, f"free-{i}", "static"))
    for i in range(dice.integer(2, 5)):
        class_name = dice.one(("bound", "bound", *classes))
        meta: Manifest = {"name": f"c{i}", "namespace": "default"}
        spec: Manifest = {
            "accessModes": [dice.one(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"))],
            "resources": {"requests": {"storage": dice.one(("1Gi", "3Gi"))}},
            "storageClassName": class_name,
        }
        if class_name == "bound":
            meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
            spec["volumeName"] = f"disk-{i}"
            if dice.chance(0.9):
                disk = _volume(dice, f"disk-{i}", "bound")
                disk["spec"]["claimRef"] = {"name": f"c{i}", "namespace": "default"}
                found.append(disk)
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}
        found.append({**claim, "status": {"phase": "Bound" if class_name == "bound" else "Pending"}})
    for node in nodes:
        if dice.chance(0.7):
            driver = {"name": CSI, "nodeID": node, "allocatable": {"count": dice.integer(1, 3)}}
            csi_node = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": node}}
            found.append({**csi_node, "spec": {"drivers": [driver]}})
    return found


def _volume(dice: Dice, name: str, class_name: str) -> Manifest:
    labels = {}
    if dice.chance(0.3):
        labels[dice.one((ZONE, "failure-domain.beta.kubernetes.io/zone"))] = dice.one(("z0", "z1__z2"))
    spec: Manifest = {
        "capacity": {"storage": dice.one(("2Gi", "5Gi"))},
        "accessModes": dice.some(("ReadWriteOnce", "ReadOnlyMany"), 2, 1),
        "storageClassName": class_name,
        "csi": {"driver": CSI, "volumeHandle": name},
        "persistentVolumeReclaimPolicy": "Retain",
    }
    if dice.chance(0.6):
        there = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": dice.some(("z0", "z1", "z2"), 2, 1)}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [there]}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"phase": "Bound" if class_name == "bound" else "Available"},
    }
