"""Small clusters that are full: pods of several priorities, budgets, start times, and important pods that wait.

Everything is in manifests, so that the same scene can be given to kube-scheduler. `crowded(seed)` is the same for ever.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Final

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.policy import PodDisruptionBudget
from koord.api.machinery.codec import convert
from koord.api.text.timestamp import from_seconds
from koord_chaos.stories.dice import Dice
from tests.scheduler.build import NOW_S
from tests.scheduler.reference.cluster import Cluster

Manifest = dict[str, Any]
ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
APPS: Final = ("web", "db", "batch")
PRIORITIES: Final = (-10, 0, 0, 5, 10)


@dataclass(frozen=True)
class Crowd:
    nodes: list[Manifest]
    placed: list[Manifest]
    budgets: list[Manifest]
    pending: list[Manifest]
    nominated: dict[str, str] = field(default_factory=dict)
    "Of some pending pods, by key, the node that they were promised."

    def cluster(self) -> Cluster:
        nodes = tuple(convert(Node, node) for node in self.nodes)
        return Cluster(nodes=nodes, pods=tuple(convert(Pod, each) for each in self.placed), now_s=NOW_S)

    def pods(self) -> list[Pod]:
        return [convert(Pod, each) for each in self.pending]

    def disruption_budgets(self) -> list[PodDisruptionBudget]:
        return [convert(PodDisruptionBudget, budget) for budget in self.budgets]

    def digest(self) -> str:
        text = json.dumps([self.nodes, self.placed, self.budgets, self.pending, self.nominated], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def crowded(seed: int, *, plain: bool = False, nominations: bool = False) -> Crowd:
    """`plain`: only amounts decide. `nominations`: some of the pending pods were promised a node already."""
    dice = Dice(seed)
    nodes = [_node(dice, f"n{i}", plain) for i in range(dice.integer(2, 6))]
    placed: list[Manifest] = []
    for node in nodes:
        left = {"cpu": 8, "memory": 16}
        for i in range(dice.integer(1, 6)):
            cpu, memory = dice.integer(0, 3), dice.integer(0, 5)
            if cpu > left["cpu"] or memory > left["memory"]:
                continue
            left["cpu"] -= cpu
            left["memory"] -= memory
            pod = _pod(dice, f"{node['metadata']['name']}-{i}", cpu, memory, plain)
            pod["spec"] |= {"nodeName": node["metadata"]["name"], "priority": dice.one(PRIORITIES)}
            pod["status"] = {"phase": "Running"}
            if dice.chance(0.8):
                pod["status"]["startTime"] = from_seconds(NOW_S - 60 * dice.integer(1, 5))
            _without_taken_ports(pod, placed)
            placed.append(pod)
    pending = []
    for i in range(3):
        pod = _pod(dice, f"pending-{i}", dice.integer(2, 9), dice.integer(0, 12), plain)
        pod["spec"]["priority"] = dice.one((0, 5, 10, 20, 20))
        if not plain and dice.chance(0.08):
            pod["spec"]["preemptionPolicy"] = "Never"
        pending.append(pod)
    budgets = [_budget(dice, i) for i in range(dice.integer(0, 3))]
    nominated = {}
    if nominations:
        for pod in pending[1:]:
            nominated[f"default/{pod['metadata']['name']}"] = dice.one(nodes)["metadata"]["name"]
    return Crowd(nodes, placed, budgets, pending, nominated)


def _node(dice: Dice, name: str, plain: bool) -> Manifest:
    labels = {HOSTNAME: name, ZONE: f"z{dice.integer(0, 1)}"}
    spec: Manifest = {}
    if not plain and dice.chance(0.15):
        spec["taints"] = [{"key": "kept", "effect": "NoSchedule"}]
    has = {"cpu": "8", "memory": "16Gi", "pods": dice.one((3, 110, 110, 110))}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": has, "capacity": has},
    }


def _pod(dice: Dice, name: str, cpu: int, memory: int, plain: bool) -> Manifest:
    requests: dict[str, str] = {}
    if cpu:
        requests["cpu"] = str(cpu)
    if memory:
        requests["memory"] = f"{memory}Gi"
    container: Manifest = {"name": "c", "image": "i", "resources": {"requests": requests}}
    app = dice.one(APPS)
    spec: Manifest = {"containers": [container]}
    if not plain:
        if dice.chance(0.15):
            container["ports"] = [{"hostPort": dice.one((80, 81)), "containerPort": 80, "protocol": "TCP"}]
        selector = {"matchLabels": {"app": dice.one(APPS)}}
        if dice.chance(0.15):
            term = {"topologyKey": dice.one((HOSTNAME, ZONE)), "labelSelector": selector}
            affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            spec["affinity"] = {dice.one(("podAntiAffinity", "podAntiAffinity", "podAffinity")): affinity}
        if dice.chance(0.15):
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": dice.one((HOSTNAME, ZONE)),
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": selector,
                }
            ]
    meta = {"name": name, "namespace": "default", "uid": name, "labels": {"app": app} if dice.chance(0.9) else {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _without_taken_ports(pod: Manifest, placed: list[Manifest]) -> None:
    """No two pods of a node have one port."""
    (container,) = pod["spec"]["containers"]
    for other in placed:
        (taken,) = other["spec"]["containers"]
        if other["spec"]["nodeName"] == pod["spec"]["nodeName"] and taken.get("ports") == container.get("ports"):
            container.pop("ports", None)


def _budget(dice: Dice, i: int) -> Manifest:
    selector: Manifest = {"matchLabels": {"app": dice.one(APPS)}} if dice.chance(0.9) else {}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"budget-{i}", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": selector},
        "status": {
            "disruptionsAllowed": dice.integer(0, 2),
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
        },
    }
