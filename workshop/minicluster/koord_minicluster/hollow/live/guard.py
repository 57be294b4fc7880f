"""Protects services on modelled nodes as their NodeSLOs configure it: limits best effort, and evicts.

The guard watches NodeSLOs after the cluster has accepted the first report: a cluster without NodeMetrics has no
NodeSLOs either.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from koord.agent.lending.learner import LendingOutlook
from koord.api.kinds import NODE_SLOS, PODS
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.crd.node_slo import LendingStrategy, NodeSLO, ResourceThresholdStrategy
from koord.kube.client import Client
from koord.kube.errors import ApiError, NotFound
from koord.kube.events import EventRecorder, reference
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord.kube.metrics import Metrics, Table
from koord_minicluster.hollow.holding import Leaving, Patience, limit_of
from koord_minicluster.hollow.learning import NodeLearning
from koord_minicluster.hollow.load_model import Asked, Limit, NodeUsage, PodShape
from koord_minicluster.hollow.machine import Machine

log = logging.getLogger(__name__)

STARVING: Final = "BECPUEvict: best-effort pods have long got less than 40% of the CPU that they want"
ASKED: Final = "koord_hollow_cpu_milli"
"""CPU that the fleet's pods want and get, by band (service, best-effort) and what (wanted, used)."""


class Guard:
    def __init__(self, client: Client, informers: Informers, events: EventRecorder, metrics: Metrics | None) -> None:
        self._client, self._informers, self._events = client, informers, events
        self._slos: Informer[NodeSLO] | None = None
        self._patience: dict[str, Patience] = {}
        self._learning: dict[str, NodeLearning] = {}
        self._asked: dict[str, Asked] = {}
        self._leaving: list[Leaving] = []
        self._told: Table | None = None
        if metrics is not None:
            text = "CPU that pods of hollow nodes want and use, by band and what (wanted, used)"
            self._told = metrics.table(ASKED, text, "band", "what")

    def follow(self) -> None:
        """Starts watching NodeSLOs."""
        if self._slos is None:
            self._slos = self._informers.get(NODE_SLOS)

    def limit(self, machine: Machine) -> Limit:
        lending = self._lending(machine)
        if lending is not None:
            return self._learned(machine).limit(lending, machine.cpu_milli)
        return limit_of(self._strategy(machine), machine.cpu_milli)

    def look(self, machine: Machine, pods: Sequence[tuple[Pod, PodShape]], usage: NodeUsage, now_s: float) -> None:
        """Records the CPU that the node's pods want and get, what the node learns from that, and the pods to evict."""
        self._asked[machine.name] = usage.asked
        self._tell()
        lending, learned = self._lending(machine), self._learned(machine)
        learned.add([shape for _, shape in pods], usage, now_s, lending, machine.cpu_milli)
        if lending is None:
            patience = self._patience.setdefault(machine.name, Patience())
            self._leaving += patience.evictions(self._strategy(machine), pods, usage.asked, now_s)
            return
        by_uid = {shape.uid: pod for pod, shape in pods}
        starving = learned.starving([shape for _, shape in pods], lending, machine.cpu_milli, now_s)
        self._leaving += [Leaving(by_uid[uid], STARVING) for uid in starving]

    def outlook(self, machine: Machine) -> LendingOutlook | None:
        """What the node reports about lending."""
        return self._learned(machine).outlook(self._lending(machine), machine.cpu_milli, machine.memory_bytes)

    def _learned(self, machine: Machine) -> NodeLearning:
        return self._learning.setdefault(machine.name, NodeLearning())

    def _lending(self, machine: Machine) -> LendingStrategy | None:
        slo = self._slos.get(machine.name) if self._slos is not None else None
        return slo.spec.lending_strategy if slo is not None else None

    async def evict(self) -> None:
        """Evicts the pods that `look` chose."""
        while self._leaving:
            await self._evict(self._leaving.pop())

    def _strategy(self, machine: Machine) -> ResourceThresholdStrategy | None:
        slo = self._slos.get(machine.name) if self._slos is not None else None
        return slo.spec.resource_used_threshold_with_be if slo is not None else None

    def _tell(self) -> None:
        if self._told is None:
            return
        total = sum(self._asked.values(), Asked())
        for band, wanted, used in (
            ("service", total.services_milli, total.services_got_milli),
            ("best-effort", total.best_effort_milli, total.best_effort_got_milli),
        ):
            self._told.put({"band": band, "what": "wanted"}, wanted)
            self._told.put({"band": band, "what": "used"}, used)

    async def _evict(self, leaving: Leaving) -> None:
        meta = leaving.pod.metadata
        regarding = reference(PODS, leaving.pod)
        try:
            await self._client.evict(meta.namespace, meta.name, uid=meta.uid)
        except NotFound:
            return
        except ApiError as error:
            note = f"{leaving.why}; {error}"
            self._events.record(regarding, "evictPodFail", note, action="Evicting", type="Warning")
            return
        self._events.record(regarding, "evictPodSuccess", leaving.why, action="Evicting", type="Warning")
        log.info("evicted %s: %s", meta.key, leaving.why)
