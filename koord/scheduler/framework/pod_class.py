"""A class of pods: verdicts and scores of every node, kept, and caught up with when asked.

Pods whose plugins' keys are equal get the same answers, so they are worked out once per class:

    base[row]  = sum of weight * score << TIE_BITS | tie, or NEVER      from the row alone
    total[row] = base[row] + worth[group[row]]                          domains, normalised scores: see `groups`

A placement changes one row; the next pod of the class looks again at that row, and only at what its change concerns.
Many rows are judged as arrays, few as plain numbers, by the same formulas. Ties go by a hash of seed, class and node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.groups import FEW_POINTS, LOW, NEVER, TIE_BITS, Groups
from koord.scheduler.framework.plugin import Cells, Facet, Many, Numbers, One, Overlay, Refused
from koord.scheduler.framework.stable import stable_hash
from koord.scheduler.framework.verdicts import Part as Part
from koord.scheduler.framework.verdicts import Verdicts
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Changes, Reason, Row

FEW_NAMES: Final = 512
FEW: Final = 12
"""Up to so many rows are judged one by one: numpy's fixed cost per call is more than the arithmetic."""
_ANY: Final = int(Reason.ANY)
_NODE: Final = int(Reason.NODE)
_OF_PODS: Final = int(Reason.REQUESTED | Reason.PODS | Reason.LOAD | Reason.EXACT)
_MIXER: Final = 2654435761
_ALL_BITS: Final = 0xFFFFFFFF

_Score: TypeAlias = Callable[[Cells], Numbers]


class _Filter(NamedTuple):
    feasible: Callable[[Cells], Numbers]
    bit: int


class PodClass:
    """Everything known about the nodes for one class of pods."""

    def __init__(self, key: Hashable, cluster: Cluster, parts: Sequence[Part]) -> None:
        self.key, self.parts = key, tuple(parts)
        self.exact = [part for part in parts if part.judge.exact]
        self._cluster, self._table = cluster, cluster.table
        self._filters = [part for part in parts if part.judge.filters_on]
        self._scorers = [part for part in parts if part.judge.scores_on and part.weight]
        self._facets: list[tuple[Part, Facet]] = [
            (part, facet) for part in parts for facet in part.judge.facets if facet.gates or part.weight
        ]
        self._viewers = [part.judge for part in parts if part.judge.changes_view]
        self._weights = [part.weight for part in self._scorers]
        self._has_few_points = 100 * sum(part.weight for part in parts) < FEW_POINTS
        self._plans: dict[int, tuple[list[_Filter], list[_Score | None]]] = {}
        "What is to be judged again after a change, by its reasons."
        self._overlay: Overlay | None = None
        self._only = self._allowed_rows()
        self._salt = stable_hash(key, cluster.seed)
        self._version = -1
        self._barred: dict[Row, tuple[str, str]] = {}
        "Rows that failed an exact check, until they change: who says so, and why."
        self._blocked: Array = np.zeros(0, np.uint32)
        "Which filters turn a row away, as bits."
        self._unscored: set[Row] = set()
        "Rows that were turned away when they changed, and whose scores are therefore old."
        self._base: Array = np.zeros(0, np.int64)
        self._groups: Groups | None = None
        self._worth: Array | None = None
        self._tables: dict[int, Array] = {}
        "By facet that decides something, what its groups are worth now."
        self._is_calm = False
        "Whether few rows changed since the last pod of the class: then it pays to keep the best rows in order."
        self._why: dict[str, dict[str, int]] | None = None
        self._verdicts: Verdicts | None = None
        self.rows_judged = self.bodies_run = 0
        "The work so far: rows looked at, and plugins times rows."

    def best(self) -> Row | None:
        """The row with the highest total, or None where no row will do."""
        self._catch_up()
        groups = self._groups
        assert groups is not None
        if self._is_calm and groups.lone is not None and self._has_few_points and not self._cluster.equal_hashes:
            found = groups.best_of_few(self._facets[groups.lone][0].weight)
            if found is not False:
                return found
        worth = self._worths()
        if not self._cluster.equal_hashes:
            return groups.best_row(worth) if self._is_calm else groups.best_of_all(worth)
        total, names = self._base + worth.take(groups.of_row), self._table.names
        ties = np.flatnonzero((total == total.max()) & (total > LOW)).tolist()
        return min(ties, key=lambda row: names[row], default=None)

    def bar(self, row: Row, plugin: str, reason: str) -> None:
        """An exact check failed: the row is out for this class until something about it changes."""
        # The check may have tried something out: that it was undone is no news of the row.
        self._catch_up()
        self._barred[row] = (plugin, reason)
        self._set_base(row, NEVER)
        self._why = None

    def feasible_rows(self) -> Array:
        self._catch_up()
        assert self._groups is not None
        return np.flatnonzero(self._base + self._worths()[self._groups.of_row] > LOW)

    def is_feasible(self, row: Row) -> bool:
        """Whether one row will do."""
        self._catch_up()
        if self._base.item(row) <= LOW:
            return False
        assert self._groups is not None
        self._groups.fit()
        closed = self._closed()
        return closed is None or not closed.item(self._groups.of_row.item(row))

    def resolvable(self) -> Array:
        """The rows that will not do, but might if pods left them: so says whoever is the first to turn them away."""
        self._catch_up()
        table = self._table
        found, left = np.zeros(table.capacity, np.bool_), table.alive.copy()
        if self._refusing() is not None:
            return np.flatnonzero(found)
        if self._only is not None:
            allowed = np.zeros(table.capacity, np.bool_)
            allowed[list(self._only)] = True
            left &= allowed
        bit = 0
        for part in self.parts:
            judge = part.judge
            if judge.filters_on:
                out = np.flatnonzero(left & ((self._blocked >> np.uint32(bit)) & np.uint32(1)).astype(np.bool_))
                bit += 1
                if len(out):
                    masks = np.asarray(judge.feasible(Many(table.columns, out, self._overlay)))
                    found[out] = ~judge.unresolvable_rows(np.broadcast_to(masks, out.shape), out)
                    left[out] = False
            for facet in judge.facets:
                if facet.gates:
                    closed = facet.table(None)
                    lasting = [each and judge.facet_unresolvable(facet, i) for i, each in enumerate(closed.tolist())]
                    shut: Array = left & closed[facet.groups]
                    found |= shut & ~np.array(lasting, np.bool_)[facet.groups]
                    left &= ~shut
        found[[row for row in self._barred if left[row]]] = True
        return np.flatnonzero(found)

    def by_amounts(self) -> tuple[Part, Array | None] | None:
        """The judge of amounts, where nobody else's verdict depends on which pods a row has; and the rows of which that
        is true, or None for all: there, all others take the row, and would if pods left it."""
        if self.exact or self._viewers:
            return None
        gating = {id(part) for part, facet in self._facets if facet.gates}
        moving = [part for part in self.parts if part.judge.filters_on & _OF_PODS or id(part) in gating]
        counting = [part for part in moving if part.judge.amounts]
        if len(counting) != 1 or not all(part.judge.eased for part in moving if part is not counting[0]):
            return None
        if len(moving) == 1:
            return counting[0], None
        self._catch_up()
        assert self._groups is not None
        self._groups.fit()
        rows: Array = self._blocked == np.uint32(1 << self._filters.index(counting[0]))
        closed = self._closed()
        return counting[0], rows if closed is None else rows & ~closed[self._groups.of_row]

    def scores(self, row: Row) -> dict[str, int]:
        """The score of a row by plugin, 0..100, as they went into its total."""
        self._catch_up()
        self._worths()
        if row in self._unscored:
            cells = One(self._table.columns, row, self._overlay)
            found = {part.plugin.name: int(part.judge.score(cells)) for part in self._scorers}
        else:
            kept = zip(self._scorers, self._scores, strict=True)
            found = {part.plugin.name: scores.item(row) for part, scores in kept}
        for part, facet in self._facets:
            if not facet.gates:
                table = self._tables.get(id(facet))
                if table is None:
                    # All are worth the same to it, however many candidates there are.
                    table = facet.table(np.ones(facet.size, np.int64) if facet.normalised else None)
                name = part.plugin.name
                found[name] = found.get(name, 0) + table.item(facet.groups.item(row))
        return found

    def why_not(self) -> dict[str, dict[str, int]]:
        """How many rows each plugin turns away, by reason; a row counts for the first plugin that does so.

        Kept until something changes: many pods of a class that fits nowhere ask one after the other.
        """
        self._catch_up()
        if self._why is None:
            refusal = self.refusal()
            if refusal is not None:
                # It is the reason everywhere, whatever else speaks against a row.
                self._why = {refusal[0]: {reason: len(self._table) for reason in refusal[1]}}
            elif self._only is None and not self._barred and not any(facet.gates for _, facet in self._facets):
                self._why = self._counted_verdicts()
            else:
                self._why = self._looked_through()
        return self._why

    def refusal(self) -> tuple[str, list[str]] | None:
        """The plugin that turns these pods away whatever the node, and its reason."""
        first = self._refusing()
        return None if first is None else (first.plugin.name, first.judge.reasons(1))

    def _refusing(self) -> Part | None:
        refusals = [part for part in self.parts if isinstance(part.judge, Refused)]
        return min(refusals, key=lambda part: part.plugin.before, default=None)

    def reasons(self, row: Row) -> tuple[Part, list[str]] | None:
        """Why a row will not do: the first plugin that turns it away, and its reasons. None where it will."""
        self._catch_up()
        return self._reasons(row)

    def look(self, ask: Ask, row: Row) -> tuple[Part, list[str]] | None:
        """As `reasons`, and exact checks, for this row alone: a class that is asked once need not judge all rows."""
        self._only = self._allowed_rows()
        self._overlay = merged(judge.view() for judge in self._viewers) if self._viewers else None
        for _, facet in self._facets:
            if facet.gates:
                facet.refresh(None)
        found = self._reasons(row)
        if found is None:
            for part in self.exact:
                objection = part.judge.check(ask, row)
                if objection is not None:
                    return part, [objection]
        return found

    def nearest(self, most: int) -> list[Row]:
        """Rows that will not do, but of all those are nearest to it: few judges turn them away, and for little.

        Of rows that the same judges turn away there are several, of others one; the nearest of all come first.
        """
        self._catch_up()
        table = self._table
        against, lack = self._blocked.copy().astype(np.int64), np.zeros(table.capacity)
        cells = Many(table.columns, slice(None), self._overlay)
        for i, part in enumerate(self._filters):
            turned_away = (self._blocked >> np.uint32(i)) & np.uint32(1)
            if turned_away.any():
                lack += turned_away * part.judge.lack(cells)
        bit = len(self._filters)
        for _, facet in self._facets:
            if facet.gates:
                against |= facet.table(None)[facet.groups].astype(np.int64) << bit
                bit += 1
        if self._only is not None:
            others = np.ones(table.capacity, np.int64)
            others[list(self._only)] = 0
            against |= others << bit
        for row in self._barred:
            against[row] |= 1 << (bit + 1)
        rows = np.flatnonzero(table.alive & (against > 0))
        # Names last, so that equals come in an order that a person expects.
        names = np.array([table.names[row] for row in rows.tolist()], dtype=np.str_) if len(rows) <= FEW_NAMES else rows
        rows = rows[np.lexsort((names, lack[rows], np.bitwise_count(against[rows])))]
        firsts = np.unique(against[rows], return_index=True)[1]
        chosen = [*rows[: (most + 1) // 2].tolist(), *rows[np.sort(firsts)].tolist(), *rows[:most].tolist()]
        return list(dict.fromkeys(chosen))[:most]

    def _reasons(self, row: Row) -> tuple[Part, list[str]] | None:
        refusing = self._refusing()
        if refusing is not None:
            return refusing, refusing.judge.reasons(1)
        if self._only is not None and row not in self._only:
            return self._pinning[0], self._pinned_words()
        for part in self.parts:
            judge = part.judge
            if judge.filters_on:
                mask = int(judge.feasible(One(self._table.columns, row, self._overlay)))
                if mask:
                    return part, judge.reasons(mask)
            for facet in judge.facets:
                if facet.gates:
                    group = int(facet.groups[row])
                    if facet.table(None)[group]:
                        return part, [judge.facet_reason(facet, group)]
        return None

    def rejections(self) -> dict[Row, tuple[Part, list[str]]]:
        """Why each row will not do, of those that will not."""
        rows = np.flatnonzero(self._table.alive).tolist()
        return {row: why for row in rows if (why := self.reasons(row)) is not None}

    def _counted_verdicts(self) -> dict[str, dict[str, int]]:
        """By what the filters alone say, kept row by row."""
        if self._verdicts is None:
            self._verdicts = Verdicts(self._blocked, self._table, self._filters, self._overlay)
        found: dict[str, dict[str, int]] = {}
        for (index, mask), rows in self._verdicts.counts.items():
            part = self._filters[index]
            _note(found, part, part.judge.reasons(mask), rows)
        return found

    def _looked_through(self) -> dict[str, dict[str, int]]:
        """Counted by groups of rows that get one verdict."""
        found: dict[str, dict[str, int]] = {}
        left = self._table.alive.copy()
        if self._only is not None:
            others = left.copy()
            others[list(self._only)] = False
            _note(found, self._pinning[0], self._pinned_words(), int(np.count_nonzero(others)))
            left &= ~others
        for part in self.parts:
            judge = part.judge
            if judge.filters_on:
                masks = np.broadcast_to(
                    np.asarray(judge.feasible(Many(self._table.columns, slice(None), self._overlay))), left.shape
                )
                for mask, rows in zip(*np.unique(masks[left], return_counts=True), strict=True):
                    if mask:
                        _note(found, part, judge.reasons(int(mask)), int(rows))
                left &= masks == 0
            for facet in judge.facets:
                if facet.gates:
                    closed = left & facet.table(None)[facet.groups]
                    for group, rows in zip(*np.unique(facet.groups[closed], return_counts=True), strict=True):
                        _note(found, part, [judge.facet_reason(facet, int(group))], int(rows))
                    left &= ~closed
        for row, (plugin, reason) in self._barred.items():
            if left[row]:
                counts = found.setdefault(plugin, {})
                counts[reason] = counts.get(reason, 0) + 1
        return found

    def _allowed_rows(self) -> frozenset[Row] | None:
        """Where plugins know the only rows that can do: the rows in all of their lists."""
        lists = [(part, rows) for part in self.parts if (rows := part.judge.only()) is not None]
        self._pinning = [part for part, _ in lists]
        return frozenset.intersection(*(frozenset(rows) for _, rows in lists)) if lists else None

    def _pinned_words(self) -> list[str]:
        """Found out before any filter, so it is the reason whatever else speaks against a row."""
        names = " ".join(sorted(part.plugin.name for part in self._pinning))
        return [f"node(s) didn't satisfy plugin(s) [{names}]"]

    def _catch_up(self) -> None:
        """Judge again what changed since last time; everything, where that is too much to tell."""
        if self._version == self._table.version:
            return
        known = self._version >= 0 and len(self._base) == self._table.capacity
        changed = self._table.changes(self._version) if known else None
        if self._only is not None and changed is not None and changed.reasons & _NODE:
            # A node of a name that is in a list may have come, or be in another row now.
            changed = None
        if self._viewers:
            changed = self._look_again(changed)
        self._why = None
        if changed is None:
            self._judge_all()
            self._refresh(None)
            self._regroup()
        elif len(changed) <= FEW:
            self._judge_few(changed)
        else:
            self._judge_many(changed)
        self._version = self._table.read()

    def _judge_few(self, changed: Changes) -> None:
        base, rows, reasons = self._base, changed.rows, changed.reasons
        # Also of a row that is turned away now: it may become a candidate for a reason that is not about its name.
        self._ties(reasons)
        old = []
        for row in rows:
            old.append(base.item(row))
            self._judge_one(row, reasons)
        self._refresh(changed)
        groups = self._groups
        assert groups is not None
        if not self._is_grouped(groups):
            self._regroup()
            return
        self._is_calm = True
        for row, was in zip(rows, old, strict=True):
            if groups.move(row, was, base.item(row)):
                self._worth = None

    def _judge_many(self, changed: Changes) -> None:
        rows = changed.index
        were = self._base[rows] > LOW
        self._judge(rows, changed.reasons)
        self._refresh(changed)
        assert self._groups is not None
        self._is_calm = False
        self._worth = None
        if not self._is_grouped(self._groups) or not self._groups.move_many(rows, were):
            self._regroup()

    def _refresh(self, changed: Changes | None) -> None:
        """Let the facets catch up."""
        for _, facet in self._facets:
            if facet.refresh(changed):
                self._worth = None

    def _is_grouped(self, groups: Groups) -> bool:
        """Whether rows are grouped by what facets say now: none became flat, or numbered its groups anew."""
        for (_, facet), seen in zip(self._facets, groups.seen):  # noqa: B905 - equally long
            if seen is None:
                if not facet.flat:
                    return False
            elif facet.groups is not seen or facet.flat:
                return False
        return True

    def _regroup(self) -> None:
        self._groups = Groups([facet for _, facet in self._facets], self._base)
        self._worth = None
        self._is_calm = False

    def _worths(self) -> Array:
        """What every group adds to the totals of its rows. Gates first: normalised scores look at whom they leave."""
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

    def _look_again(self, changed: Changes | None) -> Changes | None:
        """Take up the class's own view of rows; rows that it saw otherwise before have changed for it."""
        before, self._overlay = self._overlay, merged(judge.view() for judge in self._viewers)
        if changed is None or before == self._overlay:
            return changed
        touched = {row for overlay in (before or {}, self._overlay) for cells in overlay.values() for row in cells}
        rows = np.array(list(dict.fromkeys([*changed.rows, *touched])), np.intp)
        return Changes(rows, int(Reason.ANY & ~Reason.NODE))

    def _plan(self, reasons: int) -> tuple[list[_Filter], list[_Score | None]]:
        """The filters and scorers that a change for these reasons concerns; None for a score that stays."""
        # Flags as plain integers: an IntFlag's arithmetic costs more than a verdict.
        found = self._plans.get(reasons)
        if found is None:
            judges = [part.judge for part in self._filters]
            found = self._plans[reasons] = (
                [_Filter(judge.feasible, 1 << i) for i, judge in enumerate(judges) if judge.filters_on & reasons],
                [part.judge.score if part.judge.scores_on & reasons else None for part in self._scorers],
            )
        return found

    def _judge_all(self) -> None:
        capacity = self._table.capacity
        self._only = self._allowed_rows()
        self._blocked = np.zeros(capacity, np.uint32)
        self._scores = [np.zeros(capacity, np.int16) for _ in self._scorers]
        self._base = np.full(capacity, NEVER, np.int64)
        self._barred, self._unscored = {}, set()
        if self._table.used:
            self._judge(slice(0, self._table.used), _ANY)

    def _judge(self, rows: Array | slice, reasons: int) -> None:
        cells = Many(self._table.columns, rows, self._overlay)
        filters, scorers = self._plan(reasons)
        if isinstance(rows, np.ndarray) and (self._barred or self._unscored):
            # Arrays are judged whole: what is old is brought up to date with the rest.
            scorers = self._plan(_ANY)[1]
            for row in rows.tolist():
                self._barred.pop(row, None)
                self._unscored.discard(row)
        self._verdicts = None
        blocked = self._blocked[rows]
        for feasible, bit in filters:
            blocked &= np.uint32(_ALL_BITS ^ bit)
            code = feasible(cells)
            if not isinstance(code, np.ndarray):
                code = np.asarray(code)
            blocked |= code.astype(np.bool_) * np.uint32(bit)
        self._blocked[rows] = blocked
        sums: Array | None = None
        for i, part in enumerate(self._scorers):
            score = scorers[i]
            if score is None:
                new = self._scores[i][rows]
            else:
                new = score(cells)
                self._scores[i][rows] = new
            weighed = new if new.dtype == np.int64 else new.astype(np.int64)
            if part.weight != 1:
                weighed = weighed * part.weight
            sums = weighed if sums is None else sums + weighed
        ties = self._ties(reasons)[rows]
        base = ties.copy() if sums is None else (sums << TIE_BITS) | ties
        out = blocked.astype(np.bool_)
        out |= ~self._table.alive[rows]
        if self._only is not None:
            others = np.ones(self._table.capacity, np.bool_)
            others[list(self._only)] = False
            out |= others[rows]
        base[out] = NEVER
        self._base[rows] = base
        self.rows_judged += len(base)
        self.bodies_run += len(base) * (len(filters) + len(scorers) - scorers.count(None))

    def _judge_one(self, row: Row, reasons: int) -> None:
        cells = One(self._table.columns, row, self._overlay)
        filters, scorers = self._plan(reasons)
        self.rows_judged += 1
        self.bodies_run += len(filters)
        if self._barred:
            self._barred.pop(row, None)
        blocked = before = self._blocked.item(row)
        for feasible, bit in filters:
            blocked = blocked | bit if feasible(cells) else blocked & ~bit
        if blocked != before:
            self._blocked[row] = blocked
        if self._verdicts is not None:
            self._verdicts.judge(row, blocked, cells)
        if blocked or not self._table.alive.item(row) or (self._only is not None and row not in self._only):
            self._unscored.add(row)
            self._base[row] = NEVER
            return
        if self._unscored and row in self._unscored:
            self._unscored.discard(row)
            scorers = self._plan(_ANY)[1]
        self.bodies_run += len(scorers) - scorers.count(None)
        total = 0
        for score, scores, weight in zip(scorers, self._scores, self._weights):  # noqa: B905 - equally long
            if score is None:
                total += weight * scores.item(row)
            else:
                new = score(cells)
                scores[row] = new
                total += weight * new
        self._base[row] = total << TIE_BITS | self._mixed.item(row)

    def _ties(self, reasons: int) -> Array:
        """What decides among equals."""
        if reasons & _NODE:
            hashes = self._cluster.node_hashes() ^ np.uint32(self._salt)
            hashes *= np.uint32(_MIXER)
            self._mixed = hashes.astype(np.int64)
        return self._mixed

    def _set_base(self, row: Row, base: int) -> None:
        assert self._groups is not None
        was = self._base.item(row)
        self._base[row] = base
        if self._groups.move(row, was, base):
            self._worth = None


def merged(overlays: Iterable[Overlay]) -> Overlay:
    """Several views in one: what they add to a cell adds up."""
    total: dict[Hashable, dict[Row, int]] = {}
    for overlay in overlays:
        for column, cells in overlay.items():
            into = total.setdefault(column, {})
            for row, added in cells.items():
                into[row] = into.get(row, 0) + added
    return total


def _note(found: dict[str, dict[str, int]], part: Part, reasons: Iterable[str], rows: int) -> None:
    if rows:
        counts = found.setdefault(part.plugin.name, {})
        for reason in reasons:
            counts[reason] = counts.get(reason, 0) + rows
