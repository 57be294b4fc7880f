"""The engine: from a pod to a placement, for one profile.

`place` finds the class of a pod, takes the best row, has the exact checks look at it, and writes the placement;
`place_all` does so for a whole job in one transaction: all members, or none and nothing changed. It only decides; who
binds, waits or retries is elsewhere.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from koord.api.configuration.scheduler_plugins import IMPLEMENTS
from koord.api.kinds import Kind
from koord.api.machinery.struct import EMPTY
from koord.scheduler.framework.after_placing import AfterPlacing
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.exact import WorkedOut, exact_checks
from koord.scheduler.framework.jobs import JobPlacing, NoPlan
from koord.scheduler.framework.judge import Objection, Refused
from koord.scheduler.framework.nominated import Promised
from koord.scheduler.framework.placement import Placement as Placement
from koord.scheduler.framework.plugin import JobNeed, Permit, Plugin, Remedy
from koord.scheduler.framework.pod_class import Part, PodClass
from koord.scheduler.framework.writes import BindingPlan
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.nominations import Nomination
from koord.scheduler.state.notes import with_note
from koord.scheduler.state.pods import NotesOf, PodRecord, Shape
from koord.scheduler.state.table import Array, Row
from koord.scheduler.state.view import View

CLASSES_KEPT: Final = 512
CELLS_KEPT: Final = 1 << 24
"""Rows times classes: a class costs some 50 bytes a row, so this is 800 MB at most."""
SHAPES_KEPT: Final = 1 << 14
Ties: TypeAlias = Literal["by class", "fixed"]
"""Whom equal scores favour: another order of nodes for every class of pods, or one order for all."""


class PodBounds(Plugin):
    """Turns away pods beyond the bounds, before any plugin of a profile looks at them. Nothing that happens in the
    cluster helps them."""

    name = "PodBounds"


POD_BOUNDS: Final = PodBounds()


@dataclass(frozen=True, slots=True)
class Profile:
    """Which plugins take part, in which order, with which weights."""

    name: str
    plugins: tuple[Plugin, ...]
    "In the order in which a node meets their filters."
    weights: dict[str, int]
    order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    "By extension point, the names of who takes part, in order. A point that is not here: all who have it."
    scores_only: Mapping[str, bool] = field(default_factory=dict)
    "Plugins whose filter is off, and whether they still say what they know before filters."
    judging_not: frozenset[str] = frozenset()
    "Plugins that take part at other points alone: they neither filter nor score."
    ties: Ties = "by class"

    def at(self, point: str, attribute: str) -> list[Plugin]:
        """Who takes part at a point, in its order; plugins that no configuration knows come last."""
        having = [each for each in self.plugins if getattr(each, attribute) is not None]
        order = self.order.get(point)
        if order is None:
            return having
        place = {name: i for i, name in enumerate(order)}
        told = [each for each in having if each.name in place or each.name not in IMPLEMENTS]
        return sorted(told, key=lambda each: place.get(each.name, len(place)))


class _Spot(NamedTuple):
    """A row that will do for one pod, and what exact checks worked out for it there."""

    row: Row
    worked_out: WorkedOut = EMPTY


class Engine:
    """Decides for the pods of one profile on one cluster."""

    def __init__(self, cluster: Cluster, profile: Profile) -> None:
        self.cluster, self.profile = cluster, profile
        for plugin in profile.plugins:
            plugin.attach(cluster)
            if plugin.notes is not None:
                cluster.notes(plugin.notes)
        self._classes: OrderedDict[Hashable, PodClass] = OrderedDict()
        self._last: PodClass | None = None
        self._judging = [
            each for each in profile.plugins if each.compile is not None and each.name not in profile.judging_not
        ]
        self._viewing = [
            each for each in profile.plugins if each.view is not None and each.name not in profile.judging_not
        ]
        self._telling_apart = [each for each in profile.plugins if each in self._judging or each in self._viewing]
        self._refusing = profile.at("preFilter", "refuses")
        self._told = profile.at("preFilter", "tried")
        self._preferring = profile.at("preFilter", "prefers")
        self._reserving = [(each.name, each.reserve) for each in profile.at("reserve", "reserve") if each.reserve]
        self._helping = profile.at("postFilter", "post_filter")
        self._helping_jobs = profile.at("postFilter", "post_filter_job")
        self._after = AfterPlacing(cluster, profile)
        self._binding = profile.at("bind", "bind")
        self._planning = profile.at("permit", "plan_job")
        self._counting = profile.at("permit", "needs")
        self._grouping = [each for each in profile.plugins if each.group is not None]
        self._telling = [each for each in profile.plugins if each.tells is not None]
        self._meeting = [each for each in profile.plugins if each.meets is not None]
        self._of_shape: dict[Shape, tuple[int, tuple[Plugin, ...]]] = {}
        self._by_spec: dict[Hashable, int] = {}
        self._judged_before = self._run_before = 0

    @property
    def judging(self) -> list[str]:
        """The plugins that filter or score, in their order."""
        return [each.name for each in self._judging]

    @property
    def rows_judged(self) -> int:
        """How many rows have been looked at so far, over all classes: the work that decisions cost."""
        return self._judged_before + sum(each.rows_judged for each in self._classes.values())

    @property
    def bodies_run(self) -> int:
        """How many verdicts and scores plugins have given so far: plugins times rows."""
        return self._run_before + sum(each.bodies_run for each in self._classes.values())

    def class_of(self, ask: Ask) -> PodClass:
        """The class of a pod, made when it is new; the least recently used ones are dropped."""
        return self._class(ask, self._floor(ask))

    def _class(self, ask: Ask, floor: int | None) -> PodClass:
        key = self._key(ask) if floor is None else (floor, self._key(ask))
        found = self._classes.get(key)
        if found is None:
            found = self._classes[key] = self._new_class(ask, floor)
            most = max(1, min(CLASSES_KEPT, CELLS_KEPT // self.cluster.table.capacity))
            while len(self._classes) > most:
                _, dropped = self._classes.popitem(last=False)
                self._judged_before += dropped.rows_judged
                self._run_before += dropped.bodies_run
        elif found is not self._last:
            self._classes.move_to_end(key)
        self._last = found
        return found

    def _new_class(self, ask: Ask, floor: int | None) -> PodClass:
        key, view = self._whole_key(ask), self._view(ask)
        ties = key if self.profile.ties == "by class" else ()
        return PodClass(key, self.cluster, self._parts(ask, floor, view), ties, view)

    def _view(self, ask: Ask) -> View | None:
        """How pods like this one see the cluster. Two views of it are a fault of the plugins."""
        found = [(each.name, view) for each in self._viewing if each.view and (view := each.view(ask, self.cluster))]
        if len(found) > 1:
            raise ValueError(f"{' and '.join(name for name, _ in found)} each have a view for {ask.key}: one may")
        return found[0][1] if found else None

    def _key(self, ask: Ask) -> Hashable:
        """What all plugins look at in a pod. Of what depends on its spec alone, a number stands for all of it."""
        settled, others = self._of_shape.get(ask.template.shape) or self._look_at_spec(ask)
        cluster = self.cluster
        return (settled, *[plugin.key(ask, cluster) for plugin in others])

    def has_twins(self, ask: Ask) -> bool:
        """Whether pods that differ from this one in their names, uids, times and conditions only are of its class."""
        others = (self._of_shape.get(ask.template.shape) or self._look_at_spec(ask))[1]
        asked = {id(plugin): plugin for plugin in (*others, *self._preferring)}.values()
        return not any(plugin.keyed_by_name(self.cluster) for plugin in asked)

    def _look_at_spec(self, ask: Ask) -> tuple[int, tuple[Plugin, ...]]:
        """A number for the keys that depend on the spec alone, and the plugins that look at more."""
        if len(self._of_shape) >= SHAPES_KEPT or len(self._by_spec) >= SHAPES_KEPT:
            # Numbers are part of the classes' keys, so that all of it goes together.
            self._judged_before = self.rows_judged
            for known in (self._of_shape, self._by_spec, self._classes):
                known.clear()
        settled: list[Hashable] = [ask.excess]
        others: list[Plugin] = []
        for plugin in self._telling_apart if settled == [None] else ():
            if plugin.keyed_by_spec(ask):
                settled.append(plugin.key(ask, self.cluster))
            else:
                settled.append(...)
                others.append(plugin)
        found = self._by_spec.setdefault(tuple(settled), len(self._by_spec)), tuple(others)
        if ask.shape.of_spec:
            self._of_shape[ask.shape] = found
        return found

    def _whole_key(self, ask: Ask) -> Hashable:
        why = ask.excess
        return why if why is not None else tuple([plugin.key(ask, self.cluster) for plugin in self._telling_apart])

    def _floor(self, ask: Ask) -> int | None:
        """Which promises to other pods concern this one."""
        nominations = self.cluster.nominations
        return nominations.floor(ask.priority) if nominations.any else None

    def place(self, ask: Ask, *, explain: bool = False) -> Placement:
        """Decide for one pod, and count it on its node. A node that it was promised is tried first, and alone."""
        if self._refusing and (refused := self.refusal(ask)) is not None:
            plugin, why = refused
            nodes = {why: len(self.cluster.table)}
            held_as = self._held_as(plugin, ask)
            return Placement(ask.key, None, rejections=nodes, why_not={plugin: nodes}, refusal=why, held_as=held_as)
        nominations = self.cluster.nominations
        if not nominations.any and not ask.pod.status.nominated_node_name:
            return self._place(ask, self._class(ask, None), None, explain)
        with nominations.without(ask.key) as promise:
            named = self.cluster.table.row_of.get(ask.pod.status.nominated_node_name)
            placement = self._place(ask, self.class_of(ask), named if promise is None else promise.row, explain)
        if promise is not None and placement.node is not None:
            nominations.withdraw(ask.key)
            self.cluster.undoable(lambda: nominations.put(promise))
        return placement

    @property
    def refuses(self) -> bool:
        """Whether a plugin may turn pods away as things are, whatever the node."""
        return bool(self._refusing)

    def lets_through(self, asks: Sequence[Ask]) -> int:
        """How many of some pods, the first ones, nobody refuses if they are placed one after the other."""
        most = len(asks)
        for plugin in self._refusing if asks else ():
            most = min(most, 0 if plugin.lets_through is None else plugin.lets_through(asks[:most], self.cluster))
        return most

    def refusal(self, ask: Ask) -> tuple[str, str] | None:
        """The plugin that turns a pod away whatever the node, as things are now, and why."""
        for plugin in self._refusing:
            assert plugin.refuses is not None
            why = plugin.refuses(ask, self.cluster)
            if why is not None:
                return plugin.name, why
        return None

    def _held_as(self, refusing: str, ask: Ask) -> str:
        for plugin in self._refusing:
            if plugin.name == refusing and plugin.held_as is not None:
                return plugin.held_as(ask, self.cluster)
        return ""

    def frees(self, ask: Ask) -> list[PodRecord]:
        """Pods on nodes whose going may let in a pod that is refused: what those say who refuse it."""
        found: list[PodRecord] = []
        for plugin in self._refusing:
            assert plugin.refuses is not None
            if plugin.refuses(ask, self.cluster) is not None:
                found += () if plugin.frees is None else plugin.frees(ask, self.cluster)
        return found

    def tried(self, asks: Sequence[Ask], placements: Sequence[Placement]) -> None:
        """An attempt has ended: whoever refuses pods may note whom."""
        for plugin in self._told:
            assert plugin.tried is not None
            plugin.tried(asks, placements, self.cluster)

    def _place(self, ask: Ask, found: PodClass, first: Row | None, explain: bool) -> Placement:
        spot = None if first is None else self._spot(ask, first)
        if spot is None and self._preferring:
            spot = self._first_preferred(ask)
        if spot is None:
            spot = self._winner(ask, found)
        if spot is None:
            return self.nowhere(ask, found)
        node = self.cluster.table.names[spot.row]
        if not explain:
            self._reserve(ask, spot)
            return Placement(ask.key, node)
        scores, weights = found.scores(spot.row), self.profile.weights
        self._reserve(ask, spot)
        total = sum(weights.get(name, 0) * score for name, score in scores.items())
        return Placement(ask.key, node, scores, total)

    def _first_preferred(self, ask: Ask) -> _Spot | None:
        for row in self.preferred(ask):
            spot = self._spot(ask, row)
            if spot is not None:
                return spot
        return None

    def preferred(self, ask: Ask) -> Sequence[Row]:
        """Rows that a pod is tried on before all others, in their order: what the first plugin that has any says."""
        for plugin in self._preferring:
            assert plugin.prefers is not None
            rows = plugin.prefers(ask, self.cluster)
            if rows:
                return rows
        return ()

    def place_on(self, ask: Ask, row: Row) -> Placement:
        """Decide for one pod and one row: it goes there, if all plugins take it."""
        spot = self._spot(ask, row)
        if spot is None:
            against = self._against(ask, row)
            counts = {} if against is None else dict.fromkeys(against[1], 1)
            why_not = EMPTY if against is None else {against[0]: counts}
            return Placement(ask.key, None, rejections=counts, why_not=why_not)
        self._reserve(ask, spot)
        return Placement(ask.key, self.cluster.table.names[row])

    def place_all(self, asks: Sequence[Ask], *, at_least: int | None = None, explain: bool = False) -> list[Placement]:
        """Decide for a whole job: all its parts get what they need, or nobody is placed. `at_least`: how many members
        it takes, where the caller knows better than plugins."""
        return JobPlacing(self).place_all(asks, at_least, explain=explain)

    def needs(self, asks: Sequence[Ask]) -> Sequence[JobNeed]:
        """What a job needs for any of its pods to be bound: all of them, where no plugin says so."""
        for plugin in self._counting:
            assert plugin.needs is not None
            found = plugin.needs(asks, self.cluster)
            if found is not None:
                return found
        return (JobNeed("the job", tuple(range(len(asks))), len(asks)),)

    def planned(self, asks: Sequence[Ask]) -> Sequence[Row | None] | NoPlan | None:
        """The rows that a plugin wants for the members of a job, or why it has none. What it tried out is undone."""
        for plugin in self._planning:
            assert plugin.plan_job is not None
            with self.cluster.transaction() as trial:
                rows = plugin.plan_job(asks, self)
                trial.undo()
            if rows is not None:
                return NoPlan(plugin.name, rows) if isinstance(rows, str) else rows
        return None

    def room_for(self, ask: Ask) -> Array:
        """How many pods like this one fit on each row, by amounts; 0 where the row will not do at all.

        What is no amount (ports, spreading, exact checks) may let in fewer: `place_on` tells.
        """
        found = self.class_of(ask)
        table = self.cluster.table
        room = np.zeros(table.capacity, np.int64)
        rows = found.feasible_rows()
        most = np.full(len(rows), np.iinfo(np.int64).max)
        for part in found.parts:
            judge = part.judge
            for need, left in zip(judge.amounts, judge.left(found.cells(rows)), strict=True):
                if need.adds > 0:
                    np.minimum(most, left // need.adds, out=most)
        room[rows] = np.maximum(most, 0)
        return room

    def by_domain(self, values: Array, label: str) -> dict[str, int]:
        """A number of every row, added up by the value of a label of nodes; rows without it are left out."""
        found: dict[str, int] = {}
        for row in np.flatnonzero(values).tolist():
            node = self.cluster.nodes.get(row)
            domain = None if node is None else node.metadata.labels.get(label)
            if domain is not None:
                found[domain] = found.get(domain, 0) + int(values[row])
        return found

    def remedy(self, ask: Ask) -> Remedy:
        """What would help a pod that fits nowhere: the first plugin that knows decides, the others' words add up."""
        return _first(plugin.post_filter(ask, self) for plugin in self._helping if plugin.post_filter is not None)

    def remedy_for_job(self, asks: Sequence[Ask]) -> Remedy:
        """The same for a job."""
        helping = (each.post_filter_job for each in self._helping_jobs)
        return _first(help_job(asks, self) for help_job in helping if help_job is not None)

    def nominate(self, ask: Ask, remedy: Remedy) -> tuple[str, ...]:
        """Promise a pod the node of a remedy, or nothing any more. The keys of less important pods that were promised
        the same node and are not any longer: they may be tried again."""
        nominations = self.cluster.nominations
        if remedy.node is None:
            if remedy.clears:
                nominations.withdraw(ask.key)
            return ()
        row = self.cluster.table.row_of[remedy.node]
        lower = [each.record.key for each in nominations.on(row) if each.record.priority < ask.priority]
        for key in lower:
            nominations.withdraw(key)
        pods = self.cluster.pods
        victims = frozenset((key, pods[key][0].uid) for key in remedy.victims if key in pods)
        notes = self.cluster.noted(ask.pod, template=ask.template)
        nominations.put(Nomination(ask.record(self.cluster.now_s, notes), row, victims))
        return tuple(lower)

    def group(self, ask: Ask) -> str | None:
        """The job that a waiting pod belongs to; None: it goes alone."""
        for plugin in self._grouping:
            assert plugin.group is not None
            found = plugin.group(ask, self.cluster)
            if found is not None:
                return found
        return None

    @property
    def binds_stand_ins(self) -> bool:
        """Whether some plugin binds what is no pod to the API server."""
        return bool(self._binding)

    def stands_for(self, ask: Ask) -> tuple[Kind[Any], Any] | None:
        """The object that a pod stands for which is none to the API server."""
        for plugin in self._binding:
            if plugin.stands_for is not None and (found := plugin.stands_for(ask)) is not None:
                return found
        return None

    def about(self, asks: Sequence[Ask]) -> list[tuple[Kind[Any], Any]]:
        """Objects, beside the pods of a job, at which users look to see how it fares."""
        telling = (plugin.about for plugin in self._grouping if plugin.about is not None)
        return [each for about in telling for each in about(asks, self.cluster)]

    def judged_alone(self, ask: Ask) -> PodClass:
        """The class of a pod, new and kept by nobody: to try out what a changed pod would meet."""
        return self._new_class(ask, self._floor(ask))

    def permit(self, ask: Ask, row: Row) -> Permit:
        """Whether a placed pod waits for others."""
        return self._after.permit(ask, row)

    def plan_together(self, asks: Sequence[Ask]) -> Mapping[str, Any]:
        """What is written on each of some pods because they are bound together."""
        return self._after.plan_together(asks)

    def plan(self, ask: Ask, row: Row, together: Mapping[str, Any] = EMPTY) -> BindingPlan:
        """What binding a placed pod takes, as data. `together`: as `plan_together` said."""
        return self._after.plan(ask, row, together)

    def told(self, key: str) -> dict[str, str]:
        """What a pod on a node has by its notes, in words, by plugin."""
        placed = self.cluster.pods.get(key)
        notes = {} if placed is None else dict(placed[0].notes)
        having = [(each, notes[each.name]) for each in self._telling if each.name in notes]
        found = {each.name: each.tells(note) for each, note in having if each.tells is not None}
        return {name: words for name, words in found.items() if words}

    def fits(self, ask: Ask, row: Row) -> bool:
        """Whether one row will do for a pod, by exact checks too, and whoever was promised it."""
        return self._spot(ask, row) is not None

    def has_room(self, ask: Ask, row: Row) -> bool:
        """As `fits`, whoever refuses the pod whatever the node."""
        return self._room(ask, row) is not None

    def _spot(self, ask: Ask, row: Row) -> _Spot | None:
        return None if self._refusing and self.refusal(ask) is not None else self._room(ask, row)

    def _room(self, ask: Ask, row: Row) -> _Spot | None:
        found = self.class_of(ask)
        if not found.is_feasible(row):
            return None
        checked = self._checked(ask, found, row)
        return None if isinstance(checked, tuple) else _Spot(row, checked)

    def words_against(self, ask: Ask, row: Row) -> list[str]:
        """Why a row will not do, in the words of the first who says so; nothing where it will."""
        against = self._against(ask, row)
        return [] if against is None else against[1]

    def _against(self, ask: Ask, row: Row) -> tuple[str, list[str]] | None:
        """The plugin that speaks against a row, and its words."""
        if self._refusing and (refused := self.refusal(ask)) is not None:
            return refused[0], [refused[1]]
        found = self._crowded(ask, row) or self.class_of(ask).reasons(row)
        if found is not None:
            return found[0].plugin.name, found[1]
        checked = self._checked(ask, self.class_of(ask), row)
        return (checked[0], [checked[1].reason]) if isinstance(checked, tuple) else None

    def _winner(self, ask: Ask, found: PodClass) -> _Spot | None:
        if not found.exact and not self.cluster.nominations.any:
            row = found.best()
            return None if row is None else _Spot(row)
        # Each check that fails bars a row, until that changes.
        while (row := found.best()) is not None:
            checked = self._checked(ask, found, row)
            if not isinstance(checked, tuple):
                return _Spot(row, checked)
            found.bar(row, *checked)
        return None

    def _checked(self, ask: Ask, found: PodClass, row: Row) -> WorkedOut | tuple[str, Objection]:
        """What exact checks worked out for a row that would do by its columns; or who speaks against it, and why."""
        worked_out: WorkedOut = EMPTY
        if found.exact:
            checked = exact_checks(found.exact, found.doors, ask, row)
            if isinstance(checked, tuple):
                return checked
            worked_out = checked
        why = self._crowded(ask, row)
        return worked_out if why is None else (why[0].plugin.name, Objection(", ".join(why[1])))

    def meets(self, ask: Ask, promised: PodRecord) -> bool:
        """Whether a pod could be turned away by a promised one for more than its amounts."""
        return any(plugin.meets(ask, promised) for plugin in self._meeting if plugin.meets is not None)

    def _crowded(self, ask: Ask, row: Row) -> tuple[Part, list[str]] | None:
        """Who would turn a pod away if all were there already who were promised the row, where that takes a trial."""
        floor = self._floor(ask)
        if floor is None:
            return None
        promised = self.cluster.nominations.at(row, floor)
        if not any(self.meets(ask, each) for each in promised):
            return None
        with self.cluster.transaction() as attempt:
            for each in promised:
                self.cluster.place(each, row)
            why = self._class(ask, None).reasons(row)
            attempt.undo()
        return why

    def _reserve(self, ask: Ask, spot: _Spot) -> None:
        cluster = self.cluster
        cluster.place(ask.record(cluster.now_s, self._notes(ask, spot)), spot.row)

    def records_of(self, asks: Sequence[Ask], rows: Sequence[Row], *, twins: bool) -> list[PodRecord]:
        """What is kept of pods of one class that are being placed, which no exact check looks at. `twins`: they differ
        in their names, uids, times and conditions only."""
        cluster, first = self.cluster, asks[0]
        said = None
        if twins and not cluster.noted_by_name(first.pod, first.template):
            said = cluster.noted(first.pod, None, first.template)
        pairs = zip(asks, rows, strict=True)
        return [ask.record(cluster.now_s, self._notes(ask, _Spot(row), said)) for ask, row in pairs]

    def _notes(self, ask: Ask, spot: _Spot, said: NotesOf | None = None) -> NotesOf:
        """What plugins note of a pod that is being placed: what it says itself, and what it takes there."""
        row, worked_out = spot
        cluster = self.cluster
        notes = cluster.noted(ask.pod, None, ask.template) if said is None else said
        for name, reserve in self._reserving:
            note = reserve(ask, row, cluster, worked_out.get(name))
            if note is not None:
                notes = with_note(notes, name, note)
        return notes

    def nowhere(self, ask: Ask, found: PodClass, why_not: Mapping[str, Mapping[str, int]] | None = None) -> Placement:
        """Why no row will do; `why_not`: where the caller has worked that out."""
        if why_not is None:
            why_not = found.why_not()
        histogram: dict[str, int] = {}
        for counts in why_not.values():
            for reason, rows in counts.items():
                histogram[reason] = histogram.get(reason, 0) + rows
        refusal = found.refusal()
        why = ", ".join(refusal[1]) if refusal else ""
        return Placement(ask.key, None, rejections=histogram, why_not=why_not, refusal=why)

    def _parts(self, ask: Ask, floor: int | None = None, view: View | None = None) -> list[Part]:
        why = ask.excess
        if why is not None:
            return [Part(POD_BOUNDS, Refused(why), 0)]
        parts, scores_only = [], self.profile.scores_only
        for plugin in self._judging:
            assert plugin.compile is not None
            if view is None or plugin.compile_through is None:
                judge = plugin.compile(ask, self.cluster)
            else:
                judge = plugin.compile_through(ask, self.cluster, view)
            if judge is None:
                continue
            if view is not None:
                judge = copy(judge)
                judge.view = view
            refuses = scores_only.get(plugin.name)
            if refuses is not None and not (refuses and isinstance(judge, Refused)):
                judge = judge.scoring(pins=refuses)
            if floor is not None and judge.amounts:
                judge.promised = Promised(self.cluster.nominations, floor)
            parts.append(Part(plugin, judge, self.profile.weights.get(plugin.name, 0)))
        return parts


def _first(remedies: Iterable[Remedy | None]) -> Remedy:
    """The first that helps, or stops here; else all words together."""
    words, clears, event = [], False, None
    for found in remedies:
        if found is None:
            continue
        if found.helps or found.final:
            return found
        words.append(found.message)
        clears, event = clears or found.clears, event or found.event
    return Remedy(message=" ".join(words), clears=clears, event=event)
