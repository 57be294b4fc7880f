"""What happens in a story that has everything: manifests and changes, made by dice, for all drivers of a scheduler.

Nodes are few and small, so that pods compete: with own CPUs, NUMA policies, shares of GPUs and whole ones, gangs, a
tree of quotas, reservations, priorities that preempt. Objects are changed and deleted, nodes go and come back, and the
scheduler is started again. A script knows of the cluster what its API says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from koord.api.kinds import (
    DEVICES,
    ELASTIC_QUOTAS,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    POD_GROUPS,
    PODS,
    RESERVATIONS,
)
from koord_chaos.invariants.manifests import Manifest, node_of, quantity
from koord_chaos.stories.actions import Action, Change, Drop, Has, Put, Rest, Restart
from koord_chaos.stories.dice import Dice
from koord_chaos.stories.hardware import K, gpu, topology

PRIORITIES: Final[Mapping[str, int]] = {
    "low": 100,
    "batch": 5500,
    "mid": 7500,
    "prod": 9100,
    "high": 9500,
    "highest": 9900,
}
"""By name of the class; those from `prod` on may have CPUs of their own. Each has a twin that preempts no pod."""
NEVER: Final = "-never"
NAMESPACE: Final = "default"
OTHER_NAMESPACE: Final = "team"
QUOTA: Final = "quota.scheduling.koordinator.sh/"
GANG: Final = "gang.scheduling.koordinator.sh/"


def priority_classes() -> list[dict[str, Any]]:
    made = [{"metadata": {"name": name}, "value": value} for name, value in PRIORITIES.items()]
    never = [{"metadata": {"name": f"{name}{NEVER}"}, "value": value} for name, value in PRIORITIES.items()]
    return [*made, *({**item, "preemptionPolicy": "Never"} for item in never)]


SHAPES: Final = {4: ("1x1x2x2", "1x2x1x2", "1x1x4x1"), 8: ("1x2x2x2", "2x1x2x2", "1x2x4x1")}
"""By number of CPUs: sockets x NUMA nodes x cores x threads."""


Wish = dict[str, Any]
"""What a pod asks for, without its name: metadata and spec."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A node that comes: its objects, which features change in place."""

    node: dict[str, Any]
    topology: dict[str, Any] | None
    device: dict[str, Any] | None

    def puts(self) -> list[Put]:
        parts = (NODES, self.node), (NODE_RESOURCE_TOPOLOGIES, self.topology), (DEVICES, self.device)
        return [Put(kind, manifest) for kind, manifest in parts if manifest is not None]


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that koord has: how often it happens, how often pods ask for it, how nodes are equipped for it."""

    name: str
    weight: int = 0
    happens: Callable[[Script, Has], list[Action]] = lambda script, has: []
    chance: float = 0.0
    asks: Callable[[Dice, Wish], None] = lambda dice, wish: None
    equips: Callable[[Dice, Machine], None] | None = None


@dataclass
class Script:
    """One story that mixes these features."""

    dice: Dice
    features: Sequence[Feature]
    _number: int = 0
    _gone: dict[str, list[Put]] = field(default_factory=dict)
    "Nodes that are away, with all that comes back with them."
    away: list[Put] = field(default_factory=list)
    "Objects of kinds that are away."

    def begin(self) -> list[Action]:
        dice = self.dice
        result: list[Action] = []
        for i in range(dice.integer(2, 4)):
            result += self._node(f"n{i}")
        parent = dice.chance(0.5)
        if parent:
            result.append(self.quota("all", dice.one(("6", "10", "16")), least="4", is_parent=True))
        for name in ("a", "b"):
            result.append(self.quota(name, dice.one(("2", "4", "6", "12")), parent="all" if parent else ""))
        if dice.chance(0.5):
            result.append(self.quota("c", dice.one(("2", "4", "8"))))
        for _ in range(dice.integer(0, 12)):
            result.append(self.pod(self.name("p"), self.wish()))
        return result

    def next(self, has: Has) -> list[Action]:
        """What happens next; together, what comes at once."""
        dice = self.dice
        choices = [feature for feature in self.features for _ in range(feature.weight)]
        while True:
            result = dice.one(choices).happens(self, has)
            if result:
                return result

    # Nodes.

    def _node(self, name: str) -> list[Put]:
        dice = self.dice
        cpus = dice.one((4, 4, 8))
        gpus = dice.one((0, 1, 2))
        labels = {"kubernetes.io/hostname": name, "half": dice.one(("left", "right"))}
        if dice.chance(0.3):
            labels["node.koordinator.sh/numa-topology-policy"] = dice.one(
                ("SingleNUMANode", "Restricted", "BestEffort")
            )
        amounts = {"cpu": str(cpus), "memory": "32Gi", "pods": dice.one(("5", "110"))}
        if gpus:
            amounts |= {f"{K}/gpu-core": str(100 * gpus), f"{K}/gpu-memory-ratio": str(100 * gpus)}
        node = {
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {"allocatable": amounts, "capacity": amounts},
        }
        zones = topology(name, dice.one(SHAPES[cpus]), memory="16Gi") if dice.chance(0.8) else None
        device: dict[str, Any] | None = None
        if gpus:
            has_places = dice.chance(0.5)
            units = [gpu(i, pcie=i, numa_node=i % 2 if has_places else None) for i in range(gpus)]
            device = {"metadata": {"name": name}, "spec": {"devices": units}}
        machine = Machine(node, zones, device)
        for feature in self.features:
            if feature.equips is not None:
                feature.equips(dice, machine)
        return machine.puts()

    def node_goes(self, has: Has) -> list[Action]:
        if len(has[NODES]) < 2:
            return []
        name = self.dice.one(sorted(has[NODES]))
        others = (NODE_RESOURCE_TOPOLOGIES, DEVICES)
        self._gone[name] = [Put(kind, stripped(has[kind][name])) for kind in (NODES, *others) if name in has[kind]]
        return [Drop(kind, name) for kind in (NODES, *others) if name in has[kind]]

    def node_comes_back(self, has: Has) -> list[Action]:
        if not self._gone:
            return []
        name = self.dice.one(sorted(self._gone))
        parts = self._gone.pop(name)
        return list(parts if self.dice.chance(0.7) else reversed(parts))

    def node_is_cordoned_or_not(self, has: Has) -> list[Action]:
        name = self.dice.one(sorted(has[NODES]))
        is_cordoned = has[NODES][name].get("spec", {}).get("unschedulable")
        return [Change(NODES, name, {"spec": {"unschedulable": None if is_cordoned else True}})]

    def node_has_other_amounts(self, has: Has) -> list[Action]:
        name = self.dice.one(sorted(has[NODES]))
        body = {"status": {"allocatable": {"memory": self.dice.one(("2Gi", "8Gi", "32Gi"))}}}
        return [Change(NODES, name, body, "status", lessens=True)]

    def device_changes(self, has: Has) -> list[Action]:
        if not has[DEVICES]:
            return []
        name = self.dice.one(sorted(has[DEVICES]))
        units = [dict(item) for item in has[DEVICES][name]["spec"]["devices"]]
        unit = self.dice.one(units)
        unit["health"] = not unit.get("health")
        return [Change(DEVICES, name, {"spec": {"devices": units}}, lessens=True)]

    # Quotas.

    def quota(self, name: str, most: str, *, least: str = "0", parent: str = "", is_parent: bool = False) -> Put:
        labels = {f"{QUOTA}parent": parent} if parent else {}
        labels |= {f"{QUOTA}is-parent": "true"} if is_parent else {}
        amounts = {"min": {"cpu": least}, "max": {"cpu": most}}
        return Put(
            ELASTIC_QUOTAS, {"metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}, "spec": amounts}
        )

    def quota_changes(self, has: Has) -> list[Action]:
        names = sorted(has[ELASTIC_QUOTAS])
        if not names:
            return []
        most = self.dice.one(("1", "2", "4", "8", "12"))
        return [Change(ELASTIC_QUOTAS, self.dice.one(names), {"spec": {"max": {"cpu": most}}}, lessens=True)]

    def quota_goes_or_comes(self, has: Has) -> list[Action]:
        if f"{NAMESPACE}/c" in has[ELASTIC_QUOTAS]:
            return [Drop(ELASTIC_QUOTAS, f"{NAMESPACE}/c", lessens=True)]
        return [replace(self.quota("c", self.dice.one(("2", "4", "8"))), lessens=True)]

    # Pods.

    def pod_comes(self, has: Has) -> list[Action]:
        return [self.pod(self.name("p"), self.wish())]

    def gang_comes(self, has: Has) -> list[Action]:
        return self.gang()

    def gang(self, groups: Sequence[str] = (), name: str = "") -> list[Action]:
        """`groups`: gangs that are placed together with it, and itself."""
        dice = self.dice
        name, size = name or self.name("g"), dice.integer(2, 4)
        least = dice.integer(1, size) if dice.chance(0.3) else size
        has_group = not groups and dice.chance(0.3)
        if has_group:
            labels, said = {"pod-group.scheduling.sigs.k8s.io": name}, dict[str, str]()
        else:
            labels, said = {}, {f"{GANG}name": name, f"{GANG}min-available": str(least)}
        if groups:
            said[f"{GANG}groups"] = json.dumps(groups)
        result: list[Action] = []
        wish = self.wish()
        namespace = NAMESPACE if groups else wish["metadata"].get("namespace", NAMESPACE)
        for i in range(size):
            if dice.chance(0.2):
                wish = self.wish(quota=wish["metadata"]["labels"].get(f"{QUOTA}name", ""))
            pod = self.pod(f"{name}-{i}", wish)
            meta = pod.manifest["metadata"]
            meta["namespace"] = namespace
            meta["labels"], meta["annotations"] = {**meta["labels"], **labels}, {**meta["annotations"], **said}
            result.append(pod)
        if has_group:
            group = {"metadata": {"name": name, "namespace": namespace}, "spec": {"minMember": least}}
            result.insert(0, Put(POD_GROUPS, group))
        return result

    def name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def pod(self, name: str, wish: Mapping[str, Any]) -> Put:
        meta = {"name": name, "namespace": NAMESPACE, **wish["metadata"]}
        return Put(PODS, {"metadata": meta, "spec": json.loads(json.dumps(wish["spec"]))})

    def wish(self, quota: str | None = None) -> dict[str, Any]:
        """What a pod asks for, without its name."""
        dice = self.dice
        labels: dict[str, str] = {}
        said: dict[str, str] = {}
        requests = {"cpu": dice.one(("0", "500m", "1", "1", "2", "3")), "memory": dice.one(("64Mi", "1Gi", "4Gi"))}
        priority = dice.one(_USUAL)
        if dice.chance(0.3):
            labels["koordinator.sh/qosClass"] = dice.one(("LSR", "LSE"))
            requests["cpu"] = dice.one(("1", "2", "2", "3", "4"))
            priority = dice.one(("prod", "prod", "high", "highest"))
            cpus = dice.one(_CPU_SPECS)
            if cpus:
                said["scheduling.koordinator.sh/resource-spec"] = json.dumps(cpus)
        elif dice.chance(0.2):
            labels["koordinator.sh/qosClass"] = dice.one(("LS", "BE"))
        if dice.chance(0.08):
            said["scheduling.koordinator.sh/numa-topology-spec"] = json.dumps({"numaTopologyPolicy": "SingleNUMANode"})
        if dice.chance(0.3):
            share = dice.one(("20", "40", "50", "70", "100", "100", "200"))
            requests |= {f"{K}/gpu-core": share, f"{K}/gpu-memory-ratio": share}
        if dice.chance(0.4):
            labels["app"] = dice.one(("web", "db"))
        name = dice.one(("", "", "a", "a", "b", "c")) if quota is None else quota
        if name:
            labels[f"{QUOTA}name"] = name
        if dice.chance(0.05):
            labels[f"{QUOTA}preemptible"] = "false"
        spec: dict[str, Any] = {
            "schedulerName": "koord-scheduler",
            "priorityClassName": priority,
            "terminationGracePeriodSeconds": 0,
            "containers": [container(requests)],
        }
        if dice.chance(0.1):
            spec["nodeSelector"] = {"half": dice.one(("left", "right"))}
        if dice.chance(0.1):
            spec["priorityClassName"] = f"{priority}{NEVER}"
        wish = {"metadata": {"labels": labels, "annotations": said}, "spec": spec}
        for feature in self.features:
            if feature.chance and dice.chance(feature.chance):
                feature.asks(dice, wish)
        return wish

    def pod_goes(self, has: Has) -> list[Action]:
        return [Drop(PODS, self.dice.one(sorted(has[PODS])))] if has[PODS] else []

    def pods_of_a_node_go(self, has: Has) -> list[Action]:
        """As when a service is scaled down: room for many at once."""
        node = self.dice.one(sorted(has[NODES]))
        return [Drop(PODS, key) for key, pod in has[PODS].items() if node_of(pod) == node and self.dice.chance(0.6)]

    def pod_ends(self, has: Has) -> list[Action]:
        running = sorted(key for key, pod in has[PODS].items() if node_of(pod) and not is_leaving(pod))
        return [Change(PODS, self.dice.one(running), {"status": {"phase": "Succeeded"}}, "status")] if running else []

    def pod_is_resized(self, has: Has) -> list[Action]:
        """A running pod without CPUs of its own asks for less."""
        running = [
            key
            for key, pod in sorted(has[PODS].items())
            if node_of(pod)
            and pod["metadata"].get("labels", {}).get("koordinator.sh/qosClass") not in ("LSR", "LSE")
            and quantity(pod["spec"]["containers"][0]["resources"]["requests"].get("cpu", 0)) >= 1
        ]
        if not running:
            return []
        key = self.dice.one(running)
        container = json.loads(json.dumps(has[PODS][key]["spec"]["containers"][0]))
        container["resources"]["requests"]["cpu"] = "500m"
        return [Change(PODS, key, {"spec": {"containers": [container]}}, "resize")]

    # Reservations.

    def reservation_comes(self, has: Has) -> list[Action]:
        dice = self.dice
        name, app = self.name("r"), dice.one(("web", "db"))
        requests = {"cpu": dice.one(("1", "2", "3", "4")), "memory": "1Gi"}
        labels = {}
        if dice.chance(0.25):
            labels["koordinator.sh/qosClass"] = "LSR"
        if dice.chance(0.25):
            share = dice.one(("50", "100"))
            requests |= {f"{K}/gpu-core": share, f"{K}/gpu-memory-ratio": share}
        pod = {
            "metadata": {"labels": labels},
            "spec": {
                "schedulerName": "koord-scheduler",
                "priority": PRIORITIES["high"],
                "containers": [container(requests)],
            },
        }
        spec: dict[str, Any] = {
            "template": pod,
            "owners": [{"labelSelector": {"matchLabels": {"app": app}}}],
            "allocateOnce": dice.chance(0.5),
            "ttl": "24h",
        }
        policy = dice.one(("", "Aligned", "Restricted"))
        if policy:
            spec["allocatePolicy"] = policy
        return [Put(RESERVATIONS, {"metadata": {"name": name}, "spec": spec})]

    def reservation_goes(self, has: Has) -> list[Action]:
        if not has[RESERVATIONS]:
            return []
        return [Drop(RESERVATIONS, self.dice.one(sorted(has[RESERVATIONS])), lessens=True)]

    # The scheduler.

    def restart(self, has: Has) -> list[Action]:
        return [Restart()]

    def rest(self, has: Has) -> list[Action]:
        return [Rest()]


_USUAL: Final = ("low", "batch", "prod", "high", "highest")
_CPU_SPECS: Final[tuple[dict[str, str], ...]] = (
    {},
    {},
    {"requiredCPUBindPolicy": "FullPCPUs"},
    {"preferredCPUBindPolicy": "SpreadByPCPUs"},
    {"preferredCPUBindPolicy": "FullPCPUs", "preferredCPUExclusivePolicy": "PCPULevel"},
)


def container(requests: Mapping[str, str]) -> dict[str, Any]:
    """What cannot be overcommitted has a limit."""
    limits = {name: amount for name, amount in requests.items() if name.startswith(K)}
    resources = {"requests": dict(requests), **({"limits": limits} if limits else {})}
    return {"name": "c", "image": "app:1", "resources": resources}


def stripped(manifest: Manifest) -> dict[str, Any]:
    """As its author would write it: without what the API server adds."""
    result: dict[str, Any] = json.loads(json.dumps(manifest))
    for name in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        result["metadata"].pop(name, None)
    return result


def is_leaving(pod: Manifest) -> bool:
    return pod["metadata"].get("deletionTimestamp") is not None or pod.get("status", {}).get("phase") == "Succeeded"
