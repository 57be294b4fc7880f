"""What happens in a story that has everything: manifests and changes, made by dice, for all drivers of a scheduler.

Nodes are few and small, so that pods compete: with own CPUs, NUMA policies, shares of GPUs and whole ones, gangs, a
tree of quotas, reservations, priorities that preempt. Objects are changed and deleted, nodes go and come back, and the
scheduler is started again. A script knows of the cluster what its API says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from koord.api.kinds import (
    DEVICES,
    ELASTIC_QUOTAS,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    POD_GROUPS,
    PODS,
    RESERVATIONS,
    Kind,
)
from koord_chaos.invariants.manifests import Manifest, node_of, quantity
from koord_chaos.stories.dice import Dice
from koord_chaos.stories.hardware import K, gpu, topology

PRIORITIES: Final[Mapping[str, int]] = {"low": 100, "batch": 5500, "prod": 9100, "high": 9500, "highest": 9900}
"""By name of the class; those from `prod` on may have CPUs of their own. Each has a twin that preempts no pod."""
NEVER: Final = "-never"
NAMESPACE: Final = "default"
QUOTA: Final = "quota.scheduling.koordinator.sh/"
GANG: Final = "gang.scheduling.koordinator.sh/"
KINDS: Final[tuple[Kind[Any], ...]] = (
    NODES,
    NODE_RESOURCE_TOPOLOGIES,
    DEVICES,
    ELASTIC_QUOTAS,
    POD_GROUPS,
    RESERVATIONS,
    PODS,
)
"""In the order in which a story creates them."""


def priority_classes() -> list[dict[str, Any]]:
    made = [{"metadata": {"name": name}, "value": value} for name, value in PRIORITIES.items()]
    never = [{"metadata": {"name": f"{name}{NEVER}"}, "value": value} for name, value in PRIORITIES.items()]
    return [*made, *({**item, "preemptionPolicy": "Never"} for item in never)]


@dataclass(frozen=True)
class Put:
    """An object comes, whole."""

    kind: Kind[Any]
    manifest: dict[str, Any]
    lessens: bool = False
    """Whether there may be less than before of what pods are given. What was decided before is carried out, and looked
    at, before that."""


@dataclass(frozen=True)
class Change:
    """An object is changed by a merge patch."""

    kind: Kind[Any]
    key: str
    body: dict[str, Any]
    subresource: str = ""
    lessens: bool = False


@dataclass(frozen=True)
class Drop:
    """An object is deleted."""

    kind: Kind[Any]
    key: str
    lessens: bool = False


@dataclass(frozen=True)
class Restart:
    """The scheduler ends, and another one starts."""


@dataclass(frozen=True)
class Rest:
    """Nothing happens until the scheduler has nothing to do."""


Action: TypeAlias = Put | Change | Drop | Restart | Rest
Has: TypeAlias = Mapping[Kind[Any], Mapping[str, Manifest]]
"""What the API has: manifests by kind and key."""

SHAPES: Final = {4: ("1x1x2x2", "1x2x1x2", "1x1x4x1"), 8: ("1x2x2x2", "2x1x2x2", "1x2x4x1")}
"""By number of CPUs: sockets x NUMA nodes x cores x threads."""


@dataclass
class Script:
    """One story."""

    dice: Dice
    numa_policies: bool = True
    "Whether nodes and pods have NUMA policies."
    _number: int = 0
    _gone: dict[str, list[Put]] = field(default_factory=dict)
    "Nodes that are away, with all that comes back with them."

    def begin(self) -> list[Action]:
        dice = self.dice
        result: list[Action] = []
        for i in range(dice.integer(2, 4)):
            result += self._node(f"n{i}")
        parent = dice.chance(0.5)
        if parent:
            result.append(self._quota("all", dice.one(("6", "10", "16")), least="4", is_parent=True))
        for name in ("a", "b"):
            result.append(self._quota(name, dice.one(("2", "4", "6", "12")), parent="all" if parent else ""))
        if dice.chance(0.5):
            result.append(self._quota("c", dice.one(("2", "4", "8"))))
        for _ in range(dice.integer(0, 12)):
            result.append(self._pod(self._name("p"), self._wish()))
        return result

    def next(self, has: Has) -> list[Action]:
        """What happens next; together, what comes at once."""
        dice = self.dice
        while True:
            result = dice.one(_CHOICES)(self, has)
            if result:
                return result

    # Nodes.

    def _node(self, name: str) -> list[Put]:
        dice = self.dice
        cpus = dice.one((4, 4, 8))
        gpus = dice.one((0, 1, 2))
        labels = {"kubernetes.io/hostname": name, "half": dice.one(("left", "right"))}
        if self.numa_policies and dice.chance(0.3):
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
        result = [Put(NODES, node)]
        if dice.chance(0.8):
            result.append(Put(NODE_RESOURCE_TOPOLOGIES, topology(name, dice.one(SHAPES[cpus]), memory="16Gi")))
        if gpus:
            has_places = dice.chance(0.5)
            units = [gpu(i, pcie=i, numa_node=i % 2 if has_places else None) for i in range(gpus)]
            result.append(Put(DEVICES, {"metadata": {"name": name}, "spec": {"devices": units}}))
        return result

    def _node_goes(self, has: Has) -> list[Action]:
        if len(has[NODES]) < 2:
            return []
        name = self.dice.one(sorted(has[NODES]))
        others = (NODE_RESOURCE_TOPOLOGIES, DEVICES)
        self._gone[name] = [Put(kind, _stripped(has[kind][name])) for kind in (NODES, *others) if name in has[kind]]
        return [Drop(kind, name) for kind in (NODES, *others) if name in has[kind]]

    def _node_comes_back(self, has: Has) -> list[Action]:
        if not self._gone:
            return []
        name = self.dice.one(sorted(self._gone))
        parts = self._gone.pop(name)
        return list(parts if self.dice.chance(0.7) else reversed(parts))

    def _node_is_cordoned_or_not(self, has: Has) -> list[Action]:
        name = self.dice.one(sorted(has[NODES]))
        is_cordoned = has[NODES][name].get("spec", {}).get("unschedulable")
        return [Change(NODES, name, {"spec": {"unschedulable": None if is_cordoned else True}})]

    def _node_has_other_amounts(self, has: Has) -> list[Action]:
        name = self.dice.one(sorted(has[NODES]))
        body = {"status": {"allocatable": {"memory": self.dice.one(("2Gi", "8Gi", "32Gi"))}}}
        return [Change(NODES, name, body, "status", lessens=True)]

    def _device_changes(self, has: Has) -> list[Action]:
        if not has[DEVICES]:
            return []
        name = self.dice.one(sorted(has[DEVICES]))
        units = [dict(item) for item in has[DEVICES][name]["spec"]["devices"]]
        unit = self.dice.one(units)
        unit["health"] = not unit.get("health")
        return [Change(DEVICES, name, {"spec": {"devices": units}}, lessens=True)]

    # Quotas.

    def _quota(self, name: str, most: str, *, least: str = "0", parent: str = "", is_parent: bool = False) -> Put:
        labels = {f"{QUOTA}parent": parent} if parent else {}
        labels |= {f"{QUOTA}is-parent": "true"} if is_parent else {}
        amounts = {"min": {"cpu": least}, "max": {"cpu": most}}
        return Put(
            ELASTIC_QUOTAS, {"metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}, "spec": amounts}
        )

    def _quota_changes(self, has: Has) -> list[Action]:
        names = sorted(has[ELASTIC_QUOTAS])
        if not names:
            return []
        most = self.dice.one(("1", "2", "4", "8", "12"))
        return [Change(ELASTIC_QUOTAS, self.dice.one(names), {"spec": {"max": {"cpu": most}}}, lessens=True)]

    def _quota_goes_or_comes(self, has: Has) -> list[Action]:
        if f"{NAMESPACE}/c" in has[ELASTIC_QUOTAS]:
            return [Drop(ELASTIC_QUOTAS, f"{NAMESPACE}/c", lessens=True)]
        return [replace(self._quota("c", self.dice.one(("2", "4", "8"))), lessens=True)]

    # Pods.

    def _pod_comes(self, has: Has) -> list[Action]:
        return [self._pod(self._name("p"), self._wish())]

    def _gang_comes(self, has: Has) -> list[Action]:
        dice = self.dice
        name, size = self._name("g"), dice.integer(2, 4)
        least = dice.integer(1, size) if dice.chance(0.3) else size
        result: list[Action] = []
        if dice.chance(0.3):
            meta = {"name": name, "namespace": NAMESPACE}
            result.append(Put(POD_GROUPS, {"metadata": meta, "spec": {"minMember": least}}))
            labels, said = {"pod-group.scheduling.sigs.k8s.io": name}, dict[str, str]()
        else:
            labels, said = {}, {f"{GANG}name": name, f"{GANG}min-available": str(least)}
        wish = self._wish()
        for i in range(size):
            if dice.chance(0.2):
                wish = self._wish(quota=wish["metadata"]["labels"].get(f"{QUOTA}name", ""))
            pod = self._pod(f"{name}-{i}", wish)
            meta = pod.manifest["metadata"]
            meta["labels"], meta["annotations"] = {**meta["labels"], **labels}, {**meta["annotations"], **said}
            result.append(pod)
        return result

    def _name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def _pod(self, name: str, wish: Mapping[str, Any]) -> Put:
        meta = {"name": name, "namespace": NAMESPACE, **wish["metadata"]}
        return Put(PODS, {"metadata": meta, "spec": json.loads(json.dumps(wish["spec"]))})

    def _wish(self, quota: str | None = None) -> dict[str, Any]:
        """What a pod asks for, without its name."""
        dice = self.dice
        labels: dict[str, str] = {}
        said: dict[str, str] = {}
        requests = {"cpu": dice.one(("0", "500m", "1", "1", "2", "3")), "memory": dice.one(("64Mi", "1Gi", "4Gi"))}
        priority = dice.one(tuple(PRIORITIES))
        if dice.chance(0.3):
            labels["koordinator.sh/qosClass"] = dice.one(("LSR", "LSE"))
            requests["cpu"] = dice.one(("1", "2", "2", "3", "4"))
            priority = dice.one(("prod", "prod", "high", "highest"))
            cpus = dice.one(_CPU_SPECS)
            if cpus:
                said["scheduling.koordinator.sh/resource-spec"] = json.dumps(cpus)
        elif dice.chance(0.2):
            labels["koordinator.sh/qosClass"] = dice.one(("LS", "BE"))
        if self.numa_policies and dice.chance(0.08):
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
            "containers": [_container(requests)],
        }
        if dice.chance(0.1):
            spec["nodeSelector"] = {"half": dice.one(("left", "right"))}
        if dice.chance(0.1):
            spec["priorityClassName"] = f"{priority}{NEVER}"
        return {"metadata": {"labels": labels, "annotations": said}, "spec": spec}

    def _pod_goes(self, has: Has) -> list[Action]:
        return [Drop(PODS, self.dice.one(sorted(has[PODS])))] if has[PODS] else []

    def _pods_of_a_node_go(self, has: Has) -> list[Action]:
        """As when a service is scaled down: room for many at once."""
        node = self.dice.one(sorted(has[NODES]))
        return [Drop(PODS, key) for key, pod in has[PODS].items() if node_of(pod) == node and self.dice.chance(0.6)]

    def _pod_ends(self, has: Has) -> list[Action]:
        running = sorted(key for key, pod in has[PODS].items() if node_of(pod) and not _is_leaving(pod))
        return [Change(PODS, self.dice.one(running), {"status": {"phase": "Succeeded"}}, "status")] if running else []

    def _pod_is_resized(self, has: Has) -> list[Action]:
        """A running pod without CPUs of its own asks for less."""
        running = [
            key
            for key, pod in sorted(has[PODS].items())
            if node_of(pod)
            and pod["metadata"].get("labels", {}).get("koordinator.sh/qosClass") not in ("LSR", "LSE")
            and quantity(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]) >= 1
        ]
        if not running:
            return []
        key = self.dice.one(running)
        container = json.loads(json.dumps(has[PODS][key]["spec"]["containers"][0]))
        container["resources"]["requests"]["cpu"] = "500m"
        return [Change(PODS, key, {"spec": {"containers": [container]}}, "resize")]

    # Reservations.

    def _reservation_comes(self, has: Has) -> list[Action]:
        dice = self.dice
        name, app = self._name("r"), dice.one(("web", "db"))
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
                "containers": [_container(requests)],
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

    def _reservation_goes(self, has: Has) -> list[Action]:
        if not has[RESERVATIONS]:
            return []
        return [Drop(RESERVATIONS, self.dice.one(sorted(has[RESERVATIONS])), lessens=True)]

    # The scheduler.

    def _restart(self, has: Has) -> list[Action]:
        return [Restart()]

    def _rest(self, has: Has) -> list[Action]:
        return [Rest()]


_CPU_SPECS: Final[tuple[dict[str, str], ...]] = (
    {},
    {},
    {"requiredCPUBindPolicy": "FullPCPUs"},
    {"preferredCPUBindPolicy": "SpreadByPCPUs"},
    {"preferredCPUBindPolicy": "FullPCPUs", "preferredCPUExclusivePolicy": "PCPULevel"},
)
_WEIGHTS: Final[tuple[tuple[int, Callable[[Script, Has], list[Action]]], ...]] = (
    (24, Script._pod_comes),
    (6, Script._gang_comes),
    (5, Script._reservation_comes),
    (2, Script._reservation_goes),
    (9, Script._pod_goes),
    (2, Script._pods_of_a_node_go),
    (7, Script._pod_ends),
    (3, Script._pod_is_resized),
    (2, Script._node_goes),
    (4, Script._node_comes_back),
    (3, Script._node_is_cordoned_or_not),
    (1, Script._node_has_other_amounts),
    (3, Script._device_changes),
    (4, Script._quota_changes),
    (2, Script._quota_goes_or_comes),
    (3, Script._restart),
    (6, Script._rest),
)
_CHOICES: Final[Sequence[Callable[[Script, Has], list[Action]]]] = [
    act for weight, act in _WEIGHTS for _ in range(weight)
]


def _container(requests: Mapping[str, str]) -> dict[str, Any]:
    """What cannot be overcommitted has a limit."""
    limits = {name: amount for name, amount in requests.items() if name.startswith(K)}
    resources = {"requests": dict(requests), **({"limits": limits} if limits else {})}
    return {"name": "c", "image": "app:1", "resources": resources}


def _stripped(manifest: Manifest) -> dict[str, Any]:
    """As its author would write it: without what the API server adds."""
    result: dict[str, Any] = json.loads(json.dumps(manifest))
    for name in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        result["metadata"].pop(name, None)
    return result


def _is_leaving(pod: Manifest) -> bool:
    return pod["metadata"].get("deletionTimestamp") is not None or pod.get("status", {}).get("phase") == "Succeeded"
