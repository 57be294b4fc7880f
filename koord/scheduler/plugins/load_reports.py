"""NodeMetrics in numbers: what a node says that it and its pods use, as LoadAwareScheduling reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from koord.api.kubernetes.resources import amounts, stored_amounts
from koord.api.protocol import names
from koord.api.protocol.crd.node_metric import AggregatedUsage, NodeMetric, NodeMetricInfo, NodeMetricStatus
from koord.api.protocol.yielding_batch import yielding_pods
from koord.api.text.quantity import QuantityError, ResourceList
from koord.api.text.stored import stored_amount, stored_duration
from koord.api.text.timestamp import parse_timestamp

Vector = tuple[int, ...]
"""An amount for each resource of the plugin, in its order."""
Aggregation = tuple[str, float]
"""A percentile or mean, and the seconds that it is of; 0: the longest time that is reported."""

DEFAULT_REPORT_INTERVAL_S: Final = 60
NO_DATA: Final = NodeMetricInfo()


@dataclass(frozen=True, slots=True)
class Report:
    """A NodeMetric, in numbers. Its pods and aggregations are parsed on first use: most are never used before the next
    report comes."""

    updated_s: float | None
    interval_s: float
    usage: Vector | None
    "What the node uses; None where the report has no data."
    system: Vector
    of_pods: Mapping[str, ResourceList]
    "By key of pod."
    prod_pods: frozenset[str]
    yielding: Vector
    """CPU that batch pods use and give back: only where the node holds them below a learned ceiling. There `usage` is
    without it: how much batch the node takes is for its batch resources to say, and services come before batch."""
    _aggregated: Sequence[AggregatedUsage]
    _reader: ReportReader

    def measured(self, by: Aggregation | None) -> Vector | None:
        """The node's usage by a kind of aggregation; None where a wanted length of time is not reported."""
        if by is None:
            return self.usage
        aggregate = self._reader.aggregated(self._aggregated, by)
        if aggregate is None:
            return self.usage if by[1] == 0 else None
        return less(aggregate, self.yielding)

    def used_by(self, pod: str) -> Vector:
        """What a reported pod uses; nothing where that cannot be understood."""
        try:
            return self._reader.amounts(self.of_pods[pod])
        except QuantityError:
            return self._reader.amounts({})


class ReportReader:
    """Reads NodeMetrics for a plugin that looks at some resources."""

    def __init__(self, resources: tuple[str, ...], *, includes_system: bool) -> None:
        """`includes_system`: whether what the system uses counts as used by prod pods."""
        self._resources, self._includes_system = resources, includes_system
        self._zero: Vector = (0,) * len(resources)
        self._place = {name: i for i, name in enumerate(resources)}

    def vector(self, values: Mapping[str, int]) -> Vector:
        return tuple([stored_amount(values.get(name, 0)) for name in self._resources])

    def read(self, metric: NodeMetric) -> Report:
        status, policy = metric.status, metric.spec.metric_collect_policy
        interval_s = policy.report_interval_seconds if policy is not None else None
        info = status.node_metric or NO_DATA
        of_pods: dict[str, ResourceList] = {}
        prod: list[str] = []
        for pod_metric in status.pods_metric:
            resources = pod_metric.pod_usage.resources
            if resources:
                key = f"{pod_metric.namespace}/{pod_metric.name}" if pod_metric.namespace else pod_metric.name
                of_pods[key] = resources
                if pod_metric.priority == names.PRIORITY_CLASS_PROD:
                    prod.append(key)
        yielding = self._yielding(status)
        return Report(
            parse_timestamp(status.update_time) if status.update_time else None,
            DEFAULT_REPORT_INTERVAL_S if interval_s is None else interval_s,
            None if status.node_metric is None else less(self.amounts(info.node_usage.resources), yielding),
            self.amounts(info.system_usage.resources) if self._includes_system else self._zero,
            of_pods,
            frozenset(prod),
            yielding,
            info.aggregated_node_usages,
            self,
        )

    def _yielding(self, status: NodeMetricStatus) -> Vector:
        batch = yielding_pods(status)
        if not batch:
            return self._zero
        used = [stored_amounts({"cpu": pod.pod_usage.resources.get("cpu", 0)}).get("cpu", 0) for pod in batch]
        return self.vector({"cpu": sum(used)})

    def aggregated(self, parts: Sequence[AggregatedUsage], by: Aggregation) -> Vector | None:
        """The usage by an aggregation, the last of several; None where there is none."""
        kind, wanted_s = by
        usages = [(stored_duration(usage_part.duration or "0s"), usage_part.usage.get(kind)) for usage_part in parts]
        having = [(duration_s, usage.resources) for duration_s, usage in usages if usage and usage.resources]
        longest_s = max((duration_s for duration_s, _ in having), default=0.0)
        for duration_s, resources in reversed(having):
            if duration_s == (wanted_s or longest_s):
                return self.amounts(resources)
        return None

    def amounts(self, resources: ResourceList) -> Vector:
        numbers = list(self._zero)
        for name, quantity in resources.items():
            place, number = self._place.get(name), _plain(name, quantity)
            if place is None or number is None:
                return self.vector(amounts(resources))
            numbers[place] = number
        return tuple(numbers)


def less(usage: Vector, part: Vector) -> Vector:
    return tuple([max(a - b, 0) for a, b in zip(usage, part, strict=True)]) if any(part) else usage


_UNITS: Final[Mapping[str, int]] = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
_MOST_DIGITS: Final = 9
"""A number with at most this many digits fits a cell in any unit."""


def _plain(resource: str, quantity: str | int | float) -> int | None:
    """The amount where it is written as agents write it, which takes no parser; None where it is not."""
    if type(quantity) is not str or not quantity.isascii():
        return None
    if quantity.isdigit():
        digits, factor = quantity, 1000 if resource == "cpu" else 1
    elif resource == "cpu":
        digits, factor = (quantity[:-1], 1) if quantity[-1:] == "m" else ("", 0)
    else:
        digits, factor = quantity[:-2], _UNITS.get(quantity[-2:], 0)
    if not factor or not digits.isdigit():
        return None
    return int(digits) * factor if len(digits) <= _MOST_DIGITS else None
