"""What LoadAwareScheduling keeps of each node, in columns: how much it is loaded, and how much more it may take.

    load                    what a row is scored by: the report, and what it does not show yet of the pods there
    ceiling                 the largest `load + pod` that still passes the thresholds
    prod, prod ceiling      the same for pods that are judged by what prod pods use
    capacity                what it has; nothing once its report is too old, so that it scores nothing

Per row, `load` moves with every pod; everything else changes with reports, nodes and the age of reports only. So judges
read amounts alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

import numpy as np

from koord.api.configuration.scheduler_args import LoadAwareSchedulingArgs
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.resources import stored_amounts
from koord.api.protocol.annotations.colocation import RAW_ALLOCATABLE
from koord.api.protocol.annotations.load import (
    LOAD_ESTIMATED_SCALING_FACTORS,
    LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED,
    LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED,
    USAGE_THRESHOLDS,
    UsageThresholds,
)
from koord.api.protocol.annotations.value import Annotation, AnnotationError
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.priority import PriorityClass
from koord.api.protocol.report_age import report_age_s
from koord.api.text.duration import parse_duration
from koord.scheduler.plugins.load_aware_service import load_told
from koord.scheduler.plugins.load_basis import LoadBasis, Loads
from koord.scheduler.plugins.load_changes import Limit
from koord.scheduler.plugins.load_estimate import estimate_of
from koord.scheduler.plugins.load_reports import Aggregation, Report, ReportReader, Vector
from koord.scheduler.plugins.load_threshold import CLOSED, UNCHECKED
from koord.scheduler.plugins.load_threshold import ceiling as ceiling_of
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Array, Column, Gains, Reason, Row
from koord.scheduler.state.watchers import Index

T = TypeVar("T")
D = TypeVar("D")

NO_DATA: Final = 1 << 56
"""A load that is above any capacity, so that a node without data scores nothing."""
PLAIN_CHECK, AGGREGATED_CHECK = 1, 2
ESTIMATES_KEPT: Final = 1 << 15


class PodLoad(NamedTuple):
    """What a pod's load is taken to be, and for how long that is believed rather than what is reported."""

    estimate: Vector
    is_prod: bool
    after_initialized_s: int
    after_scheduled_s: int
    gains: Gains
    """What the pod adds to the row's load, as long as the node does not report it, for speed: one object for all pods
    that are alike. Empty if there is no shared object."""
    prod_gains: Gains
    "The same, and what it adds to what prod pods use."


class Share(NamedTuple):
    """What a pod adds to each view of its node's load."""

    delta: Vector
    full: Vector
    prod: Vector


class _Limits(NamedTuple):
    """What limits pods on a node: percentages, and the percentile that they are of."""

    percent: Vector
    aggregation: Aggregation | None


class _Facts(NamedTuple):
    """What matters of a node."""

    thresholds: str | None
    raw_allocatable: str | None
    "Both as its annotations have them."
    capacity: Vector


class LoadColumns:
    """The names of the plugin's columns on a table. A second plugin of this kind in a cluster gets others."""

    def __init__(self, resources: tuple[str, ...], taken: Mapping[Hashable, object]) -> None:
        number = next(n for n in range(len(taken) + 1) if f"load updated {n}" not in taken)
        self.updated = f"load updated {number}"
        self.checks, self.prod_checks = f"load checks {number}", f"load prod checks {number}"
        self.capacity, self.load, self.ceiling, self.prod, self.prod_ceiling = (
            tuple(f"load {what} {resource} {number}" for resource in resources)
            for what in ("capacity", "in all", "ceiling", "prod", "prod ceiling")
        )
        self.without_prod = (self.updated, self.checks, self.prod_checks, *self.capacity, *self.load, *self.ceiling)
        self.all = (*self.without_prod, *self.prod, *self.prod_ceiling)

    def declare(self, cluster: Cluster) -> None:
        declare = cluster.table.declare
        declare(Column(self.updated, np.float64, Reason.LOAD, -math.inf))
        declare(Column(self.checks, np.int8, Reason.LOAD))
        declare(Column(self.prod_checks, np.int8, Reason.LOAD))
        for group, fill in (
            (self.capacity, 0),
            (self.load, NO_DATA),
            (self.ceiling, UNCHECKED),
            (self.prod, NO_DATA),
            (self.prod_ceiling, UNCHECKED),
        ):
            for name in group:
                declare(Column(name, np.int64, Reason.LOAD, fill))


class LoadRows(Index):
    """The load of every row by the arguments of one profile, from what nodes report and which pods are on them."""

    def __init__(self, cluster: Cluster, args: LoadAwareSchedulingArgs, resources: tuple[str, ...]) -> None:
        super().__init__(cluster)
        self.args, self.resources = args, resources
        self.columns = LoadColumns(resources, cluster.table.columns)
        self.columns.declare(cluster)
        for resource in resources:
            cluster.resource(resource)
        self.loads = cluster.notes(Loads)
        self._reader = ReportReader(resources, includes_system=args.prod_usage_include_sys)
        self._vector = self._reader.vector
        self._zero: Vector = (0,) * len(resources)
        self._reports: dict[str, Report] = {}
        self._wishes: dict[LoadBasis, PodLoad] = {}
        self._facts: dict[Row, _Facts] = {}
        "What was last seen of a node, as far as it matters here."
        self._limits_on: dict[Row, tuple[_Limits, Vector]] = {}
        "What limits pods on a row, and those that are judged by what prod pods use."
        self._global = _Limits(self._vector(args.usage_thresholds), None)
        self._global_prod = self._vector(args.prod_usage_thresholds)
        part = args.aggregated
        self._score_by: Aggregation | None = None
        if part is not None and part.usage_thresholds and part.usage_aggregation_type:
            by = (str(part.usage_aggregation_type), parse_duration(part.usage_aggregated_duration))
            self._global = _Limits(self._vector(part.usage_thresholds), by)
        if part is not None and part.score_aggregation_type:
            self._score_by = (str(part.score_aggregation_type), parse_duration(part.score_aggregated_duration))
        self.filters = any(self._global.percent) or any(self._global_prod)
        "Whether some node has a threshold."
        self.by_prod = any(self._global_prod) or args.score_according_prod_usage
        "Whether what prod pods use matters on some node."
        self._when_old: int | None = None
        "The ceilings of rows that have thresholds and whose reports are too old; None: as if they were not."
        if args.filter_expired_node_metrics:
            self._when_old = UNCHECKED if args.enable_schedule_when_node_metrics_expired else CLOSED
        self._now_s = 0.0
        "By which time it is known whose reports are too old."
        self._next_expiry_s = math.inf
        self.loads.counting.append(self)
        cluster.watch(self)
        for row in list(cluster.nodes):
            self.node_put(row)

    def put_many(self, metrics: Sequence[NodeMetric]) -> None:
        """Many nodes have reported: the same as one by one."""
        self.advance()
        read, row_of = self._reader.read, self.cluster.table.row_of
        before = {metric.metadata.name: self._is_measured(metric.metadata.name) for metric in metrics}
        self._reports |= {metric.metadata.name: read(metric) for metric in metrics}
        rows = dict.fromkeys(row_of.get(metric.metadata.name) for metric in metrics)
        self._load_rows([row for row in rows if row is not None])
        for name, was_measured in before.items():
            if self._is_measured(name) != was_measured and name in row_of:
                self.cluster.recounted(row_of[name])

    def put(self, metric: NodeMetric) -> None:
        """A node has reported."""
        # If a trial did it first, its undoing would take the time back, and each trial would read all rows again.
        self.advance()
        before = self._is_measured(metric.metadata.name)
        self._reports[metric.metadata.name] = self._reader.read(metric)
        self._reported(metric.metadata.name, before)

    def remove(self, name: str) -> None:
        """A node's report is gone."""
        before = self._is_measured(name)
        if self._reports.pop(name, None) is not None:
            self._reported(name, before)

    def figures(self, node: str) -> dict[str, object]:
        """What is counted on a node, for people."""
        row, report = self.cluster.table.row_of.get(node), self._reports.get(node)
        records = {} if row is None else self.cluster.pods_on[row]
        measured = report is not None and report.usage is not None
        bases = {
            key: basis
            for key, record in records.items()
            if measured and (basis := self._counted(record, row)) is not None
        }
        if report is None or not bases:
            return load_told(self.resources, records.values(), report if measured else None, {}, ())
        shares = {key: self._share(basis, records[key], report, of_prod=True) for key, basis in bases.items()}
        reported = report.prod_pods & report.of_pods.keys()
        prod = [key for key, basis in bases.items() if key in reported and self.wish(basis).is_prod]
        return load_told(self.resources, records.values(), report, shares, prod)

    def capacity(self, row: Row) -> Vector:
        """What a node has, of each resource."""
        return self._facts[row].capacity

    def limit(self, row: Row, by_prod: bool) -> Limit:
        """What limits pods on a row, or those judged by what prod pods use."""
        limits, prod = self._limits_on[row]
        if by_prod and any(prod):
            return Limit(dict(zip(self.resources, prod, strict=True)), True, None)
        return Limit(dict(zip(self.resources, limits.percent, strict=True)), False, limits.aggregation)

    def as_if_reported(self, node: str) -> Callable[[], None]:
        """A node has just said again what it said last, until what is returned is called."""
        old = self._reports[node]
        self._reports[node] = replace(old, updated_s=self.cluster.now_s)
        self._reported(node)

        def take_back() -> None:
            self._reports[node] = old
            self._reported(node)

        return take_back

    def node_put(self, row: Row) -> None:
        node = self.cluster.nodes[row]
        said = node.metadata.annotations
        facts = _Facts(said.get(USAGE_THRESHOLDS.key), said.get(RAW_ALLOCATABLE.key), self._capacity(row))
        if self._facts.get(row) == facts:
            return
        self._facts[row] = facts
        own = USAGE_THRESHOLDS.read(node.metadata, "Node")
        limits, prod = self._limits_on[row] = self._limits_by(own), self._prod_limits_by(own)
        filters = self.filters or any(limits.percent) or any(prod)
        by_prod = self.by_prod or any(self._vector(own.prod_usage_thresholds))
        if by_prod and not self.by_prod:
            self.filters, self.by_prod = filters, by_prod
            for stale in self._facts:
                self._load_row(stale)
            return
        self.filters = filters
        self._load_row(row)

    def amounts_put(self, row: Row, changed: frozenset[str]) -> None:
        if not changed.isdisjoint(self.resources):
            self.node_put(row)

    def node_removed(self, row: Row) -> None:
        """Its columns go with the row; its report stays until that is removed."""
        del self._facts[row], self._limits_on[row]

    def load_moved(self, basis: LoadBasis, record: PodRecord, row: Row, sign: int) -> None:
        table, columns = self.cluster.table, self.columns
        report = self._reports.get(table.names[row])
        if report is None or report.usage is None:
            return
        if record.key not in report.of_pods:
            wish = self.wish(basis)
            if wish.gains and (wish.is_prod or not self.by_prod):
                table.gain(row, wish.prod_gains if self.by_prod else wish.gains, sign, 0)
                return
        share = self._share(basis, record, report)
        for name, amount in zip(columns.load, share.delta, strict=True):
            table.add(name, row, sign * amount)
        if self.by_prod:
            for name, amount in zip(columns.prod, share.prod, strict=True):
                table.add(name, row, sign * amount)
        if share.full != share.delta or (self.by_prod and share.prod != share.delta):
            self._shift(row, report, share, sign)

    def load_cells(self, basis: LoadBasis, row: Row) -> Iterable[tuple[Hashable, int]]:
        if not self._is_measured(self.cluster.table.names[row]):
            return
        wish = self.wish(basis)
        yield from zip(self.columns.load, wish.estimate, strict=True)
        if self.by_prod and wish.is_prod:
            yield from zip(self.columns.prod, wish.estimate, strict=True)

    def _is_measured(self, node: str) -> bool:
        report = self._reports.get(node)
        return report is not None and report.usage is not None

    def _shift(self, row: Row, report: Report, share: Share, sign: int) -> None:
        """Keep what is relative to `load` and `prod` right for a pod that adds differently to other views."""
        table, columns = self.cluster.table, self.columns
        limits, prod_limits = self._limits_on[row]
        unmeasured = report.measured(limits.aggregation) is None
        follows_all = not any(prod_limits)
        unscored = report.measured(self._score_by) is None
        for i in range(len(self.resources)):
            delta, full, prod = sign * share.delta[i], sign * share.full[i], sign * share.prod[i]
            checked, scored = full if unmeasured else delta, full if unscored else delta
            table.add(columns.load[i], row, scored - delta)
            if table.columns[columns.ceiling[i]].item(row) not in (UNCHECKED, CLOSED):
                table.add(columns.ceiling[i], row, scored - checked)
                if self.by_prod and follows_all:
                    table.add(columns.prod_ceiling[i], row, prod - checked)

    def _reported(self, name: str, was_measured: bool = True) -> None:
        row = self.cluster.table.row_of.get(name)
        if row is not None:
            self._load_row(row)
            if self._is_measured(name) != was_measured:
                self.cluster.recounted(row)

    def _load_row(self, row: Row) -> None:
        """Recompute everything about a row."""
        put = self.cluster.table.set
        for name, value in zip(self._written, self._worked_out(row), strict=True):
            put(name, row, value)

    def _load_rows(self, rows: Sequence[Row]) -> None:
        """The same for many rows."""
        if not rows:
            return
        values = zip(*[self._worked_out(row) for row in rows], strict=True)
        self.cluster.table.set_many(rows, dict(zip(self._written, values, strict=True)))

    @property
    def _written(self) -> tuple[str, ...]:
        """The columns that follow from a row's node, report and pods."""
        return self.columns.all if self.by_prod else self.columns.without_prod

    def _worked_out(self, row: Row) -> list[int | float]:
        """The cells of a row, in the order of `_written`."""
        facts, report = self._facts[row], self._reports.get(self.cluster.table.names[row])
        limits, prod_limits = self._limits_on[row]
        capacity = facts.capacity
        check = PLAIN_CHECK if limits.aggregation is None else AGGREGATED_CHECK
        checks = check if report is not None and any(limits.percent) else 0
        prod_checks = PLAIN_CHECK if report is not None and any(prod_limits) else checks
        updated_s = -math.inf if report is None or report.updated_s is None else report.updated_s
        is_old = self._is_old(updated_s)
        if math.isfinite(updated_s):
            # One that is dated too far ahead begins to count when its time comes near.
            counts_s = self.args.node_metric_expiration_seconds
            turns_s = updated_s - counts_s if is_old else updated_s + counts_s
            if turns_s >= self._now_s:
                self._next_expiry_s = min(self._next_expiry_s, turns_s)
        cells: list[int | float] = [updated_s, checks, prod_checks, *(self._zero if is_old else capacity)]
        unchecked = [UNCHECKED] * len(capacity)
        ceiling, prod_ceiling = unchecked, unchecked
        if report is None or report.usage is None:
            load = prod = [NO_DATA] * len(capacity)
        else:
            delta, full, prod = self._shares(row, report)
            unshown = [a - b for a, b in zip(full, delta, strict=True)]
            measured, scored = report.measured(limits.aggregation), report.measured(self._score_by)
            checked = _sum(delta, unshown if measured is None else measured)
            load = _sum(delta, unshown if scored is None else scored)
            most = [ceiling_of(percent, whole) for percent, whole in zip(limits.percent, capacity, strict=True)]
            ceiling = _as_if(most, checked, load)
            if any(prod_limits):
                prod_ceiling = [
                    ceiling_of(percent, whole) for percent, whole in zip(prod_limits, capacity, strict=True)
                ]
            else:
                prod_ceiling = _as_if(most, checked, prod)
        if is_old and self._when_old is not None:
            old = [self._when_old] * len(capacity)
            ceiling, prod_ceiling = old if checks else ceiling, old if prod_checks else prod_ceiling
        cells += load
        cells += ceiling
        if self.by_prod:
            cells += prod
            cells += prod_ceiling
        return cells

    def _is_old(self, updated_s: float) -> bool:
        return report_age_s(updated_s, self._now_s) >= self.args.node_metric_expiration_seconds

    def _shares(self, row: Row, report: Report) -> tuple[list[int], list[int], list[int]]:
        """What all pods of a row add to each view of its load."""
        delta, full, prod = list(self._zero), list(self._zero), list(report.system)
        for record in self.cluster.pods_on[row].values():
            basis = self._counted(record, row)
            if basis is not None:
                share = self._share(basis, record, report)
                for i, more in enumerate(share.full):
                    full[i] += more
                    delta[i] += share.delta[i]
                    prod[i] += share.prod[i]
        return delta, full, prod

    def _share(self, basis: LoadBasis, record: PodRecord, report: Report, of_prod: bool = False) -> Share:
        """What a pod adds to the load of its node beyond, or instead of, what the node reports. `of_prod`: also to what
        prod pods use, where no pod is judged by that."""
        wish = self.wish(basis)
        estimate = wish.estimate
        if record.key not in report.of_pods:
            return Share(estimate, estimate, estimate if wish.is_prod else self._zero)
        is_estimated = self._is_estimated(wish, record, report)
        counts_as_used = (self.by_prod or of_prod) and wish.is_prod and record.key in report.prod_pods
        delta, prod = self._zero, estimate if wish.is_prod else self._zero
        if is_estimated or counts_as_used:
            used = report.used_by(record.key)
            if is_estimated:
                delta = tuple([max(0, a - b) for a, b in zip(estimate, used, strict=True)])
            if counts_as_used:
                prod = tuple([a + b for a, b in zip(delta, used, strict=True)])
        return Share(delta, estimate, prod)

    def _is_estimated(self, wish: PodLoad, record: PodRecord, report: Report) -> bool:
        """Whether a pod's estimate still counts where it is above its reported usage: that may show a part only."""
        updated_s, placed_s = report.updated_s, record.placed_s
        if updated_s is None or placed_s is None or updated_s - report.interval_s < placed_s:
            return True
        if wish.after_initialized_s > 0 and record.initialized_s is not None:
            return record.initialized_s + wish.after_initialized_s > updated_s
        return wish.after_scheduled_s > 0 and placed_s + wish.after_scheduled_s > updated_s

    def _limits_by(self, own: UsageThresholds) -> _Limits:
        """The limits for pods on a node with these thresholds of its own."""
        part = own.aggregated_usage
        if part is not None and part.usage_thresholds and part.usage_aggregation_type:
            by = (str(part.usage_aggregation_type), parse_duration(part.usage_aggregated_duration or "0s"))
            return _Limits(self._vector(part.usage_thresholds), by)
        if own.usage_thresholds and self._global.aggregation is None:
            return _Limits(self._vector(own.usage_thresholds), None)
        return self._global

    def _prod_limits_by(self, own: UsageThresholds) -> Vector:
        said = own.prod_usage_thresholds
        return self._vector(said) if said else self._global_prod

    def _capacity(self, row: Row) -> Vector:
        """What a node has, before any amplification."""
        columns = self.cluster.table.columns
        has = {resource: columns["allocatable", resource].item(row) for resource in self.resources}
        try:
            raw = RAW_ALLOCATABLE.read(self.cluster.nodes[row].metadata, "Node")
        except AnnotationError:
            raw = None
        return self._vector({**has, **stored_amounts(raw or {})})

    def _counted(self, record: PodRecord, row: Row | None) -> LoadBasis | None:
        return None if row is None else self.loads.counts_as(record, row)

    def wish(self, basis: LoadBasis) -> PodLoad:
        if basis.whole is not None:
            return self._rest(basis.whole, basis.inside)
        load_wish = self._wishes.get(basis)
        if load_wish is None:
            if len(self._wishes) >= ESTIMATES_KEPT:
                self._wishes.clear()
            load_wish = self._wishes[basis] = self._new_wish(basis)
        return load_wish

    def _rest(self, whole: LoadBasis, inside: Iterable[LoadBasis]) -> PodLoad:
        """Of a reservation with owners: what these do not use of it by their estimates."""
        load_wish = self.wish(whole)
        rest = list(load_wish.estimate)
        for inner in inside:
            rest = [max(0, left - more) for left, more in zip(rest, self.wish(inner).estimate, strict=True)]
        return load_wish._replace(estimate=tuple(rest), gains=(), prod_gains=())

    def _new_wish(self, basis: LoadBasis) -> PodLoad:
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
        gains = tuple(zip(self.columns.load, estimate, strict=True))
        prod_gains = (*gains, *zip(self.columns.prod, estimate, strict=True))
        is_prod = basis.priority_class is PriorityClass.PROD
        return PodLoad(estimate, is_prod, after[0] or 0, after[1] or 0, gains, prod_gains)

    def advance(self) -> None:
        """The time may be another: look again at the rows whose reports have become too old."""
        cluster = self.cluster
        if cluster.now_s == self._now_s:
            return
        before_s, now_s, next_s = self._now_s, cluster.now_s, self._next_expiry_s
        # A millisecond early, so that no rounding can hide a report that ends right now.
        if before_s < now_s < next_s - 1e-3:
            self._now_s = now_s
            return
        expiration_s = self.args.node_metric_expiration_seconds
        updated = cluster.table.columns[self.columns.updated]
        old = np.abs(now_s - updated) >= expiration_s
        was_old = np.abs(before_s - updated) >= expiration_s
        turns = np.where(old, updated - expiration_s, updated + expiration_s)
        self._turn(now_s, float(turns[turns >= now_s].min(initial=math.inf)))
        cluster.undoable(lambda: self._turn(before_s, next_s))
        alive = cluster.table.alive
        self._age(np.flatnonzero(old & ~was_old & alive))
        self._load_rows(np.flatnonzero(~old & was_old & alive).tolist())

    def _turn(self, now_s: float, next_expiry_s: float) -> None:
        self._now_s, self._next_expiry_s = now_s, next_expiry_s

    def _age(self, rows: Array) -> None:
        """The reports of some rows have become too old: the same as recomputing everything, without reading the pods
        there. If the agents are down, that is all rows at once."""
        table, columns = self.cluster.table, self.columns
        table.set_many(rows.tolist(), {name: [0] * len(rows) for name in columns.capacity})
        if self._when_old is None:
            return
        for checks, ceiling in ((columns.checks, columns.ceiling), (columns.prod_checks, columns.prod_ceiling)):
            if ceiling is columns.ceiling or self.by_prod:
                checked = rows[table.columns[checks][rows] > 0].tolist()
                table.set_many(checked, {name: [self._when_old] * len(checked) for name in ceiling})


def _sum(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]


def _as_if(ceilings: Sequence[int], checked: Sequence[int], load: Sequence[int]) -> list[int]:
    """Ceilings for one load that leave as much room as these do for the load that they are about."""
    return [
        UNCHECKED if most == UNCHECKED else most - used + instead
        for most, used, instead in zip(ceilings, checked, load, strict=True)
    ]


def _said(annotation: Annotation[T, D], text: str) -> T | D | None:
    """What a pod says itself. What cannot be understood counts as not said."""
    if not text:
        return None
    try:
        return annotation.read(ObjectMeta(annotations={annotation.key: text}))
    except AnnotationError:
        return None
