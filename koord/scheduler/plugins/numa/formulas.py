"""The formulas of NodeNUMAResource for one class of pods: verdicts and scores of rows, from columns alone.

The filter, the exact check and explanations use the same formulas. Cells are one row or many.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from koord.scheduler.framework.amount_scores import ScoreShape
from koord.scheduler.framework.cells import Cells, Many, Numbers, One
from koord.scheduler.plugins.numa.accumulator import BindRule
from koord.scheduler.plugins.numa.alike import Alike
from koord.scheduler.plugins.numa.allocations import (
    BIND,
    BIND_POLICIES,
    BOUND,
    HAS,
    PER_CORE,
    POLICIES,
    POLICY,
    RATIO,
    TAKEN,
    ZONES,
    Allocations,
)
from koord.scheduler.plugins.numa.facts import CPU, Facts
from koord.scheduler.plugins.numa.wants import Wants
from koord.scheduler.plugins.numa.zones import (
    Bound,
    Choice,
    Weighed,
    Zones,
    amounts_of,
    bound_cpus,
    ceil,
    choice,
    choice_of_one,
    free_on,
)
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Row
from koord.scheduler.state.view import View

MISMATCH, FRACTION, AMPLIFIED, INVALID, CONFLICT, UNEVEN, TOO_FEW, NO_ZONES = (1 << i for i in range(8))
FIRST_RESOURCE: Final = 8
"""The bit of the first resource that NUMA nodes may lack."""


class Formulas:
    """`most`: whether CPUs are taken from the fullest NUMA node, where a node does not say. `view`: how the class sees
    the cluster."""

    def __init__(
        self,
        cluster: Cluster,
        wants: Wants,
        allocations: Allocations,
        *,
        node_score: Weighed,
        zone_score: Weighed,
        most: bool,
        view: View | None,
    ) -> None:
        self.cluster, self.wants, self.allocations, self.view = cluster, wants, allocations, view
        self._node_score, self._zone_score, self._most = node_score, zone_score, most
        self.needs, self.cpu_milli = dict(wants.requests), wants.cpu_milli
        declared = frozenset((zone, name) for zone in allocations.zones for name in allocations.resources_of(zone))
        self.zones = Zones(allocations.zones, self.needs, declared)
        self._own = BIND_POLICIES.index(wants.bind)
        self._required = BIND_POLICIES.index(wants.required)
        self.policy = POLICIES.index(wants.policy)
        self.alike = Alike(self.zones.inputs(with_cpus=bool(self._own or allocations.binds)))

    def cells(self, row: Row) -> One:
        """The cells of a row, as the class sees it."""
        return One(self.cluster.table.columns if self.view is None else self.view.columns, row)

    def verdict(self, cells: Cells) -> Numbers:
        """0 where a row will do, else a mask of reasons."""
        policy, bind = cells[POLICY], cells[BIND]
        out: Numbers = 0
        if self.policy:
            out = (policy != 0) * (policy != self.policy) * MISMATCH
        policy = policy + (policy == 0) * self.policy
        if self.wants.exactly is not None:
            return out
        bound = self.bound(cells)
        binds = self._own or self.allocations.binds
        if self.allocations.amplifies and self.cpu_milli:
            out = out | self._lacks_amplified(cells, bound) * AMPLIFIED
        if binds and self.cpu_milli:
            binding = bound.binding
            if self.cpu_milli % 1000:
                out = out | binding * FRACTION
            out = out | binding * (bound.per_core == 0) * INVALID
            if self._required:
                out = out | (bind != 0) * (bind != self._required) * CONFLICT
            whole = bound.per_core + (bound.per_core == 0)
            out = out | binding * bound.full * (self.cpu_milli // 1000 % whole != 0) * UNEVEN
            out = out | binding * (self.free(cells, bound) * 1000 < self.cpu_milli) * TOO_FEW
        if self.policy > 1 or (self.allocations.restricts and self.policy != 1):
            is_strict = (policy > 1) * 1
            out = out | is_strict * (cells[ZONES] == 0) * NO_ZONES
            if self.zones.needs:
                short = self.zones.short_of(cells, policy, bound) * is_strict * (cells[ZONES] != 0)
                out = out | short * (1 << FIRST_RESOURCE)
        return out

    def bound(self, cells: Cells) -> Bound:
        bind = cells[BIND]
        per_core, ratio = cells[PER_CORE], cells[RATIO]
        if not self.cpu_milli:
            return Bound(0, 0, 0, per_core, ratio)
        if not self.allocations.binds:
            return Bound(int(self._own > 0), int(self._required == 1), int(self._required == 2), per_core, ratio)
        is_set = (bind != 0) * 1
        full = (bind == 1) * 1 + (1 - is_set) * (self._required == 1)
        spread = (bind == 2) * 1 + (1 - is_set) * (self._required == 2)
        binding = 1 if self._own else is_set
        return Bound(binding, full, spread, per_core, ratio)

    def free(self, cells: Cells, bound: Bound) -> Numbers:
        """How many CPUs of a node could be bound."""
        free = free_on(cells, None, bound)
        return free - self.zones.promised(cells, bound) if CPU in self.zones.needs else free

    def _lacks_amplified(self, cells: Cells, bound: Bound) -> Numbers:
        need, left = self.amplified(cells, bound)
        return (cells[RATIO] > 1) * (need > left)

    def amplified(self, cells: Cells, bound: Bound) -> tuple[Numbers, Numbers]:
        """What the pod takes of a node's CPUs, and what is left of them."""
        ratio, held, requested = cells[RATIO], cells[BOUND], cells["requested", CPU]
        need = self.cpu_milli + bound.binding * (ceil(self.cpu_milli * ratio) - self.cpu_milli)
        used = requested + (requested >= held) * (ceil(held * ratio) - held)
        return need, cells["allocatable", CPU] - used

    def score(self, cells: Cells) -> Numbers:
        policy = cells[POLICY]
        policy = policy + (policy == 0) * self.policy
        by_zones = (policy > 0) * (cells[ZONES] != 0)
        if type(cells) is One and by_zones:
            return self.alike.score(cells, self._score_zones_of_one)
        plain = self._score_node(cells, self.bound(cells))
        if not isinstance(by_zones, np.ndarray):
            return plain
        rows = np.flatnonzero(by_zones)
        if len(rows):
            scores = np.asarray(plain).copy() if isinstance(plain, np.ndarray) else np.full(len(by_zones), plain)
            some = Many(cells.columns, _row_numbers(cells, len(by_zones))[rows])
            scores[rows] = self._score_zones(some, len(rows), policy[rows], self.bound(some))
            return scores
        return plain

    def _score_node(self, cells: Cells, bound: Bound) -> Numbers:
        filled = []
        for name, adds, weight in self._node_score.resources:
            used, more = cells["requested", name], adds
            if name == CPU and self.allocations.amplifies:
                held, ratio = cells[BOUND], cells[RATIO]
                used, more = used + ceil(held * ratio) - held, self._adds(cells, bound)
            filled.append((cells["allocatable", name], used + more, weight))
        return _scored(self._node_score.shape, filled, cells)

    def _adds(self, cells: Cells, bound: Bound) -> Numbers:
        """What the pod adds of cpu: CPUs of its own stand for more, where they are amplified."""
        if not self.allocations.amplifies:
            return self.cpu_milli
        return self.cpu_milli + bound.binding * (ceil(self.cpu_milli * cells[RATIO]) - self.cpu_milli)

    def choice(self, cells: Cells, rows: int) -> Choice:
        if type(cells) is One:
            return self.alike.choice(cells, self._choice_of_one)
        bound = self.bound(cells)
        return choice(self.zones, cells, rows, bound, self._zone_score, self._adds(cells, bound))

    def _choice_of_one(self, cells: Cells) -> Choice:
        bound = self.bound(cells)
        return choice_of_one(self.zones, cells, bound, self._zone_score, self._adds(cells, bound))

    def _score_zones_of_one(self, cells: Cells) -> int:
        policy = np.array([cells[POLICY] or self.policy])
        return int(self._score_zones(cells, 1, policy, self.bound(cells))[0])

    def _score_zones(self, cells: Cells, rows: int, policy: Array, bound: Bound) -> Array:
        """By the NUMA nodes that the pod would use, were they up to this plugin alone."""
        sets = self.choice(cells, rows)
        members = sets.members[sets.chosen(policy)]
        filled = []
        for name, adds, weight in self._node_score.resources:
            has = (amounts_of(self.zones, cells, rows, HAS, name) * members).sum(axis=1)
            used = (amounts_of(self.zones, cells, rows, TAKEN, name) * members).sum(axis=1)
            more: Numbers = adds
            if name == CPU:
                own = (bound_cpus(self.zones, cells, rows) * members).sum(axis=1)
                used = used + bound.binding * (ceil(own * np.asarray(cells[RATIO], np.float64)) - used)
                more = self._adds(cells, bound)
            filled.append((has, used + more, weight))
        scores: Array = np.asarray(self._node_score.shape.of_rows(filled)) if filled else np.zeros(rows, np.int64)
        return scores

    def wish(self, facts: Facts) -> BindRule | None:
        """How the pod's CPUs are chosen on a node; None: it has none of its own there."""
        policy = facts.bind or self.wants.bind
        if not self.cpu_milli or not policy:
            return None
        most = self._most if facts.most is None else facts.most
        return BindRule(policy, bool(facts.bind or self.wants.required), self.wants.exclusive, most)


def _scored(shape: ScoreShape, filled: list[tuple[Numbers, Numbers, int]], cells: Cells) -> Numbers:
    if not filled:
        return 0
    return shape.plain(filled) if isinstance(cells, One) else shape.of_rows(filled)


def _row_numbers(cells: Many, length: int) -> Array:
    rows = cells.rows
    numbers: Array = np.arange(rows.start or 0, (rows.start or 0) + length) if isinstance(rows, slice) else rows
    return numbers
