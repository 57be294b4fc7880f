"""Coscheduling: pods of a gang are placed together, or not at all.

All pods that wait in a gang group are one entity of the queue. It is tried once every gang of the group has its minimum
of pods, and decided in one transaction: every gang's minimum, or nothing. So a group never holds room while it waits
for more, and two groups cannot wait for each other's room.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from koord.api.configuration.scheduler_args import CoschedulingArgs
from koord.api.kinds import CLUSTER_NETWORK_TOPOLOGIES, POD_GROUPS, PODS
from koord.api.protocol.annotations.gang import NETWORK_TOPOLOGY_SELECTOR, GangDefaults
from koord.api.text.duration import parse_duration
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.controller import Controller
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import KeyedBy, Plugin, Taking
from koord.scheduler.framework.queueing import Queueing
from koord.scheduler.framework.remedy import Remedy
from koord.scheduler.framework.writes import Write
from koord.scheduler.plugins import gang_rules
from koord.scheduler.plugins.gang_jobs import GangJobs
from koord.scheduler.plugins.gang_preemption import Checkpoints, remedy_for
from koord.scheduler.plugins.gang_service import gang_told
from koord.scheduler.plugins.gang_status import PodGroupStatuses
from koord.scheduler.plugins.gangs import Gangs
from koord.scheduler.plugins.network.nearness import Near
from koord.scheduler.plugins.network.network import Network
from koord.scheduler.plugins.network.planner import wish_of
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Reason

if TYPE_CHECKING:
    from koord.scheduler.core.entity import Entity
    from koord.scheduler.framework.engine import Engine

_ROOM: Final = Reason.NODE | Reason.LABELS | Reason.TAINTS | Reason.UNSCHEDULABLE | Reason.ALLOCATABLE | Reason.FREED


class Coscheduling(Plugin):
    name = "Coscheduling"
    notes = Gangs
    controller: Controller

    def __init__(self, args: CoschedulingArgs | None = None) -> None:
        args = args or CoschedulingArgs()
        wait_s = parse_duration(args.default_timeout) or GangDefaults().waiting_time_s
        self._defaults = GangDefaults(args.default_match_policy, wait_s)
        self._preempts, self._sees_network = args.enable_preemption, args.aware_network_topology
        if self._sees_network:
            # What may help a gang that has no place in the network. This plugin never rejects other pods.
            self.wakes_on = _ROOM
        self._is_first = False
        self.queueing = Queueing(blocks=self._blocks)

    def attach(self, cluster: Cluster) -> None:
        self._gangs = cluster.notes(Gangs)
        if self._preempts:
            cluster.notes(Checkpoints)
        if self._sees_network:
            self._network = cluster.notes(Network)
        if self._gangs.defaults is None:
            # Gangs are the cluster's: of several profiles, the first one's arguments count.
            self._gangs.defaults, self._is_first = self._defaults, True
        gangs = self._gangs
        self.jobs = GangJobs(gangs, preempts=self._preempts, sees_network=self._sees_network)
        self._statuses = PodGroupStatuses(gangs, cluster)
        self.controller = Controller(
            writes=self._writes,
            services={
                "gang/:namespace/:name": lambda id_: gang_told(gangs.all[id_]) if id_ in gangs.all else None,
                "gangs": lambda _: {id_: gang_told(gang) for id_, gang in sorted(gangs.all.items())},
            },
        )

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

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.LABELS if self._sees_network else KeyedBy.SPEC

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        """The pods that a pod wants to be near to, where no gang says where it goes."""
        if not self._sees_network or not (selector := NETWORK_TOPOLOGY_SELECTOR.read(ask.meta)):
            return None
        return None if wish_of(self._gangs, [ask]) is not None else selector

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        selector = self.key(ask, cluster)
        return Near(self._network, selector) if isinstance(selector, str) else None

    def _blocks(self, entity: Entity) -> str | None:
        if entity.pods[0].key not in self._gangs.of_pod:
            return None
        return gang_rules.why_it_waits(self._gangs, entity.pods)

    def post_filter(self, ask: Ask, engine: Engine) -> Remedy | None:
        return remedy_for((ask,), engine) if self._preempts else None

    def _writes(self) -> Iterator[Write]:
        yield from self._statuses.writes()
        if self._sees_network and self._is_first:
            yield from self._network.writes()
