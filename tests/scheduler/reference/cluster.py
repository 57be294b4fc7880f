"""What the rules look at: a cluster as it stands at one moment, and what a plugin says of one node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, ParamSpec, TypeVar

from koord.api.kubernetes.core import Namespace, Service
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts
from koord.api.kubernetes.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from koord.api.kubernetes.workloads import ReplicaSet, ReplicationController, StatefulSet
from koord.api.protocol.annotations.cpu import NODE_RESERVATION
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.node_metric import NodeMetric

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Verdict:
    """ok; unsched: preempting other pods may help; uu (unschedulable and unresolvable): it cannot help."""

    code: Literal["ok", "unsched", "uu"]
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    def __bool__(self) -> bool:
        return self.code == "ok"


OK: Final = Verdict("ok")


def unsched(*reasons: str) -> Verdict:
    return Verdict("unsched", reasons)


def uu(*reasons: str) -> Verdict:
    return Verdict("uu", reasons)


@dataclass(frozen=True, eq=False)
class Cluster:
    """All objects that decide where a pod may run. `pods` are those on nodes and those that wait."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    services: tuple[Service, ...] = ()
    replication_controllers: tuple[ReplicationController, ...] = ()
    replica_sets: tuple[ReplicaSet, ...] = ()
    stateful_sets: tuple[StatefulSet, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    claims: tuple[PersistentVolumeClaim, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    csi_nodes: tuple[CSINode, ...] = ()
    csi_drivers: tuple[CSIDriver, ...] = ()
    storage_capacities: tuple[CSIStorageCapacity, ...] = ()
    node_metrics: tuple[NodeMetric, ...] = ()
    now_s: float = 0.0
    assigned_at_s: Mapping[str, float] = field(default_factory=dict)
    "By namespace/name, when pods without a PodScheduled condition were given their node. Absent: now."
    _memory: dict[object, Any] = field(default_factory=dict, repr=False)

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.metadata.name == name)

    def pods_on(self, node: Node) -> list[Pod]:
        """The pods that take room on a node. A pod that has run to its end does not."""
        return self.once(_by_node, self.pods).get(node.metadata.name, [])

    def placed_pods(self) -> list[Pod]:
        """The pods that take room on a node that exists."""
        return [pod for node in self.nodes for pod in self.pods_on(node)]

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        return next((ns.metadata.labels for ns in self.namespaces if ns.metadata.name == name), {})

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        wanted = (namespace, name)
        return next((c for c in self.claims if (c.metadata.namespace, c.metadata.name) == wanted), None)

    def volume(self, name: str) -> PersistentVolume | None:
        return next((volume for volume in self.volumes if volume.metadata.name == name), None)

    def storage_class(self, name: str) -> StorageClass | None:
        return next((class_ for class_ in self.storage_classes if class_.metadata.name == name), None)

    def csi_node(self, name: str) -> CSINode | None:
        return next((node for node in self.csi_nodes if node.metadata.name == name), None)

    def node_metric(self, name: str) -> NodeMetric | None:
        return next((metric for metric in self.node_metrics if metric.metadata.name == name), None)

    def once(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`function(*args)`, computed once for this cluster: what does not depend on the node is asked for each node.

        Arguments are known by their identity, so that they need not be hashable.
        """
        key = (function, *map(id, args))
        if key not in self._memory:
            self._memory[key] = (args, function(*args, **kwargs))  # holding args keeps their identities taken
        result: T = self._memory[key][1]
        return result


def _by_node(pods: tuple[Pod, ...]) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.spec.node_name and not pod.is_finished:
            found.setdefault(pod.spec.node_name, []).append(pod)
    return found


def allocatable(node: Node) -> dict[str, int]:
    """What a node has for pods.

    Before scheduling, node annotation `node.koordinator.sh/reservation` `{resources, reservedCPUs, applyPolicy}`
    (policy empty/`Default`) is subtracted from `status.allocatable`, floored at 0 (a reservedCPUs count replaces cpu);
    `ReservedCPUsOnly` is not.
    """
    has = amounts(node.status.allocatable)
    try:
        reservation = NODE_RESERVATION.read(node.metadata, "Node")
    except AnnotationError:
        return has
    if reservation.apply_policy not in ("", "Default"):
        return has
    taken = amounts(reservation.resources)
    if reservation.reserved_cpus:
        taken["cpu"] = len(reservation.cpus) * 1000
    return {name: max(0, amount - taken.get(name, 0)) for name, amount in has.items()}


def divided(a: int, b: int) -> int:
    """`a/b` on integers truncates: towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def rounded(x: float) -> int:
    """`round` = half away from zero."""
    whole = int(x)
    return whole + (0 if abs(x - whole) < 0.5 else 1 if x > 0 else -1)


def normalised_by_max(raw: Mapping[str, int], *, reverse: bool = False) -> dict[str, int]:
    """v' = 100·v/max (all 0 stay 0); reverse: 100 − v', and all-zero → all 100."""
    most = max(raw.values(), default=0)
    scaled = {node: 100 * value // most if most else 0 for node, value in raw.items()}
    return {node: 100 - value for node, value in scaled.items()} if reverse else scaled
