"""The engine: from a pod to a placement, for one profile.

`place` finds the class of a pod, takes the best row, has the exact checks look at it, and writes the placement;
`place_all` does so for a whole job in one transaction: all members, or none and nothing changed. It only decides; who
binds, waits or retries is elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from koord.api.kinds import Kind
from koord.api.machinery.struct import EMPTY
from koord.scheduler.framework.after_placing import AfterPlacing
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.classes import Classes
from koord.scheduler.framework.exact import WorkedOut, exact_checks
from koord.scheduler.framework.exact_check import Objection
from koord.scheduler.framework.job_placing import JobPlacing, NoPlan
from koord.scheduler.framework.jobs import JobNeed, Jobs, Permit
from koord.scheduler.framework.nominating import Nominating
from koord.scheduler.framework.placement import Placement as Placement
from koord.scheduler.framework.pod_class import Part, PodClass
from koord.scheduler.framework.profile import Profile as Profile
from koord.scheduler.framework.refusals import ProfileRefusals
from koord.scheduler.framework.remedy import Remedy
from koord.scheduler.framework.stand_ins import StandIns
from koord.scheduler.framework.writes import BindingPlan
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.nominations import Nomination
from koord.scheduler.state.notes import with_note
from koord.scheduler.state.pods import NotesOf, PodRecord
from koord.scheduler.state.table import Array, Row

Reserves: TypeAlias = Callable[[Ask, Row, Cluster, object], object]


class _Spot(NamedTuple):
    """A row that will do for one pod, and the results of exact checks for it there."""

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
        self._classes = Classes(cluster, profile)
        self._refusals = ProfileRefusals(profile)
        self.refuses = bool(self._refusals)
        "Whether a plugin may currently refuse pods on every node."
        nominating: list[tuple[str, Nominating]] = profile.at("preFilter", "nominating")
        self._preferring = [part.prefers for _, part in nominating if part.prefers is not None]
        self._reserving: list[tuple[str, Reserves]] = profile.at("reserve", "reserve")
        self._helping: list[tuple[str, Callable[[Ask, Engine], Remedy | None]]] = profile.at(
            "postFilter", "post_filter"
        )
        self._helping_jobs: list[tuple[str, Jobs]] = profile.at("postFilter", "jobs")
        self._planning: list[tuple[str, Jobs]] = profile.at("permit", "jobs")
        self._jobs = [plugin.jobs for plugin in profile.plugins if plugin.jobs is not None]
        self._stand_ins: list[tuple[str, StandIns]] = profile.at("bind", "stand_ins")
        self._meeting = [
            plugin.nominating.meets
            for plugin in profile.plugins
            if plugin.nominating is not None and plugin.nominating.meets is not None
        ]
        self._after = AfterPlacing(cluster, profile)

    @property
    def judging(self) -> list[str]:
        """The plugins that filter or score, in their order."""
        return self._classes.judging

    @property
    def rows_judged(self) -> int:
        """How many rows have been looked at so far, over all classes: the work that decisions cost."""
        return self._classes.rows_judged

    @property
    def bodies_run(self) -> int:
        """How many verdicts and scores plugins have given so far: plugins times rows."""
        return self._classes.bodies_run

    def class_of(self, ask: Ask) -> PodClass:
        """The class of a pod, made when it is new."""
        return self._classes.of(ask, self._classes.floor(ask))

    def has_twins(self, ask: Ask) -> bool:
        """Whether pods that differ from this one in their names, uids, times and conditions only are of its class."""
        return self._classes.has_twins(ask)

    def place(self, ask: Ask, *, explain: bool = False) -> Placement:
        """Decide for one pod, and count it on its node. A node that it was promised is tried first, and alone."""
        if self.refuses and (refused := self.refusal(ask)) is not None:
            plugin, why = refused
            nodes = {why: len(self.cluster.table)}
            held_as = self._refusals.condition(plugin, ask)
            return Placement(ask.key, None, rejections=nodes, why_not={plugin: nodes}, refusal=why, held_as=held_as)
        nominations = self.cluster.nominations
        if not nominations.any and not ask.pod.status.nominated_node_name:
            return self._place(ask, self._classes.of(ask, None), None, explain)
        with nominations.without(ask.key) as promise:
            named = self.cluster.table.row_of.get(ask.pod.status.nominated_node_name)
            placement = self._place(ask, self.class_of(ask), named if promise is None else promise.row, explain)
        if promise is not None and placement.node is not None:
            nominations.withdraw(ask.key)
            self.cluster.undoable(lambda: nominations.put(promise))
        return placement

    def lets_through(self, asks: Sequence[Ask]) -> int:
        """How many leading pods no plugin refuses if they are placed in order."""
        return self._refusals.lets_through(asks)

    def refusal(self, ask: Ask) -> tuple[str, str] | None:
        """The plugin that currently refuses a pod on every node, and why."""
        return self._refusals.of(ask)

    def victims_of_refusal(self, ask: Ask) -> list[PodRecord]:
        """Pods on nodes whose going may let in a refused pod."""
        return self._refusals.victims(ask)

    def tried(self, asks: Sequence[Ask], placements: Sequence[Placement]) -> None:
        """An attempt has ended: plugins that refuse pods may note which."""
        self._refusals.tried(asks, placements)

    def _place(self, ask: Ask, pod_class: PodClass, first: Row | None, explain: bool) -> Placement:
        spot = None if first is None else self._spot(ask, first)
        if spot is None and self._preferring:
            spot = self._first_preferred(ask)
        if spot is None:
            spot = self._winner(ask, pod_class)
        if spot is None:
            return self.nowhere(ask, pod_class)
        node = self.cluster.table.names[spot.row]
        if not explain:
            self._reserve(ask, spot)
            return Placement(ask.key, node)
        scores, weights = pod_class.scores(spot.row), self.profile.weights
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
        for prefers in self._preferring:
            rows = prefers(ask, self.cluster)
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
        """Decide for a whole job: all its parts get what they need, or no pod is placed. `at_least`: how many members
        the job needs, where the caller knows better than plugins."""
        return JobPlacing(self).place_all(asks, at_least, explain=explain)

    def needs(self, asks: Sequence[Ask]) -> Sequence[JobNeed]:
        """What a job needs for any of its pods to be bound: all of them, if no plugin says otherwise."""
        for _, jobs in self._planning:
            job_needs = jobs.needs(asks)
            if job_needs is not None:
                return job_needs
        return (JobNeed("the job", tuple(range(len(asks))), len(asks)),)

    def planned(self, asks: Sequence[Ask]) -> Sequence[Row | None] | NoPlan | None:
        """The rows that a plugin wants for the members of a job, or why it has none. What it tried out is undone."""
        for name, jobs in self._planning:
            with self.cluster.transaction() as trial:
                rows = jobs.plan(asks, self)
                trial.undo()
            if rows is not None:
                return NoPlan(name, rows) if isinstance(rows, str) else rows
        return None

    def room_for(self, ask: Ask) -> Array:
        """How many pods like this one fit on each row, by amounts; 0 where the row will not do at all.

        What is no amount (ports, spreading, exact checks) may let in fewer: `place_on` tells.
        """
        pod_class = self.class_of(ask)
        table = self.cluster.table
        room = np.zeros(table.capacity, np.int64)
        rows = pod_class.feasible_rows()
        most = np.full(len(rows), np.iinfo(np.int64).max)
        for part in pod_class.parts:
            amounts = part.judge.amounts
            if amounts is None:
                continue
            for need, left in zip(amounts.needs, amounts.left(pod_class.cells(rows)), strict=True):
                if need.adds > 0:
                    np.minimum(most, left // need.adds, out=most)
        room[rows] = np.maximum(most, 0)
        return room

    def by_domain(self, values: Array, label: str) -> dict[str, int]:
        """A number of every row, added up by the value of a label of nodes; rows without it are left out."""
        room_by_domain: dict[str, int] = {}
        for row in np.flatnonzero(values).tolist():
            node = self.cluster.nodes.get(row)
            domain = None if node is None else node.metadata.labels.get(label)
            if domain is not None:
                room_by_domain[domain] = room_by_domain.get(domain, 0) + int(values[row])
        return room_by_domain

    def remedy(self, ask: Ask) -> Remedy:
        """What would help a pod that fits nowhere: the first plugin that knows decides, the others' words add up."""
        return _first(post_filter(ask, self) for _, post_filter in self._helping)

    def remedy_for_job(self, asks: Sequence[Ask]) -> Remedy:
        """The same for a job."""
        return _first(jobs.post_filter(asks, self) for _, jobs in self._helping_jobs)

    def nominate(self, ask: Ask, remedy: Remedy) -> tuple[str, ...]:
        """Promise a pod the node of a remedy, or nothing any more. The keys of less important pods that were promised
        the same node and are not any longer: they may be tried again."""
        nominations = self.cluster.nominations
        if remedy.node is None:
            if remedy.clears:
                nominations.withdraw(ask.key)
            return ()
        row = self.cluster.table.row_of[remedy.node]
        lower = [
            nomination.record.key for nomination in nominations.on(row) if nomination.record.priority < ask.priority
        ]
        for key in lower:
            nominations.withdraw(key)
        pods = self.cluster.pods
        victims = frozenset((key, pods[key][0].uid) for key in remedy.victims if key in pods)
        notes = self.cluster.noted(ask.pod, template=ask.template)
        nominations.put(Nomination(ask.record(self.cluster.now_s, notes), row, victims))
        return tuple(lower)

    def group(self, ask: Ask) -> str | None:
        """The job that a waiting pod belongs to; None: it goes alone."""
        for jobs in self._jobs:
            group = jobs.group(ask)
            if group is not None:
                return group
        return None

    @property
    def binds_stand_ins(self) -> bool:
        """Whether some plugin binds objects that are not pods to the API server."""
        return bool(self._stand_ins)

    def stands_for(self, ask: Ask) -> tuple[Kind[Any], Any] | None:
        """The object that a pod stands for, if the API server does not have the pod."""
        objects = (stand_ins.object_of(ask) for _, stand_ins in self._stand_ins)
        return next((stand_in for stand_in in objects if stand_in is not None), None)

    def about(self, asks: Sequence[Ask]) -> list[tuple[Kind[Any], Any]]:
        """Objects, besides the pods of a job, that show its progress to users."""
        return [about for jobs in self._jobs for about in jobs.objects(asks)]

    def judged_alone(self, ask: Ask) -> PodClass:
        """A new class for a pod, which is not kept: to try out how a changed pod would be judged."""
        return self._classes.new(ask, self._classes.floor(ask))

    def permit(self, ask: Ask, row: Row) -> Permit:
        """Whether a placed pod waits for others."""
        return self._after.permit(ask, row)

    def plan_together(self, asks: Sequence[Ask]) -> Mapping[str, Any]:
        """What is written on each of some pods because they are bound together."""
        return self._after.plan_together(asks)

    def plan(self, ask: Ask, row: Row, together: Mapping[str, Any] = EMPTY) -> BindingPlan:
        """What binding a placed pod takes, as data. `together`: as `plan_together` said."""
        return self._after.plan(ask, row, together)

    def notes_in_words(self, key: str) -> dict[str, str]:
        """What a pod on a node has by its notes, in words, by plugin."""
        placed = self.cluster.pods.get(key)
        having = () if placed is None else placed[0].notes
        noting = {
            plugin.name: self.cluster.notes(plugin.notes) for plugin in self.profile.plugins if plugin.notes is not None
        }
        words = {name: noting[name].words(note) for name, note in having if name in noting}
        return {name: words[name] for name in noting if words.get(name)}

    def fits(self, ask: Ask, row: Row) -> bool:
        """Whether one row will do for a pod, by exact checks and beside the pods that are nominated to it."""
        return self._spot(ask, row) is not None

    def has_room(self, ask: Ask, row: Row) -> bool:
        """As `fits`, but ignores plugins that refuse the pod on every node."""
        return self._room(ask, row) is not None

    def _spot(self, ask: Ask, row: Row) -> _Spot | None:
        return None if self.refuses and self.refusal(ask) is not None else self._room(ask, row)

    def _room(self, ask: Ask, row: Row) -> _Spot | None:
        pod_class = self.class_of(ask)
        if not pod_class.is_feasible(row):
            return None
        checked = self._checked(ask, pod_class, row)
        return None if isinstance(checked, tuple) else _Spot(row, checked)

    def words_against(self, ask: Ask, row: Row) -> list[str]:
        """Why a row will not do, in the words of the first plugin that rejects it; empty if it will."""
        against = self._against(ask, row)
        return [] if against is None else against[1]

    def _against(self, ask: Ask, row: Row) -> tuple[str, list[str]] | None:
        """The plugin that speaks against a row, and its words."""
        if self.refuses and (refused := self.refusal(ask)) is not None:
            return refused[0], [refused[1]]
        objection = self._crowded(ask, row) or self.class_of(ask).reasons(row)
        if objection is not None:
            return objection[0].plugin.name, objection[1]
        checked = self._checked(ask, self.class_of(ask), row)
        return (checked[0], [checked[1].reason]) if isinstance(checked, tuple) else None

    def _winner(self, ask: Ask, pod_class: PodClass) -> _Spot | None:
        if not pod_class.exact and not self.cluster.nominations.any:
            row = pod_class.best()
            return None if row is None else _Spot(row)
        # Each check that fails bars a row, until that changes.
        while (row := pod_class.best()) is not None:
            checked = self._checked(ask, pod_class, row)
            if not isinstance(checked, tuple):
                return _Spot(row, checked)
            pod_class.bar(row, *checked)
        return None

    def _checked(self, ask: Ask, pod_class: PodClass, row: Row) -> WorkedOut | tuple[str, Objection]:
        """The results of exact checks for a row that would do by its columns; or the plugin that objects, and why."""
        worked_out: WorkedOut = EMPTY
        if pod_class.exact:
            checked = exact_checks(pod_class.exact, pod_class.doors, ask, row)
            if isinstance(checked, tuple):
                return checked
            worked_out = checked
        why = self._crowded(ask, row)
        return worked_out if why is None else (why[0].plugin.name, Objection(", ".join(why[1])))

    def meets(self, ask: Ask, promised: PodRecord) -> bool:
        """Whether a nominated pod could keep a pod off a row for more than its amounts."""
        return any(meets(ask, promised) for meets in self._meeting)

    def _crowded(self, ask: Ask, row: Row) -> tuple[Part, list[str]] | None:
        """The plugin that would reject a pod if all pods nominated to the row were there already, where a trial is
        needed to find out; and its reasons."""
        floor = self._classes.floor(ask)
        if floor is None:
            return None
        promised = self.cluster.nominations.at(row, floor)
        if not any(self.meets(ask, record) for record in promised):
            return None
        with self.cluster.transaction() as attempt:
            for record in promised:
                self.cluster.place(record, row)
            why = self._classes.of(ask, None).reasons(row)
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

    def nowhere(
        self, ask: Ask, pod_class: PodClass, why_not: Mapping[str, Mapping[str, int]] | None = None
    ) -> Placement:
        """Why no row will do; `why_not`: where the caller has worked that out."""
        if why_not is None:
            why_not = pod_class.why_not()
        histogram: dict[str, int] = {}
        for counts in why_not.values():
            for reason, rows in counts.items():
                histogram[reason] = histogram.get(reason, 0) + rows
        refusal = pod_class.refusal()
        why = ", ".join(refusal[1]) if refusal else ""
        return Placement(ask.key, None, rejections=histogram, why_not=why_not, refusal=why)


def _first(remedies: Iterable[Remedy | None]) -> Remedy:
    """The first that helps, or stops here; else all words together."""
    words, clears, event = [], False, None
    for remedy in remedies:
        if remedy is None:
            continue
        if remedy.helps or remedy.final:
            return remedy
        if remedy.message:
            words.append(remedy.message)
        clears, event = clears or remedy.clears, event or remedy.event
    return Remedy(message=" ".join(words), clears=clears, event=event)
