"""How loaded nodes are: what their reports say, and where their marks lie.

    usage  = what the system uses + what each reported pod uses
    marks  = a percentage of what the node really has (its raw allocatable), or of the pool's mean plus or minus one

Amounts are milli-cores and bytes. A node without a recent report is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts
from koord.api.protocol.annotations.colocation import RAW_ALLOCATABLE
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.node_metric import NodeMetric, NodeMetricInfo, PodMetricInfo
from koord.api.protocol.old_names import with_current_names
from koord.api.protocol.priority import PriorityClass, priority_class
from koord.api.protocol.report_age import report_age_s
from koord.api.protocol.yielding_batch import yielding_pods
from koord.api.text.quantity import ResourceList
from koord.api.text.stored import stored_duration
from koord.api.text.timestamp import TimestampError, parse_timestamp

Amounts: TypeAlias = Mapping[str, int]
Percents: TypeAlias = Mapping[str, float]

PODS = "pods"
_PLAIN: Final = 18
"""The number of digits that every amount fits in."""


@dataclass(slots=True)
class NodeLoad:
    """One node, with what runs there. Usage falls as pods are taken off it."""

    node: Node
    pods: Sequence[Pod]
    has: Amounts
    usage: dict[str, int]
    prod_usage: dict[str, int]
    "Empty if it is not needed."
    _reported: Sequence[PodMetricInfo] = ()
    _of_pod: dict[str, Amounts] | None = None

    @property
    def name(self) -> str:
        return self.node.metadata.name

    def of_pod(self, pod: Pod) -> Amounts | None:
        """What a pod was measured to use; None where it was not."""
        if self._of_pod is None:
            self._of_pod = {
                f"{metric.namespace}/{metric.name}": _total((metric.pod_usage.resources,)) for metric in self._reported
            }
        return self._of_pod.get(pod.metadata.key)

    def take(self, used: Amounts, is_prod: bool, sign: int = 1) -> None:
        """A pod comes, or goes."""
        add(self.usage, used, sign)
        if is_prod and self.prod_usage:
            add(self.prod_usage, used, sign)

    def percent(self, usage: Amounts, resource: str) -> float:
        has = self.has.get(resource, 0)
        return 100.0 * usage.get(resource, 0) / has if has else 0.0


@dataclass(frozen=True, slots=True)
class Marks:
    """Amounts of a node: below `low` it may take pods, above `high` it should lose some."""

    low: Amounts
    high: Amounts

    def above(self, usage: Amounts, *, low: bool = False) -> list[str]:
        """The resources whose usage is above a mark."""
        marks = self.low if low else self.high
        return [resource for resource, mark in marks.items() if usage.get(resource, 0) > mark]


@dataclass(frozen=True, slots=True)
class Reading:
    """How reports are read."""

    fresh_s: float
    "Older ones say nothing."
    aggregation: str = ""
    "Which percentile of the node's usage counts (p95), or avg; empty: what was measured last."
    duration_s: float = 0.0
    "Over which time; 0: the longest that is reported."
    prod: bool = True
    "Whether the usage of prod pods is asked for."
    without_gone: bool = False
    "Whether a reported pod that is not on the node has left it since, so that its usage is over."


def load_of(
    node: Node, pods: Sequence[Pod], metric: NodeMetric | None, now_s: float, reading: Reading
) -> NodeLoad | None:
    """The load of a node, or None where its report is missing, too old, or says nothing."""
    if metric is None or metric.status.node_metric is None or not _is_fresh(metric, now_s, reading.fresh_s):
        return None
    reported = metric.status.pods_metric
    gone: list[PodMetricInfo] = []
    if reading.without_gone:
        here = {pod.metadata.key for pod in pods}
        gone = [pod_metric for pod_metric in reported if f"{pod_metric.namespace}/{pod_metric.name}" not in here]
    usage = _percentile(metric.status.node_metric, reading)
    if usage is None:
        usage = _total(pod_metric.pod_usage.resources for pod_metric in reported)
        add(usage, amounts(metric.status.node_metric.system_usage.resources, capped=True))
    if gone:
        add(usage, _total(pod_metric.pod_usage.resources for pod_metric in gone), -1)
    if batch := yielding_pods(metric.status):
        usage["cpu"] = max(usage.get("cpu", 0) - _total(pod.pod_usage.resources for pod in batch).get("cpu", 0), 0)
    usage[PODS] = len(pods)
    prod_usage: dict[str, int] = {}
    if reading.prod:
        prod = {pod.metadata.key for pod in pods if priority_class(pod) is PriorityClass.PROD}
        of_prod = (
            pod_metric.pod_usage.resources
            for pod_metric in reported
            if f"{pod_metric.namespace}/{pod_metric.name}" in prod
        )
        prod_usage = {**_total(of_prod), PODS: len(prod)}
    return NodeLoad(node, pods, has_of(node), usage, prod_usage, reported)


def _percentile(info: NodeMetricInfo, reading: Reading) -> dict[str, int] | None:
    """The node's usage over a time; None if it is not needed or not reported."""
    if not reading.aggregation:
        return None
    longest: tuple[float, dict[str, int]] | None = None
    for part in info.aggregated_node_usages:
        usage, over_s = part.usage.get(reading.aggregation), stored_duration(part.duration or "0s")
        if usage is None or (reading.duration_s and over_s != reading.duration_s):
            continue
        if longest is None or over_s > longest[0]:
            longest = over_s, amounts(usage.resources, capped=True)
    return None if longest is None else longest[1]


def _total(lists: Iterable[ResourceList]) -> dict[str, int]:
    """The sum of some lists. All pods of a cluster are added up in every round: the usual lists at once."""
    lists = list(lists)
    total = _plain_total(lists) if len(lists) > 1 else None
    return _sum_of(lists) if total is None else total


def _plain_total(lists: Sequence[ResourceList]) -> dict[str, int] | None:
    """The sum if all lists are as agents write them: cpu as `1250m`, memory as a plain number, and nothing else. None
    if they are not."""
    try:
        pairs = [(quantities["cpu"], quantities["memory"]) for quantities in lists if len(quantities) == 2]
        if len(pairs) != len(lists):
            return None
        cpus, memories = zip(*pairs, strict=True)
        milli, digits = (" ".join(cpus) + " ").split("m ")[:-1], "".join(memories)
        if len(milli) != len(lists) or not "".join(milli).isdecimal() or not digits.isdecimal():
            return None
        if max(map(len, milli)) >= _PLAIN or max(map(len, memories)) >= _PLAIN:
            return None
        return {"cpu": sum(map(int, milli)), "memory": sum(map(int, memories))}
    except (KeyError, TypeError, ValueError):
        return None


def _sum_of(lists: Iterable[ResourceList]) -> dict[str, int]:
    total: dict[str, int] = {}
    get = total.get
    for resources in lists:
        for name, quantity in resources.items():
            # What agents write, without a call for each: `1250m` of cpu, and plain numbers of all else.
            if type(quantity) is str and len(quantity) < _PLAIN:
                if name == "cpu":
                    if quantity[-1:] == "m" and quantity[:-1].isdecimal():
                        total[name] = get(name, 0) + int(quantity[:-1])
                        continue
                elif quantity.isdecimal():
                    total[name] = get(name, 0) + int(quantity)
                    continue
            (amount,) = amounts({name: quantity}, capped=True).values()
            total[name] = get(name, 0) + amount
    return dict(with_current_names(total))


def _is_fresh(metric: NodeMetric, now_s: float, fresh_s: float) -> bool:
    try:
        return report_age_s(parse_timestamp(metric.status.update_time or ""), now_s) < fresh_s
    except TimestampError:
        return False


def has_of(node: Node) -> dict[str, int]:
    """What a node really has: its raw allocatable, for what that names, and otherwise its allocatable."""
    raw: ResourceList | None
    try:
        raw = RAW_ALLOCATABLE.read(node.metadata, "Node")
    except AnnotationError:
        raw = None
    return {**amounts(node.status.allocatable, capped=True), **(amounts(raw, capped=True) if raw else {})}


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
    """Percentages that many points below and above the mean usage of some nodes. 0 points below set neither mark, 0
    points above no high one."""
    loads = list(loads)

    def mean(resource: str) -> float:
        shares = [load.percent(load.prod_usage if prod else load.usage, resource) for load in loads]
        return sum(shares) / len(shares) if shares else 0.0

    def clamped(percent: float) -> float:
        return min(max(percent, 0.0), 100.0)

    return (
        {name: clamped(mean(name) - points) if points else 100.0 for name, points in low.items()},
        {name: clamped(mean(name) + points) if points and low.get(name) else 100.0 for name, points in high.items()},
    )
