"""The engine: from a pod to a placement, for one profile.

`place` finds the class of a pod, takes the best row, has the exact checks look at it, and writes the placement;
`place_all` does so for a whole job in one transaction: all members, or none and nothing changed. It only decides; who
binds, waits or retries is elsewhere.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from koord.api.machinery.struct import EMPTY
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.bounds import excess
from koord.scheduler.framework.nominated import Promised, meets
from koord.scheduler.framework.plugin import Plugin, Refused, Remedy
from koord.scheduler.framework.pod_class import Part, PodClass
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.nominations import Nomination
from koord.scheduler.state.pods import Shape
from koord.scheduler.state.table import Row

CLASSES_KEPT: Final = 512
CELLS_KEPT: Final = 1 << 24
"""Rows times classes: a class costs some 50 bytes a row, so this is 800 MB at most."""
SHAPES_KEPT: Final = 1 << 14


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
    weights: dict[str, int]


class Placement(msgspec.Struct, frozen=True):
    """A decision: where a pod goes, or that it goes nowhere now, with what speaks for it."""

    pod: str
    node: str | None
    scores: Mapping[str, int] = EMPTY
    total: int = 0
    rejections: Mapping[str, int] = EMPTY
    "Reasons, with the number of nodes that each turned away."
    why_not: Mapping[str, Mapping[str, int]] = EMPTY
    "The same by plugin."
    refusal: str = ""
    "Why the pod is turned away whatever the node, where that is so."

    @property
    def rejected_by(self) -> frozenset[str]:
        return frozenset(self.why_not)


class Engine:
    """Decides for the pods of one profile on one cluster."""

    def __init__(self, cluster: Cluster, profile: Profile) -> None:
        self.cluster, self.profile = cluster, profile
        for plugin in profile.plugins:
            plugin.attach(cluster)
            if type(plugin).release is not Plugin.release and plugin.release not in cluster.releases:
                cluster.releases.append(plugin.release)
        self._classes: OrderedDict[Hashable, PodClass] = OrderedDict()
        self._last: PodClass | None = None
        self._judging = [each for each in profile.plugins if type(each).compile is not Plugin.compile]
        self._reservers = [each for each in profile.plugins if type(each).reserve is not Plugin.reserve]
        self._of_shape: dict[Shape, tuple[int, tuple[Plugin, ...]]] = {}
        self._by_spec: dict[Hashable, int] = {}
        self._judged_before = self._run_before = 0

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
            found = self._classes[key] = PodClass(self._whole_key(ask), self.cluster, self._parts(ask, floor))
            most = max(1, min(CLASSES_KEPT, CELLS_KEPT // self.cluster.table.capacity))
            while len(self._classes) > most:
                _, dropped = self._classes.popitem(last=False)
                self._judged_before += dropped.rows_judged
                self._run_before += dropped.bodies_run
        elif found is not self._last:
            self._classes.move_to_end(key)
        self._last = found
        return found

    def _key(self, ask: Ask) -> Hashable:
        """What all plugins look at in a pod. Of what depends on its spec alone, a number stands for all of it."""
        settled, others = self._of_shape.get(ask.template.shape) or self._look_at_spec(ask)
        cluster = self.cluster
        return (settled, *[plugin.key(ask, cluster) for plugin in others])

    def _look_at_spec(self, ask: Ask) -> tuple[int, tuple[Plugin, ...]]:
        """A number for the keys that depend on the spec alone, and the plugins that look at more."""
        if len(self._of_shape) >= SHAPES_KEPT or len(self._by_spec) >= SHAPES_KEPT:
            # Numbers are part of the classes' keys, so that all of it goes together.
            self._judged_before = self.rows_judged
            for known in (self._of_shape, self._by_spec, self._classes):
                known.clear()
        settled: list[Hashable] = [excess(ask.spec)]
        others: list[Plugin] = []
        for plugin in self.profile.plugins if settled == [None] else ():
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
        why = excess(ask.spec)
        return why if why is not None else tuple([plugin.key(ask, self.cluster) for plugin in self._judging])

    def _floor(self, ask: Ask) -> int | None:
        """Which promises to other pods concern this one."""
        nominations = self.cluster.nominations
        return nominations.floor(ask.priority) if nominations.any else None

    def place(self, ask: Ask, *, explain: bool = False) -> Placement:
        """Decide for one pod, and count it on its node. A node that it was promised is tried first, and alone."""
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

    def _place(self, ask: Ask, found: PodClass, first: Row | None, explain: bool) -> Placement:
        row = first if first is not None and self.fits(ask, first) else self._winner(ask, found)
        if row is None:
            return self._nowhere(ask, found)
        node = self.cluster.table.names[row]
        if not explain:
            self._reserve(ask, row)
            return Placement(ask.key, node)
        scores, weights = found.scores(row), self.profile.weights
        self._reserve(ask, row)
        total = sum(weights.get(name, 0) * score for name, score in scores.items())
        return Placement(ask.key, node, scores, total)

    def place_all(self, asks: Sequence[Ask], *, at_least: int | None = None) -> list[Placement]:
        """Decide for a whole job: `at_least` members (all, by default) are placed, or none is."""
        needed = len(asks) if at_least is None else at_least
        with self.cluster.transaction() as transaction:
            placements = [self.place(ask) for ask in asks]
            if sum(1 for each in placements if each.node is not None) < needed:
                transaction.undo()
                return [
                    each if each.node is None else Placement(each.pod, None, rejections={"the job does not fit": 1})
                    for each in placements
                ]
        return placements

    def remedy(self, ask: Ask) -> Remedy:
        """What would help a pod that fits nowhere: the first plugin that knows decides, the others' words add up."""
        words, clears = [], False
        for plugin in self.profile.plugins:
            found = plugin.post_filter(ask, self)
            if found is not None:
                if found.node is not None:
                    return found
                words.append(found.message)
                clears = clears or found.clears
        return Remedy(message=" ".join(words), clears=clears)

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
        nominations.put(Nomination(ask.record(self.cluster.now_s), row, victims))
        return tuple(lower)

    def judged_alone(self, ask: Ask) -> PodClass:
        """The class of a pod, new and kept by nobody: to try out what a changed pod would meet."""
        return PodClass(self._whole_key(ask), self.cluster, self._parts(ask, self._floor(ask)))

    def wait_s(self, ask: Ask, row: Row) -> float:
        """How long a placed pod may wait for others before it is bound; 0: it need not."""
        return max((plugin.permit(ask, row, self.cluster) for plugin in self.profile.plugins), default=0.0)

    def patch(self, ask: Ask, row: Row) -> dict[str, Any]:
        """What all plugins want written on a placed pod, as one merge patch. Empty where there is nothing."""
        merged: dict[str, Any] = {}
        for plugin in self.profile.plugins:
            merge(merged, plugin.pre_bind(ask, row, self.cluster) or {}, plugin.name)
        return merged

    def fits(self, ask: Ask, row: Row) -> bool:
        """Whether one row will do for a pod, by exact checks too, and whoever was promised it."""
        found = self.class_of(ask)
        return found.is_feasible(row) and self._objection(ask, found, row) is None

    def words_against(self, ask: Ask, row: Row) -> list[str]:
        """Why a row will not do, in the words of the first who says so; nothing where it will."""
        found = self._crowded(ask, row) or self.class_of(ask).reasons(row)
        if found is not None:
            return found[1]
        objection = self._objection(ask, self.class_of(ask), row)
        return [] if objection is None else [objection[1]]

    def _winner(self, ask: Ask, found: PodClass) -> Row | None:
        if not found.exact and not self.cluster.nominations.any:
            return found.best()
        # Each check that fails bars a row, until that changes.
        while (row := found.best()) is not None:
            objection = self._objection(ask, found, row)
            if objection is None:
                return row
            found.bar(row, *objection)
        return None

    def _objection(self, ask: Ask, found: PodClass, row: Row) -> tuple[str, str] | None:
        """Who speaks against a row that would do by its columns, and why."""
        for part in found.exact:
            reason = part.judge.check(ask, row)
            if reason is not None:
                return part.plugin.name, reason
        why = self._crowded(ask, row)
        return None if why is None else (why[0].plugin.name, ", ".join(why[1]))

    def _crowded(self, ask: Ask, row: Row) -> tuple[Part, list[str]] | None:
        """Who would turn a pod away if all were there already who were promised the row, where that takes a trial."""
        floor = self._floor(ask)
        if floor is None:
            return None
        promised = self.cluster.nominations.at(row, floor)
        if not any(meets(ask, each) for each in promised):
            return None
        with self.cluster.transaction() as attempt:
            for each in promised:
                self.cluster.place(each, row)
            why = self._class(ask, None).reasons(row)
            attempt.undo()
        return why

    def _reserve(self, ask: Ask, row: Row) -> None:
        self.cluster.place(ask.record(self.cluster.now_s), row)
        if not self._reservers:
            return
        try:
            for plugin in self._reservers:
                plugin.reserve(ask, row, self.cluster)
        except BaseException:
            # Whatever went wrong: a pod that nobody will bind must not count.
            self.cluster.remove_pod(ask.key)
            raise

    def _nowhere(self, ask: Ask, found: PodClass) -> Placement:
        why_not = found.why_not()
        histogram: dict[str, int] = {}
        for counts in why_not.values():
            for reason, rows in counts.items():
                histogram[reason] = histogram.get(reason, 0) + rows
        refusal = found.refusal()
        why = ", ".join(refusal[1]) if refusal else ""
        return Placement(ask.key, None, rejections=histogram, why_not=why_not, refusal=why)

    def _parts(self, ask: Ask, floor: int | None = None) -> list[Part]:
        why = excess(ask.spec)
        if why is not None:
            return [Part(POD_BOUNDS, Refused(why), 0)]
        parts = []
        for plugin in self.profile.plugins:
            judge = plugin.compile(ask, self.cluster)
            if judge is not None:
                if floor is not None and judge.amounts:
                    judge.promised = Promised(self.cluster.nominations, floor)
                parts.append(Part(plugin, judge, self.profile.weights.get(plugin.name, 0)))
        return parts


def merge(into: dict[str, Any], patch: Mapping[str, Any], whose: str, path: str = "") -> None:
    """Add a merge patch to another. Two that want different things in one place are a fault of the plugins."""
    for key, value in patch.items():
        here = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            below = into.setdefault(key, {})
            if not isinstance(below, dict):
                raise ValueError(f"{whose} wants an object at {here}, another plugin {below!r}")
            merge(below, value, whose, here)
        elif into.setdefault(key, value) != value:
            raise ValueError(f"{whose} wants {value!r} at {here}, another plugin {into[key]!r}")
