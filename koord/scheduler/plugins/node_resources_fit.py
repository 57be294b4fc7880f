"""NodeResourcesFit: a pod's requests must fit into what is left of a node; nodes score by how full they would be.

    feasible:  request <= allocatable - requested, for every resource that the pod asks for; and one more pod
    score:     sum(weight_r * score_r) / sum(weight_r)
        LeastAllocated              (capacity - used) * 100 / capacity
        MostAllocated               used * 100 / capacity
        RequestedToCapacityRatio    a line through the shape's points, at used * 100 / capacity
Used counts the pod, and for cpu and memory the usual amounts where containers name none. Resources that a node does not
have, and extended ones that the pod does not ask for, are left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from koord.api.configuration.scheduler_args import NodeResourcesFitArgs, is_extended_resource
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.text.quantity import amount as amount_of
from koord.api.text.quantity import render
from koord.scheduler.core.queue import Event
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers, OfRow, One, all_positive, are_exact, least, percent
from koord.scheduler.framework.change import Change, listed, smaller
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import Amounts, non_zero_of, requests_of
from koord.scheduler.state.table import MOST_OF_A_POD, Array, Reason, Row

CPU: Final = "cpu"
MEMORY: Final = "memory"
TOO_MANY_PODS: Final = 1
_NATIVE: Final = frozenset({CPU, MEMORY, "ephemeral-storage"})


class NodeResourcesFit(Plugin):
    name = "NodeResourcesFit"
    wakes_on = Reason.NODE | Reason.ALLOCATABLE | Reason.FREED

    def __init__(self, args: NodeResourcesFitArgs | None = None) -> None:
        self._args = (args or NodeResourcesFitArgs()).completed()
        self._weighed: Event | None = None
        self._there: dict[str, int] | None = None

    def keyed_by_spec(self, ask: Ask) -> bool:
        return True

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return ask.requests, ask.non_zero, None if ask.spec.resources is None else _by_containers(ask)

    def helps(self, ask: Ask, event: Event, cluster: Cluster) -> bool:
        """Whether the node concerned could take the pod if it were empty, and has more of something that it wants."""
        if event is not self._weighed:
            self._weighed, self._there = event, _whole(event, cluster)
        there = self._there
        if there is None:
            return True
        wants_it = not event.grown or "pods" in event.grown
        for name, amount in ask.requests:
            if amount > there.get(name, 0) and not self._is_ignored(name):
                return False
            wants_it = wants_it or name in event.grown
        return wants_it

    def compile(self, ask: Ask, cluster: Cluster) -> Judge:
        for name, _ in ask.requests:
            cluster.resource(name)
        needed = tuple((name, amount) for name, amount in ask.requests if not self._is_ignored(name))
        strategy = self._args.scoring_strategy
        resources = [(each.name, each.weight) for each in strategy.resources]
        for name, _ in resources:
            cluster.resource(name)
        shape: tuple[tuple[int, int], ...] = ()
        if strategy.requested_to_capacity_ratio is not None:
            points = strategy.requested_to_capacity_ratio.shape
            shape = tuple((point.utilization, point.score * 10) for point in points)
        return _Fit(needed, ask, str(strategy.type), resources, shape, cluster)

    def _is_ignored(self, name: str) -> bool:
        """Resources of vendors can be left to someone else."""
        args = self._args
        named = name in args.ignored_resources or name.partition("/")[0] in args.ignored_resource_groups
        return named and is_extended_resource(name)


def _whole(event: Event, cluster: Cluster) -> dict[str, int] | None:
    """All that the node has with which something happened; None where it is not known which."""
    subject = event.subject
    if isinstance(subject, Node):
        row = cluster.table.row_of.get(subject.metadata.name)
    else:
        row = cluster.table.row_of.get(subject.spec.node_name) if isinstance(subject, Pod) else None
    if row is None:
        return None
    columns = cluster.table.columns.items()
    return {key[1]: column.item(row) for key, column in columns if isinstance(key, tuple) and key[0] == "allocatable"}


class _Numbers(NamedTuple):
    """What a pod asks for, and what it adds to what scores go by: by resource."""

    needed: tuple[int, ...]
    adds: tuple[int, ...]


class _OfRow(NamedTuple):
    """The judge's formulas for single rows, on views of columns."""

    of: Array
    feasible: OfRow
    score: OfRow


class _Together(NamedTuple):
    """What pods of many classes ask for, in arrays: resource, nothing, class."""

    has: tuple[Hashable, ...]
    taken: tuple[Hashable, ...]
    needed: Array
    capacities: tuple[Hashable, ...]
    used: tuple[Hashable, ...]
    adds: Array


class _Fit(Judge):
    filters_on = Reason.NODE | Reason.ALLOCATABLE | Reason.REQUESTED
    scores_on = filters_on

    def __init__(
        self,
        needed: Amounts,
        ask: Ask,
        strategy: str,
        resources: Sequence[tuple[str, int]],
        shape: tuple[tuple[int, int], ...],
        cluster: Cluster,
    ) -> None:
        self._requests: Sequence[tuple[str, Numbers]] = needed
        self._strategy, self._shape = strategy, shape
        self._cluster, self._table = cluster, cluster.table
        self.amounts = (
            (("allocatable", "pods"), "pod count", 1),
            *((("allocatable", name), ("requested", name), amount) for name, amount in needed),
        )
        self._most = strategy == "MostAllocated"
        requests, non_zero = _by_containers(ask)
        asked = dict(requests)
        # Per resource: the columns to read, what the pod adds, and the weight.
        self._scored: list[tuple[Hashable, Hashable, Numbers, int]] = [
            (("allocatable", name), _used_column(name), _adds(name, asked, non_zero), weight)
            for name, weight in resources
            if name in _NATIVE or asked.get(name)
        ]
        self._plain = strategy != "RequestedToCapacityRatio"
        self._of_row: _OfRow | None = None
        names = tuple(name for name, _ in needed)
        columns = tuple((used_column, weight) for _, used_column, _, weight in self._scored)
        self.alike = (names, strategy, shape, columns)
        self.numbers: _Numbers = _Numbers(
            tuple(amount for _, amount in needed), tuple(adds for _, _, adds, _ in self._scored)
        )
        self._together: _Together | None = None

    def together(self, judges: Sequence[_Fit]) -> _Fit:
        joint = copy(self)
        joint._requests = tuple(
            (name, np.array([each._requests[i][1] for each in judges])) for i, (name, _) in enumerate(self._requests)
        )
        joint._scored = [
            (capacity, used, np.array([each._scored[i][2] for each in judges]), weight)
            for i, (capacity, used, _, weight) in enumerate(self._scored)
        ]
        joint._together = _Together(
            tuple(has for has, _, _ in self.amounts),
            tuple(taken for _, taken, _ in self.amounts),
            np.array([[amount for _, _, amount in each.amounts] for each in judges], np.float64).T[:, np.newaxis],
            tuple(capacity for capacity, _, _, _ in self._scored),
            tuple(used for _, used, _, _ in self._scored),
            np.array([adds for _, _, adds, _ in joint._scored], np.float64)[:, np.newaxis],
        )
        return joint

    def feasible(self, cells: Cells) -> Numbers:
        if self.promised is not None:
            cells = self.promised(cells)
        if type(cells) is One and not cells.overlay:
            return self._views(cells.columns).feasible(cells.rows, self.numbers)
        joint = self._together
        if joint is not None and are_exact(has := cells.block(joint.has)):
            short = has - cells.block(joint.taken) < joint.needed
            if not np.count_nonzero(short):
                return 0
        code = (cells["pod count"] >= cells["allocatable", "pods"]) * TOO_MANY_PODS
        for i, (name, amount) in enumerate(self._requests, 1):
            short = cells["allocatable", name] - cells["requested", name] < amount
            code = code | (short * (1 << i))
        return code

    def score(self, cells: Cells) -> Numbers:
        if not self._plain:
            return self._by_ratio(cells, [adds for _, _, adds, _ in self._scored])
        if type(cells) is One and not cells.overlay:
            return self._views(cells.columns).score(cells.rows, self.numbers)
        joint = self._together
        if joint is not None and self._scored:
            capacity = cells.block(joint.capacities)
            if all_positive(capacity) and are_exact(capacity):
                return self._score_together(cells, capacity, joint)
        total: Numbers = None
        weights: Numbers = 0
        for capacity_column, used_column, adds, weight in self._scored:
            capacity, used = cells[capacity_column], cells[used_column] + adds
            every = all_positive(capacity)
            amount = least(used, capacity) if self._most else (capacity - used) * (used <= capacity)
            score = percent(amount, capacity if every else capacity + (capacity == 0))
            if weight != 1:
                score = score * weight
            if every:
                weights = weights + weight
            else:
                has = capacity > 0
                score, weights = score * has, weights + weight * has
            total = total + score if total is not None else score
        return 0 if total is None else total // (weights + (weights == 0))

    def _score_together(self, cells: Cells, capacity: Array, joint: _Together) -> Numbers:
        """As `score`, of resources that all rows have; each call of numpy is for all of them."""
        used = cells.block(joint.used)
        if self._most:
            amount = np.minimum(used + joint.adds, capacity)
        else:
            amount = capacity - used - joint.adds
            np.maximum(amount, 0.0, out=amount)
        amount *= 100
        amount /= capacity
        scores = amount.astype(np.int64)
        total, weights = scores[0], [weight for _, _, _, weight in self._scored]
        if weights[0] != 1:
            total *= weights[0]
        for score, weight in zip(scores[1:], weights[1:], strict=True):
            total += score if weight == 1 else score * weight
        return total // sum(weights)

    def of_row(self, columns: dict[Hashable, Array]) -> tuple[OfRow, OfRow]:
        """As `feasible` and `score`. Every placement asks this of one row: plain branches on views of the columns are
        three times as fast as cells."""
        pods, most_pods = columns["pod count"].data, columns["allocatable", "pods"].data
        needed = [(columns[has].data, columns[taken].data) for has, taken, _ in self.amounts[1:]]
        scored = [(columns[has].data, columns[used].data, weight) for has, used, _, weight in self._scored]
        prefers_full = self._most

        def feasible(row: Row, numbers: _Numbers) -> int:
            code, bit = (TOO_MANY_PODS if pods[row] >= most_pods[row] else 0), 1
            for (allocatable, requested), amount in zip(needed, numbers.needed):  # noqa: B905 - equally long
                bit <<= 1
                if allocatable[row] - requested[row] < amount:
                    code |= bit
            return code

        def score(row: Row, numbers: _Numbers) -> int:
            total = weights = 0
            for (capacities, used_of, weight), adds in zip(scored, numbers.adds):  # noqa: B905 - equally long
                capacity: int = capacities[row]
                if capacity > 0:
                    used = used_of[row] + adds
                    weights += weight
                    if prefers_full:
                        total += (used if used < capacity else capacity) * 100 // capacity * weight
                    elif used <= capacity:
                        total += (capacity - used) * 100 // capacity * weight
            return total // weights if weights else 0

        def score_by_ratio(row: Row, numbers: _Numbers) -> int:
            return int(self._by_ratio(One(columns, row), numbers.adds))

        return feasible, score if self._plain else score_by_ratio

    def _views(self, columns: dict[Hashable, Array]) -> _OfRow:
        """The same, kept until the table grows: then columns are other arrays."""
        found = self._of_row
        if found is None or found.of is not columns["pod count"]:
            found = self._of_row = _OfRow(columns["pod count"], *self.of_row(columns))
        return found

    def _by_ratio(self, cells: Cells, adding: Sequence[Numbers]) -> Numbers:
        total: Numbers = 0
        weights: Numbers = 0
        for (capacity_column, used_column, _, weight), adds in zip(self._scored, adding, strict=True):
            capacity, used = cells[capacity_column], cells[used_column] + adds
            score = self._on_shape(used, capacity, capacity + (capacity == 0))
            # A resource that scores nothing is left out on both sides of the fraction.
            has = (capacity > 0) & (score > 0)
            total = total + score * weight * has
            weights = weights + weight * has
        return (2 * total + weights) // (2 * (weights + (weights == 0))) * (weights > 0)

    def _on_shape(self, used: Numbers, capacity: Numbers, divisor: Numbers) -> Numbers:
        """The score at a utilisation: linear between the points, constant outside them."""
        over = used > capacity
        utilisation = least(used * 100 // divisor, 100) * (1 - over) + 100 * over
        xs, ys = [x for x, _ in self._shape], [y for _, y in self._shape]
        if not isinstance(utilisation, np.ndarray):
            return int(_piecewise(np.array([utilisation]), xs, ys)[0])
        return _piecewise(utilisation, xs, ys)

    def reasons(self, mask: int) -> list[str]:
        found = ["Too many pods"] if mask & TOO_MANY_PODS else []
        return found + [f"Insufficient {name}" for i, (name, _) in enumerate(self._requests, 1) if mask & (1 << i)]

    def unresolvable(self, mask: int, row: Row) -> bool:
        """What the node could not give were it empty, nobody's leaving gives."""
        columns = self._table.columns
        short = (each for i, each in enumerate(self._requests, 1) if mask & (1 << i))
        return any(amount > columns["allocatable", name].item(row) for name, amount in short)

    def unresolvable_rows(self, masks: Array, rows: Array) -> Array:
        columns, found = self._table.columns, np.zeros(len(rows), np.bool_)
        for i, (name, amount) in enumerate(self._requests, 1):
            found |= ((masks >> i) & 1).astype(np.bool_) & (columns["allocatable", name][rows] < amount)
        return found

    def lack(self, cells: Cells) -> Numbers:
        if self.promised is not None:
            cells = self.promised(cells)
        total: Numbers = (cells["pod count"] >= cells["allocatable", "pods"]) * 1.0
        for name, amount in self._requests:
            missing = amount - cells["allocatable", name] + cells["requested", name]
            total = total + missing * (missing > 0) / amount
        return total

    def mend(self, ask: Ask, row: Row) -> list[Change]:
        """A pod that asks for less, or a node that has more."""
        cells: Cells = One(self._table.columns, row)
        if self.promised is not None:
            cells = self.promised(cells)
        free = {name: int(cells["allocatable", name] - cells["requested", name]) for name, _ in self._requests}
        short = {name: amount for name, amount in self._requests if free[name] < amount}
        free["pods"] = int(cells["allocatable", "pods"] - cells["pod count"])
        found = []
        if short and min(free[name] for name in short) > 0:
            pod = smaller(ask.pod, {name: free[name] for name in short})
            if pod is not None:
                less = [f"{render(name, free[name])} {name} instead of {render(name, short[name])}" for name in short]
                parts = [1 - free[name] / asked for name, asked in short.items()]
                found.append(Change(f"a request of {listed(less)}", pod=pod, size=1 + sum(parts)))
        more = {name: asked - free[name] for name, asked in short.items()}
        if free["pods"] < 1:
            more["pods"] = 1 - free["pods"]
        if not more:
            return []
        node = self._cluster.nodes[row]
        has = node.status.allocatable
        wanted = {name: amount_of(name, has.get(name, 0)) + added for name, added in more.items()}
        if max(wanted.values()) > MOST_OF_A_POD:
            # No node has that much.
            return found
        grown = {name: render(name, amount) for name, amount in wanted.items()}
        words = [
            f"room for {added} more pod{'s' if added > 1 else ''}"
            if name == "pods"
            else f"{render(name, added)} more {name}"
            for name, added in more.items()
        ]
        changed = replace(node, status=replace(node.status, allocatable={**has, **grown}))
        asked_in_all = {**dict(self._requests), "pods": 1}
        size = 1 + sum(added / asked_in_all[name] for name, added in more.items())
        return [*found, Change(f"{listed(words)} there", node=changed, size=size)]


def _piecewise(utilisation: Numbers, xs: list[int], ys: list[int]) -> Numbers:
    """Integer interpolation that truncates towards the left point, as the original's does."""
    result = np.full(utilisation.shape, ys[-1], np.int64)
    for i in range(len(xs) - 1, -1, -1):
        below = utilisation <= xs[i]
        if i == 0:
            result[below] = ys[0]
        else:
            steps = (ys[i] - ys[i - 1]) * (utilisation - xs[i - 1])
            width = xs[i] - xs[i - 1]
            result = np.where(below, ys[i - 1] + np.fix(steps / width).astype(np.int64), result)
    return result


def _by_containers(ask: Ask) -> tuple[Amounts, tuple[int, int]]:
    """What counts for the score: kube-scheduler overlooks there what a new pod states for itself as a whole."""
    if ask.spec.resources is None:
        return ask.requests, ask.non_zero
    pod = replace(ask.pod, spec=replace(ask.spec, resources=None))
    return requests_of(pod), non_zero_of(pod)


def _used_column(name: str) -> Hashable:
    return {CPU: "non-zero cpu", MEMORY: "non-zero memory"}.get(name, ("requested", name))


def _adds(name: str, asked: dict[str, int], non_zero: tuple[int, int]) -> int:
    return {CPU: non_zero[0], MEMORY: non_zero[1]}.get(name, asked.get(name, 0))
