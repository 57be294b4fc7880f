"""What speaks against rows, for one class: counted, row by row, or as what would help.

Everything here reads what judges said (`judged`) and what gates say now; a class catches up before it asks. A row
counts for the first plugin that turns it away, in the order of the profile; what is known before filters comes first.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Crowded, Gain, Many, One
from koord.scheduler.framework.exact import doors_of, exact_checks
from koord.scheduler.framework.explains import explanation_of
from koord.scheduler.framework.facet import Facet, Gate
from koord.scheduler.framework.judged import Judged
from koord.scheduler.framework.verdicts import Part, Verdicts
from koord.scheduler.state.table import Array, Row, Table

FEW_NAMES: Final = 512


class Objections:
    """Of one class."""

    def __init__(self, judged: Judged, facets: Sequence[tuple[Part, Facet]], table: Table) -> None:
        self._judged, self._table, self._parts = judged, table, judged.parts
        self._gates = [facet for _, facet in facets if facet.gates]

    def refusing(self) -> Part | None:
        """The plugin that refuses these pods on every node."""
        refusals = [part for part in self._parts if part.judge.refused is not None]
        return min(refusals, key=lambda part: part.rank, default=None)

    def refusal(self) -> tuple[str, list[str]] | None:
        """Its name, and its reason."""
        first = self.refusing()
        return None if first is None else (first.plugin.name, first.judge.reasons(1))

    def resolvable(self) -> Array:
        """The rejected rows that might do if pods left them, by the word of the first judge that rejects each."""
        table, judged = self._table, self._judged
        resolvable, left = np.zeros(table.capacity, np.bool_), table.alive.copy()
        if self.refusing() is not None:
            return np.flatnonzero(resolvable)
        if judged.only is not None:
            allowed = np.zeros(table.capacity, np.bool_)
            allowed[list(judged.only)] = True
            left &= allowed
        bit, blocked = 0, judged.blocked
        for part in self._parts:
            judge = part.judge
            if judge.filters_on:
                out = np.flatnonzero(left & ((blocked >> np.uint32(bit)) & np.uint32(1)).astype(np.bool_))
                bit += 1
                if len(out):
                    masks = np.asarray(judge.feasible(Many(judged.columns, out)))
                    resolvable[out] = ~judge.unresolvable(np.broadcast_to(masks, out.shape), out)
                    left[out] = False
            for facet in judge.facets:
                if isinstance(facet, Gate):
                    closed = facet.table(None)
                    lasting = [is_closed and facet.unresolvable(i) for i, is_closed in enumerate(closed.tolist())]
                    shut: Array = left & closed[facet.groups]
                    resolvable |= shut & ~np.array(lasting, np.bool_)[facet.groups]
                    left &= ~shut
        resolvable[[row for row, (_, why) in judged.barred.items() if left[row] and why.resolvable]] = True
        return np.flatnonzero(resolvable)

    def counted(self) -> dict[str, dict[str, int]]:
        """How many rows each plugin turns away, by reason."""
        refusal, judged = self.refusal(), self._judged
        if refusal is not None:
            # It is the reason everywhere, whatever else speaks against a row.
            return {refusal[0]: {reason: len(self._table) for reason in refusal[1]}}
        if judged.only is None and not judged.barred and not self._gates:
            return self._counted_verdicts()
        return self._looked_through(Many(judged.columns, slice(None)))

    def counted_with(self, pods: Array, gains: Mapping[Hashable, Gain]) -> dict[str, dict[str, int]]:
        """As `counted`, for rows with `pods` more pods of this class on each: no row takes another one then. Only where
        no plugin refuses these pods on every node, and pods change nothing but what columns gain from them."""
        return self._looked_through(Crowded(self._judged.columns, slice(None), pods, gains))

    def _counted_verdicts(self) -> dict[str, dict[str, int]]:
        """By what the filters alone say, kept row by row."""
        judged = self._judged
        if judged.verdicts is None:
            judged.verdicts = Verdicts(judged.blocked, self._table, judged.filters, judged.columns)
        counts_by_plugin: dict[str, dict[str, int]] = {}
        for (index, mask), rows in judged.verdicts.counts.items():
            part = judged.filters[index]
            _note(counts_by_plugin, part, part.judge.reasons(mask), rows)
        return counts_by_plugin

    def _looked_through(self, cells: Many) -> dict[str, dict[str, int]]:
        """Counted by groups of rows that get one verdict. The cells are those of all rows."""
        judged = self._judged
        counts_by_plugin: dict[str, dict[str, int]] = {}
        left = self._table.alive.copy()
        if judged.only is not None:
            others = left.copy()
            others[list(judged.only)] = False
            _note(counts_by_plugin, judged.pinning[0], self._pinned_words(), int(np.count_nonzero(others)))
            left &= ~others
        for part in self._parts:
            judge = part.judge
            if judge.filters_on:
                masks = np.broadcast_to(np.asarray(judge.feasible(cells)), left.shape)
                out = left & (masks != 0)
                if out.any():
                    for mask, rows in zip(*np.unique(masks[out], return_counts=True), strict=True):
                        _note(counts_by_plugin, part, judge.reasons(int(mask)), int(rows))
                    left &= ~out
            for facet in judge.facets:
                if isinstance(facet, Gate):
                    closed = left & facet.table(None)[facet.groups]
                    for group, rows in zip(*np.unique(facet.groups[closed], return_counts=True), strict=True):
                        _note(counts_by_plugin, part, [facet.reason(int(group))], int(rows))
                    left &= ~closed
        for row, (plugin, objection) in judged.barred.items():
            if left[row]:
                counts = counts_by_plugin.setdefault(plugin, {})
                counts[objection.reason] = counts.get(objection.reason, 0) + 1
        return counts_by_plugin

    def _pinned_words(self) -> list[str]:
        """Found out before any filter, so it is the reason whatever else speaks against a row."""
        names = " ".join(sorted(part.plugin.name for part in self._judged.pinning))
        return [f"node(s) didn't satisfy plugin(s) [{names}]"]

    def reasons(self, row: Row) -> tuple[Part, list[str]] | None:
        """Why a row will not do: the first plugin that rejects it, and its reasons. None if it will."""
        refusing, judged = self.refusing(), self._judged
        if refusing is not None:
            return refusing, refusing.judge.reasons(1)
        if judged.only is not None and row not in judged.only:
            return judged.pinning[0], self._pinned_words()
        for part in self._parts:
            judge = part.judge
            if judge.filters_on:
                mask = int(judge.feasible(One(judged.columns, row)))
                if mask:
                    return part, judge.reasons(mask)
            for facet in judge.facets:
                if isinstance(facet, Gate):
                    group = int(facet.groups[row])
                    if facet.table(None)[group]:
                        return part, [facet.reason(group)]
        return None

    def look(self, ask: Ask, row: Row) -> tuple[Part, list[str]] | None:
        """As `reasons`, and exact checks, for this row alone, whatever is known of others."""
        self._judged.look_again()
        for facet in self._gates:
            facet.refresh(None)
        return self.reasons(row) or self.exact(ask, row)

    def exact(self, ask: Ask, row: Row) -> tuple[Part, list[str]] | None:
        """What exact checks have against a row that would do by its columns."""
        parts = [part for part in self._parts if part.judge.exact is not None]
        checked = exact_checks(parts, doors_of(self._parts), ask, row) if parts else {}
        if not isinstance(checked, tuple):
            return None
        return next(part for part in parts if part.plugin.name == checked[0]), [checked[1].reason]

    def nearest(self, most: int) -> list[Row]:
        """The rejected rows that are nearest to being accepted: few judges reject them, and for little.

        Of rows that the same judges reject there are several, of others one; the nearest of all come first.
        """
        table, judged = self._table, self._judged
        blocked, lack = judged.blocked, np.zeros(table.capacity)
        against = blocked.astype(np.int64)
        cells = Many(judged.columns, slice(None))
        for i, part in enumerate(judged.filters):
            turned_away = (blocked >> np.uint32(i)) & np.uint32(1)
            if turned_away.any():
                lack += turned_away * explanation_of(part.judge).lack(cells)
        bit = len(judged.filters)
        for facet in self._gates:
            against |= facet.table(None)[facet.groups].astype(np.int64) << bit
            bit += 1
        if judged.only is not None:
            others = np.ones(table.capacity, np.int64)
            others[list(judged.only)] = 0
            against |= others << bit
        for row in judged.barred:
            against[row] |= 1 << (bit + 1)
        rows = np.flatnonzero(table.alive & (against > 0))
        # Names last, so that equals come in an order that a person expects.
        names = np.array([table.names[row] for row in rows.tolist()], dtype=np.str_) if len(rows) <= FEW_NAMES else rows
        rows = rows[np.lexsort((names, lack[rows], np.bitwise_count(against[rows])))]
        firsts = np.unique(against[rows], return_index=True)[1]
        chosen = [*rows[: (most + 1) // 2].tolist(), *rows[np.sort(firsts)].tolist(), *rows[:most].tolist()]
        return list(dict.fromkeys(chosen))[:most]


def _note(counts_by_plugin: dict[str, dict[str, int]], part: Part, reasons: Iterable[str], rows: int) -> None:
    if rows:
        counts = counts_by_plugin.setdefault(part.plugin.name, {})
        for reason in reasons:
            counts[reason] = counts.get(reason, 0) + rows
