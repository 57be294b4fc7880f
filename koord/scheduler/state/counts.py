"""How many pods that somebody asks about are on each node: what spreading and affinity are made of.

A `Tally` keeps one number per row, and a log of its changes, so that whoever made something of it can catch up. There
are two kinds: a `Selection` counts pods chosen by namespace and labels, and lives as long as someone holds it; a
`HeldTally` counts pods that hold a term, and lives as long as there is one. Of a pod, only its `Face` matters: its
namespace and those of its labels that some selector names.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Final
from weakref import WeakValueDictionary, ref

import numpy as np

from koord.api.selector import LabelMatcher
from koord.api.struct import EMPTY
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.selector_index import SelectorIndex
from koord.scheduler.state.table import Array, Row, Table
from koord.scheduler.state.terms import Held

REMEMBERED: Final = 1 << 16
LONGEST_LOG: Final = 1 << 12
"""Changes that a tally remembers at least. Who lags further behind sums up all rows again."""


class Tally:
    """A number of pods per row, and a log: the row where one came, the row's complement where one left."""

    __slots__ = ("__weakref__", "_log", "_log_start", "per_row", "total")

    def __init__(self, capacity: int) -> None:
        self.per_row: Array = np.zeros(capacity, np.int32)
        self.total = 0
        self._log = array("i")
        self._log_start = 0

    @property
    def version(self) -> int:
        """The number of changes so far."""
        return self._log_start + len(self._log)

    def since(self, version: int) -> array[int] | None:
        """Changes after a version; None where that is too long ago to tell."""
        start = version - self._log_start
        return self._log[start:] if start >= 0 else None

    def move(self, row: Row, sign: int) -> None:
        if row >= len(self.per_row):
            self.grow(max(row + 1, 2 * len(self.per_row)))
        self.per_row[row] += sign
        self.total += sign
        self._log.append(row if sign > 0 else ~row)
        if len(self._log) > 2 * LONGEST_LOG:
            del self._log[:LONGEST_LOG]
            self._log_start += LONGEST_LOG

    def grow(self, capacity: int) -> None:
        """Make sure that there is a number for each of so many rows."""
        if len(self.per_row) < capacity:
            self.per_row = np.pad(self.per_row, (0, capacity - len(self.per_row)))


class Selection(Tally):
    """Pods chosen by namespace and labels."""

    __slots__ = ("live_only", "matcher", "namespaces")

    def __init__(
        self, namespaces: frozenset[str] | None, matcher: LabelMatcher, live_only: bool, capacity: int
    ) -> None:
        super().__init__(capacity)
        self.namespaces, self.matcher, self.live_only = namespaces, matcher, live_only

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return (self.namespaces is None or namespace in self.namespaces) and self.matcher.matches(labels)


class HeldTally(Tally):
    """Pods that hold a term."""

    __slots__ = ("held",)

    def __init__(self, held: Held, capacity: int) -> None:
        super().__init__(capacity)
        self.held = held


class Face:
    """What selectors can see of a pod, and who looks at it. Shared by all pods that look the same."""

    __slots__ = ("_held", "_held_at", "_selections", "_selections_at", "labels", "namespace", "services", "services_at")

    def __init__(self, namespace: str, labels: Mapping[str, str]) -> None:
        self.namespace, self.labels = namespace, labels
        self._selections: list[ref[Selection]] = []
        self._held: tuple[HeldTally, ...] = ()
        self._selections_at = self._held_at = self.services_at = -1
        self.services: tuple[tuple[str, str], ...] = ()


class Counts:
    """All tallies in use."""

    def __init__(self, table: Table, pods_on: Mapping[Row, Mapping[str, PodRecord]]) -> None:
        self._table, self._pods_on = table, pods_on
        self._selections: WeakValueDictionary[tuple[object, ...], Selection] = WeakValueDictionary()
        self._chosen: SelectorIndex[ref[Selection]] = SelectorIndex()
        self._selections_at = 0
        self._tallies: WeakValueDictionary[Held, HeldTally] = WeakValueDictionary()
        self._holding: SelectorIndex[HeldTally] = SelectorIndex()
        self._held_at = 0
        self._faces: dict[tuple[object, ...], Face] = {}
        self._keys: set[str] = set()
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._chosen_namespaces: dict[LabelMatcher, frozenset[str] | None] = {}

    def selection(
        self, namespaces: frozenset[str] | None, matcher: LabelMatcher, *, live_only: bool = False
    ) -> Selection:
        """The pods that a selector chooses; namespaces None: in all of them. Counted for as long as it is held."""
        name = (namespaces, matcher, live_only)
        found = self._selections.get(name)
        if found is None:
            found = Selection(namespaces, matcher, live_only, self._table.capacity)
            for row, pods in self._pods_on.items():
                number = sum(1 for pod in pods.values() if _counts(found, pod))
                found.per_row[row] = number
                found.total += number
            self._selections[name] = found
            self.see(requirement.key for requirement in matcher.requirements)
            self._chosen.add(ref(found, self._forget(matcher)), matcher)
            self._selections_at += 1
        return found

    def moved(self, pod: PodRecord, row: Row, sign: int) -> None:
        """A pod came to a row, or left it."""
        if self._selections:
            for each in self._concerned(self.face(pod.namespace, pod.labels)):
                selection = each()
                if selection is not None and not (selection.live_only and pod.terminating):
                    selection.move(row, sign)
        for held in pod.held:
            self._move_held(held, row, sign)

    def face(self, namespace: str, labels: Mapping[str, str]) -> Face:
        """What selectors can see of a pod with these labels."""
        keys = self._keys
        visible = [item for item in labels.items() if item[0] in keys]
        name = (namespace, *visible)
        found = self._faces.get(name)
        if found is None:
            if len(self._faces) >= REMEMBERED:
                self._faces.clear()
            found = self._faces[name] = Face(namespace, dict(visible))
        return found

    def see(self, keys: Iterable[str]) -> None:
        """From now on these labels of pods count."""
        new = set(keys) - self._keys
        if new:
            self._keys |= new
            self._faces.clear()

    def held(self, face: Face) -> tuple[HeldTally, ...]:
        """The terms of pods on nodes that mean a pod with this face."""
        if face._held_at != self._held_at:
            labels = self._namespaces.get(face.namespace, EMPTY)
            face._held = tuple(
                tally
                for tally in self._holding.likely(face.labels)
                if tally.held.term.means(face.namespace, labels, face.labels)
            )
            face._held_at = self._held_at
        return face._held

    @property
    def any_held(self) -> bool:
        """Whether any pod on a node holds a term at all."""
        return bool(self._tallies)

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        if self._namespaces.get(name) != labels:
            self._namespaces[name] = labels
            self._renamed()

    def remove_namespace(self, name: str) -> None:
        if self._namespaces.pop(name, None) is not None:
            self._renamed()

    def namespaces(self, selector: LabelMatcher) -> frozenset[str] | None:
        """The namespaces that a selector in a term of a pod to be placed chooses; None: all, known or not.

        kube-scheduler looks the namespaces up, and then asks the selector once more, without labels. One that a
        namespace without labels satisfies thus chooses all.
        """
        if selector not in self._chosen_namespaces:
            chosen = frozenset(name for name, labels in self._namespaces.items() if selector.matches(labels))
            self._chosen_namespaces[selector] = None if selector.matches(EMPTY) else chosen
        return self._chosen_namespaces[selector]

    def _renamed(self) -> None:
        self._chosen_namespaces.clear()
        self._held_at += 1

    def _concerned(self, face: Face) -> list[ref[Selection]]:
        """The selections that choose pods with this face."""
        if face._selections_at != self._selections_at:
            likely = [(each, each()) for each in self._chosen.likely(face.labels)]
            face._selections = [each for each, it in likely if it and it.matches(face.namespace, face.labels)]
            face._selections_at = self._selections_at
        return face._selections

    def _move_held(self, held: Held, row: Row, sign: int) -> None:
        tally = self._tallies.get(held)
        if tally is None:
            tally = self._tallies[held] = HeldTally(held, self._table.capacity)
        before = tally.total
        tally.move(row, sign)
        matcher = held.term.matcher
        if before == 0:
            self.see(requirement.key for requirement in matcher.requirements)
            self._holding.add(tally, matcher)
            self._held_at += 1
        elif tally.total == 0:
            self._holding.remove(tally, matcher)
            self._held_at += 1

    def _forget(self, matcher: LabelMatcher) -> _Forget:
        return _Forget(self._chosen, matcher)


class _Forget:
    """Takes a selection that nobody holds any more out of the index."""

    __slots__ = ("_index", "_matcher")

    def __init__(self, index: SelectorIndex[ref[Selection]], matcher: LabelMatcher) -> None:
        self._index, self._matcher = index, matcher

    def __call__(self, dead: ref[Selection]) -> None:
        self._index.remove(dead, self._matcher)


def _counts(selection: Selection, pod: PodRecord) -> bool:
    return selection.matches(pod.namespace, pod.labels) and not (selection.live_only and pod.terminating)
