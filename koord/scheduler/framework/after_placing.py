"""What follows a placement, as data: which pods the pod waits for, and what its binding takes.

Each plugin says what it wants written. The wishes of several plugins become one patch; two plugins that want different
values in one place have a fault. Another module writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from koord.api.kinds import PODS
from koord.api.machinery.struct import EMPTY
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.jobs import Jobs, Permit
from koord.scheduler.framework.profile import Profile
from koord.scheduler.framework.stand_ins import StandIns
from koord.scheduler.framework.writes import BindingPlan, Patch, PodBinding, PreBind, Step
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Row

PreBinds: TypeAlias = Callable[[Ask, Row, Cluster, object], Mapping[str, Any] | PreBind | None]
NO_WAIT: Final = Permit()


class AfterPlacing:
    """The plugins of one profile that take part then."""

    def __init__(self, cluster: Cluster, profile: Profile) -> None:
        self.cluster = cluster
        self._permitting: list[tuple[str, Jobs]] = profile.at("permit", "jobs")
        self._patching_together: list[tuple[str, Jobs]] = profile.at("preBind", "jobs")
        self._preparing: list[tuple[str, PreBinds]] = profile.at("preBind", "pre_bind")
        self._binding: list[tuple[str, StandIns]] = profile.at("bind", "stand_ins")

    def permit(self, ask: Ask, row: Row) -> Permit:
        """Whether a placed pod waits for others. Of several plugins, the longest wait counts."""
        longest, allows, keeps_s = NO_WAIT, list[str](), 0.0
        for _, jobs in self._permitting:
            permit = jobs.permit(ask, row)
            if permit is not None:
                allows += permit.allows
                keeps_s = max(keeps_s, permit.keeps_s)
                longest = max(longest, permit, key=lambda answer: answer.wait_s)
        if not (allows or keeps_s or longest.wait_s):
            return NO_WAIT
        return replace(longest, allows=tuple(allows), keeps_s=keeps_s)

    def plan_together(self, asks: Sequence[Ask]) -> Mapping[str, Any]:
        """What is written on each of some pods because they are bound together."""
        merged: dict[str, Any] | None = None
        for name, jobs in self._patching_together:
            patch = jobs.patch(asks)
            if patch:
                merged = {} if merged is None else merged
                merge(merged, patch, name)
        return EMPTY if merged is None else merged

    def plan(self, ask: Ask, row: Row, together: Mapping[str, Any] = EMPTY) -> BindingPlan:
        """What binding a placed pod takes, as data. `together`: as `plan_together` said."""
        cluster, meta, node = self.cluster, ask.meta, self.cluster.table.names[row]
        binding = PodBinding(meta.namespace, meta.name, meta.uid, node)
        if not (self._preparing or self._binding or together):
            return BindingPlan(binding)
        notes = dict(cluster.pods[ask.key][0].notes)
        own = (stand_ins.bind(ask, row) for _, stand_ins in self._binding)
        write = next((own_write for own_write in own if own_write is not None), binding)
        merged: dict[str, Any] = {}
        merge(merged, together, "")
        steps: list[Step] = []
        for name, pre_bind in self._preparing:
            wanted = pre_bind(ask, row, cluster, notes.get(name))
            if isinstance(wanted, PreBind):
                steps += wanted.steps
            merge(merged, patch_of(wanted), name)
        patch = None
        if merged:
            body = {**merged, "metadata": {**merged.get("metadata", {}), "uid": meta.uid}}
            # What stands for another object is written on that one.
            to = (write.kind, write.name, write.namespace) if isinstance(write, Patch) else None
            kind, name, namespace = to or (PODS, meta.name, meta.namespace)
            patch = Patch(kind, name, body, namespace)
        return BindingPlan(write, patch, tuple(steps))


def patch_of(wanted: Mapping[str, Any] | PreBind | None) -> Mapping[str, Any]:
    """The merge patch of what a plugin wants before a pod is bound."""
    return (wanted.patch if isinstance(wanted, PreBind) else wanted) or EMPTY


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
