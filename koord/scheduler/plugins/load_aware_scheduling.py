"""LoadAwareScheduling: keeps pods off nodes that are busy, by what nodes report and by what was just assigned to them.

    load     = measured usage + sum over assigned pods that it does not show yet of max(0, estimate - usage)
    feasible:  round((load + pod) / capacity * 100) <= threshold, for every resource that has one
    score:     sum(weight_r * free_r) + dominant * min(free_r), over the sum of weights; free in percent of capacity
"Measured" is the mean, a percentile over some time, or what prod pods use, as arguments and the node's annotation say.

Per row, `assigned` moves with every pod; everything else changes with reports and nodes only, because thresholds are
kept as ceilings: the largest `assigned + pod` that still passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

import numpy as np

from koord.api.configuration.scheduler_args import LoadAwareSchedulingArgs
from koord.api.kinds import NODE_METRICS
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.resources import amounts
from koord.api.protocol import names
from koord.api.protocol.annotations.colocation import RAW_ALLOCATABLE
from koord.api.protocol.annotations.load import (
    LOAD_ESTIMATED_SCALING_FACTORS,
    LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED,
    LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED,
    USAGE_THRESHOLDS,
)
from koord.api.protocol.annotations.value import Annotation, AnnotationError
from koord.api.protocol.crd.node_metric import NodeMetric, NodeMetricInfo
from koord.api.protocol.priority import PriorityClass
from koord.api.text.duration import parse_duration
from koord.api.text.quantity import ResourceList
from koord.api.text.timestamp import parse_timestamp
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Gain, Numbers, One, least
from koord.scheduler.framework.change import Change
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import Plugin, Taking
from koord.scheduler.framework.stable import Version
from koord.scheduler.plugins.load_aware_service import load_told
from koord.scheduler.plugins.load_changes import Excess, Limit, higher_limit, smaller_load
from koord.scheduler.plugins.load_estimate import REAL_NAMES, estimate_of
from koord.scheduler.plugins.load_threshold import UNCHECKED
from koord.scheduler.plugins.load_threshold import ceiling as ceiling_of
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import LoadBasis, PodRecord
from koord.scheduler.state.table import Column, Reason, Row, countable

T = TypeVar("T")
D = TypeVar("D")

Vector = tuple[int, ...]
"""An amount for each resource of the plugin, in its order."""

DEFAULT_REPORT_INTERVAL_S: Final = 60
NO_DATA: Final = 1 << 56
"""A load that is above any capacity, so that a node without data scores nothing."""
EXPIRED: Final = 1
AGGREGATED: Final = 1 << 31
PLAIN_CHECK, AGGREGATED_CHECK = 1, 2
ESTIMATES_KEPT: Final = 1 << 15
_NO, _YES = Version(0), Version(1)


@dataclass(frozen=True, slots=True)
class _Report:
    """A NodeMetric, in numbers."""

    updated_s: float | None
    interval_s: float
    usage: Vector | None
    "What the node uses; None where the report has no data."
    aggregated: Mapping[tuple[str, float], Vector]
    "By kind of aggregation and length of time; 0 is the longest there is."
    system: Vector
    of_pods: Mapping[str, Vector]
    prod_pods: frozenset[str]


class _Wish(NamedTuple):
    """What a pod's load is taken to be, and for how long that is believed rather than what is reported."""

    estimate: Vector
    is_prod: bool
    after_initialized_s: int
    after_scheduled_s: int


class _Kind(NamedTuple):
    """What tells classes of pods apart."""

    estimate: Vector
    by_prod: Version
    "Whether it is judged by what prod pods use."
    filters: Version
    "Both also depend on what nodes have ever said."


class _Share(NamedTuple):
    """What a pod adds to each view of its node's load."""

    delta: Vector
    full: Vector
    prod: Vector


class _Limits(NamedTuple):
    """What limits pods on a node: percentages, and the percentile that they are of."""

    percent: Vector
    aggregation: tuple[str, float] | None


class _Columns:
    """The names of the plugin's columns on a table. A second such plugin of a cluster gets others."""

    def __init__(self, resources: tuple[str, ...], taken: Mapping[Hashable, object]) -> None:
        number = next(n for n in range(len(taken) + 1) if f"load updated {n}" not in taken)
        self.updated = f"load updated {number}"
        self.checks, self.prod_checks = f"load checks {number}", f"load prod checks {number}"
        self.capacity, self.assigned, self.measured, self.ceiling, self.prod, self.prod_ceiling = (
            tuple(f"load {what} {resource} {number}" for resource in resources)
            for what in ("capacity", "assigned", "measured", "ceiling", "prod", "prod ceiling")
        )

    def declare(self, cluster: Cluster) -> None:
        declare = cluster.table.declare
        declare(Column(self.updated, np.float64, Reason.LOAD, -math.inf))
        declare(Column(self.checks, np.int8, Reason.LOAD))
        declare(Column(self.prod_checks, np.int8, Reason.LOAD))
        for group, fill in (
            (self.capacity, 0),
            (self.assigned, 0),
            (self.measured, NO_DATA),
            (self.ceiling, UNCHECKED),
            (self.prod, NO_DATA),
            (self.prod_ceiling, UNCHECKED),
        ):
            for name in group:
                declare(Column(name, np.int64, Reason.LOAD, fill))


class LoadAwareScheduling(Plugin):
    """One instance serves one cluster: it holds that cluster's reports."""

    name = "LoadAwareScheduling"
    wakes_on = Reason.NODE | Reason.ALLOCATABLE | Reason.LOAD | Reason.FREED

    def __init__(self, args: LoadAwareSchedulingArgs | None = None) -> None:
        self.args = args = (args or LoadAwareSchedulingArgs()).completed()
        self.resources = _resources(args)
        self._zero: Vector = (0,) * len(self.resources)
        self._reports: dict[str, _Report] = {}
        self._wishes: dict[LoadBasis, _Wish] = {}
        self._facts: dict[Row, tuple[object, ...]] = {}
        "What was last seen of a node, as far as it matters here."
        self._cluster: Cluster | None = None
        self._columns: _Columns
        self._global = _Limits(self._vector(args.usage_thresholds), None)
        self._global_prod = self._vector(args.prod_usage_thresholds)
        part = args.aggregated
        self._score_by: tuple[str, float] | None = None
        if part is not None and part.usage_thresholds and part.usage_aggregation_type:
            by = (str(part.usage_aggregation_type), parse_duration(part.usage_aggregated_duration))
            self._global = _Limits(self._vector(part.usage_thresholds), by)
        if part is not None and part.score_aggregation_type:
            self._score_by = (str(part.score_aggregation_type), parse_duration(part.score_aggregated_duration))
        self._filters = any(self._global.percent) or any(self._global_prod)
        "Whether some node has a threshold."
        self._by_prod = any(self._global_prod) or args.score_according_prod_usage
        "Whether what prod pods use matters on some node."
        self._now_s = 0.0
        self._next_expiry_s = math.inf

    def attach(self, cluster: Cluster) -> None:
        if self._cluster is cluster:
            return
        if self._cluster is not None:
            raise ValueError("LoadAwareScheduling serves one cluster: make another one for another cluster")
        self._cluster = cluster
        self._columns = _Columns(self.resources, cluster.table.columns)
        self._columns.declare(cluster)
        for resource in self.resources:
            cluster.resource(resource)
        cluster.watch(self)
        for row in list(cluster.nodes):
            self.node_put(row)

    def takes(self) -> Sequence[Taking]:
        return (
            Taking(NODE_METRICS, self.put_node_metric, lambda metric: self.remove_node_metric(metric.metadata.name)),
        )

    def put_node_metric(self, metric: NodeMetric) -> None:
        """A node has reported."""
        self._reports[metric.metadata.name] = self._read(metric)
        self._reported(metric.metadata.name)

    def remove_node_metric(self, name: str) -> None:
        """A node's report is gone."""
        if self._reports.pop(name, None) is not None:
            self._reported(name)

    def services(self) -> Mapping[str, Callable[[str], object]]:
        return {"node/:nodeName": self._told}

    def _told(self, node: str) -> dict[str, object]:
        assert self._cluster is not None
        row, report = self._cluster.table.row_of.get(node), self._reports.get(node)
        records = {} if row is None else self._cluster.pods_on[row]
        measured = report is not None and report.usage is not None
        loads = {key: each.load for key, each in records.items() if measured and each.load is not None}
        if report is None or not loads:
            return load_told(self.resources, records.values(), report if measured else None, {}, ())
        shares = {key: self._share(records[key], report) for key in loads}
        reported = report.prod_pods & report.of_pods.keys()
        prod = [key for key, load in loads.items() if key in reported and self._wish(load).is_prod]
        return load_told(self.resources, records.values(), report, shares, prod)

    def limit(self, row: Row, by_prod: bool) -> Limit:
        """What limits pods on a row, or those judged by what prod pods use."""
        prod, limits = self._prod_limits(row), self._limits(row)
        if by_prod and any(prod):
            return Limit(dict(zip(self.resources, prod, strict=True)), True, None)
        return Limit(dict(zip(self.resources, limits.percent, strict=True)), False, limits.aggregation)

    def as_if_reported(self, node: str) -> Callable[[], None]:
        """A node has just said again what it said last, until what is returned is called."""
        assert self._cluster is not None
        old = self._reports[node]
        self._reports[node] = replace(old, updated_s=self._cluster.now_s)
        self._reported(node)

        def take_back() -> None:
            self._reports[node] = old
            self._reported(node)

        return take_back

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        if cluster.now_s != self._now_s:
            self._advance(cluster)
        return self._kind(ask)

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        return _Load(self, cluster, self._columns, self._kind(ask))

    def _kind(self, ask: Ask) -> _Kind:
        wish = self._wish(ask.load)
        filters = self._filters and not any(owner.kind == "DaemonSet" for owner in ask.meta.owner_references)
        by_prod = _YES if wish.is_prod and self._by_prod else _NO
        return _Kind(wish.estimate, by_prod, _YES if filters else _NO)

    def node_put(self, row: Row) -> None:
        assert self._cluster is not None
        node = self._cluster.nodes[row]
        said = node.metadata.annotations
        facts = (said.get(USAGE_THRESHOLDS.key), said.get(RAW_ALLOCATABLE.key), self._capacity(row))
        if self._facts.get(row) == facts:
            return
        self._facts[row] = facts
        own = USAGE_THRESHOLDS.read(node.metadata, "Node")
        filters = self._filters or any(self._limits(row).percent) or any(self._prod_limits(row))
        by_prod = self._by_prod or any(self._vector(own.prod_usage_thresholds))
        if by_prod and not self._by_prod:
            self._filters, self._by_prod = filters, by_prod
            for each in self._cluster.nodes:
                self._load_row(each)
            return
        self._filters = filters
        self._load_row(row)

    def node_removed(self, row: Row) -> None:
        """Its columns go with the row; its report stays until that is removed."""
        del self._facts[row]

    def pod_moved(self, record: PodRecord, row: Row, sign: int) -> None:
        assert self._cluster is not None
        table, columns = self._cluster.table, self._columns
        report = self._reports.get(table.names[row])
        if report is None or report.usage is None or record.load is None:
            return
        share = self._share(record, report)
        for name, amount in zip(columns.assigned, share.delta, strict=True):
            table.add(name, row, sign * amount)
        if self._by_prod:
            for name, amount in zip(columns.prod, share.prod, strict=True):
                table.add(name, row, sign * amount)
        if share.full != share.delta or (self._by_prod and share.prod != share.delta):
            self._shift(row, report, share, sign)

    def _shift(self, row: Row, report: _Report, share: _Share, sign: int) -> None:
        """Keep what is relative to `assigned` and `prod` right for a pod that adds differently to other views."""
        assert self._cluster is not None
        table, columns = self._cluster.table, self._columns
        unmeasured = self._measured(report, self._limits(row).aggregation) is None
        follows_all = not any(self._prod_limits(row))
        for i in range(len(self.resources)):
            delta, full, prod = sign * share.delta[i], sign * share.full[i], sign * share.prod[i]
            load = full if unmeasured else delta
            if table.columns[columns.ceiling[i]].item(row) != UNCHECKED:
                table.add(columns.ceiling[i], row, delta - load)
                if self._by_prod and follows_all:
                    table.add(columns.prod_ceiling[i], row, prod - load)
            if self._measured(report, self._score_by) is None:
                table.add(columns.measured[i], row, full - delta)

    def _reported(self, name: str) -> None:
        row = self._cluster.table.row_of.get(name) if self._cluster is not None else None
        if row is not None:
            self._load_row(row)

    def _load_row(self, row: Row) -> None:
        """Work out everything about a row anew."""
        assert self._cluster is not None
        cluster, columns = self._cluster, self._columns
        table, put = cluster.table, cluster.table.set
        report = self._reports.get(table.names[row])
        limits, prod_limits = self._limits(row), self._prod_limits(row)
        by_prod = any(prod_limits)
        check = PLAIN_CHECK if limits.aggregation is None else AGGREGATED_CHECK
        checks = check if report is not None and any(limits.percent) else 0
        put(columns.checks, row, checks)
        put(columns.prod_checks, row, PLAIN_CHECK if report is not None and by_prod else checks)
        updated_s = -math.inf if report is None or report.updated_s is None else report.updated_s
        put(columns.updated, row, updated_s)
        if math.isfinite(updated_s):
            expires_s = updated_s + self.args.node_metric_expiration_seconds
            self._next_expiry_s = min(self._next_expiry_s, expires_s)
        capacity = self._capacity(row)
        for name, amount in zip(columns.capacity, capacity, strict=True):
            put(name, row, amount)
        if report is None or report.usage is None:
            for group, fill in (
                (columns.assigned, 0),
                (columns.measured, NO_DATA),
                (columns.ceiling, UNCHECKED),
                (columns.prod, NO_DATA),
                (columns.prod_ceiling, UNCHECKED),
            ):
                for name in group:
                    put(name, row, fill)
            return
        delta, full, prod = [0] * len(capacity), [0] * len(capacity), list(report.system)
        for record in cluster.pods_on[row].values():
            if record.load is not None:
                for total, more in zip((delta, full, prod), self._share(record, report), strict=True):
                    for i, amount in enumerate(more):
                        total[i] += amount
        measured = self._measured(report, limits.aggregation)
        scored = self._measured(report, self._score_by)
        for i, whole in enumerate(capacity):
            base = measured[i] if measured is not None else full[i] - delta[i]
            ceiling = ceiling_of(limits.percent[i], whole)
            relative = UNCHECKED if ceiling == UNCHECKED else ceiling - base
            put(columns.assigned[i], row, delta[i])
            put(columns.ceiling[i], row, relative)
            put(columns.measured[i], row, scored[i] if scored is not None else full[i] - delta[i])
            if self._by_prod:
                put(columns.prod[i], row, prod[i])
                if by_prod:
                    relative = ceiling_of(prod_limits[i], whole)
                elif relative != UNCHECKED:
                    relative += prod[i] - delta[i]
                put(columns.prod_ceiling[i], row, relative)

    def _share(self, record: PodRecord, report: _Report) -> _Share:
        """What a pod adds to the load of its node beyond, or instead of, what the node reports."""
        assert record.load is not None
        wish = self._wish(record.load)
        estimate = wish.estimate
        used = report.of_pods.get(record.key)
        if used is None:
            return _Share(estimate, estimate, estimate if wish.is_prod else self._zero)
        delta = self._zero
        if self._is_estimated(wish, record, report):
            delta = tuple([max(0, a - b) for a, b in zip(estimate, used, strict=True)])
        if not wish.is_prod:
            return _Share(delta, estimate, self._zero)
        if record.key not in report.prod_pods:
            return _Share(delta, estimate, estimate)
        return _Share(delta, estimate, tuple([a + b for a, b in zip(delta, used, strict=True)]))

    def _is_estimated(self, wish: _Wish, record: PodRecord, report: _Report) -> bool:
        """Whether a pod's estimate still counts where it is above its reported usage: that may show a part only."""
        updated_s, placed_s = report.updated_s, record.placed_s
        if updated_s is None or placed_s is None or updated_s - report.interval_s < placed_s:
            return True
        if wish.after_initialized_s > 0 and record.initialized_s is not None:
            return record.initialized_s + wish.after_initialized_s > updated_s
        return wish.after_scheduled_s > 0 and placed_s + wish.after_scheduled_s > updated_s

    def _measured(self, report: _Report, by: tuple[str, float] | None) -> Vector | None:
        """A node's usage by a kind of aggregation; None where a wanted length of time is not reported."""
        if by is None:
            return report.usage
        found = report.aggregated.get(by)
        return report.usage if found is None and by[1] == 0 else found

    def _limits(self, row: Row) -> _Limits:
        """What limits pods on a row, whose class has no limits of its own."""
        assert self._cluster is not None
        own = USAGE_THRESHOLDS.read(self._cluster.nodes[row].metadata, "Node")
        part = own.aggregated_usage
        if part is not None and part.usage_thresholds and part.usage_aggregation_type:
            by = (str(part.usage_aggregation_type), parse_duration(part.usage_aggregated_duration or "0s"))
            return _Limits(self._vector(part.usage_thresholds), by)
        if own.usage_thresholds and self._global.aggregation is None:
            return _Limits(self._vector(own.usage_thresholds), None)
        return self._global

    def _prod_limits(self, row: Row) -> Vector:
        assert self._cluster is not None
        own = USAGE_THRESHOLDS.read(self._cluster.nodes[row].metadata, "Node").prod_usage_thresholds
        return self._vector(own) if own else self._global_prod

    def _capacity(self, row: Row) -> Vector:
        """What a node has, before any amplification."""
        assert self._cluster is not None
        columns = self._cluster.table.columns
        has = {resource: columns["allocatable", resource].item(row) for resource in self.resources}
        try:
            raw = RAW_ALLOCATABLE.read(self._cluster.nodes[row].metadata, "Node")
        except AnnotationError:
            raw = None
        return self._vector({**has, **amounts(raw or {})})

    def _wish(self, basis: LoadBasis) -> _Wish:
        known = self._wishes.get(basis)
        if known is None:
            if len(self._wishes) >= ESTIMATES_KEPT:
                self._wishes.clear()
            known = self._wishes[basis] = self._new_wish(basis)
        return known

    def _new_wish(self, basis: LoadBasis) -> _Wish:
        args, factors = self.args, dict(self.args.estimated_scaling_factors)
        after = [args.estimated_seconds_after_initialized, args.estimated_seconds_after_pod_scheduled]
        if args.allow_customize_estimation:
            factors |= _said(LOAD_ESTIMATED_SCALING_FACTORS, basis.factors) or {}
            said = (
                _said(LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED, basis.seconds_after_initialized),
                _said(LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED, basis.seconds_after_scheduled),
            )
            after = [of if own is None or own < 0 else own for own, of in zip(said, after, strict=True)]
        estimate = self._vector({name: estimate_of(basis, name, factor) for name, factor in factors.items()})
        return _Wish(estimate, basis.priority_class is PriorityClass.PROD, after[0] or 0, after[1] or 0)

    def _read(self, metric: NodeMetric) -> _Report:
        status, policy = metric.status, metric.spec.metric_collect_policy
        interval_s = policy.report_interval_seconds if policy is not None else None
        info = status.node_metric or NodeMetricInfo()
        aggregated: dict[tuple[str, float], Vector] = {}
        longest: dict[str, float] = {}
        for part in info.aggregated_node_usages:
            duration_s = parse_duration(part.duration or "0s")
            for kind, usage in part.usage.items():
                if usage.resources:
                    aggregated[kind, duration_s] = self._amounts(usage.resources)
                    longest[kind] = max(longest.get(kind, 0), duration_s)
        for kind, duration_s in longest.items():
            aggregated[kind, 0] = aggregated[kind, duration_s]
        shown = [each for each in status.pods_metric if each.pod_usage.resources]
        keys = [f"{each.namespace}/{each.name}" if each.namespace else each.name for each in shown]
        return _Report(
            parse_timestamp(status.update_time) if status.update_time else None,
            DEFAULT_REPORT_INTERVAL_S if interval_s is None else interval_s,
            None if status.node_metric is None else self._amounts(info.node_usage.resources),
            aggregated,
            self._amounts(info.system_usage.resources) if self.args.prod_usage_include_sys else self._zero,
            {key: self._amounts(each.pod_usage.resources) for key, each in zip(keys, shown, strict=True)},
            frozenset(key for key, each in zip(keys, shown, strict=True) if each.priority == names.PRIORITY_CLASS_PROD),
        )

    def _advance(self, cluster: Cluster) -> None:
        """The time is another: look again at the rows whose reports have become too old."""
        before_s, now_s = self._now_s, cluster.now_s
        self._now_s = now_s
        # A millisecond early, so that no rounding can hide a report that ends right now.
        if before_s < now_s < self._next_expiry_s - 1e-3:
            return
        expiration_s = self.args.node_metric_expiration_seconds
        updated = cluster.table.columns[self._columns.updated]
        old = now_s - updated >= expiration_s
        for row in np.flatnonzero(old != (before_s - updated >= expiration_s)):
            cluster.table.touch(int(row), int(Reason.LOAD))
        self._next_expiry_s = float(updated[~old].min(initial=math.inf)) + expiration_s

    def _amounts(self, resources: ResourceList) -> Vector:
        return self._vector(amounts(resources))

    def _vector(self, values: Mapping[str, int]) -> Vector:
        return tuple([countable(values.get(name, 0)) for name in self.resources])


class _Load(Judge):
    def __init__(self, plugin: LoadAwareScheduling, cluster: Cluster, columns: _Columns, kind: _Kind) -> None:
        estimate, by_prod, filters = kind
        args = plugin.args
        self._plugin, self._by_prod, self._capacity = plugin, bool(by_prod), columns.capacity
        self._cluster, self._resources, self._updated = cluster, plugin.resources, columns.updated
        self._expiration_s = args.node_metric_expiration_seconds
        self._heeds_expiry = args.filter_expired_node_metrics
        self._passes_expired = args.enable_schedule_when_node_metrics_expired
        self._checks = columns.prod_checks if by_prod else columns.checks
        load, ceiling = (columns.prod, columns.prod_ceiling) if by_prod else (columns.assigned, columns.ceiling)
        self._checked = [(load[i], ceiling[i], adds, 2 << i) for i, adds in enumerate(estimate)]
        weights = [args.resource_weights.get(name, 0) for name in plugin.resources]
        self._dominant = args.dominant_resource_weight
        self._weights = sum(weights) + self._dominant
        # Of prod pods the whole load is in one column, of all pods in two.
        by_prod_alone = by_prod and args.score_according_prod_usage
        loads = (
            [(name,) for name in columns.prod]
            if by_prod_alone
            else zip(columns.assigned, columns.measured, strict=True)
        )
        self._scored = [
            each for each in zip(loads, columns.capacity, estimate, weights, strict=True) if each[3] or self._dominant
        ]
        # A pod that is being placed is in no report yet. Nodes without one count no estimates.
        added = [columns.assigned, columns.prod] if by_prod else [columns.assigned]
        self.gains = {
            name: Gain(adds, (measured, NO_DATA))
            for group in added
            for name, measured, adds in zip(group, columns.measured, estimate, strict=True)
        }
        if filters:
            self.filters_on = Reason.NODE | Reason.LOAD
        if self._weights:
            self.scores_on = Reason.NODE | Reason.LOAD

    def feasible(self, cells: Cells) -> Numbers:
        code: Numbers = 0
        for load, ceiling, adds, bit in self._checked:
            code = code | (cells[load] + adds > cells[ceiling]) * bit
        checks = cells[self._checks]
        code = code | (code > 0) * (checks == AGGREGATED_CHECK) * AGGREGATED
        if not self._heeds_expiry:
            return code
        expired = (checks > 0) & self._is_expired(cells)
        return code * (1 - expired) | expired * (0 if self._passes_expired else EXPIRED)

    def score(self, cells: Cells) -> Numbers:
        total: Numbers = 0
        lowest: Numbers = 100
        for loads, capacity_column, adds, weight in self._scored:
            used = adds
            for load in loads:
                used = used + cells[load]
            capacity = cells[capacity_column]
            free = (capacity - used) * 100 // (capacity + (capacity == 0)) * (used <= capacity)
            total = total + free * weight
            if self._dominant:
                lowest = least(lowest, free)
        if self._dominant:
            total = total + lowest * self._dominant
        return total // self._weights * (1 - self._is_expired(cells))

    def reasons(self, mask: int) -> list[str]:
        if mask & EXPIRED:
            return ["node(s) nodeMetric expired"]
        what = "aggregated usage" if mask & AGGREGATED else "usage"
        first = next(name for i, name in enumerate(self._resources) if mask & 2 << i)
        return [f"node(s) {first} {what} exceed threshold"]

    def mend(self, ask: Ask, row: Row) -> list[Change]:
        """A report, where the last one is too old; a higher limit, or a pod that is taken to use less."""
        cells, node = One(self._cluster.table.columns, row), self._cluster.nodes[row]
        if self.feasible(cells) == EXPIRED:
            age_s = self._cluster.now_s - cells[self._updated]
            said = (
                f"a new report of its usage (the last is {age_s:.0f} s old)"
                if age_s < math.inf
                else "a report of its usage"
            )
            return [Change(said, trial=lambda: self._plugin.as_if_reported(node.metadata.name), whose="node")]
        limit, excess = self._plugin.limit(row, self._by_prod), []
        real_names = REAL_NAMES.get(ask.load.priority_class, {})
        for i, (load, ceiling, adds, _) in enumerate(self._checked):
            name, capacity, left = self._resources[i], int(cells[self._capacity[i]]), int(cells[ceiling] - cells[load])
            if adds > left:
                allowed = ceiling_of(limit.percent[name], capacity)
                asked = real_names.get(name, name)
                excess.append(Excess(name, limit.percent[name], allowed - left + adds, capacity, adds, left, asked))
        found = (higher_limit(node, limit, excess), smaller_load(ask.pod, excess)) if excess else ()
        return [each for each in found if each is not None]

    def _is_expired(self, cells: Cells) -> Numbers:
        return self._cluster.now_s - cells[self._updated] >= self._expiration_s


def _resources(args: LoadAwareSchedulingArgs) -> tuple[str, ...]:
    """The resources that the plugin looks at: cpu, memory and all that its arguments name."""
    found = {"cpu", "memory", *args.usage_thresholds, *args.prod_usage_thresholds, *args.resource_weights}
    found |= {*args.estimated_scaling_factors, *args.supported_resources}
    if args.aggregated is not None:
        found |= {*args.aggregated.usage_thresholds}
    return tuple(sorted(found))


def _said(annotation: Annotation[T, D], text: str) -> T | D | None:
    """What a pod says itself. What cannot be understood counts as not said."""
    if not text:
        return None
    try:
        return annotation.read(ObjectMeta(annotations={annotation.key: text}))
    except AnnotationError:
        return None
