"""Random pods, as manifests: what they ask for, whom they want beside them, where they may run.

All names come from small sets, so that what one pod asks for is often there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from koord.api.text.timestamp import from_seconds
from koord_chaos.stories.dice import Dice
from tests.scheduler.build import NOW_S
from tests.scheduler.profiles import BATCH_CPU, BATCH_MEMORY, GPU

Manifest = dict[str, Any]

HOSTNAME, ZONE, REGION = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
KEYS = (HOSTNAME, ZONE, REGION, "disk")
APPS = ("api", "db", "job", "web")
OWNERS = {"api": "ReplicaSet", "db": "StatefulSet", "job": "ReplicationController", "web": "ReplicaSet"}
NAMESPACES = ("default", "team-a", "team-b")
IMAGES = {
    "example.com/api:v1": 40 * 1024**2,
    "example.com/api:v2": 700 * 1024**2,
    "example.com:5000/db:latest": 1900 * 1024**2,
    "tool:latest": 10 * 1024**2,
    "web:latest": 333_333_333,
}
ASKED_IMAGES = ("example.com/api:v1", "example.com/api:v2", "example.com:5000/db", "tool", "web:latest", "absent:v1")
CPUS = ("0", "50m", "100m", "250m", "500m", "1", "1500m", "2")
MEMORIES = ("0", "64Mi", "128M", "200Mi", "500Mi", "1Gi", "1.5Gi", "2Gi")
PRIORITIES = (None, 0, 3500, 5500, 7500, 9500)


def labels(dice: Dice, app: str) -> dict[str, str]:
    found = {"app": app, "rev": dice.one(("1", "2"))}
    if dice.chance(0.4):
        found["tier"] = dice.one(("back", "front"))
    return found


def label_selector(dice: Dice, app: str) -> Manifest | None:
    """Mostly by app; sometimes by something harder, rarely for every pod, or for none."""
    if dice.chance(0.04):
        return None
    if dice.chance(0.05):
        return {}
    if dice.chance(0.25):
        expression: Manifest = dice.one(
            (
                {"key": "app", "operator": "In", "values": dice.some(APPS, 3, 1)},
                {"key": "app", "operator": "NotIn", "values": dice.some(APPS, 2, 1)},
                {"key": "tier", "operator": "Exists"},
                {"key": "tier", "operator": "DoesNotExist"},
            )
        )
        return {"matchExpressions": [expression]}
    return {"matchLabels": {"app": app if dice.chance(0.7) else dice.one(APPS)}}


def resources(dice: Dice, *, large: bool) -> Manifest:
    """Requests, and limits of some. `large` sometimes asks for more than most nodes have left."""
    requests: dict[str, str | int] = {}
    limits: dict[str, str | int] = {}
    if dice.chance(0.75):
        requests["cpu"] = dice.one(CPUS) if not (large and dice.chance(0.12)) else str(dice.integer(2, 16))
    if dice.chance(0.7):
        requests["memory"] = dice.one(MEMORIES) if not (large and dice.chance(0.12)) else f"{dice.integer(2, 16)}Gi"
    if dice.chance(0.1):
        requests["ephemeral-storage"] = dice.one(("1Gi", "4Gi", "9Gi"))
    if dice.chance(0.07):
        requests[GPU] = limits[GPU] = dice.integer(0, 3)
    if dice.chance(0.1):
        requests[BATCH_CPU] = limits[BATCH_CPU] = dice.one((250, 1000, 3000))
        requests[BATCH_MEMORY] = limits[BATCH_MEMORY] = dice.one(("256Mi", "1Gi", "3Gi"))
    if dice.chance(0.2) and requests.get("cpu") not in (None, "0"):
        limits["cpu"] = dice.one((requests["cpu"], "16"))
    return {"requests": requests, "limits": limits}


def containers(dice: Dice, *, large: bool) -> Manifest:
    """One or two containers, sometimes init containers, sidecars, host ports and amounts for the pod as a whole."""
    spec: Manifest = {
        "containers": [_container(dice, f"main-{i}", large) for i in range(2 if dice.chance(0.25) else 1)]
    }
    if dice.chance(0.15):
        spec["initContainers"] = [_container(dice, f"init-{i}", large=False) for i in range(dice.integer(1, 3))]
        for container in spec["initContainers"]:
            if dice.chance(0.5):
                container["restartPolicy"] = "Always"
    if dice.chance(0.08):
        spec["overhead"] = {"cpu": "120m", "memory": "64Mi"}
    if dice.chance(0.06):
        # The API server demands that a pod asks for no less than its containers.
        for container in [*spec["containers"], *spec.get("initContainers", ())]:
            container["resources"] = {"requests": dice.one(({}, {"cpu": "50m"}, {"memory": "64Mi"}))}
        spec["resources"] = {"requests": dice.one(({"cpu": "700m"}, {"memory": "1Gi"}, {"cpu": "1", "memory": "2Gi"}))}
    _drop_doubles([*spec["containers"], *spec.get("initContainers", ())])
    return spec


def _drop_doubles(all_containers: list[Manifest]) -> None:
    """A pod may not take one port of its node twice."""
    taken = set()
    for container in all_containers:
        for port in container.get("ports", ()):
            key = (port["protocol"], port["hostPort"])
            if key in taken:
                del container["ports"]
            taken.add(key)


def host_ports(pod: Manifest) -> list[tuple[tuple[str, int, str], Manifest]]:
    """The ports that a pod takes of its node, and the container of each."""
    spec = pod["spec"]
    return [
        ((port["protocol"], port["hostPort"], port.get("hostIP", "0.0.0.0")), container)
        for container in [*spec["containers"], *spec.get("initContainers", ())]
        for port in container.get("ports", ())
    ]


def _container(dice: Dice, name: str, large: bool) -> Manifest:
    container: Manifest = {"name": name, "image": dice.one(ASKED_IMAGES), "resources": resources(dice, large=large)}
    if dice.chance(0.12):
        container["ports"] = [_port(dice)]
    return container


def _port(dice: Dice) -> Manifest:
    number = dice.integer(8080, 8082)
    port: Manifest = {"containerPort": number, "hostPort": number, "protocol": "UDP" if dice.chance(0.2) else "TCP"}
    if dice.chance(0.4):
        port["hostIP"] = dice.one(("10.0.0.1", "10.0.0.2", "0.0.0.0"))
    return port


def pod_term(dice: Dice, app: str) -> Manifest:
    term: Manifest = {"topologyKey": dice.one(KEYS), "labelSelector": label_selector(dice, app)}
    if dice.chance(0.2):
        term["namespaces"] = dice.some(NAMESPACES, 2, 1)
    if dice.chance(0.2):
        term["namespaceSelector"] = dice.one(
            (
                {},
                {"matchLabels": {"env": "prod"}},
                {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]},
                {"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]},
            )
        )
    if term["labelSelector"] is None:
        return term
    if dice.chance(0.12):
        term["matchLabelKeys"] = [_borrowed(dice, term)]
    elif dice.chance(0.1):
        term["mismatchLabelKeys"] = [_borrowed(dice, term)]
    return term


def _borrowed(dice: Dice, term: Manifest) -> str:
    """A key whose value a term takes from its pod: none that its selector has."""
    key = dice.one(("rev", "tier"))
    return "rev" if any(e["key"] == key for e in term["labelSelector"].get("matchExpressions", ())) else key


def pod_affinity(dice: Dice, app: str, *, often: float) -> Manifest:
    """Wishes about other pods; required ones are rarer, because each rules out much of the cluster."""
    affinity: Manifest = {}
    for kind, required, preferred in (("podAffinity", 0.35, 0.7), ("podAntiAffinity", 0.4, 0.7)):
        part: Manifest = {}
        if dice.chance(often * required):
            terms = [pod_term(dice, app) for _ in range(2 if dice.chance(0.15) else 1)]
            part["requiredDuringSchedulingIgnoredDuringExecution"] = terms
        if dice.chance(often * preferred):
            part["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": dice.integer(1, 100), "podAffinityTerm": pod_term(dice, app)}
                for _ in range(dice.integer(1, 2))
            ]
        if part:
            affinity[kind] = part
    return affinity


def node_term(dice: Dice, nodes: Sequence[str]) -> Manifest:
    if dice.chance(0.1):
        name = {"key": "metadata.name", "operator": dice.one(("In", "NotIn")), "values": [dice.one(nodes)]}
        return {"matchFields": [name]}
    expressions = (
        {"key": "disk", "operator": "In", "values": dice.some(("hdd", "nvme", "ssd"), 2, 1)},
        {"key": "disk", "operator": "NotIn", "values": ["hdd"]},
        {"key": "generation", "operator": dice.one(("Gt", "Lt")), "values": [str(dice.integer(1, 4))]},
        {"key": ZONE, "operator": "In", "values": dice.some(("z0", "z1", "z2"), 2, 1)},
        {"key": ZONE, "operator": "Exists"},
        {"key": "pool", "operator": "DoesNotExist"},
    )
    return {"matchExpressions": dice.some(expressions, 2, 1)}


def node_affinity(dice: Dice, nodes: Sequence[str]) -> Manifest:
    part: Manifest = {}
    if dice.chance(0.35):
        terms = [node_term(dice, nodes) for _ in range(dice.integer(1, 2))]
        part["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if dice.chance(0.7):
        part["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": dice.integer(1, 100), "preference": node_term(dice, nodes)} for _ in range(dice.integer(1, 3))
        ]
    return part


def spread(dice: Dice, app: str) -> list[Manifest]:
    constraints = []
    for key in dice.some((HOSTNAME, ZONE, REGION, "disk"), 2, 1):
        hard = dice.chance(0.45)
        constraint: Manifest = {
            "maxSkew": dice.integer(1, 3),
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
            "labelSelector": label_selector(dice, app),
        }
        if hard and dice.chance(0.3):
            constraint["minDomains"] = dice.integer(1, 4)
        if dice.chance(0.3):
            constraint["nodeAffinityPolicy"] = dice.one(("Honor", "Ignore"))
        if dice.chance(0.3):
            constraint["nodeTaintsPolicy"] = dice.one(("Honor", "Ignore"))
        if dice.chance(0.15) and constraint["labelSelector"] is not None:
            constraint["matchLabelKeys"] = [_borrowed(dice, constraint)]
        constraints.append(constraint)
    return constraints


def tolerations(dice: Dice) -> list[Manifest]:
    return dice.some(
        (
            {"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"},
            {"key": "dedicated", "operator": "Exists"},
            {"key": "noisy", "operator": "Exists", "effect": "PreferNoSchedule"},
            {"key": "old", "operator": "Equal", "value": "1"},
            {"key": "spot", "operator": "Exists", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
            {"operator": "Exists"},
            {"operator": "Exists", "effect": "PreferNoSchedule"},
        ),
        2,
        1,
    )


def pod(dice: Dice, name: str, nodes: Sequence[str], claims: Sequence[str], *, pending: bool) -> Manifest:
    """A pod that waits, with many wishes, or one to be placed, with fewer."""
    app = dice.one(APPS)
    namespace = "default" if dice.chance(0.6) else dice.one(NAMESPACES)
    meta: Manifest = {"name": name, "namespace": namespace, "labels": labels(dice, app)}
    spec = containers(dice, large=pending)
    if dice.chance(0.6):
        kind = "DaemonSet" if dice.chance(0.1) else OWNERS[app]
        version = "v1" if kind == "ReplicationController" else "apps/v1"
        owner = {"apiVersion": version, "kind": kind, "name": app, "uid": f"{namespace}-{app}", "controller": True}
        meta["ownerReferences"] = [owner]
    if dice.chance(0.5 if pending else 0.25):
        spec["affinity"] = pod_affinity(dice, app, often=1 if pending else 0.7)
    if pending:
        if dice.chance(0.35):
            spec.setdefault("affinity", {})["nodeAffinity"] = node_affinity(dice, nodes)
        if dice.chance(0.15):
            spec["nodeSelector"] = {"disk": dice.one(("hdd", "ssd"))}
        if dice.chance(0.4):
            spec["topologySpreadConstraints"] = spread(dice, app)
        if dice.chance(0.5):
            spec["tolerations"] = tolerations(dice)
    if claims and dice.chance(0.6 if pending else 0.25):
        names = dice.some(claims, 2, 1)
        spec["volumes"] = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": n}} for i, n in enumerate(names)]
        meta["namespace"] = "default"
    if dice.chance(0.1):
        spec.setdefault("volumes", []).append(_disk(dice))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}}


def _disk(dice: Dice) -> Manifest:
    """A disk that the pod names itself, as few as can be shared by accident."""
    reads = {"readOnly": dice.chance(0.4)}
    return dice.one(
        (
            {"name": "disk", "gcePersistentDisk": {"pdName": "gce", **reads}},
            {"name": "disk", "awsElasticBlockStore": {"volumeID": "aws", **reads}},
            {
                "name": "disk",
                "iscsi": {"targetPortal": "10.0.0.9", "iqn": "iqn.2026-11.com.example:d", "lun": 0, **reads},
            },
            {"name": "disk", "rbd": {"monitors": dice.some(("m0", "m1"), 2, 1), "image": "d", "pool": "rbd", **reads}},
            {"name": "disk", "emptyDir": {}},
        )
    )


def place(dice: Dice, manifest: Manifest, node: str) -> None:
    """Put a pod on a node, where it runs, has ended, or is about to go."""
    placed_s = NOW_S - dice.one((5, 30, 59, 60, 61, 90, 3600))
    status = manifest["status"]
    manifest["spec"]["nodeName"] = node
    status["phase"] = "Running"
    if dice.chance(0.9):
        times = {"PodScheduled": placed_s, "Initialized": placed_s + 3}
        status["conditions"] = [
            {"type": type_, "status": "True", "lastTransitionTime": from_seconds(at_s)} for type_, at_s in times.items()
        ]
    if dice.chance(0.08):
        status["containerStatuses"] = [_resized(dice, c) for c in manifest["spec"]["containers"]]
    if dice.chance(0.06):
        status["phase"] = dice.one(("Succeeded", "Failed"))
    elif dice.chance(0.1):
        manifest["metadata"]["deletionTimestamp"] = from_seconds(NOW_S)


def _resized(dice: Dice, container: Manifest) -> Manifest:
    """A container that has, or is granted, something else than it asks for by now."""
    base = {"name": container["name"], "image": "i", "imageID": "", "ready": True, "restartCount": 0}
    granted = {"cpu": dice.one(("100m", "1", "3")), "memory": dice.one(("64Mi", "1Gi"))}
    in_force = {"requests": {"cpu": dice.one(("100m", "2")), "memory": "128Mi"}}
    return {**base, "allocatedResources": granted, "resources": in_force}


def importance(dice: Dice, manifest: Manifest) -> None:
    """How important the pod is to Koordinator, and what it says of its own usage."""
    meta = manifest["metadata"]
    priority = dice.one(PRIORITIES)
    if priority is not None:
        manifest["spec"]["priority"] = priority
    if dice.chance(0.2):
        classes = ("koord-prod", "koord-mid", "koord-batch", "koord-free")
        meta["labels"]["koordinator.sh/priority-class"] = dice.one(classes)
    if dice.chance(0.2):
        meta["labels"]["koordinator.sh/qosClass"] = dice.one(("LSR", "LS", "BE"))
    prefix = "scheduling.koordinator.sh/load-estimated"
    own = {
        f"{prefix}-scaling-factors": dice.one(('{"cpu": 120}', '{"memory": 10}', "{")),
        f"{prefix}-seconds-after-pod-scheduled": dice.one(("0", "120", "-5", "x")),
        f"{prefix}-seconds-after-initialized": dice.one(("30", "600")),
    }
    chosen = {key: text for key, text in own.items() if dice.chance(0.08)}
    if chosen:
        meta["annotations"] = chosen
