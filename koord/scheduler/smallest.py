"""The smallest change that would let a pod in: proposed by the judges that turn it away, tried out before it is told.

On each of the nodes that are nearest to taking the pod, the judge that objects says what would satisfy it; that is
applied to the state, all judges are asked again, and so on, until none objects. Then all of it is taken back. Changes
that did not lead to a fit are not proposed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.change import Change, Side, asking_for_less, listed
from koord.scheduler.framework.engine import Engine, Placement
from koord.scheduler.framework.pod_class import PodClass
from koord.scheduler.state.table import Row

MOST_STEPS: Final = 5
MOST_HINTS: Final = 1024
MOST_ALIKE: Final = 2
"""Of changes that the same plugins propose of the same things, on different nodes."""

Preference: TypeAlias = Callable[[Change], tuple[float, ...]]
"""Which of several changes to take: the one for which it is least."""


@dataclass(frozen=True, slots=True)
class MendStep:
    plugin: str
    reasons: tuple[str, ...]
    "The objections that it removes."
    change: Change


@dataclass(frozen=True, slots=True)
class Way:
    """Changes that together let a pod in."""

    steps: tuple[MendStep, ...]
    nodes: tuple[str, ...]
    "Where it would then fit; several, where the same would do on each of them."

    @property
    def size(self) -> float:
        return sum(step.change.size for step in self.steps)

    @property
    def sentence(self) -> str:
        return self._sentence(step.change.text for step in self.steps)

    def told_in(self, namespace: str) -> str:
        """The sentence for readers of one namespace."""
        return self._sentence(step.change.told_in(namespace) for step in self.steps)

    def _sentence(self, changes: Iterable[str]) -> str:
        where = self.nodes[0]
        if len(self.nodes) > 1:
            where = f"{where} or {len(self.nodes) - 1} more"
        return f"It would fit on {where} with {listed(changes)}."


def the_smallest(change: Change) -> tuple[float, ...]:
    """Of equals, that of the pod: it is its owner who reads of it."""
    return round(change.size, 3), _PODS_OWNER.index(change.on)


def of_the_pod(change: Change) -> tuple[float, ...]:
    """What the pod's owner can do, as far as that is possible."""
    return _PODS_OWNER.index(change.on), change.size


def of_the_cluster(change: Change) -> tuple[float, ...]:
    """Sorts changes to the cluster, for the unchanged pod, first."""
    return _OTHERS.index(change.on), change.size


_PODS_OWNER: Final[tuple[Side, ...]] = ("pod", "node", "storage", "others")
_OTHERS: Final[tuple[Side, ...]] = ("node", "storage", "others", "pod")
_PREFERENCES: Final[tuple[Preference, ...]] = (the_smallest, of_the_pod, of_the_cluster)


def can_be_mended(placement: Placement, pod_class: PodClass) -> bool:
    """Whether judges may know what would let a pod in: not where it is refused before any of them looks at it."""
    return not placement.refusal or pod_class.refusal() is not None


def ways(engine: Engine, ask: Ask, *, nodes: int = 24, most: int = 5) -> list[Way]:
    """The smallest changes that would let a pod in which fits nowhere, the smallest first; verified."""
    ways_by_key: dict[Hashable, Way] = {}
    for row in engine.class_of(ask).nearest(nodes):
        for preference in _PREFERENCES:
            way = way_to(engine, ask, row, preference)
            if way is None:
                continue
            key = tuple(step.change.text for step in way.steps)
            alike = ways_by_key.get(key)
            if alike is not None:
                way = Way(alike.steps, tuple(dict.fromkeys((*alike.nodes, *way.nodes))))
            ways_by_key[key] = way
    return _worth_telling(sorted(ways_by_key.values(), key=lambda way: (len(way.steps), round(way.size, 3))))[:most]


def _worth_telling(ways: list[Way]) -> list[Way]:
    """Without those that ask for all that another one asks for, and more; and not many of one kind."""
    kept: list[Way] = []
    kinds: Counter[Hashable] = Counter()
    for way in ways:
        texts = {step.change.text for step in way.steps}
        kind = tuple((step.plugin, step.change.on) for step in way.steps)
        if kinds[kind] < MOST_ALIKE and not any(
            texts > {step.change.text for step in way_kept.steps} for way_kept in kept
        ):
            kinds[kind] += 1
            kept.append(way)
    return kept


def way_to(engine: Engine, ask: Ask, row: Row, preference: Preference = the_smallest) -> Way | None:
    """Changes after which a pod fits on one node; None where judges know of none."""
    steps: list[MendStep] = []
    name = engine.cluster.table.names[row]
    with _tried(engine, row) as trial:
        while (why := engine.judged_alone(ask).look(ask, row)) is not None:
            if len(steps) == MOST_STEPS:
                return None
            part, reasons = why
            change = min(part.judge.fixes(ask, row), key=preference, default=None)
            if change is None:
                return None
            steps.append(MendStep(part.plugin.name, tuple(reasons), change))
            ask = Ask(change.pod) if change.pod is not None else ask
            trial.apply(change)
    return Way(tuple(_joined(steps)), (name,)) if steps else None


def _joined(steps: list[MendStep]) -> list[MendStep]:
    """With one step for what a pod asks for of a resource, though several plugins had it ask for less and less."""
    joined: list[MendStep] = []
    for step in steps:
        change = step.change
        for i, earlier in enumerate(joined):
            if change.pod is not None and earlier.change.requests.keys() & change.requests.keys():
                requests = dict(earlier.change.requests)
                for name, (now, before) in change.requests.items():
                    requests[name] = now, requests.get(name, (now, before))[1]
                size = 1 + sum(1 - now / before for now, before in requests.values())
                less = asking_for_less(change.pod, requests, size)
                joined[i] = MendStep(earlier.plugin, (*earlier.reasons, *step.reasons), less)
                break
        else:
            joined.append(step)
    return joined


class _Trial:
    def __init__(self, engine: Engine) -> None:
        self._cluster = engine.cluster
        self._takes_back: list[Callable[[], None]] = []

    def apply(self, change: Change) -> None:
        """Applies a change to the state. The caller asks again for a changed pod."""
        if change.trial is not None:
            self._takes_back.append(change.trial())
        if change.node is not None:
            self._cluster.put_node(change.node)
        for key in change.gone:
            if key in self._cluster.pods:
                self._cluster.remove_pod(key)

    def take_back(self) -> None:
        """What no transaction knows of, the last first."""
        while self._takes_back:
            self._takes_back.pop()()


@contextmanager
def _tried(engine: Engine, row: Row) -> Iterator[_Trial]:
    """Changes that are made inside are taken back."""
    cluster = engine.cluster
    node = cluster.nodes[row]
    try:
        with cluster.transaction() as transaction:
            trial = _Trial(engine)
            try:
                yield trial
            finally:
                trial.take_back()
                transaction.undo()
    finally:
        if cluster.nodes[row] is not node:
            cluster.put_node(node)


class Hints:
    """The smallest change as one sentence, for messages on why a pod waits: without the names of pods of other
    namespaces, unless the reader may see all of them.

    It is computed again only when the reasons against a class of pods change, or a pod that it names is gone: people
    read it, not programs, and a sentence that changed with every pod would be written again and again.
    """

    def __init__(self, engine: Engine, *, sees_all: bool = False) -> None:
        self._engine, self._sees_all = engine, sees_all
        self._known: dict[Hashable, tuple[frozenset[tuple[str, int]], Way | None]] = {}

    def of(self, ask: Ask, placement: Placement) -> str:
        """A sentence, or nothing where no small change helps."""
        if placement.node is not None or not placement.rejections:
            return ""
        pod_class = self._engine.class_of(ask)
        if not can_be_mended(placement, pod_class):
            return ""
        against = frozenset(placement.rejections.items())
        former = self._known.get(pod_class.key)
        if former is None or former[0] != against or not self._stands(former[1]):
            if len(self._known) >= MOST_HINTS:
                self._known.clear()
            ways = (way_to(self._engine, ask, row) for row in pod_class.nearest(2))
            former = self._known[pod_class.key] = against, next((way for way in ways if way is not None), None)
        way = former[1]
        if way is None:
            return ""
        return way.sentence if self._sees_all else way.told_in(ask.meta.namespace)

    def _stands(self, way: Way | None) -> bool:
        """Whether all pods that it names are still there."""
        pods = self._engine.cluster.pods
        return way is None or all(key in pods for step in way.steps for key in step.change.gone)
