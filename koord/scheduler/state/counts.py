"""How many pods of a selection are on each node: spreading and affinity are computed from these counts.

A `Tally` keeps one number per row, and a log of its changes, so that its readers can catch up. There are two kinds: a
`Selection` counts pods chosen by namespace and labels, and lives as long as a reader holds it; a `HeldTally` counts
pods that hold a term, and lives as long as there is one. Only the `Face` of a pod matters: its namespace and those of
its labels that some selector names. Faces count their pods too, so that a new selection asks every face once, not every
pod.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Final
from weakref import WeakValueDictionary, ref

import numpy as np

from koord.api.machinery.struct import EMPTY
from koord.api.text.selector import NOTHING, LabelMatcher, Operator
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.selector_index import SelectorIndex
from koord.scheduler.state.table import Array, Row
from koord.scheduler.state.terms import HeldTerm

REMEMBERED: Final = 1 << 16
UNUSED_KEYS: Final = 64
"""This many labels that no selector names any more may still tell pods apart."""
FEW_ROWS: Final = 512
LONGEST_LOG: Final = 1 << 12
"""Changes that a tally remembers at least. A reader that lags further behind sums up all rows again."""


class Tally:
    """A number of pods per row, and a log: the row where one came, the row's complement where one left.

    There are as many tallies as workloads, and most of these are on few nodes: only where there are more, an array of
    all rows is worth its memory.
    """

    __slots__ = ("__weakref__", "_few", "_log", "_log_start", "_many", "total", "version")

    def __init__(self) -> None:
        self._few: dict[Row, int] = {}
        self._many: Array | None = None
        self.total = self.version = 0
        "The version is the number of changes so far."
        self._log = array("i")
        self._log_start = 0

    def since(self, version: int) -> array[int] | None:
        """Changes after a version; None where that is too long ago to tell."""
        start = version - self._log_start
        return self._log[start:] if start >= 0 else None

    def at(self, row: Row) -> int:
        """The number of a row."""
        many = self._many
        if many is None:
            return self._few.get(row, 0)
        return many.item(row) if row < len(many) else 0

    def add_to(self, amounts: Array, weight: int) -> None:
        """Add the number of every row, times a weight."""
        if self._many is not None:
            common = min(len(amounts), len(self._many))
            amounts[:common] += weight * self._many[:common].astype(amounts.dtype)
        else:
            for row, number in self._few.items():
                amounts[row] += weight * number

    def move(self, row: Row, sign: int) -> None:
        self._add(row, sign)
        self.total += sign
        self.version += 1
        self._log.append(row if sign > 0 else ~row)
        if len(self._log) > 2 * LONGEST_LOG:
            del self._log[:LONGEST_LOG]
            self._log_start += LONGEST_LOG

    def _add(self, row: Row, number: int) -> None:
        many = self._many
        if many is None:
            now = self._few.get(row, 0) + number
            if now:
                self._few[row] = now
            else:
                del self._few[row]
            if len(self._few) > FEW_ROWS:
                self._spread_out()
            return
        if row >= len(many):
            many = self._many = np.pad(many, (0, max(row + 1 - len(many), len(many))))
        many[row] = many.item(row) + number

    def _spread_out(self) -> None:
        self._many = np.zeros(max(self._few) + 1, np.int32)
        self._many[list(self._few)] = list(self._few.values())
        self._few = {}


class Selection(Tally):
    """Pods chosen by namespace and labels."""

    __slots__ = ("live_only", "matcher", "namespaces")

    def __init__(self, namespaces: frozenset[str] | None, matcher: LabelMatcher, live_only: bool) -> None:
        super().__init__()
        self.namespaces, self.matcher, self.live_only = namespaces, matcher, live_only

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return (self.namespaces is None or namespace in self.namespaces) and self.matcher.matches(labels)

    def take_in(self, face: Face) -> None:
        """Count the pods with a face, which were there before."""
        for row, number in face.rows.items():
            new = number - (face.going.get(row, 0) if self.live_only else 0)
            if new:
                self._add(row, new)
                self.total += new


class HeldTally(Tally):
    """Pods that hold a term."""

    __slots__ = ("held",)

    def __init__(self, held: HeldTerm) -> None:
        super().__init__()
        self.held = held

    def __repr__(self) -> str:
        """Which term it is, in words that are the same whenever and wherever it was made."""
        return repr(self.held)


class Face:
    """What selectors can see of a pod, which tallies count it, and on which rows pods with this face are."""

    __slots__ = (
        "_held",
        "_held_at",
        "_selections",
        "_selections_at",
        "going",
        "labels",
        "namespace",
        "rows",
        "services",
        "services_at",
    )

    def __init__(self, namespace: str, labels: Mapping[str, str]) -> None:
        self.namespace, self.labels = namespace, labels
        self.rows: dict[Row, int] = {}
        self.going: dict[Row, int] = {}
        "Of these, the pods that are being deleted."
        self._selections: list[ref[Selection]] = []
        self._held: tuple[HeldTally, ...] = ()
        self._selections_at = self._held_at = self.services_at = -1
        self.services: tuple[tuple[str, str], ...] = ()

    def move(self, row: Row, sign: int, terminating: bool) -> None:
        _count(self.rows, row, sign)
        if terminating:
            _count(self.going, row, sign)


class Counts:
    """All tallies in use."""

    def __init__(self, pods_on: Mapping[Row, Mapping[str, PodRecord]]) -> None:
        self._pods_on = pods_on
        self._selections: WeakValueDictionary[tuple[object, ...], Selection] = WeakValueDictionary()
        self._chosen: SelectorIndex[ref[Selection]] = SelectorIndex()
        self._selections_at = 0
        self._tallies: WeakValueDictionary[HeldTerm, HeldTally] = WeakValueDictionary()
        self._holding: SelectorIndex[HeldTally] = SelectorIndex()
        self.terms_held = self._held_at = 0
        "How many different terms pods on nodes hold."
        self._faces: dict[tuple[object, ...], Face] = {}
        self._most_faces = REMEMBERED
        self._faces_with: dict[tuple[str, str], dict[Face, None]] = {}
        self._keys: dict[str, int] = {}
        "Labels that count, and how many selectors name each."
        self._unused_keys = 0
        self._faced: tuple[str, Mapping[str, str], Face] | None = None
        "The pod whose face was computed last: the same pod is read several times in a row."
        self._moving = ""
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._chosen_namespaces: dict[LabelMatcher, frozenset[str] | None] = {}

    def selection(
        self, namespaces: frozenset[str] | None, matcher: LabelMatcher, *, live_only: bool = False
    ) -> Selection:
        """The pods that a selector chooses; namespaces None: in all of them. Counted as long as a reader holds it."""
        name = (namespaces, matcher, live_only)
        selection = self._selections.get(name)
        if selection is None:
            self.see(_keys(matcher))
            selection = Selection(namespaces, matcher, live_only)
            for face in self._faces_for(matcher):
                if selection.matches(face.namespace, face.labels):
                    selection.take_in(face)
            self._selections[name] = selection
            self._chosen.add(ref(selection, _Forget(self, matcher)), matcher)
            self._selections_at += 1
        return selection

    def moved(self, pod: PodRecord, row: Row, sign: int) -> None:
        """A pod came to a row, or left it."""
        self._moving = pod.key
        if sign > 0:
            # Its terms may make more of its labels count.
            for held in pod.held:
                self._move_held(held, row, sign)
        face = self.face(pod.namespace, pod.labels)
        face.move(row, sign, pod.terminating)
        for reference in self._concerned(face):
            selection = reference()
            if selection is not None and not (selection.live_only and pod.terminating):
                selection.move(row, sign)
        if sign < 0:
            for held in pod.held:
                self._move_held(held, row, sign)
        self._moving = ""

    def face(self, namespace: str, labels: Mapping[str, str]) -> Face:
        """What selectors can see of a pod with these labels."""
        faced = self._faced
        if faced is not None and faced[1] is labels and faced[0] == namespace:
            return faced[2]
        keys = self._keys
        visible = [item for item in labels.items() if item[0] in keys]
        name = (namespace, *visible)
        face = self._faces.get(name)
        if face is None:
            if len(self._faces) >= self._most_faces:
                self._forget_faces()
            face = self._faces[name] = Face(namespace, dict(visible))
            for item in visible:
                self._faces_with.setdefault(item, {})[face] = None
        self._faced = (namespace, labels, face)
        return face

    def see(self, keys: Iterable[str]) -> None:
        """A selector names these labels of pods: they count."""
        new = []
        for key in keys:
            uses = self._keys.get(key)
            if uses is None:
                new.append(key)
            elif uses == 0:
                self._unused_keys -= 1
            self._keys[key] = (uses or 0) + 1
        if self._unused_keys > UNUSED_KEYS:
            self._keys = {key: uses for key, uses in self._keys.items() if uses}
            self._unused_keys = 0
            self._recount()
        elif new:
            self._split(new)

    def unsee(self, keys: Iterable[str]) -> None:
        """A selector that named these labels is gone."""
        for key in keys:
            self._keys[key] -= 1
            if self._keys[key] == 0:
                self._unused_keys += 1

    def _split(self, new: list[str]) -> None:
        """Pods with labels that did not count before have another face now."""
        self._faced = None
        kept = {key: uses for key, uses in self._keys.items() if key not in new}
        for row, pods in self._pods_on.items():
            for pod in pods.values():
                for key in new:
                    if key in pod.labels and pod.key != self._moving:
                        visible = [item for item in pod.labels.items() if item[0] in kept]
                        self._faces[(pod.namespace, *visible)].move(row, -1, pod.terminating)
                        self.face(pod.namespace, pod.labels).move(row, +1, pod.terminating)
                        break

    def _recount(self) -> None:
        """Compute the faces of all pods again."""
        self._faced = None
        self._faces.clear()
        self._faces_with.clear()
        for row, pods in self._pods_on.items():
            for pod in pods.values():
                if pod.key != self._moving:
                    self.face(pod.namespace, pod.labels).move(row, +1, pod.terminating)

    def _forget_faces(self) -> None:
        """Drop faces that no pod on a node has."""
        self._faced = None
        self._faces = {name: face for name, face in self._faces.items() if face.rows}
        self._most_faces = max(REMEMBERED, 2 * len(self._faces))
        self._faces_with = {}
        for face in self._faces.values():
            for item in face.labels.items():
                self._faces_with.setdefault(item, {})[face] = None

    def _faces_for(self, matcher: LabelMatcher) -> list[Face]:
        """Faces among which are all that a selector chooses."""
        if matcher is NOTHING:
            return []
        fewest: Iterable[Face] = self._faces.values()
        for requirement in matcher.requirements:
            if requirement.operator in (Operator.EQUALS, Operator.IN) and len(requirement.values) == 1:
                fewest = self._faces_with.get((requirement.key, requirement.values[0]), ())
                break
        return list(fewest)

    def held(self, face: Face) -> tuple[HeldTally, ...]:
        """The terms of pods on nodes that mean a pod with this face."""
        if face._held_at != self._held_at:
            labels = self._namespaces.get(face.namespace, EMPTY)
            meant = [
                tally
                for tally in self._holding.likely(face.labels)
                if tally.held.term.means(face.namespace, labels, face.labels)
            ]
            # In an order that does not depend on who came first.
            face._held = tuple(meant if len(meant) < 2 else sorted(meant, key=repr))
            face._held_at = self._held_at
        return face._held

    def holding(self, held: HeldTerm) -> HeldTally:
        """The pods that hold a term; none if no pod does yet. Counted as long as the tally is referenced."""
        tally = self._tallies.get(held)
        if tally is None:
            tally = self._tallies[held] = HeldTally(held)
        return tally

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
            likely = [(reference, reference()) for reference in self._chosen.likely(face.labels)]
            face._selections = [reference for reference, it in likely if it and it.matches(face.namespace, face.labels)]
            face._selections_at = self._selections_at
        return face._selections

    def _move_held(self, held: HeldTerm, row: Row, sign: int) -> None:
        tally = self.holding(held)
        before = tally.total
        tally.move(row, sign)
        matcher = held.term.matcher
        if before == 0:
            self.see(_keys(matcher))
            self._holding.add(tally, matcher)
            self.terms_held += 1
            self._held_at += 1
        elif tally.total == 0:
            self._holding.remove(tally, matcher)
            self.terms_held -= 1
            self._held_at += 1
            self.unsee(_keys(matcher))

    def forget_selection(self, dead: ref[Selection], matcher: LabelMatcher) -> None:
        self._chosen.remove(dead, matcher)
        self.unsee(_keys(matcher))


class _Forget:
    """Has a selection forgotten once no reader holds it any more."""

    __slots__ = ("_counts", "_matcher")

    def __init__(self, counts: Counts, matcher: LabelMatcher) -> None:
        self._counts, self._matcher = ref(counts), matcher

    def __call__(self, dead: ref[Selection]) -> None:
        counts = self._counts()
        if counts is not None:
            counts.forget_selection(dead, self._matcher)


def _count(numbers: dict[Row, int], row: Row, sign: int) -> None:
    number = numbers.get(row, 0) + sign
    if number:
        numbers[row] = number
    else:
        del numbers[row]


def _keys(matcher: LabelMatcher) -> list[str]:
    return [requirement.key for requirement in matcher.requirements]
