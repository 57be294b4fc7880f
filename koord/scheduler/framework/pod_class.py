"""A class of pods: verdicts and scores of every node, kept, and caught up with when asked.

Pods whose plugins' keys are equal get the same answers, so they are worked out once per class:

    total[row] = (sum of weight * score, or INFEASIBLE) << TIE_BITS | tie      "base", from the row alone
               + sum over facets of value[group[row]]                          domains, normalised scores

A placement changes one row; the next pod of the class looks again at that row, and only at what its change concerns.
Many rows are judged as arrays, few as plain numbers, by the same formulas. Ties go by a hash of seed, class and node.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import numpy as np

from koord.scheduler.framework.plugin import INFEASIBLE, Facet, Judge, Many, One, Overlay, Plugin, Refused
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Changes, Reason, Row

TIE_BITS: Final = 16
FEW: Final = 12
"""Up to so many rows are judged one by one: numpy's fixed cost per call is more than the arithmetic."""
NEVER: Final = INFEASIBLE << TIE_BITS
_NODE: Final = int(Reason.NODE)
_REGROUPS: Final = int(Reason.NODE | Reason.LABELS | Reason.TAINTS | Reason.IMAGES)


@dataclass(frozen=True, slots=True)
class Part:
    """One plugin's share in a class."""

    plugin: Plugin
    judge: Judge
    weight: int


class PodClass:
    """Everything known about the nodes for one class of pods."""

    def __init__(self, key: Hashable, cluster: Cluster, parts: Sequence[Part]) -> None:
        self.key, self.parts = key, tuple(parts)
        self._cluster, self._table = cluster, cluster.table
        # Flags as plain integers: an IntFlag's arithmetic costs more than a verdict.
        self._filters = [(part.judge, int(part.judge.filters_on)) for part in parts if part.judge.filters_on]
        self._scorers = [
            (part.judge, int(part.judge.scores_on), part.weight)
            for part in parts
            if part.judge.scores_on and part.weight
        ]
        self._scorer_names = [part.plugin.name for part in parts if part.judge.scores_on and part.weight]
        self._facets: list[tuple[Part, Facet]] = [
            (part, facet) for part in parts for facet in part.judge.facets if facet.gates or part.weight
        ]
        self._gated = any(facet.gates for _, facet in self._facets)
        self._counts: list[Array] | None = None
        "Candidates by group, per normalised facet, kept where nothing but the rows themselves decides who is one."
        self._was: list[bool] = []
        self._viewers = [part.judge for part in parts if part.judge.changes_view]
        self._overlay: Overlay | None = None
        self._only = self._allowed_rows()
        self._salt = crc32(repr(key).encode(), cluster.seed & 0xFFFFFFFF)
        self._version = -1
        self._barred: dict[Row, tuple[str, str]] = {}
        "Rows that failed an exact check, until they change: who says so, and why."
        self._why: tuple[int, dict[str, dict[str, int]]] = (-1, {})
        self.rows_judged = 0

    def best(self) -> Row | None:
        """The row with the highest total, or None where no row will do."""
        self._catch_up()
        total = self._totals()
        row = int(total.argmax())
        top = total.item(row)
        if top <= NEVER // 2:
            return None
        same = total == top
        if np.count_nonzero(same) > 1:
            ties = np.flatnonzero(same)
            row = min((int(each) for each in ties), key=lambda each: (self._full_hash(each), self._table.names[each]))
        return row

    def bar(self, row: Row, plugin: str, reason: str) -> None:
        """An exact check failed: the row is out for this class until something about it changes."""
        self._barred[row] = (plugin, reason)
        self._base[row] = NEVER
        self._why = (-1, {})
        if self._counts is not None and not self._gated:
            for counts, (_, facet) in zip(self._counts, self._facets, strict=True):
                if facet.normalised:
                    counts[facet.groups[row]] -= 1

    def feasible_rows(self) -> Array:
        self._catch_up()
        return np.flatnonzero(self._totals() > NEVER // 2)

    def scores(self, row: Row) -> dict[str, int]:
        """The score of a row by plugin, 0..100, as they went into its total."""
        self._catch_up()
        found = {name: int(self._scores[i][row]) for i, name in enumerate(self._scorer_names)}
        counter: _Counter | None = None
        for i, (part, facet) in enumerate(self._facets):
            if facet.gates:
                continue
            counts: Array | None = None
            if facet.normalised and self._counts is not None and not self._gated:
                counts = self._counts[i]
            elif facet.normalised:
                counter = counter or self._candidates()
                counts = counter(facet)
            found[part.plugin.name] = found.get(part.plugin.name, 0) + int(facet.table(counts)[facet.groups[row]])
        return found

    def why_not(self) -> dict[str, dict[str, int]]:
        """How many rows each plugin turns away, by reason; a row counts for the first plugin that does so.

        Counted by groups of rows that get one verdict, and kept until something changes: many pods of a class that fits
        nowhere ask one after the other.
        """
        self._catch_up()
        if self._why[0] == self._version:
            return self._why[1]
        found: dict[str, dict[str, int]] = {}

        def note(plugin: str, reasons: Iterable[str], rows: int) -> None:
            counts = found.setdefault(plugin, {})
            for reason in reasons:
                counts[reason] = counts.get(reason, 0) + rows

        left = self._table.alive.copy()
        refusal = self.refusal()
        if refusal is not None:
            # It is the reason everywhere, whatever else speaks against a row.
            note(*refusal, int(np.count_nonzero(left)))
            left[:] = False
        codes_of = dict(zip((id(judge) for judge, _ in self._filters), self._codes, strict=True))
        for part in self.parts:
            judge = part.judge
            if judge.filters_on:
                codes = codes_of[id(judge)]
                for mask, rows in zip(*np.unique(codes[left], return_counts=True), strict=True):
                    if mask:
                        note(part.plugin.name, judge.reasons(int(mask)), int(rows))
                left &= codes == 0
            allowed = judge.only()
            if allowed is not None:
                others = left.copy()
                others[allowed] = False
                if others.any():
                    note(part.plugin.name, judge.reasons(1), int(np.count_nonzero(others)))
                left &= ~others
            for facet in judge.facets:
                if facet.gates:
                    closed = left & (facet.table(None) == INFEASIBLE)[facet.groups]
                    for group, rows in zip(*np.unique(facet.groups[closed], return_counts=True), strict=True):
                        note(part.plugin.name, [judge.facet_reason(facet, int(group))], int(rows))
                    left &= ~closed
        for row, (plugin, reason) in self._barred.items():
            if left[row]:
                note(plugin, [reason], 1)
        self._why = (self._version, found)
        return found

    def refusal(self) -> tuple[str, list[str]] | None:
        """The plugin that turns these pods away whatever the node, and its reason."""
        refusals = (part for part in self.parts if isinstance(part.judge, Refused))
        return next(((part.plugin.name, part.judge.reasons(1)) for part in refusals), None)

    def rejections(self) -> dict[Row, tuple[Part, list[str]]]:
        """Why each row will not do: the first plugin that turns it away, and its reasons."""
        self._catch_up()
        found: dict[Row, tuple[Part, list[str]]] = {}
        for row in np.flatnonzero(self._table.alive):
            for part in self.parts:
                reasons = self._reasons(part, int(row))
                if reasons:
                    found[int(row)] = (part, reasons)
                    break
        return found

    def _reasons(self, part: Part, row: Row) -> list[str]:
        judge = part.judge
        if judge.filters_on:
            mask = int(judge.feasible(One(self._table.columns, row, self._overlay)))
            if mask:
                return judge.reasons(mask)
        allowed = judge.only()
        if allowed is not None and row not in allowed:
            return judge.reasons(1)
        for facet in judge.facets:
            if facet.gates:
                group = int(facet.groups[row])
                if facet.table(None)[group] == INFEASIBLE:
                    return [judge.facet_reason(facet, group)]
        return []

    def _allowed_rows(self) -> Array | None:
        """Where plugins know the only rows that can do: the rows in all of their lists."""
        allowed: set[Row] | None = None
        for part in self.parts:
            rows = part.judge.only()
            if rows is not None:
                allowed = set(rows) if allowed is None else allowed & set(rows)
        return None if allowed is None else np.array(sorted(allowed), np.intp)

    def _catch_up(self) -> None:
        """Judge again what changed since last time; everything, where that is too much to tell."""
        if self._version == self._table.version:
            return
        known = self._version >= 0 and len(self._base) == self._table.capacity
        changed = self._table.changes(self._version) if known else None
        if self._viewers:
            changed = self._look_again(changed)
        if changed is None:
            self._judge_all()
        elif len(changed.rows) <= FEW:
            self._was = [self._base.item(row) > NEVER // 2 for row in changed.rows]
            for row in changed.rows:
                self._judge_one(row, changed.reasons)
        else:
            index = np.array(changed.rows, np.intp)
            self._judge(Many(self._table.columns, index, self._overlay), index, changed.reasons)
        self._refresh(changed)
        self._version = self._table.read()

    def _refresh(self, changed: Changes | None) -> None:
        """Let the facets catch up, and count their candidates anew: by the rows that changed, where these are few."""
        few = (
            changed is not None
            and len(changed.rows) <= FEW
            and self._counts is not None
            # These move rows between groups in ways that only the facet knows.
            and not changed.reasons & _REGROUPS
        )
        rows = changed.rows if few and changed is not None else []
        for i, (_, facet) in enumerate(self._facets):
            counted = facet.normalised and not self._gated
            before = [int(facet.groups[row]) for row in rows] if counted else []
            groups, size = facet.groups, facet.size if few else 0
            facet.refresh(changed)
            if not counted:
                continue
            # Another array means that the facet numbered its groups anew.
            if not few or facet.groups is not groups or facet.size != size:
                self._count(i, facet)
                continue
            assert self._counts is not None
            counts = self._counts[i]
            for row, group, was in zip(rows, before, self._was, strict=True):
                counts[group] -= was
                counts[facet.groups[row]] += self._base.item(row) > NEVER // 2

    def _count(self, i: int, facet: Facet) -> None:
        if self._counts is None:
            self._counts = [np.zeros(0, np.int64) for _ in self._facets]
        self._counts[i] = np.bincount(facet.groups[self._base > NEVER // 2], minlength=facet.size)

    def _look_again(self, changed: Changes | None) -> Changes | None:
        """Take up the class's own view of rows; rows that it saw otherwise before have changed for it."""
        before, self._overlay = self._overlay, merged(judge.view() for judge in self._viewers)
        if changed is None or before == self._overlay:
            return changed
        touched = {row for overlay in (before or {}, self._overlay) for cells in overlay.values() for row in cells}
        return Changes(list(dict.fromkeys([*changed.rows, *touched])), int(Reason.ANY & ~Reason.NODE))

    def _judge_all(self) -> None:
        capacity = self._table.capacity
        self._only = self._allowed_rows()
        self._codes = [np.zeros(capacity, np.uint32) for _ in self._filters]
        self._scores = [np.zeros(capacity, np.int32) for _ in self._scorers]
        self._base = np.empty(capacity, np.int64)
        self._ties = self._tie_values()
        self._barred.clear()
        cells = Many(self._table.columns, slice(None), self._overlay)
        self._judge(cells, slice(None), int(Reason.ANY))

    def _judge(self, cells: Many, rows: Array | slice, reason: int) -> None:
        if reason & _NODE:
            self._ties[rows] = self._tie_values()[rows]
        ok = self._table.alive[rows].copy()
        for (judge, on), codes in zip(self._filters, self._codes, strict=True):
            if on & reason:
                codes[rows] = judge.feasible(cells)
            ok &= codes[rows] == 0
        sums = np.zeros(len(ok), np.int64)
        for (judge, on, weight), scores in zip(self._scorers, self._scores, strict=True):
            if on & reason:
                scores[rows] = judge.score(cells)
            sums += weight * scores[rows].astype(np.int64)
        self._base[rows] = np.where(ok, (sums << TIE_BITS) | self._ties[rows], NEVER)
        if self._only is not None:
            barred = np.ones(self._table.capacity, np.bool_)
            barred[self._only] = False
            self._base[barred] = NEVER
        self.rows_judged += len(ok)

    def _judge_one(self, row: Row, reason: int) -> None:
        cells = One(self._table.columns, row, self._overlay)
        if reason & _NODE:
            self._ties[row] = self._tie_values()[row]
        ok = self._table.alive.item(row)
        for (judge, on), codes in zip(self._filters, self._codes, strict=True):
            if on & reason:
                codes[row] = judge.feasible(cells)
            if codes.item(row):
                ok = False
        total = 0
        for (judge, on, weight), scores in zip(self._scorers, self._scores, strict=True):
            if on & reason:
                scores[row] = judge.score(cells)
            total += weight * scores.item(row)
        if ok and self._only is not None and row not in self._only:
            ok = False
        self._barred.pop(row, None)
        self._base[row] = (total << TIE_BITS) | self._ties.item(row) if ok else NEVER
        self.rows_judged += 1

    def _totals(self) -> Array:
        """Base and facets together. Gates first, because normalised scores look at the candidates they leave."""
        total = self._base
        if self._gated:
            for _, facet in self._facets:
                if facet.gates and facet.size > 1:
                    total = total + (facet.table(None).astype(np.int64) << TIE_BITS)[facet.groups]
        counter: _Counter | None = None
        for i, (part, facet) in enumerate(self._facets):
            if facet.gates or facet.flat:
                continue
            counts: Array | None = None
            if facet.normalised and self._gated:
                counter = counter or _Counter(total > NEVER // 2)
                counts = counter(facet)
            elif facet.normalised:
                assert self._counts is not None
                counts = self._counts[i]
            table = facet.table(counts).astype(np.int64)
            total = total + (table * (part.weight << TIE_BITS)).take(facet.groups)
        return total

    def _candidates(self) -> _Counter:
        return _Counter(self._totals() > NEVER // 2)

    def _tie_values(self) -> Array:
        hashes = self._cluster.node_hashes()
        mixed = (hashes ^ np.uint32(self._salt)) * np.uint32(2654435761)
        return (mixed >> np.uint32(32 - TIE_BITS)).astype(np.int64)

    def _full_hash(self, row: Row) -> int:
        return crc32(self._table.names[row].encode(), self._salt)


def merged(overlays: Iterable[Overlay]) -> Overlay:
    """Several views in one: what they add to a cell adds up."""
    total: dict[Hashable, dict[Row, int]] = {}
    for overlay in overlays:
        for column, cells in overlay.items():
            into = total.setdefault(column, {})
            for row, added in cells.items():
                into[row] = into.get(row, 0) + added
    return total


class _Counter:
    """Counts candidates by group."""

    def __init__(self, feasible: Array) -> None:
        self._feasible = feasible

    def __call__(self, facet: Facet) -> Array:
        return np.bincount(facet.groups[self._feasible], minlength=facet.size)
