"""LoadAwareScheduling: keeps pods off nodes that are busy, by what nodes report and by what was just assigned to them.

    load     = measured usage + sum over assigned pods that it does not show yet of max(0, estimate - usage)
    feasible:  round((load + pod) / capacity * 100) <= threshold, for every resource that has one
    score:     sum(weight_r * free_r) + dominant * min(free_r), over the sum of weights; free in percent of capacity
"Measured" is the mean, a percentile over some time, or what prod pods use, as arguments and the node's annotation say.

Both are amounts in columns (`load_rows`): thresholds are kept as ceilings, the largest `load + pod` that still passes,
and a node whose report is too old has no capacity to be scored by. So the framework's fast forms judge them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

from koord.api.configuration.scheduler_args import LoadAwareSchedulingArgs
from koord.api.kinds import NODE_METRICS
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.scheduler.framework.amount_scores import Free
from koord.scheduler.framework.amounts import AmountJudge, Share
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Gain, Numbers, One
from koord.scheduler.framework.change import Change
from koord.scheduler.framework.controller import Controller
from koord.scheduler.framework.judge import Judge, Need, Shortcuts
from koord.scheduler.framework.plugin import KeyedBy, Plugin, Taking
from koord.scheduler.framework.stable import Version
from koord.scheduler.plugins.load_basis import Loads
from koord.scheduler.plugins.load_changes import Excess, higher_limit, smaller_load
from koord.scheduler.plugins.load_estimate import REAL_NAMES
from koord.scheduler.plugins.load_reports import Vector
from koord.scheduler.plugins.load_rows import AGGREGATED_CHECK, NO_DATA, LoadRows
from koord.scheduler.plugins.load_threshold import CLOSED
from koord.scheduler.plugins.load_threshold import ceiling as ceiling_of
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Reason, Row

EXPIRED: Final = 1
AGGREGATED: Final = 1 << 31
_NO, _YES = Version(0), Version(1)


class _Kind(NamedTuple):
    """What tells classes of pods apart."""

    estimate: Vector
    by_prod: Version
    "Whether it is judged by what prod pods use."
    filters: Version
    "Both also depend on what nodes have ever said."


class LoadAwareScheduling(Plugin):
    """One instance serves one cluster: it holds that cluster's reports."""

    name = "LoadAwareScheduling"
    notes = Loads
    controller: Controller
    wakes_on = Reason.NODE | Reason.ALLOCATABLE | Reason.LOAD | Reason.FREED
    rows: LoadRows
    "Of the cluster that it serves."

    def __init__(self, args: LoadAwareSchedulingArgs | None = None) -> None:
        self.args = (args or LoadAwareSchedulingArgs()).completed()
        self.resources = _resources(self.args)
        self._cluster: Cluster | None = None

    def attach(self, cluster: Cluster) -> None:
        if self._cluster is cluster:
            return
        if self._cluster is not None:
            raise ValueError("LoadAwareScheduling serves one cluster: make another one for another cluster")
        self._cluster = cluster
        self.rows = LoadRows(cluster, self.args, self.resources)
        self.controller = Controller(services={"node/:nodeName": self.rows.figures})

    def takes(self) -> Sequence[Taking]:
        rows = self.rows
        return (Taking(NODE_METRICS, rows.put, lambda metric: rows.remove(metric.metadata.name), rows.put_many),)

    def put_node_metric(self, metric: NodeMetric) -> None:
        """A node has reported."""
        self.rows.put(metric)

    def remove_node_metric(self, name: str) -> None:
        """A node's report is gone."""
        self.rows.remove(name)

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.LABELS

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        self.rows.advance()
        return self._kind(ask)

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        return _Load(self.rows, self._kind(ask))

    def _kind(self, ask: Ask) -> _Kind:
        rows = self.rows
        wish = rows.wish(rows.loads.of_alike(ask.pod, ask.template))
        owners = ask.meta.owner_references
        filters = rows.filters and not (owners and any(owner.kind == "DaemonSet" for owner in owners))
        return _Kind(wish.estimate, _YES if wish.is_prod and rows.by_prod else _NO, _YES if filters else _NO)


class _Load(Judge):
    def __init__(self, rows: LoadRows, kind: _Kind) -> None:
        estimate, by_prod, filters = kind
        args, columns = rows.args, rows.columns
        self._rows, self._by_prod = rows, bool(by_prod)
        self._cluster, self._resources, self._updated = rows.cluster, rows.resources, columns.updated
        self._checks = columns.prod_checks if by_prod else columns.checks
        load, ceiling = (columns.prod, columns.prod_ceiling) if by_prod else (columns.load, columns.ceiling)
        needs = [Need(has, taken, adds) for has, taken, adds in zip(ceiling, load, estimate, strict=True)]
        weights = [args.resource_weights.get(name, 0) for name in rows.resources]
        dominant = args.dominant_resource_weight
        scored = columns.prod if by_prod and args.score_according_prod_usage else columns.load
        shares = [
            Share(capacity, used, adds, weight)
            for capacity, used, adds, weight in zip(columns.capacity, scored, estimate, weights, strict=True)
            if weight or dominant
        ]
        table = rows.cluster.table
        self._amounts = AmountJudge(table, needs if filters else (), shares, Free(dominant) if shares else None)
        "Below its ceiling, a row has room for what a pod is taken to use. Bit i of its verdict is resource i."
        self.filters_on, self.scores_on = self._amounts.filters_on, self._amounts.scores_on
        # A pod that is being placed is in no report yet. Nodes without one count no estimates.
        added = [columns.load, columns.prod] if by_prod else [columns.load]
        gains: dict[Hashable, Gain] = {
            name: Gain(adds, (measured, NO_DATA))
            for group in added
            for name, measured, adds in zip(group, columns.load, estimate, strict=True)
        }
        self.shortcuts = Shortcuts(self._amounts.shortcuts.fast, gains=gains)

    def feasible(self, cells: Cells) -> Numbers:
        code: Numbers = self._amounts.feasible(cells) << 1
        if isinstance(code, int) and not code:
            return 0
        code = code | (code > 0) * (cells[self._checks] == AGGREGATED_CHECK) * AGGREGATED
        is_closed = cells[self._amounts.needs[0].has] == CLOSED
        return code * (1 - is_closed) | is_closed * EXPIRED

    def score(self, cells: Cells) -> Numbers:
        return self._amounts.score(cells)

    def reasons(self, mask: int) -> list[str]:
        if mask & EXPIRED:
            return ["node(s) nodeMetric expired"]
        what = "aggregated usage" if mask & AGGREGATED else "usage"
        first = next(name for i, name in enumerate(self._resources) if mask & 2 << i)
        return [f"node(s) {first} {what} exceed threshold"]

    def fixes(self, ask: Ask, row: Row) -> list[Change]:
        """A report, where the last one is too old; a higher limit, or a pod that is taken to use less."""
        cells, node = One(self._cluster.table.columns, row), self._cluster.nodes[row]
        if self.feasible(cells) == EXPIRED:
            age_s = self._cluster.now_s - cells[self._updated]
            said = "a report of its usage"
            if age_s < 0:
                said = f"a new report of its usage (the last is dated {-age_s:.0f} s ahead of now)"
            elif age_s < math.inf:
                said = f"a new report of its usage (the last is {age_s:.0f} s old)"
            return [Change(said, trial=lambda: self._rows.as_if_reported(node.metadata.name), whose="node")]
        limit, excess = self._rows.limit(row, self._by_prod), []
        real_names, has = REAL_NAMES.get(ask.band, {}), self._rows.capacity(row)
        for i, (need, room) in enumerate(zip(self._amounts.needs, self._amounts.left(cells), strict=True)):
            name, capacity, left, adds = self._resources[i], has[i], int(room), need.adds
            if adds > left:
                allowed = ceiling_of(limit.percent[name], capacity)
                asked = real_names.get(name, name)
                excess.append(Excess(name, limit.percent[name], allowed - left + adds, capacity, adds, left, asked))
        changes = (higher_limit(node, limit, excess), smaller_load(ask.pod, excess)) if excess else ()
        return [change for change in changes if change is not None]


def _resources(args: LoadAwareSchedulingArgs) -> tuple[str, ...]:
    """The resources that the plugin looks at: cpu, memory and all that its arguments name."""
    names = {"cpu", "memory", *args.usage_thresholds, *args.prod_usage_thresholds, *args.resource_weights}
    names |= {*args.estimated_scaling_factors, *args.supported_resources}
    if args.aggregated is not None:
        names |= {*args.aggregated.usage_thresholds}
    return tuple(sorted(names))
