"""Coscheduling: pods of a gang are placed together, or not at all.

All pods that wait in a gang group are one entity of the queue. It is tried once every gang of the group has its minimum
of pods, and decided in one transaction: every gang's minimum, or nothing. So a group never holds room while it waits
for more, and two groups cannot wait for each other's room.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from koord.api.configuration.scheduler_args import CoschedulingArgs
from koord.api.kinds import CLUSTER_NETWORK_TOPOLOGIES, POD_GROUPS, PODS, Kind
from koord.api.protocol.annotations.gang import (
    BIND_GROUP_ID,
    BIND_MEMBER_COUNT,
    NETWORK_TOPOLOGY_SELECTOR,
    GangDefaults,
)
from koord.api.protocol.crd.pod_group import PodGroupStatus
from koord.api.text.duration import parse_duration
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import JobNeed, Permit, Plugin, Remedy, Taking
from koord.scheduler.framework.unheard import Unheard
from koord.scheduler.framework.writes import Write
from koord.scheduler.plugins import gang_rules
from koord.scheduler.plugins.gang_preemption import Checkpoints, remedy_for
from koord.scheduler.plugins.gang_service import gang_told
from koord.scheduler.plugins.gang_status import status_of, status_write
from koord.scheduler.plugins.gangs import Gangs
from koord.scheduler.plugins.network.nearness import Near
from koord.scheduler.plugins.network.network import Network
from koord.scheduler.plugins.network.planner import Planner, wish_of
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Reason, Row

if TYPE_CHECKING:
    from koord.scheduler.core.entity import Entity
    from koord.scheduler.framework.engine import Engine

_ROOM: Final = Reason.NODE | Reason.LABELS | Reason.TAINTS | Reason.UNSCHEDULABLE | Reason.ALLOCATABLE | Reason.FREED
WRITTEN_EVERY_S: Final = 0.5
_SAID: Final = (BIND_GROUP_ID.key, *BIND_GROUP_ID.old_keys)
_COUNTED: Final = (BIND_MEMBER_COUNT.key, *BIND_MEMBER_COUNT.old_keys)


class Coscheduling(Plugin):
    name = "Coscheduling"
    notes = Gangs

    def __init__(self, args: CoschedulingArgs | None = None) -> None:
        args = args or CoschedulingArgs()
        wait_s = parse_duration(args.default_timeout) or GangDefaults().waiting_time_s
        self._defaults = GangDefaults(args.default_match_policy, wait_s)
        self._preempts, self._sees_network = args.enable_preemption, args.aware_network_topology
        if self._sees_network:
            # What may help a gang that has no place in the network. Others are never turned away by this plugin.
            self.wakes_on = _ROOM
        self._is_first = False
        self._unheard: Unheard[PodGroupStatus] = Unheard()
        "What PodGroups were told to say, by gang."
        self._written_s: dict[str, float] = {}
        "By gang, when its PodGroup was last written."

    def attach(self, cluster: Cluster) -> None:
        self._gangs = cluster.notes(Gangs)
        if self._preempts:
            cluster.notes(Checkpoints)
        if self._sees_network:
            self._network = cluster.notes(Network)
        if self._gangs.defaults is None:
            # Gangs are the cluster's: of several profiles, the first one's arguments count.
            self._gangs.defaults, self._is_first = self._defaults, True

    def takes(self) -> Iterable[Taking]:
        if not self._is_first:
            return ()
        gangs = self._gangs
        taken = [
            Taking(POD_GROUPS, gangs.put_group, gangs.remove_group),
            Taking(PODS, gangs.put_pod, gangs.remove_pod),
        ]
        if self._sees_network:
            taken.append(Taking(CLUSTER_NETWORK_TOPOLOGIES, self._network.put, self._network.remove))
        return taken

    def group(self, ask: Ask, cluster: Cluster) -> str | None:
        gang = self._gangs.of_pod.get(ask.key)
        return None if gang is None else gang.job

    def about(self, asks: Sequence[Ask], cluster: Cluster) -> Sequence[tuple[Kind[Any], Any]]:
        gangs = (self._gangs.all[id_] for id_ in self._gangs.among(asks))
        return [(POD_GROUPS, gang.pod_group) for gang in gangs if gang.pod_group is not None]

    def keyed_by_name(self, cluster: Cluster) -> bool:
        return False

    def keyed_by_spec(self, ask: Ask) -> bool:
        return not self._sees_network

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        """The pods that a pod wants to be near to, where no gang says where it goes."""
        if not self._sees_network or not (selector := NETWORK_TOPOLOGY_SELECTOR.read(ask.meta)):
            return None
        return None if wish_of(self._gangs, [ask]) is not None else selector

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        selector = self.key(ask, cluster)
        return Near(self._network, selector) if isinstance(selector, str) else None

    def blocks(self, entity: Entity) -> str | None:
        if entity.pods[0].key not in self._gangs.of_pod:
            return None
        return gang_rules.why_it_waits(self._gangs, entity.pods)

    def needs(self, asks: Sequence[Ask], cluster: Cluster) -> Sequence[JobNeed] | None:
        return gang_rules.needs(self._gangs, asks)

    def permit(self, ask: Ask, row: Row, cluster: Cluster) -> Permit | None:
        gang = self._gangs.of_pod.get(ask.key)
        if gang is None or gang.settings is None or gang.settings.mode != "Strict":
            return None
        return Permit(keeps_s=gang.settings.waiting_time_s)

    def plan_job(self, asks: Sequence[Ask], engine: Engine) -> Sequence[Row | None] | str | None:
        wish = wish_of(self._gangs, asks) if self._sees_network else None
        return None if wish is None else Planner(asks, wish, engine).rows()

    def post_filter(self, ask: Ask, engine: Engine) -> Remedy | None:
        return remedy_for((ask,), engine) if self._preempts else None

    def post_filter_job(self, asks: Sequence[Ask], engine: Engine) -> Remedy | None:
        if not self._preempts:
            return None
        wish = wish_of(self._gangs, asks) if self._sees_network else None
        return remedy_for(asks, engine, None if wish is None else Planner(asks, wish, engine).fields())

    def pre_bind_together(self, asks: Sequence[Ask], cluster: Cluster) -> Mapping[str, Any] | None:
        """Who is bound together says so; who is bound alone does not say what it said before."""
        gang = self._gangs.of_pod.get(asks[0].key)
        if gang is None:
            return None
        if len(asks) > 1:
            told = {**dict.fromkeys(_SAID, ",".join(gang.group)), **dict.fromkeys(_COUNTED, str(len(asks)))}
            return {"metadata": {"annotations": told}}
        stale = {key: None for key in (*_SAID, *_COUNTED) if key in asks[0].meta.annotations}
        return {"metadata": {"annotations": stale}} if stale else None

    def writes(self, cluster: Cluster) -> Iterable[Write]:
        """What PodGroups are to say, where they say something else. The first change is written at once, and one whose
        pods get their nodes just now twice a second: otherwise a large gang would be written at each of its pods."""
        gangs = self._gangs
        touched, gangs.touched = gangs.touched, set()
        touched.update(self._unheard.take_lost(cluster.now_s))
        for id_ in sorted(touched):
            gang = gangs.all.get(id_)
            group = None if gang is None else gang.pod_group
            if gang is None or group is None:
                self._unheard.heard(id_)
                self._written_s.pop(id_, None)
                continue
            uid = group.metadata.uid
            if self._unheard.last(id_, uid) == group.status:
                self._unheard.heard(id_)
            again_s = self._written_s.get(id_, -math.inf) + WRITTEN_EVERY_S
            if cluster.now_s < again_s:
                gangs.touched.add(id_)
                cluster.ask_again(again_s)
                continue
            wanted = None
            with cluster.shield.about("keep its status", POD_GROUPS, group.metadata):
                wanted = status_of(gang, cluster.now_s)
            last = self._unheard.last(id_, uid) or group.status
            if wanted is not None and wanted != last:
                self._unheard.sent(id_, uid, wanted, cluster.now_s)
                self._written_s[id_] = cluster.now_s
                yield status_write(group, wanted)
        if (lost_s := self._unheard.next_s()) is not None:
            cluster.ask_again(lost_s)
        if self._sees_network and self._is_first:
            yield from self._network.writes()

    def services(self) -> Mapping[str, Callable[[str], object]]:
        gangs = self._gangs
        return {
            "gang/:namespace/:name": lambda id_: gang_told(gangs.all[id_]) if id_ in gangs.all else None,
            "gangs": lambda _: {id_: gang_told(gang) for id_, gang in sorted(gangs.all.items())},
        }
