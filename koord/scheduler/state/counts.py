"""How many pods that a selector chooses are on each node: what spreading and affinity are made of.

A `Selection` (namespaces and a label selector) keeps one number per row. It is shared by all classes that ask the same,
made by one pass over the pods, and kept up to date as pods come and go. Which selections a pod concerns is remembered
by its namespace and labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from koord.api.selector import LabelMatcher
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Array, Row, Table

REMEMBERED: Final = 1 << 16


@dataclass(eq=False, slots=True)
class Selection:
    """Pods chosen by namespace and labels, counted per row. `moves` logs rows whose number changed."""

    namespaces: frozenset[str] | None
    "None: all namespaces."
    matcher: LabelMatcher
    live_only: bool
    "Whether pods that are being deleted do not count."
    per_row: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    moves: list[Row] = field(default_factory=list)

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return (self.namespaces is None or namespace in self.namespaces) and self.matcher.matches(labels)


class Counts:
    """All selections in use."""

    def __init__(self, table: Table, pods_on: Mapping[Row, Mapping[str, PodRecord]]) -> None:
        self._table, self._pods_on = table, pods_on
        self._selections: dict[tuple[frozenset[str] | None, str, bool], Selection] = {}
        self._concerned: dict[tuple[str, tuple[tuple[str, str], ...]], list[Selection]] = {}

    def selection(
        self, namespaces: frozenset[str] | None, matcher: LabelMatcher, *, live_only: bool = False
    ) -> Selection:
        """The counts for a selector, made on first use."""
        key = (namespaces, repr(matcher), live_only)
        found = self._selections.get(key)
        if found is None:
            found = self._selections[key] = Selection(namespaces, matcher, live_only)
            found.per_row = np.zeros(self._table.capacity, np.int32)
            self._concerned.clear()
            for row, pods in self._pods_on.items():
                found.per_row[row] = sum(1 for pod in pods.values() if _counts(found, pod))
        elif len(found.per_row) < self._table.capacity:
            found.per_row = np.pad(found.per_row, (0, self._table.capacity - len(found.per_row)))
        return found

    def moved(self, pod: PodRecord, row: Row, sign: int) -> None:
        """A pod came to a row, or left it."""
        for selection in self._for(pod):
            if selection.live_only and pod.terminating:
                continue
            if row >= len(selection.per_row):
                selection.per_row = np.pad(selection.per_row, (0, self._table.capacity - len(selection.per_row)))
            selection.per_row[row] += sign
            selection.moves.append(row)

    def _for(self, pod: PodRecord) -> list[Selection]:
        if not self._selections:
            return []
        key = (pod.namespace, tuple(pod.labels.items()))
        known = self._concerned.get(key)
        if known is None:
            if len(self._concerned) >= REMEMBERED:
                self._concerned.clear()
            known = [each for each in self._selections.values() if each.matches(pod.namespace, pod.labels)]
            self._concerned[key] = known
        return known


def _counts(selection: Selection, pod: PodRecord) -> bool:
    return selection.matches(pod.namespace, pod.labels) and not (selection.live_only and pod.terminating)
