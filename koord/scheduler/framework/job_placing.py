"""Whole jobs: every part of a job gets what it needs, in one transaction, or no pod is placed and nothing has changed.

Members that come after each other and look alike are placed by one pass over the nodes (`alike`), with the places that
they would have got one at a time; all others one at a time.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from koord.api.text.quantity import render
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Crowded, Gain
from koord.scheduler.framework.jobs import JobNeed
from koord.scheduler.framework.placement import Placement
from koord.scheduler.framework.pod_class import PodClass
from koord.scheduler.state.pods import Amounts
from koord.scheduler.state.stand_ins import is_stand_in
from koord.scheduler.state.table import Row

if TYPE_CHECKING:
    from koord.scheduler.framework.engine import Engine

FEW_ALIKE: Final = 4
"""Fewer members of a job are placed one at a time: a pass over all nodes costs more."""


@dataclass(frozen=True, slots=True)
class NoPlan:
    """A plugin has no places for a job."""

    plugin: str
    why: str


@dataclass(frozen=True, slots=True)
class _Places:
    """A job that is being placed."""

    asks: Sequence[Ask]
    rows: Sequence[Row | None] | None
    "Where a plugin wants its members."
    explain: bool
    is_lone: bool
    "Whether it has one part."
    placements: dict[int, Placement] = field(default_factory=dict)


class JobPlacing:
    """Places jobs for one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._cluster = engine, engine.cluster

    def place_all(self, asks: Sequence[Ask], at_least: int | None, *, explain: bool) -> list[Placement]:
        """Decide for a whole job: all its parts get what they need, or no pod is placed. `at_least`: how many members
        it takes, where the caller knows better than plugins."""
        everyone = tuple(range(len(asks)))
        needs = self._engine.needs(asks) if at_least is None else (JobNeed("the job", everyone, at_least),)
        with self._cluster.transaction() as transaction:
            rows = self._planned(asks)
            if isinstance(rows, NoPlan):
                counts = {rows.why: len(self._cluster.table)}
                refused = Placement("", None, rejections=counts, why_not={rows.plugin: counts}, refusal=rows.why)
                return [_also(refused, ask) for ask in asks]
            places = _Places(asks, rows, explain=explain, is_lone=len(needs) == 1)
            for need in needs:
                if need.waits:
                    places.placements.update(
                        (i, Placement(asks[i].key, None, rejections={need.waits: 1})) for i in need.members
                    )
            needs = [need for need in needs if not need.waits]
            fit = [self._place_part(places, need) for need in needs]
            missing = [(need, number) for need, number in zip(needs, fit, strict=True) if number < need.at_least]
            if missing:
                transaction.undo()
                short_of = "; ".join(_shortage(asks, need, number, places.placements) for need, number in missing)
                return [_left_out(asks[i], places.placements.get(i), short_of, sum(fit)) for i in everyone]
            self._place_some(places, [i for i in everyone if i not in places.placements], 0)
        return [places.placements[i] for i in everyone]

    def _planned(self, asks: Sequence[Ask]) -> Sequence[Row | None] | NoPlan | None:
        """Where a plugin wants members. A plan looks at the whole job, so that no member's promise stands in its way;
        members that are placed as planned need theirs no more."""
        nominations = self._cluster.nominations
        promises = [nominations.withdraw(ask.key) for ask in asks] if nominations.any else []
        rows = self._engine.planned(asks)
        for promise in promises:
            if promise is not None and (rows is None or isinstance(rows, NoPlan)):
                nominations.put(promise)
            elif promise is not None:
                self._cluster.undoable(partial(nominations.put, promise))
        return rows

    def _place_part(self, places: _Places, need: JobNeed) -> int:
        """Place as many members as a part needs; how many that were. Where not all are needed, and too few have a place
        in their order, those that ask for least come first: a large one may have taken what others need."""
        members, at_least = need.members, need.at_least
        smallest = _smallest_first(places.asks, members) if at_least < len(members) and places.rows is None else members
        if smallest == members:
            return self._place_some(places, members, at_least)
        with self._cluster.transaction() as trial:
            number = self._place_some(places, members, at_least)
            if number >= at_least:
                return number
            trial.undo()
        in_order = {i: places.placements.pop(i) for i in members if i in places.placements}
        if self._place_some(places, smallest, at_least) >= at_least:
            return at_least
        for i in members:
            places.placements.pop(i, None)
        places.placements.update(in_order)
        return number

    def _place_some(self, places: _Places, members: Iterable[int], at_least: int) -> int:
        """Place members of a job in order, as many as are needed, or all where none is; how many that were."""
        engine, number, placements_of = self._engine, 0, places.placements
        turned_away, apart = dict[PodClass, Placement](), set[PodClass]()
        left = deque(members)
        most = at_least or len(left)
        while left and number < most:
            if places.rows is not None:
                i = left.popleft()
                ask, row = places.asks[i], places.rows[i]
                placement = engine.nowhere(ask, engine.class_of(ask)) if row is None else engine.place_on(ask, row)
            else:
                placed = self._place_alike(places, left, most - number, at_least - number, apart)
                if placed is not None:
                    number += placed
                    turned_away.clear()
                    continue
                i = left.popleft()
                ask = places.asks[i]
                class_ = engine.class_of(ask)
                refused = turned_away.get(class_)
                # If nothing has changed since a pod that looks alike was rejected, this one is rejected too.
                placement = engine.place(ask, explain=places.explain) if refused is None else _also(refused, ask)
                if placement.node is not None:
                    turned_away.clear()
                elif not (
                    class_.exact
                    or self._cluster.nominations.any
                    or ask.pod.status.nominated_node_name
                    or (placement.refusal and engine.refuses)
                ):
                    turned_away[class_] = placement
            placements_of[i] = placement
            number += placement.node is not None
        return number

    def _place_alike(
        self, places: _Places, left: deque[int], most: int, at_least: int, apart: set[PodClass]
    ) -> int | None:
        """Decide for the next members that look alike, all at once, and take them off `left`; how many have a place.
        None where members must be decided one at a time: then their class is put into `apart`."""
        engine, asks = self._engine, places.asks
        first = asks[left[0]]
        if min(len(left), most) < FEW_ALIKE or places.explain or self._cluster.nominations.any:
            return None
        class_ = engine.class_of(first)
        if class_ in apart or not self._is_like(first, first, class_):
            return None
        apart.add(class_)
        gains = class_.gains(first)
        if gains is None or not self._cluster.table.sums_are_small:
            return None
        has_twins, others = engine.has_twins(first), list[Ask]()

        def is_like(ask: Ask) -> bool:
            if has_twins and self._is_free(ask) and _is_twin(ask, first):
                return True
            is_alike = self._is_like(ask, first, class_)
            if is_alike:
                others.append(ask)
            return is_alike

        members = list(takewhile(is_like, (asks[i] for i in islice(left, most))))
        twins = has_twins and not others
        if len(members) < FEW_ALIKE:
            # Others that come later may be more.
            apart.discard(class_)
            return None
        members = members[: engine.lets_through(members)]
        if len(members) < FEW_ALIKE:
            return None
        if places.is_lone and len(members) in (len(left), most):
            room = class_.room(gains)
            fit = at_least if room is None else int(room.sum())
            if room is not None and fit < at_least:
                rest = [asks[i] for i in islice(left, len(members), None)]
                if all(map(is_like, rest)):
                    # The job does not fit, and no other place depends on these: they need not be tried out.
                    turned_away = engine.nowhere(first, class_, class_.why_not_with(room, gains))
                    everyone = (*members, *rest)
                    for n, ask in enumerate(everyone):
                        places.placements[left.popleft()] = (
                            Placement(ask.key, "") if n < fit else _also(turned_away, ask)
                        )
                    return min(fit, len(everyone))
        chosen = class_.best_rows(len(members), gains)
        if chosen is None or not len(chosen):
            return None
        rows: list[Row] = chosen.tolist()
        if not self._go_as_expected(members[: len(rows)], rows, class_, gains, twins=twins):
            return None
        if len(members) == len(rows):
            apart.discard(class_)
        names = self._cluster.table.names
        for ask, row in zip(members, rows, strict=False):
            places.placements[left.popleft()] = Placement(ask.key, names[row])
        return len(rows)

    def _is_free(self, ask: Ask) -> bool:
        """Whether a member has no place, and is promised none."""
        return ask.key not in self._cluster.pods and not ask.pod.status.nominated_node_name

    def _is_like(self, ask: Ask, first: Ask, class_: PodClass) -> bool:
        """Whether a member may be placed with the first one of a class."""
        if not self._is_free(ask) or self._engine.preferred(ask):
            return False
        return ask.shape.gains == first.shape.gains and self._engine.class_of(ask) is class_

    def _go_as_expected(
        self,
        members: Sequence[Ask],
        rows: Sequence[Row],
        class_: PodClass,
        gains: Mapping[Hashable, Gain],
        *,
        twins: bool,
    ) -> bool:
        """Place members of one class. Where a plugin counts one of them otherwise than it said, or tells them apart
        once some have a place, nothing has changed."""
        different, numbers = np.unique(np.array(rows, np.intp), return_counts=True)
        cells = Crowded(self._cluster.table.columns, different, numbers, gains)
        expected = [(column, cells[column]) for column in gains]
        with self._cluster.transaction() as trial:
            records = self._engine.records_of(members, rows, twins=twins)
            self._cluster.place_many(records, rows)
            columns = self._cluster.table.columns
            is_as_expected = all(np.array_equal(columns[name][different], there) for name, there in expected)
            if is_as_expected and self._engine.class_of(members[-1]) is class_:
                return True
            trial.undo()
            return False


def _smallest_first(asks: Sequence[Ask], members: tuple[int, ...]) -> tuple[int, ...]:
    """By what they ask for, as parts of the most that one of them asks for."""
    most: dict[str, int] = {}
    for i in members:
        for name, amount in asks[i].requests:
            most[name] = max(most.get(name, 1), amount)
    sizes = {i: sum(amount / most[name] for name, amount in asks[i].requests) for i in members}
    return tuple(sorted(members, key=sizes.__getitem__))


def _is_twin(ask: Ask, other: Ask) -> bool:
    """Whether two pods differ in their names, uids, times and conditions only."""
    mine, theirs = ask.meta, other.meta
    return (
        ask.template is other.template
        and is_stand_in(mine.name) == is_stand_in(theirs.name)
        and mine.namespace == theirs.namespace
        and mine.labels == theirs.labels
        and mine.annotations == theirs.annotations
        and mine.owner_references == theirs.owner_references
        and mine.deletion_timestamp == theirs.deletion_timestamp
        and ask.pod.status.qos_class == other.pod.status.qos_class
    )


def _also(alike: Placement, ask: Ask) -> Placement:
    return msgspec.structs.replace(alike, pod=ask.key)


def _left_out(ask: Ask, placement: Placement | None, short_of: str, fit: int) -> Placement:
    """What becomes of a member of a job that does not fit."""
    if placement is None or placement.node is not None:
        return Placement(ask.key, None, rejections={"the job does not fit": 1}, short_of=short_of, fit=fit)
    return msgspec.structs.replace(placement, short_of=short_of, fit=fit)


def _shortage(asks: Sequence[Ask], need: JobNeed, fit: int, placements: Mapping[int, Placement]) -> str:
    """`gang shop/train needs 8 pods at once, 5 fit; short of 3 x (cpu 4, memory 8Gi)`."""
    without = [i for i in need.members if i not in placements or placements[i].node is None][: need.at_least - fit]
    rooms = Counter(asks[i].requests for i in without)
    listed = ", ".join(f"{number} x ({_room(requests)})" for requests, number in rooms.items())
    return f"{need.name} needs {need.at_least} pods at once, {fit} fit" + (f"; short of {listed}" if listed else "")


def _room(requests: Amounts) -> str:
    amounts = [f"{name} {render(name, amount)}" for name, amount in requests if amount]
    return ", ".join(amounts) or "a place"
