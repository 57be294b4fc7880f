"""Random small clusters for the plugins that the Kubernetes descheduler has, too. `python -m` prints one a line, for a
build of it to answer; the answers are in recorded/upstream.json, by plugin and seed.
"""

from __future__ import annotations

import json
import sys
import time
from random import Random
from typing import Any, Final

from koord.api.text.timestamp import from_seconds

PLUGINS: Final = (
    "PodLifeTime",
    "RemovePodsHavingTooManyRestarts",
    "RemovePodsViolatingNodeAffinity",
    "RemoveDuplicates",
    "RemovePodsViolatingTopologySpreadConstraint",
)
UNEVEN: Final = ("RemoveDuplicates", "RemovePodsViolatingTopologySpreadConstraint")
"""Plugins that spread pods: in their clusters, some nodes begin empty."""
SEEDS: Final = range(60)
Plain = dict[str, Any]


def case(plugin: str, seed: int, now_s: float) -> Plain:
    """One cluster, and the plugin's arguments."""
    chance = Random(f"{plugin} {seed}")
    nodes = [_node(chance, number) for number in range(chance.randint(2, 5))]
    names = [node["metadata"]["name"] for node in nodes]
    if plugin in UNEVEN:
        names = names[: 1 + len(names) // 2]
    pods = [_pod(chance, plugin, number, names, now_s) for number in range(chance.randint(4, 14))]
    if plugin == "RemovePodsViolatingTopologySpreadConstraint":
        _spread(chance, pods)
    return {"plugin": plugin, "args": _args(chance, plugin), "nodes": nodes, "pods": pods, "nodeFit": False}


def _node(chance: Random, number: int) -> Plain:
    labels = {
        "zone": chance.choice("abc"),
        "disk": chance.choice(("ssd", "hdd")),
        "kubernetes.io/hostname": f"n{number}",
    }
    room = {"cpu": "100", "memory": "100Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True"}
    spec: Plain = {"unschedulable": True} if chance.random() < 0.1 else {}
    if chance.random() < 0.15:
        spec["taints"] = [{"key": "only", "value": "gpu", "effect": "NoSchedule"}]
    return {
        "metadata": {"name": f"n{number}", "labels": labels},
        "spec": spec,
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }


def _pod(chance: Random, plugin: str, number: int, nodes: list[str], now_s: float) -> Plain:
    app = chance.choice(("web", "api"))
    kind = chance.choices(("ReplicaSet", "StatefulSet", "DaemonSet", ""), (14, 4, 1, 1))[0]
    meta: Plain = {
        "name": f"p{number}",
        "namespace": chance.choice(("default", "default", "shop")),
        "uid": f"uid-{number}",
        "labels": {"app": app},
        "creationTimestamp": from_seconds(now_s - 3600 * chance.choice((1, 5, 20))),
    }
    if kind:
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": app, "uid": f"{kind}-{app}", "controller": True}
        meta["ownerReferences"] = [owner]
    image = chance.choice(("one", "one", "one", "two"))
    spec: Plain = {
        "nodeName": chance.choice(nodes[: max(1, len(nodes) - 1)]),
        "schedulerName": "koord-scheduler",
        "priority": chance.choice((0, 0, 100)),
        "containers": [{"name": "c", "image": image, "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}],
    }
    if chance.random() < 0.08:
        spec["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    if chance.random() < 0.2:
        spec["tolerations"] = [{"key": "only", "operator": "Exists"}]
    if plugin == "RemovePodsViolatingNodeAffinity" and chance.random() < 0.7:
        spec["affinity"] = {"nodeAffinity": _affinity(chance)}
    elif plugin in UNEVEN and chance.random() < 0.2:
        if chance.random() < 0.5:
            spec["nodeSelector"] = {"disk": "ssd"}
        else:
            spec["affinity"] = {"nodeAffinity": _affinity(chance)}
    if plugin == "RemoveDuplicates":
        _have_more(chance, meta, spec)
    return {"metadata": meta, "spec": spec, "status": _status(chance, plugin)}


def _have_more(chance: Random, meta: Plain, spec: Plain) -> None:
    """A second owner, a second container."""
    owners = meta.get("ownerReferences", [])
    if owners and chance.random() < 0.1:
        owners.append({"apiVersion": "example.com/v1", "kind": "Batch", "name": "all", "uid": "batch-all"})
    if chance.random() < 0.2:
        spec["containers"].insert(0, {"name": "side", "image": "two"})


def _spread(chance: Random, pods: list[Plain]) -> None:
    """Pods of one app share their spread constraints, as those of one template do."""
    for app in ("web", "api"):
        if chance.random() < 0.2:
            continue
        constraints = [_constraint(chance, app)]
        if chance.random() < 0.2:
            constraints.append(_constraint(chance, app))
        for pod in pods:
            if pod["metadata"]["labels"]["app"] == app:
                pod["spec"]["topologySpreadConstraints"] = constraints
                pod["metadata"]["labels"]["version"] = chance.choice(("v1", "v1", "v2"))


def _constraint(chance: Random, app: str) -> Plain:
    found: Plain = {
        "maxSkew": chance.choice((1, 1, 2)),
        "topologyKey": chance.choice(("zone", "kubernetes.io/hostname")),
        "whenUnsatisfiable": chance.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": {"matchLabels": {"app": app}},
    }
    if chance.random() < 0.2:
        found["nodeTaintsPolicy"] = "Honor"
    if chance.random() < 0.2:
        found["nodeAffinityPolicy"] = "Ignore"
    if chance.random() < 0.2:
        found["matchLabelKeys"] = ["version"]
    return found


def _affinity(chance: Random) -> Plain:
    wanted = {"key": "disk", "operator": chance.choice(("In", "NotIn")), "values": ["ssd"]}
    if chance.random() < 0.6:
        terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
        return {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    term = {"weight": chance.choice((1, 50)), "preference": {"matchExpressions": [wanted]}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [term]}


def _status(chance: Random, plugin: str) -> Plain:
    phase = "Running"
    if plugin == "PodLifeTime":
        phase = chance.choices(("Running", "Pending", "Succeeded", "Failed"), (6, 2, 1, 1))[0]
    status: Plain = {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]}
    state: Plain = {"running": {}}
    if chance.random() < 0.3:
        state = {"waiting": {"reason": chance.choice(("CrashLoopBackOff", "ImagePullBackOff"))}}
    restarts = chance.choice((0, 3, 10, 40))
    own = {"name": "c", "image": "one", "imageID": "", "ready": True, "restartCount": restarts, "state": state}
    status["containerStatuses"] = [own]
    if chance.random() < 0.3:
        status["initContainerStatuses"] = [{**own, "name": "init", "restartCount": chance.choice((0, 10))}]
    return status


def _args(chance: Random, plugin: str) -> Plain:
    args: Plain = {}
    if plugin == "PodLifeTime":
        args["maxPodLifeTimeSeconds"] = chance.choice((7200, 36000))
        if chance.random() < 0.5:
            args["states"] = chance.sample(("Running", "Pending", "CrashLoopBackOff", "Failed"), 2)
    elif plugin == "RemovePodsHavingTooManyRestarts":
        args["podRestartThreshold"] = chance.choice((3, 10, 13))
        args["includingInitContainers"] = chance.random() < 0.5
        if chance.random() < 0.3:
            args["states"] = [chance.choice(("Running", "CrashLoopBackOff"))]
    elif plugin == "RemovePodsViolatingNodeAffinity":
        kinds = ["requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"]
        args["nodeAffinityType"] = chance.sample(kinds, chance.choice((1, 2)))
    elif plugin == "RemoveDuplicates":
        if chance.random() < 0.3:
            args["excludeOwnerKinds"] = ["StatefulSet"]
    elif plugin == "RemovePodsViolatingTopologySpreadConstraint":
        if chance.random() < 0.5:
            args["constraints"] = ["DoNotSchedule", "ScheduleAnyway"]
        if chance.random() < 0.2:
            args["topologyBalanceNodeFit"] = False
        if chance.random() < 0.15:
            args["labelSelector"] = {"matchLabels": {"app": "web"}}
    if chance.random() < 0.25:
        args["namespaces"] = {chance.choice(("include", "exclude")): ["shop"]}
    return args


if __name__ == "__main__":
    for each in PLUGINS:
        for seed in SEEDS:
            sys.stdout.write(json.dumps(case(each, seed, time.time())) + "\n")
