"""Job-level preemption: which less important pods have to go so that a whole job gets its places, or no pod goes.

Members that already fit keep those places. For the others, nodes are cleared of pods that may go, the cheapest node
first, until all members have a place; then pods that need not go stay, the most valuable first. The remaining plan is
tried out once more as a whole: no pod goes for a job that then does not fit.

    a victim        has a lower priority than every member of the job, and does not say that it must stay
    its gang        goes with it, if without it the gang has less than its minimum; where one of them must stay, all do
    its quota       still has its requests: a victim is recreated, so that no other quota gets a larger share
    the order       budgets that would be violated, priority, number, latest start, newest checkpoint

Where a member's own quota has no room, pods of that quota go, wherever they are. A job that must be gathered in the
network gets one domain cleared, the one in which the fewest have to go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import ClassVar, Final, TypeAlias

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import PreemptionPolicy
from koord.api.protocol.annotations.notice import CHECKPOINTED_AT
from koord.api.protocol.names import LABEL_DISABLE_PREEMPTIBLE, LABEL_QUOTA_PREEMPTIBLE
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.job_placing import NoPlan
from koord.scheduler.framework.remedy import Move, Remedy
from koord.scheduler.plugins.gangs import Gangs
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.ranking import Ranking, started_s
from koord.scheduler.state.table import Row

NEVER: Final = "preemption: not eligible due to preemptionPolicy=Never."
AWAITED: Final = "preemption: not eligible due to a terminating pod on the nominated node."
NO_HELP: Final = "preemption: the job does not fit, whichever less important pods go."
MOST_FIELDS: Final = 8
"""How many domains of the network are tried out."""
_LEAST_PRIORITY: Final = 1 << 31

Unit: TypeAlias = tuple[tuple[PodRecord, Row], ...]
"""Pods that go together, and where they are."""


class Checkpoints(Notes):
    """When pods on nodes last saved what they have computed, as they say. A note is that time in seconds."""

    name: ClassVar[str] = "Checkpoints"
    heeds: ClassVar[frozenset[str]] = frozenset({CHECKPOINTED_AT.key})

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.at_s: dict[str, float] = {}
        "By key of pod."

    def of(self, pod: Pod) -> object | None:
        # One that cannot be read counts as none: that costs the pod its rank among equals, and nothing else.
        meta = pod.metadata
        return CHECKPOINTED_AT.read(meta) if CHECKPOINTED_AT.key in meta.annotations else None

    def by_name(self, pod: Pod) -> bool:
        return False

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        assert isinstance(note, float)
        if sign > 0:
            self.at_s[record.key] = note
        else:
            self.at_s.pop(record.key, None)

    def usual_s(self) -> float:
        """The checkpoint time assumed for pods that never report one: the median start of the pods that do."""
        pods = self.cluster.pods
        began = [pods[key][0].start_s for key in self.at_s if key in pods]
        starts = [start_s for start_s in began if start_s is not None]
        return median(starts) if starts else 0.0


def is_preemptible(record: PodRecord) -> bool:
    """Whether a pod may go at all, as its labels say."""
    labels = record.labels
    return labels.get(LABEL_DISABLE_PREEMPTIBLE) != "true" and labels.get(LABEL_QUOTA_PREEMPTIBLE) != "false"


def remedy_for(asks: Sequence[Ask], engine: Engine, fields: Sequence[Sequence[Row]] | None = None) -> Remedy | None:
    """For a job that does not fit, or a pod alone. `fields`: rows of each domain; the job must be in one of them."""
    if not engine.cluster.table.row_of:
        return None
    if any(ask.spec.preemption_policy == PreemptionPolicy.NEVER for ask in asks):
        return Remedy(message=NEVER, final=True)
    if _awaits_victims(asks, engine.cluster):
        return Remedy(message=AWAITED, final=True)
    moves = _Search(asks, engine).run(fields)
    if moves is None:
        return Remedy(message=NO_HELP, clears=True, final=True)
    first = next((move for move in moves if move.pod == asks[0].key), None)
    others = tuple(move for move in moves if move is not first)
    node, victims = (None, ()) if first is None else (first.node, first.victims)
    return Remedy(node, victims, others=others, final=True)


def _awaits_victims(asks: Iterable[Ask], cluster: Cluster) -> bool:
    """Whether pods are going already to make room for the job."""
    for ask in asks:
        promise = cluster.nominations.of(ask.key)
        for key, uid in () if promise is None else promise.victims:
            placed_pod = cluster.pods.get(key)
            if placed_pod is not None and placed_pod[0].uid == uid:
                return True
        row = cluster.table.row_of.get(ask.pod.status.nominated_node_name)
        if row is not None:
            here = cluster.pods_on[row].values()
            if any(record.preempted and record.priority < ask.priority for record in here):
                return True
    return False


@dataclass(slots=True)
class _Plan:
    """Places, and who goes for each."""

    rows: dict[str, Row] = field(default_factory=dict)
    "By key of member."
    units: list[tuple[Unit, str]] = field(default_factory=list)
    "With the member for which each goes."


class _Search:
    """For one job."""

    def __init__(self, asks: Sequence[Ask], engine: Engine) -> None:
        self._asks, self._engine, self._cluster = asks, engine, engine.cluster
        self._by_key = {ask.key: ask for ask in asks}
        self._priority = min(ask.priority for ask in asks)
        self._gangs = engine.cluster.notes(Gangs)
        self._checkpoints = engine.cluster.notes(Checkpoints)
        self._usual_s = self._checkpoints.usual_s()
        self._freeing_of: dict[tuple[str, tuple[tuple[str, str], ...]], list[PodRecord]] = {}
        self._eases = False
        "Whether a member was refused whatever the node."

    def run(self, fields: Sequence[Sequence[Row]] | None = None) -> list[Move] | None:
        """Where members go, and who goes for them; None where that does not help."""
        with self._without_promises():
            if fields is None:
                plan = self._tried(None)
            else:
                plans = (self._tried(rows) for rows in fields[:MOST_FIELDS])
                plan = min((plan for plan in plans if plan is not None), key=self._cost_of, default=None)
        return None if plan is None else self._moves(plan)

    @contextmanager
    def _without_promises(self) -> Iterator[None]:
        """Members do not stand in each other's way, and nothing of what is tried out stays."""
        with self._cluster.transaction() as trial:
            promises = [self._cluster.nominations.withdraw(ask.key) for ask in self._asks]
            try:
                yield
            finally:
                trial.undo()
                for promise in promises:
                    if promise is not None:
                        self._cluster.nominations.put(promise)

    def _tried(self, field: Sequence[Row] | None) -> _Plan | None:
        """A plan that was tried out in the current state. `field`: the only rows where room is made."""
        with self._cluster.transaction() as trial:
            plan = self._cleared() if field is None else self._cleared_together(field)
            everything = [] if plan is None else list(plan.units)
            if plan is not None:
                self._let_stay(plan)
            trial.undo()
        if plan is None or self._stands(plan, is_gathered=field is not None):
            return plan
        plan.units = everything
        return plan if self._stands(plan, is_gathered=field is not None) else None

    def _cleared(self) -> _Plan | None:
        """All places that the job needs, with all possible victims gone from the nodes that it takes."""
        plan, engine = _Plan(), self._engine
        missing: list[list[Ask]] = []
        for need in engine.needs(self._asks):
            members = [self._asks[i] for i in need.members]
            left = need.at_least
            waiting: list[Ask] = []
            for ask in members:
                if left > 0 and self._has_place(ask, plan):
                    left -= 1
                else:
                    waiting.append(ask)
            missing.append(waiting[:left] if left > 0 else [])
            if len(missing[-1]) < left:
                return None
        wanted = [ask for part in missing for ask in part]
        wanted = [ask for ask in wanted if not self._is_let_in(ask, plan)]
        for row in self._in_order(wanted) if wanted else ():
            if not wanted:
                break
            wanted = self._clear(row, wanted, plan)
        return None if wanted else plan

    def _cleared_together(self, field: Sequence[Row]) -> _Plan | None:
        """The same for a job that is planned as a whole: rows of a domain are cleared, the cheapest first, until it has
        a plan."""
        plan = _Plan()
        rows = self._ranked(field)
        number = len(self._asks)
        while rows:
            for row in rows[:number]:
                plan.units += [(unit, self._asks[0].key) for unit in self._take_off(row)]
            rows, number = rows[number:], 2 * number
            with self._cluster.transaction() as step:
                units, plan.rows = list(plan.units), {}
                if self._goes_as_planned(plan):
                    return plan
                plan.units = units
                step.undo()
        return None

    def _goes_as_planned(self, plan: _Plan) -> bool:
        """Place members where a plugin plans them, which the plan then says; whether all get what they need."""
        rows = self._engine.planned(self._asks)
        if rows is None or isinstance(rows, NoPlan):
            return False
        for ask, row in zip(self._asks, rows, strict=True):
            if row is not None and self._ease(ask, plan) and self._engine.place_on(ask, row).node is not None:
                plan.rows[ask.key] = row
        return self._has_what_it_needs(plan)

    def _has_what_it_needs(self, plan: _Plan) -> bool:
        return all(
            sum(self._asks[i].key in plan.rows for i in need.members) >= need.at_least
            for need in self._engine.needs(self._asks)
        )

    def _has_place(self, ask: Ask, plan: _Plan) -> bool:
        node = self._engine.place(ask).node
        if node is not None:
            plan.rows[ask.key] = self._cluster.table.row_of[node]
        return node is not None

    def _is_let_in(self, ask: Ask, plan: _Plan) -> bool:
        """Whether a member that is refused whatever the node has a place once pods go that stand in its way there."""
        if self._engine.refusal(ask) is None:
            return False
        with self._cluster.transaction() as step:
            units = list(plan.units)
            if self._ease(ask, plan) and self._has_place(ask, plan):
                return True
            plan.units = units
            step.undo()
        return False

    def _ease(self, ask: Ask, plan: _Plan) -> bool:
        """Remove pods, the cheapest first, until no plugin refuses a member on every node; whether that helps."""
        refusal = self._engine.refusal
        if refusal(ask) is None:
            return True
        self._eases = True
        with self._cluster.transaction() as step:
            units = list(plan.units)
            for record in self._freeing(ask):
                placed_pod = self._cluster.pods.get(record.key)
                unit = () if placed_pod is None else self._unit(record, placed_pod[1])
                if unit and all(self._may_go(member) for member, _ in unit):
                    self._take_off_unit(unit)
                    plan.units.append((unit, ask.key))
                    if refusal(ask) is None:
                        return True
            plan.units = units
            step.undo()
        return False

    def _freeing(self, ask: Ask) -> list[PodRecord]:
        """Pods whose going may let in a member that is refused, the cheapest first."""
        key = ask.meta.namespace, tuple(sorted(ask.meta.labels.items()))
        freeing = self._freeing_of.get(key)
        if freeing is None:
            records = [record for record in self._engine.victims_of_refusal(ask) if self._may_go(record)]
            freeing = self._freeing_of[key] = sorted(records, key=lambda record: (*self._cost([record]), record.key))
        return freeing

    def _in_order(self, wanted: Sequence[Ask]) -> list[Row]:
        """Nodes that might help, those first whose pods matter least."""
        classes = {id(pod_class): pod_class for pod_class in (self._engine.class_of(ask) for ask in wanted)}
        return self._ranked({row for pod_class in classes.values() for row in pod_class.resolvable().tolist()})

    def _ranked(self, rows: Iterable[Row]) -> list[Row]:
        """The rows with pods that may go, the cheapest first."""
        ranked: list[tuple[tuple[float, ...], str, Row]] = []
        for row in rows:
            going = [record for unit in self._units(row) for record, _ in unit]
            if going:
                ranked.append((self._cost(going), self._cluster.table.names[row], row))
        return [row for _, _, row in sorted(ranked)]

    def _cost(self, going: Sequence[PodRecord]) -> tuple[float, ...]:
        violations = sum(self._cluster.budgets.violated(going))
        highest = max(record.priority for record in going)
        total = sum(record.priority + _LEAST_PRIORITY for record in going)
        began, saved = min(started_s(record) for record in going), max(self._saved_s(record) for record in going)
        return violations, highest, total, len(going), -began, -saved

    def _cost_of(self, plan: _Plan) -> tuple[float, ...]:
        going = [record for unit, _ in plan.units for record, _ in unit]
        return self._cost(going) if going else ()

    def _saved_s(self, record: PodRecord) -> float:
        return self._checkpoints.at_s.get(record.key, self._usual_s)

    def _units(self, row: Row) -> list[Unit]:
        """The pods that may go from a row, each with the gang that is useless without it."""
        units: dict[str, Unit] = {}
        for record in self._cluster.index(Ranking).of(row).below(self._priority):
            if record.key in units or record.key in self._by_key:
                continue
            unit = self._unit(record, row)
            if all(self._may_go(member) for member, _ in unit):
                units.update({member.key: unit for member, _ in unit})
        return list({id(unit): unit for unit in units.values()}.values())

    def _unit(self, record: PodRecord, row: Row) -> Unit:
        gang = self._gangs.of_pod.get(record.key)
        if gang is None or gang.settings is None or len(gang.placed) > gang.settings.min_available:
            return ((record, row),)
        gangs = (self._gangs.all.get(id_) for id_ in gang.group)
        keys = sorted({key for gang in gangs if gang is not None for key in gang.placed} | {record.key})
        return tuple(self._cluster.pods[key] for key in keys if key in self._cluster.pods)

    def _may_go(self, record: PodRecord) -> bool:
        return record.priority < self._priority and is_preemptible(record) and record.key not in self._by_key

    def _take_off(self, row: Row) -> list[Unit]:
        """Take all possible victims off a row."""
        going: list[Unit] = []
        # One after the other: with each that goes, a gang may come to its minimum.
        for record in self._cluster.index(Ranking).of(row).below(self._priority)[::-1]:
            if record.key in self._cluster.pods and record.key not in self._by_key:
                unit = self._unit(record, row)
                if all(self._may_go(member) for member, _ in unit):
                    self._take_off_unit(unit)
                    going.append(unit)
        return going

    def _take_off_unit(self, unit: Unit) -> None:
        for record, _ in unit:
            self._cluster.remove_pod(record.key)
            self._cluster.expect(record)

    def _put_back(self, unit: Unit) -> None:
        for record, row in unit:
            self._cluster.expect(record, -1)
            self._cluster.place(record, row)

    def _clear(self, row: Row, wanted: list[Ask], plan: _Plan) -> list[Ask]:
        """Clear a row, and place there as many members as fit; the members still without a place."""
        left: list[Ask] = []
        with self._cluster.transaction() as step:
            units = list(plan.units)
            going = self._take_off(row)
            placed: list[str] = []
            for ask in wanted:
                if (
                    self._engine.has_room(ask, row)
                    and self._ease(ask, plan)
                    and self._engine.place_on(ask, row).node is not None
                ):
                    placed.append(ask.key)
                else:
                    left.append(ask)
            if not placed:
                plan.units = units
                step.undo()
                return wanted
        plan.rows.update(dict.fromkeys(placed, row))
        plan.units += [(unit, placed[0]) for unit in going]
        return left

    def _let_stay(self, plan: _Plan) -> None:
        """Put back pods that need not go: first those whose eviction violates a budget, then the most valuable."""
        records = [record for unit, _ in plan.units for record, _ in unit]
        violated = dict(zip([record.key for record in records], self._cluster.budgets.violated(records), strict=True))

        def worth(unit: Unit) -> tuple[float, ...]:
            going = [record for record, _ in unit]
            return (
                -sum(violated[record.key] for record in going),
                -max(record.priority for record in going),
                -len(going),
                min(started_s(record) for record in going),
                max(self._saved_s(record) for record in going),
            )

        stays = []
        for unit, _ in sorted(plan.units, key=lambda freed: worth(freed[0])):
            with self._cluster.transaction() as step:
                self._put_back(unit)
                if self._all_fit({row for _, row in unit}, plan):
                    stays.append(unit)
                else:
                    step.undo()
        plan.units = [freed for freed in plan.units if freed[0] not in stays]

    def _all_fit(self, rows: set[Row], plan: _Plan) -> bool:
        """Whether members still fit on some rows, beside the pods there."""
        members = [self._by_key[key] for key, row in plan.rows.items() if row in rows]
        with self._cluster.transaction() as trial:
            for ask in members:
                self._cluster.remove_pod(ask.key)
            fits = all(self._engine.place_on(ask, plan.rows[ask.key]).node is not None for ask in members)
            if not fits:
                trial.undo()
        return fits and (not self._eases or self._is_let_through(plan))

    def _is_let_through(self, plan: _Plan) -> bool:
        """Whether no plugin refuses the last member of each kind, with all others in their places."""
        kinds = {
            (ask.meta.namespace, tuple(sorted(ask.meta.labels.items())), ask.shape): ask
            for ask in (self._by_key[key] for key in plan.rows)
        }
        for ask in kinds.values():
            with self._cluster.transaction() as trial:
                self._cluster.remove_pod(ask.key)
                is_refused = self._engine.refusal(ask) is not None
                trial.undo()
            if is_refused:
                return False
        return True

    def _stands(self, plan: _Plan, *, is_gathered: bool) -> bool:
        """Whether the whole job fits in the current state once all victims are gone."""
        with self._cluster.transaction() as trial:
            for unit, _ in plan.units:
                self._take_off_unit(unit)
            if is_gathered:
                again = _Plan()
                fits = self._goes_as_planned(again) and not again.units
                plan.rows = again.rows if fits else plan.rows
            else:
                rows = plan.rows.items()
                fits = all(self._engine.place_on(self._by_key[key], row).node is not None for key, row in rows)
            trial.undo()
        return fits

    def _moves(self, plan: _Plan) -> list[Move]:
        victims: dict[str, list[str]] = {}
        for unit, member in plan.units:
            victims.setdefault(member, []).extend(record.key for record, _ in unit)
        names = self._cluster.table.names
        return [Move(key, names[row], tuple(victims.get(key, ()))) for key, row in plan.rows.items()]
