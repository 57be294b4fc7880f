"""Classes of pods: from a pod to what is known of the nodes for all pods that look alike to every plugin.

Plugins say by `key` what they look at in a pod. Classes are kept for the next pods, within bounded memory;
the least recently used ones go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from copy import copy
from dataclasses import replace
from typing import Final

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.bounds import without_devices
from koord.scheduler.framework.judge import Judge, Refused
from koord.scheduler.framework.nominated import Promised
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.framework.pod_class import PodClass
from koord.scheduler.framework.profile import POD_BOUNDS, Profile
from koord.scheduler.framework.verdicts import Part
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import Shape
from koord.scheduler.state.table import Reason
from koord.scheduler.state.view import View

CLASSES_KEPT: Final = 512
CELLS_KEPT: Final = 1 << 26
"""Rows times classes: a class costs some 50 bytes a row, so this is 3.2 GB at most, with all classes on 100,000 nodes.
A class that was dropped judges all rows again, which takes as long as 50 decisions."""
SHAPES_KEPT: Final = 1 << 14
ALLOCATES: Final = "DynamicResources"
"""The plugin without which no pod with resource claims is placed."""


class Classes:
    """The classes of one profile on one cluster."""

    def __init__(self, cluster: Cluster, profile: Profile) -> None:
        self._cluster, self._profile = cluster, profile
        plugins = [plugin for plugin in profile.plugins if plugin.name not in profile.judging_not]
        self._judging = [plugin for plugin in plugins if plugin.compile is not None]
        self._viewing = [(plugin.name, plugin.stand_ins) for plugin in plugins if plugin.stand_ins is not None]
        self._telling_apart = [
            plugin for plugin in plugins if plugin.compile is not None or plugin.stand_ins is not None
        ]
        preferring = {name for name, part in profile.at("preFilter", "nominating") if part.prefers is not None}
        self._allocates = any(plugin.name == ALLOCATES for plugin in plugins)
        self._preferring = [plugin for plugin in profile.plugins if plugin.name in preferring]
        self._classes: OrderedDict[Hashable, PodClass] = OrderedDict()
        self._last: PodClass | None = None
        self._of_shape: dict[Shape, tuple[int, tuple[Plugin, ...]]] = {}
        self._by_spec: dict[Hashable, int] = {}
        self._judged_before = self._run_before = 0

    @property
    def judging(self) -> list[str]:
        """The plugins that filter or score, in their order."""
        return [plugin.name for plugin in self._judging]

    @property
    def rows_judged(self) -> int:
        """How many rows have been looked at so far, over all classes."""
        return self._judged_before + sum(pod_class.rows_judged for pod_class in self._classes.values())

    @property
    def bodies_run(self) -> int:
        """How many verdicts and scores plugins have given so far."""
        return self._run_before + sum(pod_class.bodies_run for pod_class in self._classes.values())

    def floor(self, ask: Ask) -> int | None:
        """Which promises to other pods concern this one."""
        nominations = self._cluster.nominations
        return nominations.floor(ask.priority) if nominations.any else None

    def of(self, ask: Ask, floor: int | None) -> PodClass:
        """The class of a pod, made when it is new; the least recently used ones are dropped."""
        key = self._key(ask) if floor is None else (floor, self._key(ask))
        pod_class = self._classes.get(key)
        if pod_class is None:
            pod_class = self._classes[key] = self.new(ask, floor)
            most = max(1, min(CLASSES_KEPT, CELLS_KEPT // self._cluster.table.capacity))
            while len(self._classes) > most:
                _, dropped = self._classes.popitem(last=False)
                self._judged_before += dropped.rows_judged
                self._run_before += dropped.bodies_run
        elif pod_class is not self._last:
            self._classes.move_to_end(key)
        self._last = pod_class
        return pod_class

    def new(self, ask: Ask, floor: int | None) -> PodClass:
        """A new class for a pod, which is not kept."""
        excess = self._excess(ask)
        key: Hashable = excess
        if excess is None:
            key = tuple([plugin.key(ask, self._cluster) for plugin in self._telling_apart])
        ties = key if self._profile.ties == "by class" else ()
        view = self._view(ask)
        parts = self._parts(ask, floor, view) if excess is None else [Part(POD_BOUNDS, Refused(excess), 0)]
        return PodClass(key, self._cluster, parts, ties, view)

    def has_twins(self, ask: Ask) -> bool:
        """Whether pods that differ from this one in their names, uids, times and conditions only are of its class."""
        others = (self._of_shape.get(ask.template.shape) or self._look_at_spec(ask))[1]
        asked = {id(plugin): plugin for plugin in (*others, *self._preferring)}.values()
        return not any(plugin.keyed_by(ask, self._cluster) is KeyedBy.POD for plugin in asked)

    def _key(self, ask: Ask) -> Hashable:
        """What all plugins look at in a pod. Of what depends on its spec alone, a number stands for all of it."""
        settled, others = self._of_shape.get(ask.template.shape) or self._look_at_spec(ask)
        cluster = self._cluster
        return (settled, *[plugin.key(ask, cluster) for plugin in others])

    def _look_at_spec(self, ask: Ask) -> tuple[int, tuple[Plugin, ...]]:
        """A number for the keys that depend on the spec alone, and the plugins that look at more."""
        if len(self._of_shape) >= SHAPES_KEPT or len(self._by_spec) >= SHAPES_KEPT:
            # Numbers are part of the classes' keys, so that all of it goes together.
            self._judged_before = self.rows_judged
            for memo in (self._of_shape, self._by_spec, self._classes):
                memo.clear()
        settled: list[Hashable] = [self._excess(ask)]
        others: list[Plugin] = []
        for plugin in self._telling_apart if settled == [None] else ():
            if plugin.keyed_by(ask, self._cluster) is KeyedBy.SPEC:
                settled.append(plugin.key(ask, self._cluster))
            else:
                settled.append(...)
                others.append(plugin)
        result = self._by_spec.setdefault(tuple(settled), len(self._by_spec)), tuple(others)
        if ask.shape.of_spec:
            self._of_shape[ask.shape] = result
        return result

    def _excess(self, ask: Ask) -> str | None:
        """What the pod has more of than is supported here."""
        return ask.excess or (None if self._allocates else without_devices(ask.spec))

    def _view(self, ask: Ask) -> View | None:
        """How pods like this one see the cluster. Two views of it are a fault of the plugins."""
        views = [(name, view) for name, stand_ins in self._viewing if (view := stand_ins.view(ask))]
        if len(views) > 1:
            raise ValueError(f"{' and '.join(name for name, _ in views)} each have a view for {ask.key}: one may")
        return views[0][1] if views else None

    def _parts(self, ask: Ask, floor: int | None, view: View | None) -> list[Part]:
        profile, parts = self._profile, []
        if view is not None:
            ask = copy(ask)
            ask.view = view
        for plugin in self._judging:
            assert plugin.compile is not None
            judge = plugin.compile(ask, self._cluster)
            if judge is None:
                continue
            if view is not None:
                judge = copy(judge)
                judge.view = view
            refuses, pins = profile.scores_only.get(plugin.name), True
            if refuses is not None and not (refuses and isinstance(judge, Refused)):
                # Its filter is off. What it knows before filters may still count.
                judge, pins = _scoring(judge), refuses
            if floor is not None and judge.amounts is not None:
                judge.amounts.promised = Promised(self._cluster.nominations, floor)
            name = plugin.name
            parts.append(Part(plugin, judge, profile.weights.get(name, 0), profile.rank_before_filters(name), pins))
        return parts


def _scoring(judge: Judge) -> Judge:
    """The same judge without its filter."""
    other = copy(judge)
    other.filters_on, other.exact, other.amounts = Reason(0), None, None
    other.shortcuts = replace(judge.shortcuts, fast=None)
    other.facets = tuple(facet for facet in judge.facets if not facet.gates)
    return other
