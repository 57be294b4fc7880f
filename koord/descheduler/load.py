"""How loaded nodes are: what their reports say, and where their marks lie.

    usage  = what the system uses + what each reported pod uses
    marks  = a percentage of what the node really has (its raw allocatable), or of the pool's mean plus or minus one

Amounts are milli-cores and bytes. A node without a recent report is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts
from koord.api.protocol.annotations.colocation import RAW_ALLOCATABLE
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.priority import PriorityClass, priority_class
from koord.api.text.quantity import ResourceList
from koord.api.text.timestamp import TimestampError, parse_timestamp

Amounts: TypeAlias = Mapping[str, int]
Percents: TypeAlias = Mapping[str, float]

PODS = "pods"


@dataclass(slots=True)
class NodeLoad:
    """One node, with what runs there. Usage falls as pods are taken off it."""

    node: Node
    pods: Sequence[Pod]
    has: Amounts
    usage: dict[str, int]
    prod_usage: dict[str, int]
    of_pod: Mapping[str, Amounts]
    "What each pod was measured to use, by its key."

    @property
    def name(self) -> str:
        return self.node.metadata.name

    def percent(self, usage: Amounts, resource: str) -> float:
        has = self.has.get(resource, 0)
        return 100.0 * usage.get(resource, 0) / has if has else 0.0


@dataclass(frozen=True, slots=True)
class Marks:
    """Amounts of a node: below `low` it may take pods, above `high` it should lose some."""

    low: Amounts
    high: Amounts

    def above(self, usage: Amounts, *, low: bool = False) -> list[str]:
        """The resources of which more is used than a mark."""
        marks = self.low if low else self.high
        return [resource for resource, mark in marks.items() if usage.get(resource, 0) > mark]


def load_of(
    node: Node, pods: Sequence[Pod], metric: NodeMetric | None, now_s: float, fresh_s: float
) -> NodeLoad | None:
    """The load of a node, or None where its report is missing, too old, or says nothing."""
    if metric is None or metric.status.node_metric is None or not _is_fresh(metric, now_s, fresh_s):
        return None
    prod = {pod.metadata.key for pod in pods if priority_class(pod) is PriorityClass.PROD}
    usage = dict(amounts(metric.status.node_metric.system_usage.resources, capped=True))
    prod_usage: dict[str, int] = {}
    of_pod: dict[str, Amounts] = {}
    for each in metric.status.pods_metric:
        key = f"{each.namespace}/{each.name}"
        used = of_pod[key] = amounts(each.pod_usage.resources, capped=True)
        add(usage, used)
        if key in prod:
            add(prod_usage, used)
    usage[PODS], prod_usage[PODS] = len(pods), len(prod)
    return NodeLoad(node, pods, has_of(node), usage, prod_usage, of_pod)


def _is_fresh(metric: NodeMetric, now_s: float, fresh_s: float) -> bool:
    try:
        return now_s - parse_timestamp(metric.status.update_time or "") < fresh_s
    except TimestampError:
        return False


def has_of(node: Node) -> dict[str, int]:
    """What a node really has: its raw allocatable, for what that names, and otherwise its allocatable."""
    raw: ResourceList | None
    try:
        raw = RAW_ALLOCATABLE.read(node.metadata, "Node")
    except AnnotationError:
        raw = None
    return {**amounts(node.status.allocatable, capped=True), **amounts(raw or {}, capped=True)}


def add(total: dict[str, int], more: Amounts, sign: int = 1) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0) + sign * amount


def marks_of(load: NodeLoad, low: Percents, high: Percents) -> Marks:
    """The marks of one node, by percentages of what it has."""
    return Marks(_parts(load, low), _parts(load, high))


def _parts(load: NodeLoad, percents: Percents) -> dict[str, int]:
    return {resource: int(load.has.get(resource, 0) * percent / 100) for resource, percent in percents.items()}


def around_the_mean(
    loads: Iterable[NodeLoad], low: Percents, high: Percents, *, prod: bool = False
) -> tuple[Percents, Percents]:
    """Percentages that many points below and above the mean usage of some nodes. An entry of 0 sets no mark."""
    loads = list(loads)

    def mean(resource: str) -> float:
        shares = [each.percent(each.prod_usage if prod else each.usage, resource) for each in loads]
        return sum(shares) / len(shares) if shares else 0.0

    def clamped(percent: float) -> float:
        return min(max(percent, 0.0), 100.0)

    return (
        {name: clamped(mean(name) - points) if points else 100.0 for name, points in low.items()},
        {name: clamped(mean(name) + points) if points else 100.0 for name, points in high.items()},
    )
