"""Honest objects of every kind that components read: what an enemy value is put into, and what lives beside it.

Innocents live in the pool `good`, enemies in the pool `bad`. Nodes of the good pool are tainted, and its quotas are a
tree of their own, so that no pod of the bad one takes their room, whichever field of it is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.machinery.codec import DecodeError, decode, encode
from koord.api.text.timestamp import from_seconds
from tests.api.samples import sample

NOW_S: Final = 1_800_000_000.0
MADE: Final = from_seconds(NOW_S - 3600)
KOORD: Final = "scheduling.koordinator.sh/"
QUOTA: Final = "quota.scheduling.koordinator.sh/"
Manifest: TypeAlias = dict[str, Any]
Thing: TypeAlias = tuple[Kind[Any], Any]


def meta(name: str, namespace: str = "", **more: Any) -> Manifest:
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": MADE, **more}


def node(name: str, pool: str, **more: Any) -> Manifest:
    labels = {"kubernetes.io/hostname": name, "pool": pool, "rack": f"{pool}-rack"}
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", "kubernetes.io/batch-cpu": "8000"}
    amounts |= {
        "kubernetes.io/batch-memory": "16Gi",
        "koordinator.sh/gpu-core": "200",
        "koordinator.sh/gpu-memory-ratio": "200",
        "koordinator.sh/gpu-memory": "160Gi",
        **more.pop("amounts", {}),
    }
    taints = [{"key": "pool", "value": "good", "effect": "NoSchedule"}] if pool == "good" else []
    return {
        "metadata": meta(name, labels=labels, annotations=more.pop("annotations", {})),
        "spec": {"taints": taints, **more},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [],
        },
    }


def pod(name: str, pool: str, *, on: str = "", cpu: str = "1", **more: Any) -> Manifest:
    requests = {"cpu": cpu, **more.pop("requests", {})}
    tolerations = [{"key": "pool", "operator": "Equal", "value": "good"}] if pool == "good" else []
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{pool}-web", "uid": f"uid-{pool}-web"}
    return {
        "metadata": meta(
            name,
            pool,
            labels={"app": pool, "koordinator.sh/qosClass": "LS", **more.pop("labels", {})},
            annotations=more.pop("annotations", {}),
            ownerReferences=[{**owner, "controller": True}],
        ),
        "spec": {
            "nodeName": on,
            "schedulerName": "koord-scheduler",
            "priority": 9500,
            "nodeSelector": {"pool": pool},
            "tolerations": tolerations,
            "containers": [{"name": "c", "image": "app", "resources": {"requests": requests, "limits": requests}}],
            **more,
        },
        "status": {
            "phase": "Running" if on else "Pending",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": MADE}] if on else [],
            **({"startTime": MADE} if on else {}),
        },
    }


def metric(name: str) -> Manifest:
    usage = {"resources": {"cpu": "2", "memory": "8Gi"}}
    aggregated = [{"duration": "5m", "usage": {"p95": usage, "avg": usage}}]
    return {
        "metadata": meta(name),
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60, "aggregateDurationSeconds": 300}},
        "status": {
            "updateTime": from_seconds(NOW_S - 10),
            "nodeMetric": {"nodeUsage": usage, "systemUsage": usage, "aggregatedNodeUsages": aggregated},
            "podsMetric": [{"name": f"{name}-runs", "namespace": "bad", "podUsage": usage}],
            "prodReclaimableMetric": {"resource": usage},
        },
    }


def reservation(name: str, pool: str, *, on: str = "", **more: Any) -> Manifest:
    template = {"spec": {**pod("x", pool, cpu="2")["spec"], "nodeName": ""}, "metadata": {"labels": {"app": pool}}}
    amounts = {"cpu": "2"}
    said = {"phase": "Available", "nodeName": on, "allocatable": amounts, "conditions": [], "currentOwners": []}
    return {
        "metadata": meta(name, labels={"pool": pool}),
        "spec": {
            "template": template,
            "owners": [{"labelSelector": {"matchLabels": {"reserved": name}}}],
            "ttl": "1h30m",
            "allocateOnce": False,
            **more,
        },
        "status": said if on else {"phase": "Pending"},
    }


def topology(name: str) -> Manifest:
    cpus = [{"id": i, "core": i // 2, "socket": 0, "node": i // 8} for i in range(16)]
    zones = [
        {
            "name": f"node-{i}",
            "type": "Node",
            "resources": [
                {"name": "cpu", "capacity": "8", "allocatable": "8", "available": "8"},
                {"name": "memory", "capacity": "32Gi", "allocatable": "32Gi", "available": "32Gi"},
            ],
        }
        for i in range(2)
    ]
    import json

    said = {"node.koordinator.sh/cpu-topology": json.dumps({"detail": cpus})}
    return {"metadata": meta(name, annotations=said), "topologyPolicies": ["None"], "zones": zones}


def device(name: str) -> Manifest:
    gpus = [
        {
            "type": "gpu",
            "minor": i,
            "id": f"gpu-{name}-{i}",
            "health": True,
            "resources": {
                "koordinator.sh/gpu-core": "100",
                "koordinator.sh/gpu-memory": "80Gi",
                "koordinator.sh/gpu-memory-ratio": "100",
            },
            "topology": {"socketID": 0, "nodeID": 0, "pcieID": "0", "busID": f"0000:0{i}:00.0"},
        }
        for i in range(2)
    ]
    return {"metadata": meta(name), "spec": {"devices": gpus}}


def pod_group(name: str, pool: str) -> Manifest:
    said = {}
    if pool == "bad":
        said["gang.scheduling.koordinator.sh/network-topology-spec"] = (
            '{"gatherStrategy":[{"layer":"Rack","strategy":"PreferGather"}]}'
        )
    return {
        "metadata": meta(name, pool, annotations=said),
        "spec": {"minMember": 2, "scheduleTimeoutSeconds": 60},
        "status": {"phase": "Pending"},
    }


def quota(name: str, pool: str, **more: Any) -> Manifest:
    labels = {f"{QUOTA}is-parent": "false", **more.pop("labels", {})}
    bounds, said = {"cpu": "8", "memory": "32Gi"}, more.pop("annotations", {})
    return {
        "metadata": meta(name, pool, labels=labels, annotations=said),
        "spec": {"min": bounds, "max": {"cpu": "64", "memory": "1Ti"}},
    }


def selected(pool: str) -> Manifest:
    return {"matchLabels": {"app": pool}}


def workload(name: str, pool: str, **more: Any) -> Manifest:
    template = {"metadata": {"labels": {"app": pool}}, "spec": pod("x", pool)["spec"]}
    return {
        "metadata": meta(name, pool, labels={"app": pool}, generation=1, **more.pop("meta", {})),
        "spec": {"replicas": 300, "selector": selected(pool), "template": template, **more},
        "status": {
            **dict.fromkeys(("replicas", "readyReplicas", "availableReplicas", "updatedReplicas"), 300),
            "observedGeneration": 1,
        },
    }


def migration_job(name: str, pool: str) -> Manifest:
    return {
        "metadata": meta(name),
        "spec": {
            "mode": "ReservationFirst",
            "ttl": "48h",
            "podRef": {"namespace": pool, "name": f"{pool}-runs", "uid": f"uid-{pool}-runs"},
            "deleteOptions": {},
        },
        "status": {"phase": "Pending"},
    }


def quota_profile(pool: str) -> Manifest:
    selected_nodes = {"matchLabels": {"pool": pool}}
    return {
        "metadata": meta(f"{pool}-profile", pool),
        "spec": {"quotaName": f"{pool}-tree", "nodeSelector": selected_nodes, "resourceRatio": "0.9"},
    }


def colocation_profile(pool: str) -> Manifest:
    return {
        "metadata": meta(f"{pool}-colocation", labels={"config.koordinator.sh/controller-managed": "true"}),
        "spec": {
            "selector": {"matchLabels": {"app": pool}},
            "namespaceSelector": {"matchLabels": {"pool": pool}},
            "labels": {"colocated": pool},
            "qosClass": "BE",
            "probability": "100%",
            "patch": {"metadata": {"labels": {"patched": pool}}},
        },
    }


def _gang(name: str) -> Mapping[str, str]:
    return {"pod-group.scheduling.sigs.k8s.io": name}


def world(pool: str) -> Iterator[tuple[Kind[Any], Manifest]]:
    """All that lives in a pool."""
    n, more = f"{pool}-0", f"{pool}-1"
    yield kinds.NAMESPACES, {"metadata": meta(pool, labels={"pool": pool})}
    yield kinds.SERVICES, {"metadata": meta(f"{pool}-web", pool), "spec": {"selector": {"app": pool}}}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"{pool}-web", "uid": f"uid-{pool}-deployment"}
    yield kinds.REPLICA_SETS, workload(f"{pool}-web", pool, meta={"ownerReferences": [{**owner, "controller": True}]})
    yield kinds.STATEFUL_SETS, workload(f"{pool}-db", pool, serviceName="db")
    yield kinds.REPLICATION_CONTROLLERS, {"metadata": meta(f"{pool}-rc", pool), "spec": {"selector": {"app": pool}}}
    yield kinds.STORAGE_CLASSES, {"metadata": meta(f"{pool}-disks"), "provisioner": pool}
    yield kinds.CSI_DRIVERS, {"metadata": meta(pool), "spec": {"storageCapacity": True}}
    yield (
        kinds.CSI_NODES,
        {
            "metadata": meta(n),
            "spec": {"drivers": [{"name": pool, "nodeID": n, "allocatable": {"count": 8}}]},
        },
    )
    yield (
        kinds.CSI_STORAGE_CAPACITIES,
        {
            "metadata": meta(f"{pool}-room", pool),
            "storageClassName": f"{pool}-disks",
            "capacity": "100Gi",
        },
    )
    yield (
        kinds.PERSISTENT_VOLUMES,
        {
            "metadata": meta(f"{pool}-volume"),
            "spec": {
                "capacity": {"storage": "1Gi"},
                "storageClassName": f"{pool}-disks",
                "accessModes": ["ReadWriteOnce"],
            },
        },
    )
    yield (
        kinds.PERSISTENT_VOLUME_CLAIMS,
        {
            "metadata": meta(f"{pool}-claim", pool),
            "spec": {
                "storageClassName": f"{pool}-disks",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    )
    yield (
        kinds.POD_DISRUPTION_BUDGETS,
        {
            "metadata": meta(f"{pool}-budget", pool),
            "spec": {"minAvailable": 1, "selector": selected(pool)},
            "status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2},
        },
    )
    yield kinds.NODES, node(n, pool)
    yield kinds.NODES, node(more, pool)
    yield kinds.NODE_METRICS, metric(n)
    yield kinds.NODE_SLOS, {"metadata": meta(n), "spec": {"resourceUsedThresholdWithBE": {"enable": True}}}
    yield kinds.DEVICES, device(n)
    yield kinds.NODE_RESOURCE_TOPOLOGIES, topology(n)
    if pool == "bad":
        # There is one for all, which pods look at if they ask for it.
        layers = [
            {"topologyLayer": "Rack", "parentTopologyLayer": "ClusterTopologyLayer", "labelKey": ["rack"]},
            {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "Rack"},
        ]
        yield kinds.CLUSTER_NETWORK_TOPOLOGIES, {"metadata": meta("default"), "spec": {"networkTopologySpec": layers}}
    yield kinds.POD_GROUPS, pod_group(f"{pool}-gang", pool)
    yield kinds.RESERVATIONS, reservation(f"{pool}-room", pool)
    yield kinds.RESERVATIONS, reservation(f"{pool}-had", pool, on=n)
    yield (
        kinds.RESERVATIONS,
        {
            **reservation(f"{pool}-was", pool, on=n),
            "status": {
                "phase": "Failed",
                "nodeName": n,
                "conditions": [{"type": "Ready", "status": "False", "lastProbeTime": MADE, "lastTransitionTime": MADE}],
            },
        },
    )
    tree, total = {f"{QUOTA}tree-id": pool}, {f"{QUOTA}total-resource": '{"cpu":"32","memory":"128Gi"}'}
    yield (
        kinds.ELASTIC_QUOTAS,
        quota(
            f"{pool}-root",
            pool,
            labels={**tree, f"{QUOTA}is-root": "true", f"{QUOTA}is-parent": "true"},
            annotations=total,
        ),
    )
    yield kinds.ELASTIC_QUOTAS, quota(f"{pool}-team", pool, labels={**tree, f"{QUOTA}parent": f"{pool}-root"})
    yield kinds.PODS, pod(f"{pool}-runs", pool, on=n)
    yield kinds.PODS, pod(f"{pool}-waits", pool)
    yield kinds.PODS, pod(f"{pool}-member-0", pool, labels=_gang(f"{pool}-gang"))
    yield kinds.PODS, pod(f"{pool}-member-1", pool, labels=_gang(f"{pool}-gang"))
    yield kinds.PODS, pod(f"{pool}-of-team", pool, labels={f"{QUOTA}name": f"{pool}-team"})
    yield kinds.PODS, pod(f"{pool}-of-had", pool, labels={"reserved": f"{pool}-had"})
    yield (
        kinds.PODS,
        pod(f"{pool}-gpu", pool, requests={"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}),
    )
    pinned = '{"preferredCPUBindPolicy":"FullPCPUs"}'
    yield (
        kinds.PODS,
        pod(
            f"{pool}-pinned",
            pool,
            cpu="2",
            labels={"koordinator.sh/qosClass": "LSR"},
            annotations={f"{KOORD}resource-spec": pinned},
        ),
    )
    yield kinds.PODS, pod(f"{pool}-nowhere", pool, cpu="1000")
    yield kinds.POD_MIGRATION_JOBS, migration_job(f"{pool}-move", pool)
    yield kinds.ELASTIC_QUOTA_PROFILES, quota_profile(pool)
    yield kinds.CLUSTER_COLOCATION_PROFILES, colocation_profile(pool)
    yield (
        kinds.DEPLOYMENTS,
        {**workload(f"{pool}-web", pool), "metadata": {**meta(f"{pool}-web", pool), "uid": f"uid-{pool}-deployment"}},
    )
    yield kinds.DAEMON_SETS, workload(f"{pool}-daemon", pool)
    yield kinds.JOBS, workload(f"{pool}-job", pool, parallelism=1, completions=1)
    yield (
        kinds.CRON_JOBS,
        {
            "metadata": meta(f"{pool}-cron", pool),
            "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": workload("x", pool)["spec"]}},
        },
    )


def filled(kind: Kind[Any], honest: Manifest) -> Manifest:
    """An object with every field of its type, as honest as it can be."""
    merged: Manifest = _merged(sample(kind.type), honest)
    return merged


def _merged(under: Any, over: Any) -> Any:
    if isinstance(under, Mapping) and isinstance(over, Mapping):
        return {**under, **{key: _merged(under.get(key), value) for key, value in over.items()}}
    return over


def read(kind: Kind[Any], manifest: Manifest) -> list[Thing]:
    """The object as an informer reads it; nothing where it cannot be read, and is skipped."""
    try:
        return [(kind, decode(kind.type, encode(manifest)))]
    except DecodeError:
        return []


def honest(pool: str) -> list[Thing]:
    return [thing for kind, manifest in world(pool) for thing in read(kind, manifest)]


def renamed(manifest: Manifest, number: int) -> Manifest:
    """Another object of the same kind."""
    name = f"{manifest['metadata']['name']}-{number}"
    return {**manifest, "metadata": {**manifest["metadata"], "name": name, "uid": f"uid-{name}"}}
