"""What the manager watches: nodes, pods, reports, topologies, devices, each watched once for all controllers.

Topologies and devices are kinds that a cluster may not have. Their handlers are connected when the kinds appear.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.protocol.crd.elastic_quota import ElasticQuota, ElasticQuotaProfile
from koord.api.protocol.crd.interference_pair import InterferencePair
from koord.api.protocol.crd.node_slo import NodeSLO
from koord.api.protocol.crd.recommendation import Recommendation
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord.kube.served import asked_until_told, until_served
from koord.manager.live import records
from koord.manager.live.records import MetricRecord, NodeRecord
from koord.manager.live.usage_source import UsageSource
from koord.manager.node_state import DeviceFacts, PodRow, TopologyFacts

R = TypeVar("R")

NODE: Final = "node"
REQUIRED: Final = (kinds.NODE_METRICS, kinds.NODE_SLOS)


class Sources:
    """The informers. Made when the required kinds are served."""

    def __init__(self, client: Client, informers: Informers, clock: Clock) -> None:
        self._client, self._informers, self._clock = client, informers, clock
        self.nodes: Informer[NodeRecord] = informers.get(
            kinds.NODES, transform=records.node_record, identity=records.of_node
        )
        self.metrics: Informer[MetricRecord] = informers.get(
            kinds.NODE_METRICS, transform=records.metric_record, identity=records.of_metric
        )
        self.pods: Informer[PodRow] = informers.get(
            kinds.PODS,
            transform=records.pod_record,
            identity=records.of_pod,
            fields=records.ON_NODE,
            indexes={NODE: records.by_node},
        )
        self.slos: Informer[NodeSLO] = informers.get(kinds.NODE_SLOS)
        self.topologies: Informer[TopologyFacts] | None = None
        self.devices: Informer[DeviceFacts] | None = None
        self.profiles: Informer[ElasticQuotaProfile] | None = None
        self.quotas: Informer[ElasticQuota] | None = None
        self.recommendations: Informer[Recommendation] | None = None
        self.pairs: Informer[InterferencePair] | None = None
        self.usage = UsageSource(informers)
        self._waiting: dict[str, list[Callable[[Informer[Any]], None]]] = {}

    @property
    def node_names(self) -> Iterable[str]:
        return [node.facts.name for node in self.nodes.list()]

    def when_there(self, name: str, connect: Callable[[Informer[Any]], None]) -> None:
        """`connect` is called with the informer of an optional kind: at once where it is there, else when it comes."""
        present: Informer[Any] | None = getattr(self, name)
        if present is not None:
            connect(present)
        else:
            self._waiting.setdefault(name, []).append(connect)

    async def begin(self) -> None:
        """Asks which of the optional kinds are there: what they hold must be known before anything is decided.

        A node whose devices are only not known yet would be taken for one that has none.
        """
        for name, kinds_ in _OPTIONAL.items():
            if all([await asked_until_told(self._client, kind, self._clock) for kind in kinds_]):
                self._follow(name)

    async def run(self) -> None:
        """Waits for kinds that are served late, and connects their handlers."""
        async with asyncio.TaskGroup() as tasks:
            for name in _OPTIONAL:
                if getattr(self, name) is None:
                    tasks.create_task(self._await(name), name=f"await-{name}")

    async def _await(self, name: str) -> None:
        await until_served(self._client, _OPTIONAL[name], self._clock)
        self._follow(name)
        informer: Informer[Any] = getattr(self, name)
        if self.quotas is not None:
            await self.quotas.synced()
        # Before it has synced, what it does not have would be taken for what is not there.
        await informer.synced()
        for connect in self._waiting.pop(name, []):
            connect(informer)

    def _follow(self, name: str) -> None:
        get = self._informers.get
        match name:
            case "topologies":
                kind = kinds.NODE_RESOURCE_TOPOLOGIES
                self.topologies = get(kind, transform=records.topology_record, identity=records.of_named)
            case "devices":
                self.devices = get(kinds.DEVICES, transform=records.device_record, identity=records.of_named)
            case "profiles":
                self.quotas = get(kinds.ELASTIC_QUOTAS)
                self.profiles = get(kinds.ELASTIC_QUOTA_PROFILES)
            case "recommendations":
                self.recommendations = get(kinds.RECOMMENDATIONS)
            case "pairs":
                self.pairs = get(kinds.INTERFERENCE_PAIRS)


_OPTIONAL: Final[Mapping[str, tuple[Kind[Any], ...]]] = {
    "topologies": (kinds.NODE_RESOURCE_TOPOLOGIES,),
    "devices": (kinds.DEVICES,),
    "profiles": (kinds.ELASTIC_QUOTA_PROFILES, kinds.ELASTIC_QUOTAS),
    "recommendations": (kinds.RECOMMENDATIONS,),
    "pairs": (kinds.INTERFERENCE_PAIRS,),
}
