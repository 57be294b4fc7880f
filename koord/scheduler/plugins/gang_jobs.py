"""Gangs as jobs: what a gang group needs, where it goes in the network, and what is written on its bound members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from koord.api.kinds import POD_GROUPS, Kind
from koord.api.protocol.annotations.gang import BIND_GROUP_ID, BIND_MEMBER_COUNT
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.jobs import JobNeed, Jobs, Permit
from koord.scheduler.framework.remedy import Remedy
from koord.scheduler.plugins import gang_rules
from koord.scheduler.plugins.gang_preemption import remedy_for
from koord.scheduler.plugins.gangs import Gangs
from koord.scheduler.plugins.network.planner import Planner, wish_of
from koord.scheduler.state.table import Row

_SAID: Final = (BIND_GROUP_ID.key, *BIND_GROUP_ID.old_keys)
_COUNTED: Final = (BIND_MEMBER_COUNT.key, *BIND_MEMBER_COUNT.old_keys)


class GangJobs(Jobs):
    """`preempts`: gangs may evict other pods. `sees_network`: gangs may say where in the network they want to be."""

    def __init__(self, gangs: Gangs, *, preempts: bool, sees_network: bool) -> None:
        self._gangs, self._preempts, self._sees_network = gangs, preempts, sees_network

    def group(self, ask: Ask) -> str | None:
        gang = self._gangs.of_pod.get(ask.key)
        return None if gang is None else gang.job

    def objects(self, asks: Sequence[Ask]) -> Sequence[tuple[Kind[Any], Any]]:
        gangs = (self._gangs.all[id_] for id_ in self._gangs.among(asks))
        return [(POD_GROUPS, gang.pod_group) for gang in gangs if gang.pod_group is not None]

    def needs(self, asks: Sequence[Ask]) -> Sequence[JobNeed] | None:
        return gang_rules.needs(self._gangs, asks)

    def plan(self, asks: Sequence[Ask], engine: Engine) -> Sequence[Row | None] | str | None:
        planner = self._planner(asks, engine)
        return None if planner is None else planner.rows()

    def post_filter(self, asks: Sequence[Ask], engine: Engine) -> Remedy | None:
        if not self._preempts:
            return None
        planner = self._planner(asks, engine)
        return remedy_for(asks, engine, None if planner is None else planner.fields())

    def _planner(self, asks: Sequence[Ask], engine: Engine) -> Planner | None:
        wish = wish_of(self._gangs, asks) if self._sees_network else None
        return None if wish is None else Planner(asks, wish, engine)

    def permit(self, ask: Ask, row: Row) -> Permit | None:
        gang = self._gangs.of_pod.get(ask.key)
        if gang is None or gang.settings is None or gang.settings.mode != "Strict":
            return None
        return Permit(keeps_s=gang.settings.waiting_time_s)

    def patch(self, asks: Sequence[Ask]) -> Mapping[str, Any] | None:
        """Pods that are bound together say so; a pod that is bound alone does not say what it said before."""
        gang = self._gangs.of_pod.get(asks[0].key)
        if gang is None:
            return None
        if len(asks) > 1:
            group_size = {**dict.fromkeys(_SAID, ",".join(gang.group)), **dict.fromkeys(_COUNTED, str(len(asks)))}
            return {"metadata": {"annotations": group_size}}
        stale = {key: None for key in (*_SAID, *_COUNTED) if key in asks[0].meta.annotations}
        return {"metadata": {"annotations": stale}} if stale else None
