"""DefaultPreemption: which less important pods have to go so that a pod which fits nowhere gets a place.

On every node that might help: all pods of lower priority go, and if the pod fits then, as many as possible are let
stay, first those whose going would violate a budget, the most important first. Of the nodes found, that one is taken on
which the fewest budgets are violated, then whose most important victim matters least, whose victims count for least
together, are fewest, and have run for the shortest time.

Where a verdict depends on amounts alone, nothing is tried out: victims are found by arithmetic, and the result for a
row is kept until the row changes. Elsewhere pods are taken off and put back in a transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from itertools import compress
from typing import Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np

from koord.api.configuration.scheduler_args import DefaultPreemptionArgs
from koord.api.kubernetes.words import PreemptionPolicy
from koord.api.protocol import names
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.bounds import trials
from koord.scheduler.framework.cells import Many
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.framework.pod_class import Part, PodClass
from koord.scheduler.framework.remedy import Remedy
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.nominations import Nomination
from koord.scheduler.state.pods import PodRecord, Shape
from koord.scheduler.state.ranking import Ranking, importance, started_s
from koord.scheduler.state.table import Array, Row
from koord.scheduler.state.view import View

NEVER: Final = "not eligible due to preemptionPolicy=Never."
AWAITED: Final = "not eligible due to a terminating pod on the nominated node."
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
NO_HELP: Final = "Preemption is not helpful for scheduling"
NOT_TRIED: Final = "Preemption was not tried there, since the pod has too many terms"
_LEAST_PRIORITY: Final = 1 << 31


class Candidate(NamedTuple):
    """A node and its victims, the most important first. The candidate that is lower in this order is chosen."""

    violations: int
    highest: int
    "The priority of its most important victim."
    sum: int
    "Of priorities, all made positive."
    number: int
    since: float
    "Start time of the oldest of its most important victims, negated: the victim that started last goes first."
    row: Row
    victims: tuple[str, ...]


Reasons: TypeAlias = tuple[str, ...]
Outcome: TypeAlias = Candidate | Reasons
"""For one row: the victims, or why preemption would not help."""


class DefaultPreemption(Plugin):
    name = "DefaultPreemption"

    def __init__(self, args: DefaultPreemptionArgs | None = None) -> None:
        self._args = args or DefaultPreemptionArgs()
        self._reckoned: WeakKeyDictionary[PodClass, dict[int, _Reckoning]] = WeakKeyDictionary()

    def attach(self, cluster: Cluster) -> None:
        cluster.index(Ranking)

    def post_filter(self, ask: Ask, engine: Engine) -> Remedy | None:
        cluster = engine.cluster
        if not cluster.table.row_of or engine.refusal(ask) is not None:
            # A plugin that refuses the pod on every node knows itself whether evictions would help.
            return None
        if ask.spec.preemption_policy == PreemptionPolicy.NEVER:
            return Remedy(message=f"preemption: {NEVER}")
        with cluster.nominations.without(ask.key) as promise:
            pod_class = engine.class_of(ask)
            rows = pod_class.resolvable()
            if self._awaits_victims(ask, cluster, promise, rows, pod_class.view):
                return Remedy(message=f"preemption: {AWAITED}")
            return self._remedy(ask, engine, pod_class, rows)

    def _awaits_victims(
        self, ask: Ask, cluster: Cluster, promise: Nomination | None, rows: Array, view: View | None
    ) -> bool:
        """Whether pods are going already to make room for this one, where that can still help."""
        row = promised_row(ask, cluster, promise)
        return row is not None and row in rows and bool(going_for(ask, cluster, promise, row, view))

    def _remedy(self, ask: Ask, engine: Engine, pod_class: PodClass, rows: Array) -> Remedy:
        cluster, called = engine.cluster, engine.cluster.table.names
        candidates, hopeless = self._candidates(ask, rows, cluster, self._trial(ask, engine, pod_class))
        if candidates:
            best = min(candidates, key=lambda option: option[:5])
            return Remedy(called[best.row], best.victims)
        nodes = len(cluster.table)
        counts = Counter(reason for reasons in hopeless for reason in reasons)
        if len(hopeless) < nodes:
            counts[NO_HELP] += nodes - len(hopeless)
        why = ", ".join(sorted(f"{number} {reason}" for reason, number in counts.items()))
        return Remedy(message=f"preemption: 0/{nodes} nodes are available: {why}.", clears=True)

    def _candidates(
        self, ask: Ask, rows: Array, cluster: Cluster, trial: Callable[[Array], Iterable[Outcome]]
    ) -> tuple[list[Candidate], list[Reasons]]:
        """As many as are enough to choose from, and why the other rows that were looked at are none."""
        if not len(rows):
            return [], []
        enough = min(len(rows), self._enough(len(rows)))
        # By name, and not by who came first: then the same cluster gives the same victims.
        rows = rows[np.argsort(cluster.node_hashes()[rows], kind="stable")]
        start = crc32(ask.key.encode(), cluster.seed & 0xFFFFFFFF) % len(rows)
        clean: list[Candidate] = []
        violating: list[Candidate] = []
        hopeless: list[Reasons] = []
        rows = np.concatenate((rows[start:], rows[:start]))
        most = trials(ask.spec)
        if most is not None and most < len(rows):
            hopeless += [(NOT_TRIED,)] * (len(rows) - most)
            rows = rows[:most]
        for i in range(0, len(rows), enough):
            for outcome in trial(rows[i : i + enough]):
                if not isinstance(outcome, Candidate):
                    hopeless.append(outcome)
                    continue
                (violating if outcome.violations else clean).append(outcome)
                if clean and len(clean) + len(violating) >= enough:
                    return [*clean, *violating[:enough]], hopeless
        return [*clean, *violating[:enough]], hopeless

    def _enough(self, rows: int) -> int:
        args = self._args
        return max(rows * args.min_candidate_nodes_percentage // 100, args.min_candidate_nodes_absolute)

    def _trial(self, ask: Ask, engine: Engine, pod_class: PodClass) -> Callable[[Array], Iterable[Outcome]]:
        cluster = engine.cluster
        amounts = pod_class.by_amounts()
        if amounts is None:
            return lambda rows: (_tried_out(ask, engine, row, pod_class.view) for row in rows.tolist())
        part, sure = amounts
        by_priority = self._reckoned.setdefault(pod_class, {})
        reckoning = by_priority.get(ask.priority)
        if reckoning is None:
            others = () if sure is not None else pod_class.parts
            reckoning = by_priority[ask.priority] = _Reckoning(ask.priority, part, others, cluster, pod_class.view)
        reckoning.catch_up()
        nominations, of, view = cluster.nominations, reckoning.of, pod_class.view
        floor = nominations.floor(ask.priority) if nominations else None
        if floor is None and sure is None and view is None:
            return of

        def can_be_reckoned(row: Row) -> bool:
            if sure is not None and not sure.item(row):
                return False
            if view is not None and any(map(cluster.changes_views, less_important(cluster, row, ask.priority, view))):
                return False
            return floor is None or not any(engine.meets(ask, record) for record in nominations.at(row, floor))

        def trial(rows: Array) -> Iterable[Outcome]:
            can_reckon = [can_be_reckoned(row) for row in rows.tolist()]
            reckoned = iter(of(rows[np.array(can_reckon, np.bool_)]))
            for row, is_known in zip(rows.tolist(), can_reckon, strict=True):
                yield next(reckoned) if is_known else _tried_out(ask, engine, row, view)

        return trial


class _Reckoning:
    """What is found for pods of one class and priority whose place depends on amounts alone, row by row."""

    def __init__(self, priority: int, part: Part, parts: Iterable[Part], cluster: Cluster, view: View | None) -> None:
        self._priority, self._judge, self._cluster, self._view = priority, part.judge, cluster, view
        assert part.judge.amounts is not None
        self._needed = part.judge.amounts
        self._others = [other.judge for other in parts if other is not part and other.judge.filters_on]
        self._of_shape: dict[Shape, tuple[int, ...]] = {}
        self._found: dict[Row, Outcome] = {}
        self._version, self._budgets = -1, -1

    def catch_up(self) -> None:
        """Forget what was found for rows that have changed since."""
        table, budgets = self._cluster.table, self._cluster.budgets
        changed = table.changes(self._version) if self._version >= 0 and budgets.version == self._budgets else None
        if changed is None:
            self._found.clear()
        else:
            for row in changed.rows:
                self._found.pop(row, None)
        self._version, self._budgets = table.read(), budgets.version

    def of(self, rows: Array) -> list[Outcome]:
        """In the order of the rows."""
        outcomes = self._found
        new = [row for row in rows.tolist() if row not in outcomes]
        if new:
            self._reckon(new)
        return [outcomes[row] for row in rows.tolist()]

    def _reckon(self, rows: list[Row]) -> None:
        """All rows at once: first all less important pods are gone, then they come back, the first of each row, the
        second of each row, and so on."""
        outcomes = self._found
        lower = {row: less_important(self._cluster, row, self._priority, self._view) for row in rows}
        outcomes.update({row: (NO_VICTIMS,) for row in rows if not lower[row]})
        rows = [row for row in rows if lower[row]]
        if not rows:
            return
        index = np.array(rows, np.intp)
        number = np.array([len(lower[row]) for row in rows])
        start = np.cumsum(number) - number
        ordered = {row: self._in_order(lower[row]) for row in rows} if self._cluster.budgets else None
        pods = [record for row in rows for record in (lower[row] if ordered is None else ordered[row][0])]
        amounts = np.array([self._amounts(record.shape) for record in pods], np.int64)
        spare = self._free(index) + np.add.reduceat(amounts, start)
        hopeless = self._hopeless(index, spare)
        goes = np.zeros(len(pods), np.bool_)
        helpful = np.array([row not in hopeless for row in rows])
        for i in range(int(number.max())):
            here = np.flatnonzero(helpful & (number > i))
            takes = amounts[start[here] + i]
            stays = (takes <= spare[here]).all(axis=1)
            spare[here[stays]] -= takes[stays]
            goes[start[here[~stays]] + i] = True
        outcomes.update(hopeless)
        going, end = goes.tolist(), 0
        for row in rows:
            begin, end = end, end + len(lower[row])
            if row in hopeless:
                continue
            victims = list(compress(pods[begin:end], going[begin:end]))
            violations = 0
            if ordered is not None:
                violations = sum(going[begin : begin + ordered[row][1]])
                victims.sort(key=importance)
            outcomes[row] = candidate(row, victims, violations)

    def _free(self, rows: Array) -> Array:
        """What is left of every amount on each row, with the pod."""
        left = self._needed.left(self._cells(rows))
        return np.stack([amounts - need.adds for need, amounts in zip(self._needed.needs, left, strict=True)], axis=1)

    def _cells(self, rows: Array) -> Many:
        return Many(self._cluster.table.columns if self._view is None else self._view.columns, rows)

    def _hopeless(self, rows: Array, spare: Array) -> dict[Row, Reasons]:
        """Rows on which the pod would not fit even without all less important pods, and why."""
        hopeless: dict[Row, Reasons] = {}
        judges = [(self._judge, ((spare < 0) << np.arange(spare.shape[1])).sum(axis=1))]
        cells = self._cells(rows)
        judges += [(judge, np.broadcast_to(np.asarray(judge.feasible(cells)), rows.shape)) for judge in self._others]
        for judge, masks in judges:
            out = np.flatnonzero(masks)
            words = {mask: tuple(judge.reasons(mask)) for mask in set(masks[out].tolist())}
            for row, mask in zip(rows[out].tolist(), masks[out].tolist(), strict=True):
                hopeless.setdefault(row, words[mask])
        return hopeless

    def _in_order(self, lower: list[PodRecord]) -> tuple[list[PodRecord], int]:
        """Those first whose going would violate a budget, and how many they are."""
        violated = self._cluster.budgets.violated(lower)
        first = list(compress(lower, violated))
        return [*first, *(record for record, violates in zip(lower, violated, strict=True) if not violates)], len(first)

    def _amounts(self, shape: Shape) -> tuple[int, ...]:
        """What a pod of this shape takes of the amounts that the verdict depends on."""
        gains_of_shape = self._of_shape.get(shape)
        if gains_of_shape is None:
            gains: dict[Hashable, int] = dict(shape.gains)
            gains_of_shape = self._of_shape[shape] = tuple([gains.get(need.taken, 0) for need in self._needed.needs])
        return gains_of_shape


def candidate(row: Row, victims: list[PodRecord], violations: int) -> Outcome:
    """`victims`: the most important first. Without any, nothing is known against the row."""
    if not victims:
        return ()
    highest = victims[0].priority
    since = min([started_s(record) for record in victims if record.priority == highest])
    total = sum([record.priority for record in victims]) + _LEAST_PRIORITY * len(victims)
    return Candidate(violations, highest, total, len(victims), -since, row, tuple([record.key for record in victims]))


def promised_row(ask: Ask, cluster: Cluster, promise: Nomination | None) -> Row | None:
    """The row that a pod is promised, or that its status names."""
    return cluster.table.row_of.get(ask.pod.status.nominated_node_name) if promise is None else promise.row


def going_for(ask: Ask, cluster: Cluster, promise: Nomination | None, row: Row, view: View | None) -> list[PodRecord]:
    """The less important pods that are going already, to make room for a pod on a row."""
    victims = frozenset[tuple[str, str]]() if promise is None else promise.victims
    lower = less_important(cluster, row, ask.priority, view)
    return [record for record in lower if record.preempted or (record.key, record.uid) in victims]


def less_important(cluster: Cluster, row: Row, priority: int, view: View | None) -> list[PodRecord]:
    """The pods of a row that may have to go for one of some priority, which sees no hidden ones."""
    lower = [
        record for record in cluster.index(Ranking).of(row).below(priority) if not (record.labels and is_held(record))
    ]
    return lower if view is None else view.visible(lower, row)


def is_held(record: PodRecord) -> bool:
    """Whether a pod says that it must not be preempted."""
    labels = record.labels
    return labels.get(names.LABEL_QUOTA_PREEMPTIBLE) == "false" or labels.get(names.LABEL_DISABLE_PREEMPTIBLE) == "true"


def _tried_out(ask: Ask, engine: Engine, row: Row, view: View | None) -> Outcome:
    return tried_out(ask, engine, row, less_important(engine.cluster, row, ask.priority, view))


def tried_out(ask: Ask, engine: Engine, row: Row, lower: list[PodRecord]) -> Outcome:
    """By taking pods off a row, and putting back those whose leaving is not needed. `lower`: the possible victims, the
    most important first."""
    cluster = engine.cluster
    if not lower:
        return (NO_VICTIMS,)
    with cluster.transaction() as attempt:
        for record in lower:
            cluster.remove_pod(record.key)
        if not engine.fits(ask, row):
            why = tuple(engine.words_against(ask, row))
            attempt.undo()
            return why
        violated = cluster.budgets.violated(lower)
        order = [record for record, violates in zip(lower, violated, strict=True) if violates]
        order += [record for record, violates in zip(lower, violated, strict=True) if not violates]
        stays = _kept(order, ask, engine, row)
        attempt.undo()
    going = [record for record in lower if record.key not in stays]
    violations = sum(
        1 for record, violates in zip(lower, violated, strict=True) if violates and record.key not in stays
    )
    return candidate(row, going, violations)


def _kept(gone: list[PodRecord], ask: Ask, engine: Engine, row: Row) -> frozenset[str]:
    """Put back, one after the other, the removed pods of a row that leave the pod enough room; their keys."""
    stays = []
    for record in gone:
        engine.cluster.place(record, row)
        if engine.fits(ask, row):
            stays.append(record.key)
        else:
            engine.cluster.remove_pod(record.key)
    return frozenset(stays)
