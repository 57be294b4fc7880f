"""What follows a placement: whom the pod waits for, and what binding it takes, as data.

Each plugin says what it wants written; what several want is one patch, and two that want different things in one place
are a fault of theirs. Who writes is elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from koord.api.kinds import PODS
from koord.api.machinery.struct import EMPTY
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.plugin import Permit
from koord.scheduler.framework.writes import BindingPlan, Patch, PodBinding
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Row

if TYPE_CHECKING:
    from koord.scheduler.framework.engine import Profile

NO_WAIT: Final = Permit()


class AfterPlacing:
    """The plugins of one profile that take part then."""

    def __init__(self, cluster: Cluster, profile: Profile) -> None:
        self.cluster = cluster
        self._permitting = profile.at("permit", "permit")
        self._patching = profile.at("preBind", "pre_bind")
        self._patching_together = profile.at("preBind", "pre_bind_together")
        self._stepping = profile.at("preBind", "steps")
        self._binding = profile.at("bind", "bind")

    def permit(self, ask: Ask, row: Row) -> Permit:
        """Whether a placed pod waits for others. Of several plugins, the longest wait counts."""
        longest, allows, keeps_s = NO_WAIT, list[str](), 0.0
        for plugin in self._permitting:
            assert plugin.permit is not None
            found = plugin.permit(ask, row, self.cluster)
            if found is not None:
                allows += found.allows
                keeps_s = max(keeps_s, found.keeps_s)
                longest = max(longest, found, key=lambda each: each.wait_s)
        if not (allows or keeps_s or longest.wait_s):
            return NO_WAIT
        return replace(longest, allows=tuple(allows), keeps_s=keeps_s)

    def plan_together(self, asks: Sequence[Ask]) -> Mapping[str, Any]:
        """What is written on each of some pods because they are bound together."""
        merged: dict[str, Any] | None = None
        for plugin in self._patching_together:
            assert plugin.pre_bind_together is not None
            patch = plugin.pre_bind_together(asks, self.cluster)
            if patch:
                merged = {} if merged is None else merged
                merge(merged, patch, plugin.name)
        return EMPTY if merged is None else merged

    def plan(self, ask: Ask, row: Row, together: Mapping[str, Any] = EMPTY) -> BindingPlan:
        """What binding a placed pod takes, as data. `together`: as `plan_together` said."""
        cluster, meta, node = self.cluster, ask.meta, self.cluster.table.names[row]
        binding = PodBinding(meta.namespace, meta.name, meta.uid, node)
        if not (self._patching or self._stepping or self._binding or together):
            return BindingPlan(binding)
        notes = dict(cluster.pods[ask.key][0].notes)
        own = (each.bind(ask, row, cluster) for each in self._binding if each.bind is not None)
        write = next((each for each in own if each is not None), binding)
        merged: dict[str, Any] = {}
        merge(merged, together, "")
        for plugin in self._patching:
            assert plugin.pre_bind is not None
            merge(merged, plugin.pre_bind(ask, row, cluster, notes.get(plugin.name)) or {}, plugin.name)
        patch = None
        if merged:
            wanted = {**merged, "metadata": {**merged.get("metadata", {}), "uid": meta.uid}}
            # What stands for another object is written on that one.
            to = (write.kind, write.name, write.namespace) if isinstance(write, Patch) else None
            kind, name, namespace = to or (PODS, meta.name, meta.namespace)
            patch = Patch(kind, name, wanted, namespace)
        steps = [
            step
            for plugin in self._stepping
            if plugin.steps is not None
            for step in plugin.steps(ask, row, cluster, notes.get(plugin.name))
        ]
        return BindingPlan(write, patch, tuple(steps))


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
