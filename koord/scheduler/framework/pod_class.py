"""A class of pods: verdicts and scores of every node, kept, and caught up with when asked.

Pods whose plugins' keys are equal get the same answers, so they are worked out once per class:

    total[row] = base[row] + worth[group[row]]

`judged` has what the row alone says, `groups` what depends on other rows: domains, normalised scores. A placement
changes one row; the next pod of the class looks again at that row, and only at what its change concerns.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import numpy as np

from koord.scheduler.framework.alike import merged
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Gain, Many
from koord.scheduler.framework.exact import doors_of
from koord.scheduler.framework.exact_check import Objection
from koord.scheduler.framework.facet import Facet, OfFewRows, OfNodes
from koord.scheduler.framework.groups import FEW_POINTS, LOW, NEVER, TIE_BITS, Groups
from koord.scheduler.framework.judged import OF_PODS, Judged
from koord.scheduler.framework.leading import Lead, lead_of
from koord.scheduler.framework.objections import Objections
from koord.scheduler.framework.verdicts import Part as Part
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import SMALL, Array, Changes, Reason, Row
from koord.scheduler.state.view import View

_NODE: Final = int(Reason.NODE)
FEW: Final = 12
"""Up to this many rows are judged one by one: numpy's fixed cost per call is more than the arithmetic."""
MANY: Final = 64
"""After this many changes, counting the rows that they concern does not pay."""
FEW_SEATED: Final = 2
"""The same, where others may have judged them already."""
FEW_CALM: Final = 3
"""The same, where the best rows are kept in order, which judging many would undo."""
CALM: Final = 2
"""Once few rows have changed this many times in a row, it pays to keep the best rows in order."""


class PodClass:
    """Everything known about the nodes for one class of pods."""

    def __init__(
        self,
        key: Hashable,
        cluster: Cluster,
        parts: Sequence[Part],
        ties: Hashable | None = None,
        view: View | None = None,
    ) -> None:
        """`ties`: what decides among equal rows, beside seed and node; the key, by default."""
        self.key, self.parts, self.view = key, tuple(parts), view
        self.exact = [part for part in parts if part.judge.exact is not None]
        self.doors = doors_of(parts)
        self._cluster, self._table = cluster, cluster.table
        self._facets: list[tuple[Part, Facet]] = [
            (part, facet) for part in parts for facet in part.judge.facets if facet.gates or part.weight
        ]
        self._has_few_points = 100 * sum(part.weight for part in parts) < FEW_POINTS
        self._judged = Judged(key if ties is None else ties, cluster, parts, view, counts=bool(self._facets))
        self._objections = Objections(self._judged, self._facets, cluster.table)
        self._version = self._led_at = -1
        "The version that all rows are judged for; and the one that facets are refreshed and leading rows judged for."
        self._lead = lead_of(self._facets, parts)
        self._groups: Groups | None = None
        self._worth: Array | None = None
        self._tables: dict[int, Array] = {}
        "By facet that decides something, what its groups are worth now."
        self._calm = 0
        "How often in succession few rows had changed."
        self._why: dict[str, dict[str, int]] | None = None

    @property
    def rows_judged(self) -> int:
        return self._judged.rows_judged

    @property
    def bodies_run(self) -> int:
        return self._judged.bodies_run

    def best(self) -> Row | None:
        """The row with the highest total, or None where no row will do."""
        if self._lead is not None and (leading := self._leading(self._lead)) is not None:
            return leading
        self._catch_up()
        groups = self._groups
        assert groups is not None
        is_calm = self._calm >= CALM
        if groups.lone is not None and self._has_few_points and not self._cluster.equal_hashes:
            best_row = groups.best_of_few(self._facets[groups.lone][0].weight, calm=is_calm)
            if best_row is not False:
                return best_row
        worth = self._worths()
        if not self._cluster.equal_hashes:
            return groups.best_row(worth) if is_calm else groups.best_of_all(worth)
        total, names = self._judged.base + worth.take(groups.of_row), self._table.names
        ties = np.flatnonzero((total == total.max()) & (total > LOW)).tolist()
        return min(ties, key=lambda row: names[row], default=None)

    def best_rows(self, number: int, gains: Mapping[Hashable, Gain]) -> Array | None:
        """The rows of up to `number` pods of this class, in the order in which they would be placed one at a time.
        `gains`: as the method of that name says. None where that can only be found out one at a time."""
        self._catch_up()
        if any(facet.normalised and not facet.flat for _, facet in self._facets):
            return None
        groups = self._groups
        assert groups is not None
        base, worth = self._judged.base, self._worths()
        more = worth.take(groups.of_row) if worth.any() else None
        totals = base if more is None else base + more
        rows = np.flatnonzero(totals > LOW)

        def after(rows: Array, pods: Array) -> Array:
            worths = self._judged.with_more(rows, pods, gains)
            return worths if more is None else worths + more[rows]

        return merged(rows, totals[rows], number, after)

    def gains(self, ask: Ask) -> Mapping[Hashable, Gain] | None:
        """What columns gain on a row by a pod of this class, where that is all that it changes for the class."""
        if self.exact or self.view is not None or self._cluster.equal_hashes or ask.spec.affinity or ask.spec.volumes:
            return None
        gains: dict[Hashable, Gain] = {
            column: Gain(amount) for column, amount in ask.shape.gains if column in self._table.columns
        }
        for part in self.parts:
            judge = part.judge
            if not all(isinstance(facet, OfNodes) for facet in judge.facets):
                return None
            if int(judge.filters_on | judge.scores_on) & OF_PODS:
                more = judge.shortcuts.gains
                if more is None or (judge.amounts is not None and judge.amounts.promised is not None):
                    return None
                gains |= more
        return gains if all(gain.adds <= SMALL for gain in gains.values()) else None

    def points(self) -> Array:
        """The total of every row in whole points, 0 where it will not do."""
        self._catch_up()
        assert self._groups is not None
        totals: Array = self._judged.base + self._worths().take(self._groups.of_row)
        return np.where(totals > LOW, totals >> TIE_BITS, 0)

    def cells(self, rows: Array) -> Many:
        """Some rows, as this class sees them."""
        self._catch_up()
        return Many(self._judged.columns, rows)

    def bar(self, row: Row, plugin: str, objection: Objection) -> None:
        """An exact check failed: the row is out for this class until something about it changes."""
        # The check may have tried something out: undoing that does not count as a change of the row. All rows, since
        # what leading rows alone have caught up with would be judged again later, and the row let in.
        self._catch_up()
        groups = self._groups
        assert groups is not None
        if groups.move(row, self._judged.bar(row, plugin, objection), NEVER):
            self._worth = None
        self._why = None

    def totals(self) -> Array:
        """What each row is worth; `LOW` or less where it will not do."""
        self._catch_up()
        assert self._groups is not None
        totals: Array = self._judged.base + self._worths()[self._groups.of_row]
        return totals

    def feasible_rows(self) -> Array:
        return np.flatnonzero(self.totals() > LOW)

    def is_feasible(self, row: Row) -> bool:
        """Whether one row will do."""
        self._catch_up()
        if self._judged.base.item(row) <= LOW:
            return False
        assert self._groups is not None
        self._groups.fit()
        closed = self._closed()
        return closed is None or not closed.item(self._groups.of_row.item(row))

    def by_amounts(self) -> tuple[Part, Array | None] | None:
        """The judge of amounts, if no other verdict depends on which pods a row has; and the rows where that is true,
        or None for all: there, all other judges accept the row, and would if pods left it."""
        if self.exact:
            return None
        gating = {id(part) for part, facet in self._facets if facet.gates}
        moving = [part for part in self.parts if part.judge.filters_on & OF_PODS or id(part) in gating]
        counting = [part for part in moving if part.judge.amounts is not None]
        if len(counting) != 1 or not all(part.judge.eased for part in moving if part is not counting[0]):
            return None
        if len(moving) == 1:
            return counting[0], None
        self._catch_up()
        assert self._groups is not None
        self._groups.fit()
        rows: Array = self._judged.blocked == np.uint32(1 << self._judged.filters.index(counting[0]))
        closed = self._closed()
        return counting[0], rows if closed is None else rows & ~closed[self._groups.of_row]

    def scores(self, row: Row) -> dict[str, int]:
        """The score of a row by plugin, 0..100, as they went into its total."""
        self._catch_up()
        self._worths()
        scores = self._judged.scores(row)
        for part, facet in self._facets:
            if not facet.gates:
                table = self._tables.get(id(facet))
                if table is None:
                    # All are worth the same to it, however many candidates there are.
                    table = facet.table(np.ones(facet.size, np.int64) if facet.normalised else None)
                name = part.plugin.name
                scores[name] = scores.get(name, 0) + table.item(facet.groups.item(row))
        return scores

    def why_not(self) -> dict[str, dict[str, int]]:
        """How many rows each plugin turns away, by reason; a row counts for the first plugin that does so.

        Kept until something changes: many pods of a class that fits nowhere ask one after the other.
        """
        self._catch_up()
        if self._why is None:
            self._why = self._objections.counted()
        return self._why

    def room(self, gains: Mapping[Hashable, Gain]) -> Array | None:
        """How many pods of this class each row takes, exactly. None where it takes more than amounts to say that."""
        self._catch_up()
        base = self._judged.base
        counting = [part.judge for part in self._judged.filters if int(part.judge.filters_on) & OF_PODS]
        if not counting or any(facet.gates for _, facet in self._facets):
            return None
        most, cells = np.full(len(base), np.iinfo(np.int64).max), Many(self._judged.columns, slice(None))
        for judge in counting:
            amounts = judge.amounts
            if judge.shortcuts.gains != {} or amounts is None or not all(need.taken in gains for need in amounts.needs):
                return None
            for need, left in zip(amounts.needs, amounts.left(cells), strict=True):
                if gains[need.taken].adds != need.adds:
                    return None
                np.minimum(most, left // need.adds, out=most)
        return np.where(base > LOW, most, 0)

    def why_not_with(self, pods: Array, gains: Mapping[Hashable, Gain]) -> dict[str, dict[str, int]]:
        """As `why_not`, once `pods` more pods of this class are on each row: all that fit."""
        self._catch_up()
        return self._objections.counted_with(pods, gains)

    def refusal(self) -> tuple[str, list[str]] | None:
        """The plugin that refuses these pods on every node, and its reason."""
        return self._objections.refusal()

    def resolvable(self) -> Array:
        """The rejected rows that might do if pods left them, by the word of the first judge that rejects each."""
        self._catch_up()
        return self._objections.resolvable()

    def reasons(self, row: Row) -> tuple[Part, list[str]] | None:
        """Why a row will not do: the first plugin that rejects it, and its reasons. None if it will."""
        self._catch_up()
        return self._objections.reasons(row)

    def rejections(self) -> dict[Row, tuple[Part, list[str]]]:
        """Why each row will not do, of those that will not."""
        rows = np.flatnonzero(self._table.alive).tolist()
        return {row: why for row in rows if (why := self.reasons(row)) is not None}

    def objection(self, ask: Ask, row: Row) -> tuple[Part, list[str]] | None:
        """What exact checks have against a row that would do by its columns."""
        return self._objections.exact(ask, row)

    def look(self, ask: Ask, row: Row) -> tuple[Part, list[str]] | None:
        """As `reasons`, and exact checks, for this row alone: a class that is asked once need not judge all rows."""
        return self._objections.look(ask, row)

    def nearest(self, most: int) -> list[Row]:
        """Rows that will not do, but of all those are nearest to it, the nearest first."""
        self._catch_up()
        return self._objections.nearest(most)

    def _catch_up(self) -> None:
        """Judge again what changed since last time; everything, where that is too much to tell."""
        table, judged = self._table, self._judged
        behind = table.version - self._version
        if not behind:
            return
        is_current = self._version >= 0 and len(judged.base) == table.capacity
        changed = judged.seen(table.changes(self._version) if is_current else None)
        self._why = None
        if changed is None:
            judged.judge_all()
            self._refresh(None)
            self._regroup()
        elif behind <= MANY and len(changed) <= self._few():
            self._judge_few(changed.rows, changed)
        else:
            self._judge_many(changed)
            judged.join(behind)
        self._version = self._led_at = table.read()

    def _few(self) -> int:
        """Up to how many rows are judged one by one."""
        if not self._judged.is_seated:
            return FEW
        return FEW_CALM if self._calm else FEW_SEATED

    def _leading(self, lead: Lead) -> Row | None:
        """The best row, where it is among those that lead; None where others have to be looked at, too."""
        if not self._catch_up_with(lead) or self._cluster.equal_hashes:
            return None
        rows, groups = lead.facet.rows(), self._groups
        assert groups is not None
        if not len(rows):
            return None
        totals = self._judged.base[rows] + self._worths()[groups.of_row[rows]]
        at_odds = any(facet.normalised and not isinstance(facet, OfFewRows) for facet in groups.facets)
        best = lead.winner(totals, at_odds=at_odds)
        return None if best is None else int(rows[best])

    def _catch_up_with(self, lead: Lead) -> bool:
        """Judge again those rows that lead, and no others. False where all have to be."""
        table, judged = self._table, self._judged
        if self._led_at == table.version:
            return True
        if self._version < 0 or len(judged.base) != table.capacity:
            return False
        changed = table.changes(self._led_at)
        if changed is None or changed.reasons & _NODE:
            return False
        rows = lead.facet.moved(changed)
        if len(rows) > FEW or not judged.seen_at(rows):
            return False
        self._why = None
        self._judge_few(rows, changed)
        self._led_at = table.read()
        return True

    def _judge_few(self, rows: Sequence[Row], changed: Changes) -> None:
        """Judge again some of the rows that changed, one by one."""
        judged, reasons = self._judged, changed.reasons
        base, old = judged.base, []
        for row in rows:
            old.append(base.item(row))
            judged.judge_one(row, reasons)
        self._refresh(changed)
        groups = self._groups
        assert groups is not None
        if not self._is_grouped(groups):
            self._regroup()
            return
        self._calm += 1
        for row, was in zip(rows, old, strict=True):
            if groups.move(row, was, base.item(row)):
                self._worth = None

    def _judge_many(self, changed: Changes) -> None:
        rows, bases, were = self._judged.judge_many(changed)
        self._refresh(changed)
        groups = self._groups
        assert groups is not None
        self._calm = 0
        if not self._facets:
            groups.move_many(rows, bases, were)
            return
        if were is not None:
            self._worth = None
        if not self._is_grouped(groups):
            self._regroup()
            return
        moved = groups.move_many(rows, bases, were)
        if moved is None:
            self._regroup()
        elif moved:
            self._worth = None

    def _refresh(self, changed: Changes | None) -> None:
        """Let the facets catch up."""
        for _, facet in self._facets:
            if facet.refresh(changed):
                self._worth = None

    def _is_grouped(self, groups: Groups) -> bool:
        """Whether rows are grouped by what facets say now: no facet became flat or renumbered its groups."""
        for (_, facet), seen in zip(self._facets, groups.seen):  # noqa: B905 - equally long
            if seen is None:
                if not facet.flat:
                    return False
            elif facet.groups is not seen or facet.flat:
                return False
        return True

    def _regroup(self) -> None:
        self._groups = Groups([facet for _, facet in self._facets], self._judged.base, self._cluster.shared)
        self._worth = None
        self._calm = 0

    def _worths(self) -> Array:
        """What every group adds to the totals of its rows. Gates first: normalised scores use the rows that pass."""
        groups = self._groups
        assert groups is not None
        # A row that is no candidate may be the first of a group.
        if self._worth is None or len(self._worth) != groups.size:
            groups.fit()
            self._tables.clear()
            worth: Array | None = None
            closed = self._closed()
            number = groups.number if closed is None else groups.number * ~closed
            for part, facet in self._facets:
                if not facet.gates and not facet.flat:
                    i = groups.facets.index(facet)
                    table = facet.table(self._by_code(i, number) if facet.normalised else None)
                    self._tables[id(facet)] = table
                    more = (table if len(groups.facets) == 1 else table[groups.codes[i]]) * (part.weight << TIE_BITS)
                    worth = more if worth is None else worth + more
            if worth is None:
                worth = np.zeros(groups.size, np.int64)
            if closed is not None:
                worth[closed] = NEVER
            self._worth = worth
        return self._worth

    def _closed(self) -> Array | None:
        """The groups that gates rule out."""
        groups = self._groups
        assert groups is not None
        closed: Array | None = None
        for i, facet in enumerate(groups.facets):
            if facet.gates and facet.closes:
                out = facet.table(None)[groups.codes[i]]
                closed = out if closed is None else closed | out
        return closed

    def _by_code(self, i: int, number: Array) -> Array:
        """Candidates by the groups of one facet."""
        groups = self._groups
        assert groups is not None
        if len(groups.facets) == 1:
            return number
        return np.bincount(groups.codes[i], number, groups.facets[i].size).astype(np.int64)
