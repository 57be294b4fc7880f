"""Small builders: clusters with load, for the descheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from koord.api.configuration.descheduler_config import IMPLEMENTS, parse
from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import NODE_METRICS, NODES, PODS
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.workloads import Deployment, Job, ReplicaSet
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.text.timestamp import from_seconds
from koord.descheduler.compiled import Compiled, compiled
from koord.descheduler.moves import move_of
from koord.descheduler.places import Places
from koord.descheduler.plugin import Plugin
from koord.descheduler.sight import Sight
from koord.descheduler.workloads import Known, workloads_of
from koord.scheduler.core.core import Core
from koord.scheduler.core.moment import Moment
from koord.scheduler.profiles import profiles_of

NOW_S = 1_800_000_000.0


def node(name: str, cpu: int = 32, memory_gi: int = 128, **more: Any) -> Node:
    allocatable = {"cpu": str(cpu), "memory": f"{memory_gi}Gi", "pods": "110", "kubernetes.io/batch-cpu": "8000"}
    spec = {"unschedulable": True} if more.pop("unschedulable", False) else {}
    metadata = {"name": name, "labels": more.pop("labels", {}), "annotations": more.pop("annotations", {})}
    return convert(Node, {"metadata": metadata, "spec": spec, "status": {"allocatable": allocatable}})


def pod(
    name: str,
    node: str,
    *,
    cpu: str = "1",
    priority: int = 9500,
    qos: str = "LS",
    owner: str = "Deployment web",
    age_s: float = 3600.0,
    ready: bool = True,
    **more: Any,
) -> Pod:
    kind, _, owner_name = owner.partition(" ")
    api_version, kind, uid = {
        "Deployment": ("apps/v1", "ReplicaSet", f"replicaset-{owner_name}"),
        "StatefulSet": ("apps/v1", "StatefulSet", f"statefulset-{owner_name}"),
        "Job": ("batch/v1", "Job", f"job-{owner_name}"),
        "DaemonSet": ("apps/v1", "DaemonSet", f"daemonset-{owner_name}"),
        "": ("", "", ""),
    }[kind]
    reference = {"apiVersion": api_version, "kind": kind, "name": owner_name, "uid": uid, "controller": True}
    requests = {"kubernetes.io/batch-cpu": str(int(cpu) * 1000)} if qos == "BE" else {"cpu": cpu}
    return convert(
        Pod,
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "creationTimestamp": from_seconds(NOW_S - age_s),
                "labels": {"koordinator.sh/qosClass": qos, **more.pop("labels", {})},
                "annotations": more.pop("annotations", {}),
                "ownerReferences": [reference] if uid else [],
            },
            "spec": {
                "nodeName": node,
                "schedulerName": "koord-scheduler",
                "priority": priority,
                "containers": [{"name": "main", "resources": {"requests": requests}}],
                **more,
            },
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            },
        },
    )


def metric(
    name: str, system: tuple[float, float], pods: Mapping[str, tuple[float, float]], at_s: float = NOW_S
) -> NodeMetric:
    """Usage in cores and GiB."""

    def usage(of: tuple[float, float]) -> dict[str, Any]:
        return {"resources": {"cpu": f"{round(of[0] * 1000)}m", "memory": str(round(of[1] * 2**30))}}

    total = tuple(sum(parts) for parts in zip(system, *pods.values(), strict=True))
    return convert(
        NodeMetric,
        {
            "metadata": {"name": name},
            "status": {
                "updateTime": from_seconds(at_s),
                "nodeMetric": {"nodeUsage": usage((total[0], total[1])), "systemUsage": usage(system)},
                "podsMetric": [
                    {"name": key, "namespace": "default", "podUsage": usage(of)} for key, of in pods.items()
                ],
            },
        },
    )


def deployment(name: str, size: int, **status: int) -> list[Known]:
    counts = {"replicas": size, "updatedReplicas": size, **status}
    metadata = {"name": name, "namespace": "default", "uid": f"deployment-{name}"}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": metadata["uid"], "controller": True}
    set_ = {"name": name, "namespace": "default", "uid": f"replicaset-{name}", "ownerReferences": [owner]}
    return [
        convert(Deployment, {"metadata": metadata, "spec": {"replicas": size}, "status": counts}),
        convert(ReplicaSet, {"metadata": set_, "spec": {"replicas": size}, "status": {"replicas": size}}),
    ]


def job(name: str, parallelism: int = 1) -> Job:
    metadata = {"name": name, "namespace": "default", "uid": f"job-{name}"}
    return convert(Job, {"metadata": metadata, "spec": {"parallelism": parallelism}})


@dataclass
class Scene:
    """A cluster at one moment."""

    nodes: Sequence[Node]
    pods: Sequence[Pod] = ()
    metrics: Sequence[NodeMetric] = ()
    workloads: Sequence[Known] = field(default_factory=lambda: deployment("web", 100))
    moving: Sequence[Pod] = ()

    def sight(self, now_s: float = NOW_S) -> Sight:
        core = Core(profiles_of(SHIPPED), seed=0, alone=True, now=Moment(now_s, now_s))
        for each in self.nodes:
            core.put(NODES, each)
        for report in self.metrics:
            core.put(NODE_METRICS, report)
        for running in self.pods:
            core.put(PODS, running)
        pods_on: dict[str, list[Pod]] = {}
        for running in self.pods:
            pods_on.setdefault(running.spec.node_name, []).append(running)
        return Sight(
            now_s,
            {node.metadata.name: node for node in self.nodes},
            pods_on,
            {metric.metadata.name: metric for metric in self.metrics},
            workloads_of(self.workloads, self.pods),
            Places(core.cluster, core.feed.engine_of),
            [move_of(pod) for pod in self.moving],
        )


def config(low_node_load: Mapping[str, Any], migration: Mapping[str, Any] | None = None, **more: Any) -> Compiled:
    return profile({"LowNodeLoad": low_node_load}, migration, **more)


def profile(
    plugins: Mapping[str, Mapping[str, Any]],
    migration: Mapping[str, Any] | None = None,
    own: Sequence[type[Plugin]] = (),
    **more: Any,
) -> Compiled:
    """A configuration of one profile that runs these plugins with these arguments."""
    points: dict[str, Any] = {}
    for name in plugins:
        points.setdefault(IMPLEMENTS[name][0], {"enabled": []})["enabled"].append({"name": name})
    given = [*plugins.items(), ("MigrationController", migration or {})]
    return compiled(
        parse(
            {
                "apiVersion": "descheduler/v1alpha2",
                "kind": "DeschedulerConfiguration",
                "deschedulingInterval": "120s",
                "profiles": [
                    {
                        "name": "koord-descheduler",
                        "plugins": points,
                        "pluginConfig": [{"name": name, "args": dict(args)} for name, args in given],
                    }
                ],
                **more,
            }
        ),
        own,
    )
